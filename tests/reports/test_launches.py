"""Launches of every form: grids, arguments, options, and what a kernel tells of itself."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import TilewrightError
from tilewright.runtime.autotune import Config


@tilewright.jit
def count_programs(out, B: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    nx, ny = tl.num_programs(0), tl.num_programs(axis=1)
    tl.store(out + (z * ny + y) * nx + x, x + 10 * y + 100 * z + B)


@pytest.mark.parametrize("grid", [(5,), (2, 3), (2, 3, 4), [3, 2], (7, 1, 1), 4, (np.int64(6),)])
def test_grids(target, grid):
    sizes = ([grid] if isinstance(grid, int) else list(grid)) + [1, 1]
    nx, ny, nz = sizes[:3]
    out = np.zeros((nz, ny, nx), np.int32)
    count_programs[grid](out, B=0)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x + 10 * y + 100 * z)


@pytest.mark.parametrize("grid", [(0,), (3, 0), (0, 0, 0)])
def test_grids_without_programs(target, grid):
    out = np.full(4, 7, np.int32)
    count_programs[grid](out, 1)
    assert out.tolist() == [7] * 4


def test_a_grid_from_the_constants(host_target):
    out = np.full(9, -1, np.int32)
    seen = []

    def grid(meta):
        seen.append((meta["B"], meta["out"] is out))
        return (9 // meta["B"],)

    count_programs[grid](out, B=3)
    assert out.tolist() == [3, 4, 5] + [-1] * 6
    assert seen == [(3, True)]


@pytest.mark.parametrize("grid", [(-1,), ("a",), (1, 2, 3, 4), (2.5,), ()])
def test_grids_that_are_none(target, grid):
    with pytest.raises((TilewrightError, TypeError), match="grid"):
        count_programs[grid](np.zeros(4, np.int32), 1)


@tilewright.jit
def many(out):
    tl.atomic_add(out + tl.program_id(0) % 8, 1)


def test_many_programs(host_target):
    out = np.zeros(8, np.int32)
    many[(3000,)](out)
    assert out.sum() == 3000


@tilewright.jit
def fill(out, value, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, value, i < n)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0)])
def test_arrays_of_no_elements(target, shape):
    out = np.zeros(shape, np.float32)
    fill[(0,)](out, 1.0, 0, 16)
    fill[(1,)](out, 1.0, 0, 16)


@pytest.mark.parametrize("value", [True, 1, 2.5, np.float32(0.5), np.int8(-3), np.bool_(True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8])
def test_scalars_of_every_class(target, dtype, value):
    out = np.zeros(5, dtype)
    fill[(1,)](out, value, 5, 8)
    assert out.tolist() == [np.array(value).astype(dtype)] * 5


def test_the_same_kernel_with_other_dtypes_and_sizes(target):
    for dtype in (np.float32, np.float16, np.int64, np.uint8, np.float64):
        for n in (1, 16, 17, 256, 1):
            out = np.zeros(n, dtype)
            fill[(n // 16 + 1,)](out, 3, n, 16)
            assert out.tolist() == [3] * n


@tilewright.jit
def annotated(
    out, a: tl.float16, b: tl.bfloat16, c: tl.int8, d: tl.uint64, e: tl.float64, f: float
):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d.to(tl.float64))
    tl.store(out + 4, a + b + e)
    tl.store(out + 5, f)


def test_scalars_as_their_annotations_say(target):
    """Native code read a number of 16 bits where one of 32 was."""
    for k in range(12):  # through every way of launching
        out = np.zeros(6)
        annotated[(1,)](out, 65500.0, 1.0078125 + k, -3 - k, 2**63 + 2048, 1 / 3, k + 0.5)
        assert out[:4].tolist() == [65504, 1.0078125 if k == 0 else k + 1, -3 - k, 2**63 + 2048]
        half = np.float16(1) * np.float16(65504)
        assert abs(out[4] - (float(half) + out[1] + 1 / 3)) < 64
        assert out[5] == k + 0.5


@tilewright.jit
def of_a_dtype(x, out, compute_type, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n).to(compute_type)
    tl.static_assert(v.dtype == compute_type)
    w = (v + 1) if v.dtype is tl.float16 else v
    tl.store(out + i, w.to(tl.float32), i < n)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int16"])
def test_a_dtype_as_an_argument(target, kind):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    of_a_dtype[(1,)](x, out, getattr(tl, kind), 6, B=8)
    np.testing.assert_array_equal(out, x + (kind == "float16"))


@tilewright.jit
def written_by_name(x_ptr, y_ptr, n, alpha, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, i < n) * alpha, i < n)


def test_arguments_by_name_in_any_order(target):
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    written_by_name[(1,)](B=8, alpha=2.0, n=6, y_ptr=y, x_ptr=x)
    assert y.tolist() == (x * 2).tolist()
    written_by_name[(1,)](x, n=6, B=8, y_ptr=y, alpha=-1, num_warps=8, num_stages=1)
    assert y.tolist() == (-x).tolist()
    written_by_name[lambda meta: (1,)](*(x, y, 6), alpha=3, B=16, num_ctas=1)
    assert y.tolist() == (x * 3).tolist()


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((1, 2), {}, "missing"),
        ((1, 2, 3, 4, 5, 6), {}, "argument"),
        ((1, 2, 3, 4), {"n": 5, "B": 8}, "n"),
        ((1, 2, 3, 4), {"BLOCK": 8}, "BLOCK|missing"),
    ],
)
def test_arguments_that_do_not_fit(target, arguments, names, message):
    with pytest.raises((TilewrightError, TypeError), match=message):
        written_by_name[(1,)](*arguments, **names)


def test_a_list_where_an_array_belongs(host_target):
    with pytest.raises((TilewrightError, TypeError), match="x_ptr|list"):
        written_by_name[(1,)]([1.0, 2.0], np.zeros(2, np.float32), 2, 1.0, 8)


def test_what_a_kernel_tells_of_itself():
    assert fill.__name__ == "fill"
    assert fill.arg_names == ["out", "value", "n", "B"]
    assert "tl.store" in fill.src
    assert fill.fn.__module__ == __name__
    assert [p.name for p in fill.params if p.is_constexpr] == ["B"]
    assert fill.params[3].num == 3
    assert len(fill.cache_key) >= 32


@pytest.mark.cpu
def test_what_a_compiled_kernel_tells_of_itself():
    out = np.zeros(5, np.float32)
    handle = fill[(1,)](out, 2.5, 5, 8)
    again = fill.warmup(out, 2.5, 5, 8, grid=(1,))
    for compiled in (handle, again):
        assert compiled.metadata.num_warps >= 1
        assert compiled.name == "fill"
        assert isinstance(compiled.n_regs, int)
        assert isinstance(compiled.n_spills, int)
        assert compiled.metadata.shared >= 0
        assert isinstance(compiled.asm, dict) or "llir" in compiled.asm
    assert (out == 2.5).all()


def test_hooks_before_a_launch(target):
    seen = []
    kernel = tilewright.jit(fill.fn)
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args) + len(kwargs)))
    kernel[(1,)](np.zeros(3, np.float32), 1.0, 3, 4)
    kernel[(1,)](np.zeros(3, np.float32), 1.0, 3, 4)
    assert len(seen) == 2


@tilewright.heuristics({"B": lambda args: max(16, tilewright.next_power_of_2(args["n"]) // 2)})
@tilewright.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@tilewright.jit
def guessed(x, out, n, B: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i) if EVEN else tl.load(x + i, i < n)
    tl.store(out + i, v + EVEN, i < n)


@pytest.mark.parametrize("n", [16, 20, 64, 65])
def test_heuristics_on_heuristics(target, n):
    x, out = np.zeros(n, np.float32), np.zeros(n, np.float32)
    guessed[lambda meta: (tilewright.cdiv(n, meta["B"]),)](x, out, n)
    block = max(16, (1 << (n - 1).bit_length()) // 2)
    assert (out == (n % block == 0)).all()


calls = []


def remember(arguments):
    calls.append(sorted(arguments))


@tilewright.autotune(
    [Config({"B": 16}, num_warps=1, pre_hook=remember), Config({"B": 32}, pre_hook=remember)],
    key=["n"],
    restore_value=["x"],
)
@tilewright.jit
def in_place(x, scale, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, i < n) * scale, i < n)


def test_a_tuned_kernel_in_place(host_target):
    for n in (40, 40, 50):
        x = np.ones(n, np.float32)
        in_place[lambda meta: (tilewright.cdiv(meta["n"], meta["B"]),)](x=x, scale=3, n=n)
        assert (x == 3).all()
    assert {"x", "scale", "n", "B"} <= set(calls[-1])
    assert in_place.best_config.kwargs["B"] in (16, 32)


@tilewright.autotune([Config({"B": 16}), Config({"B": 32})], key=["x", "n"], reset_to_zero=["out"])
@tilewright.jit
def tuned_optional(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if x is not None:
        tl.atomic_add(out, tl.sum(tl.load(x + i, i < n, 0.0), 0))
    else:
        tl.atomic_add(out, 1.0)


def test_a_tuned_kernel_without_one_of_its_arrays(host_target):
    out = np.zeros(1, np.float32)
    grid = lambda meta: (tilewright.cdiv(64, meta["B"]),)  # noqa: E731
    tuned_optional[grid](np.ones(64, np.float32), out, 64)
    assert out[0] == 64
    out[:] = 0
    tuned_optional[grid](None, out, 64)
    assert out[0] in (2, 4)
    out[:] = 0
    tuned_optional[grid](np.ones(64, np.float64), out, 64)
    assert out[0] == 64


@tilewright.jit(do_not_specialize=["n", "k"], do_not_specialize_on_alignment=["x"])
def unspecialized(x, out, n, k, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) * k, i < n)


@pytest.mark.parametrize("k", [1, 16, 3, 0])
def test_arguments_that_are_not_specialized(target, k):
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for n in (1, 16, 7):
        unspecialized[(1,)](x, out, n, k, 16)
        assert out[:n].tolist() == (x[:n] * k).tolist()


@tilewright.jit
def sum_of_all(x, out, *more, SCALE: tl.constexpr = 2):
    total = tl.load(x)
    for k in tl.static_range(len(more)):
        total += more[k] * SCALE
    tl.store(out, total)


@pytest.mark.parametrize("more", [(), (1,), (1, 2.5, 40)])
def test_as_many_arguments_as_are_passed(target, more):
    """Stepping passed them by the name of the parameter."""
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    sum_of_all[(1,)](x, out, *more)
    assert out[0] == 1 + 2 * sum(more)
