"""Names: where they live, what they may be given anew, and what loops and lists do to them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.runtime.descriptor import TensorDescriptor


@tilewright.jit
def comprehensions(out):
    x: tl.constexpr = 99
    chosen = [x for x in (10, 20, 30, 40) if x >= 30]
    squares: tl.constexpr = [k * k for k in range(4)]
    nested = [a + b + c for a, (b, c) in ((1, (2, 3)), (4, (5, 6)))]
    tl.static_assert(x == 99)
    tl.static_assert(len(chosen) == 2)
    tl.store(out, chosen[0] + chosen[1])
    tl.store(out + 1, squares[3] + x)
    tl.store(out + 2, nested[0] * 100 + nested[1])


def test_names_of_comprehensions_are_their_own(target):
    out = np.zeros(3, np.int32)
    comprehensions[(1,)](out)
    assert out.tolist() == [70, 108, 615]


@tilewright.jit
def escaped(out, n):
    for k in tl.static_range(2):
        other = 2.0 + k
    tl.store(out, other)
    last = -1
    for k in range(n):
        last = k
    tl.store(out + 1, last)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_names_live_on_after_a_loop(target, n):
    out = np.zeros(2, np.float32)
    escaped[(1,)](out, n)
    assert out.tolist() == [3, n - 1]


@tilewright.jit
def shadowed(out, end, step, offset):
    total = 0
    for idx in range(0, end, step):
        idx = idx + offset
        total += idx
    tl.store(out, total)
    for i in range(end):
        i = i.to(tl.int64)
        tl.store(out + 1 + i, i * i)


def test_the_number_of_a_turn_is_given_anew(target):
    out = np.zeros(7, np.int64)
    shadowed[(1,)](out, 6, 2, 100)
    assert out.tolist() == [306, 0, 1, 4, 9, 16, 25]


@tilewright.jit
def strides_given_anew(a, a0, b, b0, out, o0):
    for i in range(0, 8, 2):
        tl.store(out + i * o0, tl.load(a + i * a0))
        a = b
        a0 = b0


@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (2, 1), (2, 3)])
def test_a_constant_stride_is_given_anew(target, strides):
    a, b, out = np.arange(32, dtype=np.int32), np.arange(32, dtype=np.int32) + 100, np.zeros(8)
    out = out.astype(np.int32)
    strides_given_anew[(1,)](a, strides[0], b, strides[1], out, 1)
    assert out[::2].tolist() == [0, *(100 + strides[1] * k for k in (2, 4, 6))]


@tilewright.jit
def bilinear(x, h, w, y, z):
    y0, z0 = y.to(tl.int64), z.to(tl.int64)
    ly, lz = y - y0, z - z0
    v = tl.zeros([1], tl.float32)
    total = tl.sum(v, 0)
    for dy in tl.static_range(2):
        for dz in tl.static_range(2):
            weight = (ly if dy else 1 - ly) * (lz if dz else 1 - lz)
            if y0 + dy <= h - 1 and z0 + dz <= w - 1 and y0 >= 0 and z0 >= 0:
                total += weight * tl.load(x + (y0 + dy) * w + z0 + dz)
    return total


@tilewright.jit
def sample(x, ys, zs, out, h, w):
    k = tl.program_id(0)
    tl.store(out + k, bilinear(x, h, w, tl.load(ys + k), tl.load(zs + k)))


def test_bilinear_samples(target):
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    ys, zs = np.array([0, 1.5, 3.25, 4.5], np.float32), np.array([0, 2.25, 4.5, 5], np.float32)
    out = np.zeros(4, np.float32)
    sample[(4,)](x, ys, zs, out, 5, 6)
    padded = np.pad(x.astype(float), ((0, 1), (0, 1)))
    for y, z, got in zip(ys, zs, out, strict=True):
        a, b = int(y), int(z)
        block, wy, wz = padded[a : a + 2, b : b + 2], [1 - y % 1, y % 1], [1 - z % 1, z % 1]
        np.testing.assert_allclose(got, np.array(wy) @ block @ np.array(wz), rtol=1e-5, atol=1e-6)


@tilewright.jit
def small_histogram(x, out, N: tl.constexpr, B: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.histogram(tl.load(x + tl.arange(0, B)), N))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint32])
def test_counts_are_wider_than_what_is_counted(target, dtype):
    x = np.zeros(1024, dtype)
    x[:300] = 3
    out = np.zeros(8, np.int32)
    small_histogram[(1,)](x, out, 8, 1024)
    assert out.tolist() == [724, 0, 0, 300, 0, 0, 0, 0]


@tilewright.jit
def nearest(points, centres, counts, sums, N: tl.constexpr, D: tl.constexpr, K: tl.constexpr):
    i, d, k = tl.arange(0, N), tl.arange(0, D), tl.arange(0, K)
    p = tl.load(points + i[:, None] * D + d[None, :])
    c = tl.load(centres + k[:, None] * D + d[None, :])
    far = tl.sum(c * c, 1)[None, :] - 2 * tl.dot(p, tl.trans(c), input_precision="ieee")
    best = tl.argmin(far, axis=1)
    tl.store(counts + k, tl.load(counts + k) + tl.histogram(best, K))
    tl.atomic_add(sums + best[:, None] * D + d[None, :], p)


def test_the_nearest_centre_is_counted(target):
    rng = np.random.default_rng(0)
    points, centres = rng.integers(-9, 9, (64, 16)), rng.integers(-9, 9, (16, 16))
    points, centres = points.astype(np.float32), centres.astype(np.float32)
    counts, sums = np.zeros(16, np.int32), np.zeros((16, 16), np.float32)
    nearest[(1,)](points, centres, counts, sums, 64, 16, 16)
    best = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    assert counts.tolist() == np.bincount(best, minlength=16).tolist()
    np.testing.assert_array_equal(sums, [points[best == k].sum(0) for k in range(16)])


@tilewright.jit
def masks_of_bytes(x, mask, out, B: tl.constexpr):
    i = tl.arange(0, B)
    on = tl.load(mask + i).to(tl.int1)
    tl.store(out + i, tl.load(x + i, mask=on, other=-1.0))
    seen = tl.full([B], 0, tl.int1)
    for k in range(2):
        seen = seen | tl.load(mask + i + k * B).to(tl.int1)
    tl.store(out + B + i, tl.where(seen, 1.0, 0.0), mask=tl.full([B], True, tl.int1))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32])
def test_masks_from_memory(target, dtype):
    x = np.arange(16, dtype=np.float32)
    mask = np.random.default_rng(0).integers(0, 2, (2, 16)).astype(dtype)
    out = np.zeros((2, 16), np.float32)
    masks_of_bytes[(1,)](x, mask, out, 16)
    on = mask.astype(bool)
    np.testing.assert_array_equal(out, [np.where(on[0], x, -1), on.any(0)])


@tilewright.jit
def bools_in_a_loop(x, out, m, B: tl.constexpr):
    i = tl.arange(0, B)
    some = tl.full([B], 0, tl.int1)
    for k in range(m):
        some = some | tl.load(x + k * B + i)
    tl.store(out + i, some)
    tl.store(out + B, tl.sum(some.to(tl.int32), 0) > 2)


def test_conditions_gathered_in_a_loop(target):
    x = np.random.default_rng(0).random((3, 16)) < 0.2
    out = np.zeros(17, bool)
    bools_in_a_loop[(1,)](x, out, 3, 16)
    some = x.any(0)
    assert out.tolist() == [*some.tolist(), some.sum() > 2]


@tilewright.jit
def conditions_of_while(out, n):
    i = 0
    while tl.condition(i < n):
        i += 1
    tl.store(out, i)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_condition_spelled_out(target, n):
    out = np.full(1, -1, np.int32)
    conditions_of_while[(1,)](out, n)
    assert out[0] == n


@tilewright.jit
def made_or_given(p, shape, strides, block_shape: tl.constexpr):
    if isinstance(p, tl.tensor_descriptor):
        return p
    else:
        return tl.make_tensor_descriptor(p, shape, strides, block_shape)


@tilewright.jit
def either_kind(x, out, n, B: tl.constexpr):
    d = made_or_given(x, [n, n], [n, 1], [B, B])
    v = d.load([1, 0])
    tl.store(out + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :], v)


@pytest.mark.parametrize("given", [False, True])
def test_a_descriptor_made_or_given(target, given):
    x, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((4, 4), np.float32)
    make = TensorDescriptor.from_tensor
    either_kind[(1,)](make(x, [4, 4]) if given else x, out, 8, 4)
    np.testing.assert_array_equal(out, x[1:5, :4])


@tilewright.jit
def counted_experts(ids, out, n, K: tl.constexpr, E: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    e = tl.load(ids + i[:, None] * K + tl.arange(0, K)[None, :], i[:, None] < n, -1)
    flat = tl.reshape(e, [K * B, 1])
    hit = (flat == tl.reshape(tl.arange(0, E), [1, E])).to(tl.int32)
    hit = tl.sum(tl.reshape(hit, [B, K, E]), axis=1)
    at = i[:, None] * E + tl.arange(0, E)[None, :]
    tl.store(out + at, tl.cumsum(hit, 0), i[:, None] < n)


def test_running_counts_of_choices(target):
    ids = np.random.default_rng(0).integers(0, 8, (20, 2)).astype(np.int32)
    out = np.zeros((20, 8), np.int32)
    counted_experts[(1,)](ids, out, 20, 2, 8, 32)
    hits = (ids[:, :, None] == np.arange(8)).sum(1)
    np.testing.assert_array_equal(out, np.cumsum(hits, 0))


@tilewright.jit
def many_trues(x, out, R: tl.constexpr, C: tl.constexpr):
    v = tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    total = tl.sum(tl.sum(v, 1), 0)
    tl.store(out, total)


@pytest.mark.parametrize("rows", [4, 64, 128])
def test_sums_of_bools_are_counts(target, rows):
    out = np.zeros(1, np.int32)
    many_trues[(1,)](np.ones((rows, 2), bool), out, rows, 2)
    assert out[0] == rows * 2
