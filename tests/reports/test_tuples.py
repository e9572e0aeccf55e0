"""Tuples, named tuples, lists and functions as arguments, results and loop variables."""

from __future__ import annotations

import collections
from typing import NamedTuple

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


class Pair(NamedTuple):
    first: object
    second: object


class Holder(NamedTuple):
    fn: object
    captured: object


Point = collections.namedtuple("Point", ["x", "y", "scale"])


@tilewright.jit
def make_pair(a, b):
    return Pair(a, b)


@tilewright.jit
def swap_pair(p):
    return Pair(p.second, first_of(p))


@tilewright.jit
def first_of(p):
    return p.first


@tilewright.jit
def named(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = make_pair(tl.load(x + i, i < n), 3.0)
    q = swap_pair(p)
    tl.store(out + i, q.second * q.first - p[0], i < n)


def test_named_tuples_keep_their_names(target):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    named[(1,)](x, out, 6, 8)
    assert out.tolist() == (x * 3 - x).tolist()


@tilewright.jit
def scale_by(x, captured):
    return x * tl.load(captured)


@tilewright.jit
def add_two(x, captured):
    return x + captured[0] + captured[1]


@tilewright.jit
def apply_held(holder, x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, holder.fn(tl.load(x + i, i < n), holder.captured), i < n)


def test_a_function_with_what_it_captured(target):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    apply_held[(1,)](Holder(scale_by, np.array([2.5], np.float32)), x, out, 6, 8)
    assert out.tolist() == (x * 2.5).tolist()
    apply_held[(1,)](Holder(add_two, (1, 2.5)), x, out, 6, 8)
    assert out.tolist() == (x + 3.5).tolist()


@tilewright.jit
def sum_all(inputs, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in tl.static_range(len(inputs)):
        total += tl.load(inputs[k] + i, i < n)
    tl.store(out + i, total, i < n)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_tuple_of_arrays(target, count):
    xs = tuple(np.arange(6, dtype=np.float32) * k for k in range(1, count + 1))
    out = np.zeros(6, np.float32)
    sum_all[(1,)](xs, out, 6, 8)
    np.testing.assert_array_equal(out, sum(xs))


@tilewright.jit
def write_all(outs, values, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in tl.static_range(len(values)):
        tl.store(outs[k] + i, values[k], i < n)


def test_tuples_of_outputs_and_of_scalars(target):
    outs = tuple(np.zeros(3, d) for d in (np.float32, np.int32, np.int64))
    write_all[(1,)](outs, (1.5, -2, 2**40), 3, 4)
    assert [o.tolist() for o in outs] == [[1.5] * 3, [-2] * 3, [2**40] * 3]


@tilewright.jit
def nested(args, out):
    (a, b), (c, (d,)) = args
    tl.store(out, a + b * 10 + c * 100 + tl.load(d))


def test_tuples_in_tuples(target):
    out = np.zeros(1, np.float32)
    nested[(1,)](((1, 2), (3, (np.array([0.5], np.float32),))), out)
    assert out[0] == 321.5


@tilewright.jit
def rotating(out, n):
    a, b, c = 1, 2, 3
    for _ in range(n):
        a, b, c = b, c, a
    tl.store(out, a * 100 + b * 10 + c)
    state = (0, 1)
    for _ in range(n):
        state = (state[1], state[0] + state[1])
    tl.store(out + 1, state[0])


@pytest.mark.parametrize("n", [0, 1, 2, 10])
def test_tuples_carried_by_loops(target, n):
    out = np.zeros(2, np.int32)
    rotating[(1,)](out, n)
    x, f = [1, 2, 3], (0, 1)
    for _ in range(n):
        x, f = x[1:] + x[:1], (f[1], sum(f))
    assert out.tolist() == [int("".join(map(str, x))), f[0]]


@tilewright.jit
def both_ways(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, 0)
    if tl.sum(v, 0) > 10:
        pair = (v + 1, 7)
    else:
        pair = (v - 1, 9)
    tl.store(out + i, pair[0] * pair[1], i < n)


@pytest.mark.parametrize("start", [0, 5])
def test_tuples_from_branches(target, start):
    x, out = np.arange(4, dtype=np.int32) + start, np.zeros(4, np.int32)
    both_ways[(1,)](x, out, 4, 4)
    assert out.tolist() == ((x + 1) * 7 if x.sum() > 10 else (x - 1) * 9).tolist()


@tilewright.jit
def constant_lists(out, SHAPE: tl.constexpr, WEIGHTS: tl.constexpr):
    d0, d1 = SHAPE
    at = tl.arange(0, d0)[:, None] * d1 + tl.arange(0, d1)[None, :]
    total = tl.zeros((SHAPE[0], SHAPE[1]), tl.float32)
    for k in tl.static_range(len(WEIGHTS)):
        total += WEIGHTS[k] * (k + 1)
    tl.store(out + at, total)


@pytest.mark.parametrize("weights", [(1.0,), (0.5, -2.0, 3.0), ()])
def test_tuples_of_constants(target, weights):
    out = np.zeros((4, 8), np.float32)
    constant_lists[(1,)](out, SHAPE=(4, 8), WEIGHTS=weights)
    assert (out == sum(w * (k + 1) for k, w in enumerate(weights))).all()


@tilewright.jit
def comprehended(x, out, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    rows = [tl.load(x + k * B + i) for k in range(N)]
    total = rows[0]
    for k in tl.static_range(1, N):
        total += rows[k] * (k + 1)
    tl.store(out + i, total)


def test_a_list_of_tiles(target):
    x, out = np.arange(24, dtype=np.float32).reshape(3, 8), np.zeros(8, np.float32)
    comprehended[(1,)](x, out, 3, 8)
    np.testing.assert_array_equal(out, x[0] + 2 * x[1] + 3 * x[2])


@tilewright.jit
def unpacked(out, N: tl.constexpr):
    values: tl.constexpr = [a * 10 + b for a, b in ((1, 2), (3, 4))]
    tl.static_assert(values[0] == 12)
    tl.store(out, values[1])
    tl.store(out + 1, len([2 * k for k in (5, 6, 7)]) + N)


def test_comprehensions_take_pairs_apart(target):
    out = np.zeros(2, np.int32)
    unpacked[(1,)](out, 4)
    assert out.tolist() == [34, 7]


@tilewright.jit
def points(p, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, (tl.load(p.x + i) - tl.load(p.y + i)) * p.scale)


def test_a_plain_named_tuple_as_an_argument(target):
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    out = np.zeros(8, np.float32)
    points[(1,)](Point(x, y, 4), out, 8)
    np.testing.assert_array_equal(out, (x - y) * 4)
    points[(1,)](p=Point(x=y, y=x, scale=-1.5), out=out, B=8)
    np.testing.assert_array_equal(out, (y - x) * -1.5)


@tilewright.jit
def product_of(pair):
    return pair[0] * pair[1]


@tilewright.jit
def sum_of(pair):
    return pair[0] + pair[1]


@tilewright.jit
def dispatch(OP: tl.constexpr, x, y):
    if OP == "add":
        return sum_of((x, y))
    elif OP == "mul":
        return product_of((x, y))
    else:
        return x


@tilewright.jit
def by_name(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, dispatch(OP, tl.load(x + i, i < n), tl.load(y + i, i < n)), i < n)


@pytest.mark.parametrize("name", ["add", "mul", "none", ""])
def test_a_string_chooses_the_function(target, name):
    x, y = np.arange(6, dtype=np.float32), np.full(6, 3, np.float32)
    out = np.zeros(6, np.float32)
    by_name[(1,)](x, y, out, 6, name, 8)
    np.testing.assert_array_equal(out, {"add": x + y, "mul": x * y}.get(name, x))


@tilewright.jit
def optional(x, bias, out, n, other=None, B: tl.constexpr = 8):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n)
    if bias is not None:
        v += tl.load(bias + i, i < n)
    if other is None:
        v *= 2
    else:
        v *= other
    tl.store(out + i, v, i < n)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("other", [None, 1, 5, 0.25])
def test_arguments_that_may_be_none(target, with_bias, other):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    bias = np.ones(6, np.float32) if with_bias else None
    optional[(1,)](x, bias, out, 6, other)
    np.testing.assert_array_equal(out, (x + with_bias) * (2 if other is None else other))


@tilewright.jit
def pair_arguments(x, out, sizes, strides, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    m, n = sizes
    on = (i < m) & (j < n)
    v = tl.load(x + i * strides[0] + j * strides[1], on)
    tl.store(out + i * n + j, v, on)


def test_sizes_and_strides_as_tuples(target):
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    out = np.zeros((8, 5), np.float32)
    pair_arguments[(1,)](x, out, (8, 5), (1, 8), 8)
    np.testing.assert_array_equal(out, x.T)
