"""Numbers that have a name are scalars with a dtype; they still serve where a number is needed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError


@pytest.fixture(params=["eager", pytest.param("cpu", marks=pytest.mark.cpu)])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@tilewright.jit
def dtypes_kernel(out, x):
    tile = tl.load(x + tl.arange(0, 4))
    weak = tile * 0.1
    factor = 0.1
    strong = tile * factor
    constant: tl.constexpr = 0.1
    fixed = tile * constant
    tl.static_assert(weak.dtype == tl.float16)
    tl.static_assert(strong.dtype == tl.float32)
    tl.static_assert(fixed.dtype == tl.float16)
    tl.store(out + tl.arange(0, 4), strong)


def test_literals_are_weak_and_names_are_not(target):
    x, out = np.array([1, 2, 3, 4], np.float16), np.zeros(4, np.float32)
    dtypes_kernel[(1,)](out, x)
    np.testing.assert_array_equal(out, x.astype(np.float32) * np.float32(0.1))


@tilewright.jit
def width(n):
    return n * 2


@tilewright.jit
def scaled(x, factor: tl.constexpr):
    tl.static_assert((x * factor).dtype == x.dtype)
    return x * factor


@tilewright.jit
def shapes_kernel(out, missing):
    n = 2
    m = width(n)
    axis = n - 1
    tile = tl.zeros((n, m), tl.float16) + tl.arange(0, m)[None, :]
    total = tl.sum(tile, axis=axis, keep_dims=True)
    names = {"a": 1}
    text = f"{n}{m:02d}"
    tl.static_assert(text == "204")
    sizes = (10, 20, 30)
    index = 1
    root: tl.constexpr = math.sqrt(m)
    tl.static_assert(root == 2)
    has_missing = missing is not None
    if has_missing and names["a"] == 1:
        total += tl.load(missing)
    step = -1
    for i in range(n, 0, step):
        total += i
    for i in tl.static_range(n):
        total += sizes[i]
    total += n**3 + sizes[index] + sizes[-n:][0]
    total = scaled(tl.reshape(total, [n]), n)
    tl.store(out + tl.arange(0, n), total)


def test_named_numbers_where_numbers_are_needed(target):
    out = np.zeros(2, np.float32)
    shapes_kernel[(1,)](out, None)
    assert out.tolist() == [2 * (6 + 3 + 30 + 8 + 20 + 20)] * 2


@tilewright.jit
def counted_kernel(out, n):
    size = 1
    for _ in range(n):
        size *= 2
    tl.store(out + tl.arange(0, size), 1.0)


def test_a_number_that_a_loop_changes_is_not_known(target):
    with pytest.raises(CompileError, match="arange needs numbers known at compile time"):
        counted_kernel[(1,)](np.zeros(8, np.float32), 3)


@tilewright.jit
def carried_kernel(out, n):
    count = 0
    total = 0.0
    wide = 0
    for i in range(n):
        count += 1
        total += count
        wide = wide + i.to(tl.int64) * 5_000_000_000
    flag = 1
    if n > 2:
        flag = 2
    tl.static_assert(count.dtype == tl.int32)
    tl.static_assert(total.dtype == tl.float32)
    tl.static_assert(wide.dtype == tl.int64)
    tl.static_assert(flag.dtype == tl.int32)
    tl.store(out, total + flag)
    tl.store(out + 1, (wide // 5_000_000_000).to(tl.float32))


def test_loops_and_branches_that_change_numbers(target):
    out = np.zeros(2, np.float32)
    carried_kernel[(1,)](out, 4)
    assert out.tolist() == [12, 6]


@tilewright.jit
def calls_kernel(out, x):
    tile = tl.load(x + tl.arange(0, 4))
    zero = tl.float32(0)
    tl.static_assert(zero.dtype == tl.float32)
    tl.static_assert((tile + zero).dtype == tl.float32)
    tl.static_assert(tl.int8(tile).dtype == tl.int8)
    tl.static_assert(tl.int64(3).dtype == tl.int64)
    tl.store(out + tl.arange(0, 4), tl.int8(tile) + tl.float32(0.5))


def test_dtypes_are_casts(target):
    out = np.zeros(4, np.float32)
    calls_kernel[(1,)](out, np.array([1.9, -1.9, 0, 3], np.float16))
    assert out.tolist() == [1.5, -0.5, 0.5, 3.5]


@tilewright.jit
def power(base, exponent: tl.constexpr):
    if exponent == 0:
        return 1
    return base * power(base, exponent - 1)


@tilewright.jit
def recursive_kernel(out):
    value = tl.load(out)
    value += 1
    tl.store(out, power(value, 3))


def test_a_function_may_call_itself(target):
    out = np.array([2], np.int32)
    recursive_kernel[(1,)](out)
    assert out.tolist() == [27]


@tilewright.jit
def tuple_kernel(out, x):
    pair = (1, 0.5)
    low, factor = pair
    tile = tl.load(x + tl.arange(0, 4))
    tl.static_assert((tile * pair[1]).dtype == tl.float32)
    tl.static_assert((tile * factor).dtype == tl.float32)
    tl.static_assert((tile * (1, 0.5)[1]).dtype == tl.float16)
    tl.static_assert(min(3, 4).dtype == tl.int32)
    tl.store(out + tl.arange(0, 4), tile * factor + low)


def test_tuples_of_numbers(target):
    out = np.zeros(4, np.float32)
    tuple_kernel[(1,)](out, np.array([1, 2, 3, 4], np.float16))
    assert out.tolist() == [1.5, 2, 2.5, 3]
