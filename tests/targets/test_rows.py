"""Rows of a tile: reductions in several copies, and masks that are true in most of the row."""

import re

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def best_kernel(x_ptr, index_ptr, value_ptr, cols, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < cols, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(index_ptr, index)
    tl.store(value_ptr, value)


@tw.jit
def multiply(x, y):
    return x * y


@tw.jit
def product_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lane, mask=lane < cols, other=1)
    tl.store(out_ptr, tl.reduce(x, axis=0, combine_fn=multiply))


@tw.jit
def centre_kernel(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    x = tl.load(x_ptr + lane, mask=inside, other=0.0)
    tl.store(y_ptr + lane, x - tl.sum(x, axis=0) / cols, mask=inside)


LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 100, 130, 255, 256]


@pytest.mark.parametrize("cols", LENGTHS)
@pytest.mark.parametrize("largest_at_end", [False, True])
def test_where_the_largest_is(cols, largest_at_end):
    x = np.sort(np.random.default_rng(cols).standard_normal(256).astype(np.float32))
    x[:cols] = x[:cols] if largest_at_end else x[:cols][::-1].copy()
    index, value = np.zeros(1, np.int32), np.zeros(1, np.float32)
    best_kernel[(1,)](x, index, value, cols, BLOCK=256)
    assert (index[0], value[0]) == (np.argmax(x[:cols]), np.max(x[:cols]))


@pytest.mark.parametrize("cols", LENGTHS)
def test_a_function_combines_every_element_once(cols):
    x = np.random.default_rng(cols).choice([-1, 1, 3], 256).astype(np.int64)
    out = np.zeros(1, np.int64)
    product_kernel[(1,)](x, out, cols, BLOCK=256)
    assert out[0] == np.multiply.reduce(x[:cols])


def test_a_row_that_is_read_twice_has_plain_loads_both_times():
    x = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    y = np.empty_like(x)
    handle = centre_kernel[(1,)](x, y, 200, BLOCK=256)
    np.testing.assert_allclose(y, x - x.mean(), atol=1e-6)
    text = handle.asm["llvm"]
    # One masked load and one masked store in the rest of each row, none in its main part.
    assert len(re.findall(r"call .* @llvm\.masked\.load", text)) == 2
    assert "alloca [64 x i8]" in text  # nothing is kept in scratch memory


@tw.jit
def groups_kernel(
    x_ptr, at_ptr, group_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr
):
    row, col = tl.arange(0, ROWS), tl.arange(0, COLS)
    group = tl.load(group_ptr + row, mask=row < rows, other=-1)
    at = tl.load(at_ptr + row, mask=row < rows, other=-1).to(tl.int64)
    for g in range(3):
        mine = group == g
        if tl.sum(mine.to(tl.int32)) != 0:
            x = tl.load(x_ptr + at[:, None] * cols + col[None, :], mask=mine[:, None], other=0.0)
            tl.store(out_ptr + g * cols + col, tl.sum(x, axis=0))


@pytest.mark.parametrize("rows", [3, 20, 28, 50, 120, 244, 250])
def test_a_short_row_read_in_wider_chunks_than_it_was_written_in(rows):
    rng = np.random.default_rng(rows)
    x = rng.integers(-50, 50, (rows, 8)).astype(np.float32)
    at = rng.permutation(rows).astype(np.int32)
    group = np.sort(rng.integers(0, 3, rows)).astype(np.int32)
    out = np.zeros((3, 8), np.float32)
    block = max(8, tw.next_power_of_2(rows))
    groups_kernel[(1,)](x, at, group, out, rows, 8, ROWS=block, COLS=8)
    np.testing.assert_array_equal(out, [x[at[group == g]].sum(0) for g in range(3)])


@tw.jit
def tile_kernel(
    x_ptr, out_ptr, rows, cols, OTHER: tl.constexpr, KIND: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr,
):  # fmt: skip
    m, n = tl.arange(0, M), tl.arange(0, N)
    inside = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * cols + n[None, :], mask=inside, other=OTHER)
    if KIND == "sum":
        found = tl.sum(x, axis=1)
    elif KIND == "squares":
        found = tl.sum((x + 1) * x, axis=1)
    elif KIND == "max":
        found = tl.max(x, axis=1)
    else:
        found = tl.min(x, axis=1) + tl.sum(x, axis=1)
        tl.store(x_ptr + m[:, None] * cols + n[None, :], x + 1, mask=inside)
    tl.store(out_ptr + m, found)


@pytest.mark.parametrize("kind", ["sum", "squares", "max", "stored"])
@pytest.mark.parametrize("other", [0.0, 2.0, -9.0])
@pytest.mark.parametrize(("rows", "cols"), [(4, 49), (3, 1), (0, 70), (4, 128), (2, 127), (4, 96)])
def test_rows_of_a_tile_that_end_early(rows, cols, other, kind):
    x = np.random.default_rng(cols).integers(-4, 5, (rows, cols)).astype(np.float32)
    out, read = np.zeros(4, np.float32), x.copy()
    tile_kernel[(1,)](read, out, rows, cols, OTHER=other, KIND=kind, M=4, N=128)
    tile = np.full((4, 128), other, np.float32)
    tile[:rows, :cols] = x
    want = {
        "sum": tile.sum(1),
        "squares": (tile * (tile + 1)).sum(1),
        "max": tile.max(1),
        "stored": tile.min(1) + tile.sum(1),
    }
    np.testing.assert_array_equal(out, want[kind])
    np.testing.assert_array_equal(read, x + 1 if kind == "stored" else x)


def test_chunks_that_are_masked_off_are_left_out_of_a_tile_too():
    x, out = np.ones((4, 49), np.float32), np.zeros(4, np.float32)
    made = tile_kernel[(1,)](x, out, 4, 49, OTHER=0.0, KIND="sum", M=4, N=128)
    loops = re.findall(
        r"= phi i64 .*\n(?:.*= phi .*\n)*.*= icmp slt i64 %\w+, (\w+)\n", made.asm["llvm"]
    )
    assert "4" in loops and "128" not in loops
