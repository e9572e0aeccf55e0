"""Kernels in the form in which compilers of other libraries write them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.language import math as tl_math
from tilewright.language.extra import libdevice


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@tilewright.jit
def maximum_nan(a, b):
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@tilewright.jit
def is_floating(x):
    return promote(x).dtype.is_floating()


@tilewright.jit
def promote(x):
    return x + tl.zeros((1,), tl.int1)


@tilewright.jit
def max_with_index(a_value, a_index, b_value, b_index):
    mask = a_value > b_value
    equal = a_value == b_value
    if a_value.dtype.is_floating():
        a_nan, b_nan = a_value != a_value, b_value != b_value
        mask |= a_nan & (not b_nan)
        equal |= a_nan & b_nan
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)


@tilewright.jit
def red_max(in_ptr0, out_ptr0, out_ptr1, xnumel, rnumel, XBLOCK: tl.constexpr,
            RBLOCK: tl.constexpr):  # fmt: skip
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    x0 = xindex
    _tmp2 = tl.full([XBLOCK, RBLOCK], float("-inf"), tl.float32)
    _tmp4 = tl.full([XBLOCK, RBLOCK], float("-inf"), tl.float32)
    _tmp4_index = tl.full([XBLOCK, RBLOCK], 9223372036854775807, tl.int64)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        tmp0 = tl.load(in_ptr0 + (rindex + rnumel * x0), rmask & xmask,
                       eviction_policy="evict_first", other=0.0)  # fmt: skip
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
        tmp3 = maximum_nan(_tmp2, tmp1)
        _tmp2 = tl.where(rmask & xmask, tmp3, _tmp2)
        _tmp4_next, _tmp4_index_next = max_with_index(
            _tmp4, _tmp4_index, tmp1, rindex.to(tl.int64) + tl.zeros([XBLOCK, 1], tl.int64)
        )
        _tmp4 = tl.where(rmask & xmask, _tmp4_next, _tmp4)
        _tmp4_index = tl.where(rmask & xmask, _tmp4_index_next, _tmp4_index)
    tmp2 = tl.reduce(_tmp2, 1, maximum_nan)[:, None]
    _, tmp4_tmp = tl.reduce((_tmp4, _tmp4_index), 1, max_with_index)
    tmp4 = tmp4_tmp[:, None]
    tl.store(out_ptr0 + x0, tmp2, xmask)
    tl.store(out_ptr1 + x0, tmp4, xmask)


@pytest.mark.parametrize("nan", [False, True])
def test_maxima_that_keep_nan(target, nan):
    x = np.random.default_rng(0).integers(0, 9, (5, 70)).astype(np.float32)
    if nan:
        x[1, 40] = x[3, 2] = np.nan
    out, places = np.zeros(5, np.float32), np.zeros(5, np.int64)
    red_max[(2,)](x, out, places, 5, 70, XBLOCK=4, RBLOCK=16)
    np.testing.assert_array_equal(out, x.max(1))
    assert places.tolist() == x.argmax(1).tolist()


@tilewright.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * w2_over_w,
        m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w,
        new_weight,
    )


@tilewright.jit
def per_welford(in_out_ptr0, in_ptr0, out_ptr0, xnumel, rnumel, eps, XBLOCK: tl.constexpr,
                RBLOCK: tl.constexpr):  # fmt: skip
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    rindex = tl.arange(0, RBLOCK)[None, :]
    xmask, rmask = xindex < xnumel, rindex < rnumel
    tmp0 = tl.load(in_ptr0 + (rindex + rnumel * xindex), xmask & rmask, other=0)
    tmp1 = tmp0.to(tl.float32)
    weight = tl.where(xmask & rmask, 1.0, 0.0)
    mean, m2, count = tl.reduce((tmp1, tl.zeros_like(tmp1), weight), 1, welford_combine)
    tmp6 = libdevice.rsqrt(m2[:, None] / rnumel + eps)
    tl.debug_barrier()
    tl.store(in_out_ptr0 + xindex, tmp6, xmask)
    tl.store(out_ptr0 + xindex, mean[:, None], xmask)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_means_and_variances_in_one_pass(target, dtype):
    x = normal(6, 50, dtype=dtype) + dtype(30)
    mean, scale = np.zeros(6, np.float32), np.zeros(6, np.float32)
    per_welford[(2,)](scale, x, mean, 6, 50, 1e-5, XBLOCK=4, RBLOCK=64)
    wide = x.astype(float)
    np.testing.assert_allclose(mean, wide.mean(1), rtol=1e-5)
    np.testing.assert_allclose(scale, 1 / np.sqrt(wide.var(1) + 1e-5), rtol=1e-3)


@tilewright.jit
def poi_pool(in_ptr0, out_ptr0, out_ptr1, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = (xindex // 8) % 8
    x0 = xindex % 8
    x4 = xindex
    tmp0 = (-1) + x1
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = tl.full([1], 8, tl.int64)
    tmp4 = tmp0 < tmp3
    tmp5 = tmp2 & tmp4
    tmp6 = (-1) + x0
    tmp9 = (tmp6 >= tmp1) & (tmp6 < tmp3)
    tmp10 = tmp5 & tmp9
    tmp11 = tl.load(in_ptr0 + ((-9) + x4), tmp10 & xmask, other=float("-inf"))
    tmp12 = tl.full(tmp11.shape, float("-inf"), tmp11.dtype)
    tmp13 = tl.where(tmp10, tmp11, tmp12)
    tmp17 = tl.load(in_ptr0 + ((-8) + x4), tmp5 & xmask, other=float("-inf"))
    tmp18 = maximum_nan(tmp17, tmp13)
    tmp30 = tmp17 > tmp13
    tmp31 = tl.full([1], 1, tl.int8)
    tmp32 = tl.full([1], 0, tl.int8)
    tmp33 = tl.where(tmp30, tmp31, tmp32)
    tl.store(out_ptr0 + x4, tmp18, xmask)
    tl.store(out_ptr1 + x4, tmp33, xmask)


def test_pooling_with_masks_of_neighbours(target):
    x = normal(2, 8, 8)
    out, which = np.zeros_like(x), np.zeros((2, 8, 8), np.int8)
    poi_pool[(2,)](x, out, which, 128, XBLOCK=64)
    padded = np.pad(x, ((0, 0), (1, 0), (1, 0)), constant_values=-np.inf)
    corner, above = padded[:, :-1, :-1], padded[:, :-1, 1:]
    np.testing.assert_array_equal(out, np.maximum(corner, above))
    np.testing.assert_array_equal(which, above > corner)


@tilewright.jit
def poi_cat(in_ptr0, in_ptr1, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % ks0
    x1 = xindex // ks0
    tmp0 = x0
    tmp4 = tmp0 < 3
    tmp5 = tl.load(in_ptr0 + (3 * x1 + x0), tmp4 & xmask, eviction_policy="evict_last", other=0.0)
    tmp6 = tmp0 >= tl.full([1], 3, tl.int64)
    tmp9 = tl.load(in_ptr1 + ((-3) + x0 + ks0 * x1 + ((-3) * x1)), tmp6 & xmask, other=0.0)
    tmp10 = tl.where(tmp4, tmp5, tmp9)
    tmp11 = libdevice.tanh(tmp10) + libdevice.pow(tmp10, 2.0) + tl_math.abs(tmp10)
    tl.store(out_ptr0 + xindex, tmp11, xmask)


@pytest.mark.parametrize("width", [4, 7, 16])
def test_columns_of_two_arrays(target, width):
    x, y = normal(5, 3), normal(5, width - 3, seed=1)
    out = np.zeros((5, width), np.float32)
    poi_cat[(-(-5 * width // 32),)](x, y, out, width, 5 * width, XBLOCK=32)
    v = np.hstack([x, y]).astype(float)
    np.testing.assert_allclose(out, np.tanh(v) + v**2 + np.abs(v), rtol=1e-5)


@tilewright.jit
def poi_bitcasts(in_ptr0, out_ptr0, out_ptr1, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tl.store(out_ptr0 + xindex, tmp0.to(tl.int8).to(tl.uint8), xmask)
    tl.device_assert((tmp0 >= -1000.0) | ~xmask, "index out of bounds: -1000 <= tmp0")
    tl.store(out_ptr1 + xindex, tmp0.to(tl.int64).to(tl.int1), xmask)


def test_a_signed_number_becomes_unsigned(target):
    x = np.array([0, 1, -1, -5.7, 100.2, -128, 127, 0.5], np.float32)
    small, some = np.zeros(8, np.uint8), np.zeros(8, bool)
    poi_bitcasts[(1,)](x, small, some, 8, XBLOCK=8)
    whole = np.trunc(x).astype(np.int8)
    assert small.tolist() == whole.astype(np.uint8).tolist()
    assert some.tolist() == (whole != 0).tolist()


@tilewright.jit
def poi_gather(in_ptr0, in_ptr1, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0, x1 = xindex % 16, xindex // 16
    tmp0 = tl.load(in_ptr0 + x1, xmask, eviction_policy="evict_last")
    tmp1 = tl.full([XBLOCK], 1, tl.int32) * ks0
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(
        ((tmp4 >= 0) & (tmp4 < ks0)) | ~(xmask), "index out of bounds: 0 <= tmp4 < ks0"
    )
    tmp6 = tl.load(in_ptr1 + (x0 + 16 * tmp4), xmask)
    tl.store(out_ptr0 + xindex, tmp6, xmask)


def test_rows_by_index_from_either_end(target):
    table, rows = normal(9, 16), np.array([0, 8, -1, -9, 4], np.int64)
    out = np.zeros((5, 16), np.float32)
    poi_gather[(3,)](rows, table, out, 9, 80, XBLOCK=32)
    np.testing.assert_array_equal(out, table[rows])


@tilewright.jit
def per_softmax(in_ptr0, in_ptr1, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr):
    R0_BLOCK: tl.constexpr = 64
    rnumel = r0_numel
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < rnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel * x0), r0_mask & xmask, other=0.0)
    tmp1 = tl.load(in_ptr1 + (r0_index), r0_mask, eviction_policy="evict_last", other=False)
    tmp2 = tl.where(tmp1.to(tl.int1), float("-inf"), tmp0)
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK, R0_BLOCK])
    tmp5 = tl.where(r0_mask & xmask, tmp3, float("-inf"))
    tmp6 = maximum_nan_reduce(tmp5, 1)[:, None]
    tmp7 = tmp2 - tmp6
    tmp8 = tl_math.exp(tmp7)
    tmp9 = tl.broadcast_to(tmp8, [XBLOCK, R0_BLOCK])
    tmp11 = tl.where(r0_mask & xmask, tmp9, 0)
    tmp12 = tl.sum(tmp11, 1)[:, None]
    tmp13 = tmp8 / tmp12
    tl.store(out_ptr0 + (r0_index + r0_numel * x0), tmp13, r0_mask & xmask)


@tilewright.jit
def maximum_nan_reduce(a, dim):
    return tl.reduce(a, dim, maximum_nan)


def test_a_softmax_over_what_is_allowed(target):
    x, off = normal(6, 50), np.random.default_rng(1).random(50) < 0.4
    out = np.zeros_like(x)
    per_softmax[(3,)](x, off, out, 6, 50, XBLOCK=2)
    e = np.where(off, 0, np.exp(x.astype(float)))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


@tilewright.jit
def scan_split(in_ptr0, out_ptr0, n, B: tl.constexpr):
    rindex = tl.arange(0, B)
    rmask = rindex < n
    tmp0 = tl.load(in_ptr0 + rindex, rmask, other=0).to(tl.int64)
    tmp1 = tl.broadcast_to(tmp0[None, :], [1, B])
    (tmp3,) = tl.associative_scan((tmp1,), 1, sum_of)
    tl.store(out_ptr0 + rindex[None, :], tmp3, rmask[None, :])


@tilewright.jit
def sum_of(a, b):
    return a + b


@tilewright.jit
def any_of(a, b):
    return a | b


@tilewright.jit
def reduce_any(in_ptr0, out_ptr0, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    (on,) = tl.reduce((tl.load(in_ptr0 + at) > 1.5,), 1, any_of)
    tl.store(out_ptr0 + tl.arange(0, R), on)
    every = tl.reduce(tl.load(in_ptr0 + at) > -1.5, axis=1, combine_fn=all_of)
    tl.store(out_ptr0 + R + tl.arange(0, R), every)


@tilewright.jit
def all_of(a, b):
    return a & b


def test_reductions_and_scans_of_one_tuple(target):
    x = np.random.default_rng(0).integers(0, 9, 50).astype(np.int32)
    out = np.zeros(50, np.int64)
    scan_split[(1,)](x, out, 50, 64)
    assert out.tolist() == np.cumsum(x).tolist()
    x, out = normal(8, 16), np.zeros((2, 8), bool)
    reduce_any[(1,)](x, out, 8, 16)
    np.testing.assert_array_equal(out, [(x > 1.5).any(1), (x > -1.5).all(1)])


@tilewright.jit
def poi_index(out_ptr0, ks0, ks1, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = (xindex // ks0) % ks1
    x0 = xindex % ks0
    tmp0 = x1
    tmp1 = tmp0.to(tl.float32)
    tmp2 = 0.5
    tmp3 = (tmp1 + tmp2) * 0.5
    tmp4 = tmp3.to(tl.int32)
    tmp5 = tl.minimum(tmp4, (-1) + (ks1 // 2), tl.PropagateNan.NONE)
    tmp6 = x0 % (32 // ks0)
    tmp7 = tl.where(x0 < tl.full([], 2, tl.int32), tmp5, tmp6)
    tl.store(out_ptr0 + xindex, tmp7, xmask)


@pytest.mark.parametrize(("ks0", "ks1"), [(4, 6), (7, 10), (1, 32)])
def test_index_arithmetic_of_sizes_known_late(target, ks0, ks1):
    out = np.zeros(3 * ks0 * ks1, np.int32)
    poi_index[(-(-out.size // 64),)](out, ks0, ks1, out.size, XBLOCK=64)
    i = np.arange(out.size)
    x0, x1 = i % ks0, i // ks0 % ks1
    near = np.minimum(((x1 + 0.5) * 0.5).astype(int), ks1 // 2 - 1)
    assert out.tolist() == np.where(x0 < 2, near, x0 % (32 // ks0)).tolist()
