"""Pointers and offsets of every type, and arrays with strides of every kind."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def narrow_offsets(x, out, DTYPE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i.to(DTYPE)))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int16", "int32", "int64"])
def test_unsigned_offsets_stay_positive(target, dtype):
    x, out = normal(256), np.zeros(256, np.float32)
    narrow_offsets[(1,)](x, out, getattr(tl, dtype), 256)
    np.testing.assert_array_equal(out, x)


@tilewright.jit
def signed_offsets(x, places, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + 128 + tl.load(places + i)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_offsets_below_zero(target, dtype):
    x, out = normal(256), np.zeros(256, np.float32)
    places = np.random.default_rng(1).permutation(np.arange(-128, 128)).astype(dtype)
    signed_offsets[(1,)](x, places, out, 256)
    np.testing.assert_array_equal(out, x[128 + places.astype(int)])


@tilewright.jit
def gather_uint8(table, codes, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    code = tl.load(codes + i, i < n, 0)
    tl.store(out + i, tl.load(table + code, i < n, 0.0), i < n)


def test_lookup_by_bytes(target):
    table, codes = normal(256), np.arange(300).astype(np.uint8)[::-1].copy()
    out = np.zeros(300, np.float32)
    gather_uint8[(3,)](table, codes, out, 300, 128)
    np.testing.assert_array_equal(out, table[codes])


@tilewright.jit
def sum_of_pieces(addresses, sizes, out, count, B: tl.constexpr):
    total = 0.0
    for k in range(count):
        piece = tl.load(addresses + k).to(tl.pointer_type(tl.float32))
        n = tl.load(sizes + k)
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            total += tl.sum(tl.load(piece + i, i < n, 0.0), 0)
    tl.store(out, total)


def test_a_table_of_addresses(host_target):
    pieces = [normal(n, seed=n) for n in (5, 64, 100, 1)]
    addresses = np.array([p.ctypes.data for p in pieces], np.int64)
    sizes = np.array([p.size for p in pieces], np.int32)
    out = np.zeros(1, np.float32)
    sum_of_pieces[(1,)](addresses, sizes, out, len(pieces), 32)
    expected = sum(p.astype(np.float64).sum() for p in pieces)
    np.testing.assert_allclose(out[0], expected, rtol=1e-4)


@tilewright.jit
def copy_by_address(address, out, n, DTYPE: tl.constexpr, B: tl.constexpr):
    p = tl.cast(address, tl.pointer_type(DTYPE))
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(p + i, i < n), i < n)


@pytest.mark.parametrize("unsigned", [False, True])
def test_an_address_as_an_argument(host_target, unsigned):
    x, out = normal(20), np.zeros(20, np.float32)
    address = np.uint64(x.ctypes.data) if unsigned else x.ctypes.data
    copy_by_address[(1,)](address, out, 20, tl.float32, 32)
    np.testing.assert_array_equal(out, x)


@tilewright.jit
def words_of_bytes(data, out, B: tl.constexpr):
    i = tl.arange(0, B)
    words = data.to(tl.pointer_type(tl.int32))
    halves = tl.cast(data, tl.pointer_type(tl.float16), bitcast=True)
    tl.store(out + i, tl.load(words + i))
    tl.store(out + B + i, tl.load(halves + 2 * i).to(tl.int32))


def test_bytes_seen_as_words_and_halves(target):
    numbers = np.arange(-16, 16).astype(np.float16)
    out = np.zeros(32, np.int32)
    words_of_bytes[(1,)](numbers.view(np.uint8), out, 16)
    assert out[:16].tolist() == numbers.view(np.int32).tolist()
    assert out[16:].tolist() == numbers[::2].astype(int).tolist()


@tilewright.jit
def distance(x, out):
    here, there = x + 3, x + 10
    gap = there.to(tl.int64) - here.to(tl.int64)
    tl.store(out, gap)
    tl.store(out + 1, here < there)
    tl.store(out + 2, here == there - 7)
    tl.store(out + 3, (x.to(tl.uint64) % 4).to(tl.int64))


def test_pointers_are_numbers(target):
    out = np.zeros(4, np.int64)
    distance[(1,)](normal(16), out)
    assert out.tolist() == [28, 1, 1, 0]


@tilewright.jit
def chosen(x, y, out, n, first, B: tl.constexpr):
    i = tl.arange(0, B)
    if first:
        p = x
    else:
        p = y
    tl.store(out + i, tl.load(p + i, i < n), i < n)
    q = x if first == 0 else y
    tl.store(out + n + i, tl.load(q + i, i < n), i < n)


@pytest.mark.parametrize("first", [0, 1, 5])
def test_a_branch_chooses_the_pointer(target, first):
    x, y, out = normal(10), normal(10, seed=1), np.zeros(20, np.float32)
    chosen[(1,)](x, y, out, 10, first, 16)
    np.testing.assert_array_equal(out, np.concatenate([x, y] if first else [y, x]))


@tilewright.jit
def lanes_choose(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.where(i % 3 == 0, x + i, y + i)
    tl.store(out + i, tl.load(p, i < n), i < n)


def test_lanes_choose_their_pointer(target):
    x, y, out = normal(29), normal(29, seed=1), np.zeros(29, np.float32)
    lanes_choose[(1,)](x, y, out, 29, 32)
    np.testing.assert_array_equal(out, np.where(np.arange(29) % 3 == 0, x, y))


@tilewright.jit
def copy_2d(x, out, sm, sn, om, on, m, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    mask = (i < m) & (j < n)
    tl.store(out + i * om + j * on, tl.load(x + i * sm + j * sn, mask=mask), mask=mask)


def strides(a):
    return [s // a.itemsize for s in a.strides]


@pytest.mark.parametrize("view", ["plain", "turned", "every_2nd", "row", "column", "one", "empty"])
def test_views(target, view):
    base = normal(12, 14)
    x = {
        "plain": base,
        "turned": base.T,
        "every_2nd": base[::2, 1::3],
        "row": np.broadcast_to(base[3], (9, 14)),
        "column": np.broadcast_to(base[:, 2:3], (12, 11)),
        "one": np.broadcast_to(base[5, 5], (7, 13)),
        "empty": base[3:3],
    }[view]
    out = np.zeros((x.shape[1], x.shape[0]), np.float32).T
    copy_2d[(1,)](x, out, *strides(x), *strides(out), *x.shape, 16)
    np.testing.assert_array_equal(out, x)


@tilewright.jit
def last_first(x, out, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * stride, i < n), i < n)


@pytest.mark.parametrize("step", [-1, -2, -5])
def test_a_step_back(target, step):
    base = normal(40)
    x = base[::step]
    out = np.zeros(x.size, np.float32)
    start = base[base.size - 1 :]
    last_first[(1,)](start, out, step, x.size, 64)
    np.testing.assert_array_equal(out, x)


@tilewright.jit
def scalar_in_out(x, out):
    tl.store(out, tl.load(x) * 2)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.float16])
def test_arrays_without_axes(target, dtype):
    x, out = np.array(3, dtype), np.zeros((), dtype)
    scalar_in_out[(1,)](x, out)
    assert out == 6


@tilewright.jit
def far_rows(x, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    start = row.to(tl.int64) * stride
    tl.store(out + row * n + i, tl.load(x + start + i, i < n), i < n)


def test_rows_farther_apart_than_32_bits_reach(host_target):
    """The address space is reserved, not used: the rows touch a few pages."""
    gap = (1 << 31) + 64
    x = np.empty(gap * 2 + 64, np.int8)
    for k in range(3):
        x[k * gap : k * gap + 32] = np.arange(32) + k
    out = np.zeros((3, 32), np.int8)
    far_rows[(3,)](x, out, gap, 32, 32)
    assert out.tolist() == [(np.arange(32) + k).tolist() for k in range(3)]


@tilewright.jit
def walk(x, out, n, STEP: tl.constexpr):
    p = x
    end = x + n
    total = 0.0
    while p < end:
        total += tl.load(p)
        p += STEP
    tl.store(out, total)


def test_a_pointer_walks_to_the_end(target):
    x, out = normal(37), np.zeros(1, np.float32)
    walk[(1,)](x, out, 37, 2)
    np.testing.assert_allclose(out[0], x[::2].astype(np.float64).sum(), rtol=1e-4)


@tilewright.jit
def bool_offsets(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    odd = (i % 2) == 1
    tl.store(out + i, tl.load(x + odd.to(tl.int32) * 3))
    tl.store(out + B + i, tl.load(x + tl.where(odd, 1, 0)))


def test_offsets_from_conditions(target):
    x, out = normal(4), np.zeros(16, np.float32)
    bool_offsets[(1,)](x, out, 8, 8)
    np.testing.assert_array_equal(out, [x[0], x[3]] * 4 + [x[0], x[1]] * 4)
