"""Loops whose carried tiles stay in registers, a piece of them after the other."""

import ml_dtypes
import numpy as np
import pytest
from guarded import guarded

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError
from tilewright.targets.cpu import loop_pieces

RNG = np.random.default_rng(3)


def numbers(*shape, dtype=np.float32):
    """Small integers, whose sums and products are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(dtype)


@pytest.fixture(scope="module")
def pieces():
    """By kernel: the pieces of the loops that were written so."""
    out = {}
    write = loop_pieces.PieceLoop.write

    def noted(loop):
        out.setdefault(loop.x.kernel.name, []).append(loop.pieces)
        write(loop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_pieces.PieceLoop, "write", noted)
        patch.setenv("TILEWRIGHT_CACHE", "0")
        yield out


def both(kernel, grid, *args, **meta):
    """Run natively and in eager on copies; gives the arrays of each."""
    out = []
    for target in ("cpu", "eager"):
        mine = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
        with tw.options(target=target):
            kernel[grid](*mine, **meta)
        out.append([x for x in mine if isinstance(x, np.ndarray)])
    return out


def assert_same(kernel, grid, *args, **meta):
    for x, y in zip(*both(kernel, grid, *args, **meta), strict=True):
        np.testing.assert_array_equal(x, y)


@tw.jit
def outer_kernel(x_ptr, y_ptr, out_ptr, rows, cols, turns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.full((M, N), 1.0, tl.float32)
    for t in range(turns):
        x = tl.load(x_ptr + m * turns + t, mask=m < rows, other=0.0)
        y = tl.load(y_ptr + t * cols + n, mask=n < cols, other=0.0)
        total += x[:, None] * y[None, :]
    inside = (m[:, None] < rows) & (n[None, :] < cols)
    tl.store(out_ptr + m[:, None] * cols + n[None, :], total, mask=inside)


@pytest.mark.parametrize("turns", [0, 1, 7])
@pytest.mark.parametrize(("rows", "cols"), [(64, 128), (61, 101), (5, 3), (33, 64)])
def test_outer_products(rows, cols, turns, pieces):
    x, y, out = guarded(numbers(rows, turns)), guarded(numbers(turns, cols)), numbers(rows, cols)
    grid = (-(-rows // 32), -(-cols // 64))
    outer_kernel[grid](x, y, out, rows, cols, turns, M=32, N=64)
    np.testing.assert_array_equal(out, 1 + x @ y)
    assert pieces[outer_kernel.__name__][0].rows > 1


@tw.jit
def rows_kernel(x_ptr, w_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, cols, N):
        at = start + n
        inside = (m[:, None] < rows) & (at[None, :] < cols)
        x = tl.load(x_ptr + m[:, None] * cols + at[None, :], mask=inside, other=0.0)
        total += x * tl.load(w_ptr + at, mask=at < cols, other=0.0)[None, :]
    tl.store(out_ptr + m, tl.sum(total, axis=1), mask=m < rows)


@pytest.mark.parametrize(("rows", "cols"), [(16, 512), (7, 300), (18, 1), (1, 129)])
def test_loads_of_the_whole_tile(rows, cols, pieces):
    x, w, out = guarded(numbers(rows, cols)), guarded(numbers(cols)), guarded(numbers(rows))
    rows_kernel[(-(-rows // 8),)](x, w, out, rows, cols, M=8, N=128)
    np.testing.assert_array_equal(out, x @ w)
    assert rows_kernel.__name__ in pieces


@tw.jit
def columns_kernel(x_ptr, out_ptr, rows, cols, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, rows, M):
        inside = ((start + m)[:, None] < rows) & (n[None, :] < cols)
        total += tl.load(x_ptr + (start + m)[:, None] * cols + n[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + n, tl.sum(total, axis=0), mask=n < cols)


def test_rows_that_lie_apart_are_read_in_order(pieces):
    x, out = numbers(200, 128), numbers(128)
    columns_kernel[(2,)](x, out, 200, 128, M=32, N=64)
    np.testing.assert_array_equal(out, x.sum(0))
    assert columns_kernel.__name__ not in pieces


@tw.jit
def swap_kernel(out_ptr, turns, N: tl.constexpr):
    n = tl.arange(0, N)
    x, y = n.to(tl.int64), tl.full((N,), 1, tl.int64)
    for _ in range(turns):
        x, y = y, x + y
    tl.store(out_ptr + n, x)
    tl.store(out_ptr + N + n, y)


@pytest.mark.parametrize("n", [4, 64, 256])
@pytest.mark.parametrize("turns", [0, 1, 10])
def test_tiles_that_change_places(n, turns, pieces):
    assert_same(swap_kernel, (1,), np.zeros(2 * n, np.int64), turns, N=n)
    assert swap_kernel.__name__ in pieces


@tw.jit
def scalars_kernel(c_ptr, x_ptr, out_ptr, last_ptr, turns, KEEPS: tl.constexpr, N: tl.constexpr):
    n = tl.arange(0, N)
    x = tl.load(x_ptr + n)
    total = tl.zeros((N,), tl.float32)
    place = c_ptr + turns - 1
    sign = 1.0
    for k in range(turns - 1, -1, -1):
        total = total * x + sign * tl.load(place) + k
        place += -1
        sign = -sign
    tl.store(out_ptr + n, total)
    if KEEPS:
        tl.store(last_ptr, sign)


@pytest.mark.parametrize("keeps", [False, True])
def test_scalars_of_the_loop(keeps, pieces):
    args = (numbers(5), numbers(1024), numbers(1024), numbers(1), 5)
    assert_same(scalars_kernel, (1,), *args, KEEPS=keeps, N=1024)
    assert len(pieces[scalars_kernel.__name__]) == 1  # without what it keeps


@tw.jit
def window_kernel(x_ptr, w_ptr, out_ptr, rows, cols, SIDE: tl.constexpr, N: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for i in range(SIDE):
        y = row + i - SIDE // 2
        for j in range(SIDE):
            at = n + j - SIDE // 2
            inside = (y >= 0) & (y < rows) & (at >= 0) & (at < cols)
            x = tl.load(x_ptr + y * cols + at, mask=inside, other=0.0)
            total += x * tl.load(w_ptr + i * SIDE + j)
        total = total + 1.0
    tl.store(out_ptr + row * cols + n, total, mask=n < cols)


@pytest.mark.parametrize("cols", [128, 100])
def test_loops_inside(cols, pieces):
    x, w = guarded(numbers(9, cols)), numbers(3, 3)
    assert_same(window_kernel, (9,), x, w, numbers(9, cols), 9, cols, SIDE=3, N=128)
    assert window_kernel.__name__ in pieces


@tw.jit
def turned_kernel(x_ptr, out_ptr, turns, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    for _ in range(turns):
        x = tl.trans(x) + 1.0
    tl.store(out_ptr + at, x)


def test_other_elements_wait_for_the_whole_tile(pieces):
    assert_same(turned_kernel, (1,), numbers(32, 32), numbers(32, 32), 3, N=32)
    assert turned_kernel.__name__ not in pieces


@tw.jit
def types_kernel(x_ptr, out_ptr, turns, N: tl.constexpr):
    n = tl.arange(0, N)
    x = tl.load(x_ptr + n)
    total = tl.zeros((N,), x_ptr.dtype.element_ty)
    is_odd = n < 0
    for k in range(turns):
        total = total + x * k.to(x.dtype)
        is_odd = is_odd ^ (x > k)
    tl.store(out_ptr + n, tl.where(is_odd, total, -total))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("n", [8, 64, 512])
def test_types(dtype, n, pieces):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = numbers(n).astype(np.int64).astype(kind)
    assert_same(types_kernel, (1,), x, x.copy(), 5, N=n)
    assert types_kernel.__name__ in pieces


@tw.jit
def cube_kernel(x_ptr, y_ptr, out_ptr, turns, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    most = tl.full((A, B, C), -float("inf"), tl.float32)
    for t in range(turns):
        x = tl.load(x_ptr + t * A * B + a[:, None] * B + b[None, :])
        y = tl.load(y_ptr + t * C + c)
        most = tl.maximum(most, x[:, :, None] - y[None, None, :])
    at = (a[:, None, None] * B + b[None, :, None]) * C + c[None, None, :]
    tl.store(out_ptr + at, most)


@pytest.mark.parametrize("shape", [(2, 4, 64), (4, 2, 16), (1, 8, 128), (8, 1, 32), (2, 2, 2)])
def test_three_dimensions(shape, pieces):
    a, b, c = shape
    x, y, out = guarded(numbers(3, a, b)), guarded(numbers(3, c)), numbers(a, b, c)
    cube_kernel[(1,)](x, y, out, 3, A=a, B=b, C=c)
    np.testing.assert_array_equal(out, (x[..., None] - y[:, None, None, :]).max(0))
    assert cube_kernel.__name__ in pieces


@tw.jit
def kept_kernel(x_ptr, y_ptr, out_ptr, cols, turns, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * cols + n[None, :]
    x = tl.load(x_ptr + at, mask=n[None, :] < cols, other=2.0)
    x = x - tl.max(x, axis=1)[:, None]
    total = x * 2
    for t in range(turns):
        y = tl.load(y_ptr + t * M + m)
        total = total + tl.exp2(x) * 0 + x * y[:, None]
    tl.store(out_ptr + at, total - tl.max(x, axis=1)[:, None], mask=n[None, :] < cols)


@pytest.mark.parametrize("cols", [64, 40, 3])
def test_tiles_that_were_kept_before(cols):
    args = (guarded(numbers(16, cols)), numbers(4, 16), numbers(16, cols), cols, 4)
    assert_same(kept_kernel, (1,), *args, M=16, N=64)


@tw.jit
def beyond_kernel(x_ptr, out_ptr, turns, N: tl.constexpr):
    n = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for t in range(turns):
        total += tl.load(x_ptr + t * N + n)
    tl.store(out_ptr + n, total)


def test_accesses_beyond_an_array_are_reported():
    with pytest.raises(OutOfBoundsError):
        beyond_kernel[(1,)](numbers(3 * 64 + 60), numbers(64), 4, N=64)


@tw.jit
def masked_start_kernel(x_ptr, y_ptr, out_ptr, cols, turns, N: tl.constexpr):
    n = tl.arange(0, N)
    x = tl.load(x_ptr + n, mask=n < cols, other=1.0)
    total = tl.zeros((N,), tl.float32)
    for t in range(turns):
        x, total = x + 1.0, total + x * tl.sum(tl.load(y_ptr + t * N + n))
    tl.store(out_ptr + n, x)
    tl.store(out_ptr + N + n, total)


@pytest.mark.parametrize("cols", [1, 17, 256])
@pytest.mark.parametrize("turns", [0, 1, 3])
def test_what_begins_as_a_masked_load_goes_on_beyond_its_mask(cols, turns):
    args = (guarded(numbers(cols)), numbers(3, 256), numbers(2, 256), cols, turns)
    assert_same(masked_start_kernel, (1,), *args, N=256)
