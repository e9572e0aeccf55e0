"""What published kernels write, and Triton takes, though its documentation does not say so."""

from __future__ import annotations

import numpy as np
import pytest
from interpreted import jit, run

import tilewright.language as tl
from tilewright.errors import CompileError


def width_in(dtype):
    return tl.float32 if dtype.is_fp16() else dtype


wide = tl.constexpr(width_in)


@jit
def sum_wide(out, x, N: tl.constexpr):
    """A Python function that a global constexpr holds."""
    kind: tl.constexpr = wide(x.dtype.element_ty)
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)).to(kind)))


def test_function_in_a_constexpr_may_be_called():
    out = np.zeros(1, np.float32)
    run(sum_wide, out=out, x=np.full(32, 4000, np.float16), N=32)
    assert out[0] == 128000


@jit
def scaled(x, FACTOR: tl.constexpr):
    return x * FACTOR


@jit
def constexprs_of_the_run(out, n, BLOCK: tl.constexpr):
    """Annotations of a local and of a helper's parameter, for values only the run knows."""
    i = tl.arange(0, BLOCK)
    size: tl.constexpr = n * 2
    tl.store(out + i, scaled(i, size) + scaled(i, i))


def test_constexpr_annotation_is_a_wish():
    out = np.zeros(8, np.int32)
    run(constexprs_of_the_run, out=out, n=3, BLOCK=8)
    assert out.tolist() == [6 * i + i * i for i in range(8)]


@jit
def store_through_a_block(out, x, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(out, (n,), (1,), (0,), (BLOCK,), (0,))
    value = tl.load(x + tl.arange(0, BLOCK)) * 2
    tl.store(block, value.to(block.type.element_ty), boundary_check=(0,))


def test_block_pointer_points_to_a_block_of_elements():
    out = np.zeros(6, np.float16)
    run(store_through_a_block, out=out, x=np.arange(8, dtype=np.float32), n=6, BLOCK=8)
    assert out.tolist() == [0, 2, 4, 6, 8, 10]


@jit
def rounded(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty, fp_downcast_rounding="rtne"))


def test_rounding_may_be_named_where_nothing_is_rounded():
    x = np.array([1.5, np.pi], np.float32)
    for dtype in (np.float32, np.float16):
        out = np.zeros(2, dtype)
        run(rounded, out=out, x=x, N=2)
        assert out.tolist() == x.astype(dtype).tolist()


@jit
def with_a_default(out, N: tl.constexpr = tl.core.CONSTEXPR_0):
    tl.store(out, N + 1)


def test_default_of_the_library_itself():
    out = np.zeros(1, np.int32)
    run(with_a_default, out=out, N=0)
    assert out[0] == 1


@jit
def limits(out, n, FLOATS: tl.constexpr):
    tl.store(out, -np.finfo(FLOATS).max)
    tl.store(out + 1, np.iinfo(np.int16).max + n)


def test_functions_of_modules_compute_with_known_values():
    out = np.zeros(2, np.float32)
    run(limits, out=out, n=1, FLOATS=np.float16)
    assert out.tolist() == [-65504, 32768]


@jit
def limit_of_unknown(out, n):
    tl.store(out, np.iinfo(n).max)


def test_functions_of_modules_refuse_unknown_values():
    with pytest.raises(CompileError, match="np.iinfo"):
        run(limit_of_unknown, out=np.zeros(1, np.float32), n=5)
