"""Kernels with lines of PTX: several results, packed bytes, bit fields, floats of 4 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import UnsupportedError
from tilewright.language.extra import cuda


def words(n, seed=0):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, n).astype(np.int32)


@tilewright.jit
def two_halves(x, a, b, B: tl.constexpr):
    i = tl.arange(0, B)
    u, v = tl.inline_asm_elementwise(
        "mov.b32 $0, $4; mov.b32 $1, $4; mov.b32 $2, 0x3c003c00; mov.b32 $3, 0x40004000;",
        "=r,=r,=r,=r,r", [tl.load(x + i)], dtype=(tl.float16, tl.float16), is_pure=True, pack=4,
    )  # fmt: skip
    tl.store(a + i, u)
    tl.store(b + i, v)


def test_two_results_of_16_bits_some_of_them_constant(target):
    x = np.arange(64).astype(np.int8)
    a, b = np.zeros((2, 64), np.float16)
    two_halves[(1,)](x, a, b, 64)
    expected = np.repeat(x.reshape(-1, 4), 2, 0).reshape(-1).copy().view(np.uint16)
    np.testing.assert_array_equal(a.view(np.uint16), expected)
    assert b.tolist() == [1, 1, 2, 2] * 16


@tilewright.jit
def one_number(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    y = tl.inline_asm_elementwise("mov.u32 $0, 7;", "=r,r", [tl.load(x + i)], tl.int32, True, 1)
    tl.store(o + i, y)
    tl.store(o + B, tl.inline_asm_elementwise("mov.u32 $0, 5;", "=r", [], tl.int32, True, 1))


def test_a_number_for_every_element_or_without_any(target):
    o = np.zeros(17, np.int32)
    one_number[(1,)](words(16), o, 16)
    assert o.tolist() == [7] * 16 + [5]


@tilewright.jit
def products_of_bytes(x, y, z, o, B: tl.constexpr):
    i = tl.arange(0, B)
    given = [tl.load(x + i), tl.load(y + i), tl.load(z + i)]
    s = tl.inline_asm_elementwise(
        "dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r", given, tl.int32, True, 1
    )
    u = tl.inline_asm_elementwise(
        "dp4a.u32.s32 $0, $1, $2, $3;", "=r,r,r,r", given, tl.int32, True, 1
    )
    tl.store(o + i, s)
    tl.store(o + B + i, u)


def test_products_of_four_bytes(target):
    x, y, z, o = words(16), words(16, 1), words(16, 2), np.zeros((2, 16), np.int32)
    products_of_bytes[(1,)](x, y, z, o, 16)
    for found, left in zip(o, (np.int8, np.uint8), strict=True):
        pairs = x.view(left).astype(int) * y.view(np.int8).astype(int)
        assert found.tolist() == (pairs.reshape(16, 4).sum(1) + z).astype(np.int32).tolist()


@tilewright.jit
def fields(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    found = tl.inline_asm_elementwise(
        """bfe.u32 $0, $4, 5, 7; bfe.s32 $1, $4, 28, 9;
        bfi.b32 $2, $0, $4, 20, 16; bfind.s32 $3, $4;""",
        "=&r,=r,=r,=r,r", [tl.load(x + i)], dtype=(tl.int32,) * 4, is_pure=True, pack=1,
    )  # fmt: skip
    for k in tl.static_range(4):
        tl.store(o + k * B + i, found[k])


def test_fields_of_bits(target):
    x, o = np.append(words(14), [0, -1]).astype(np.int32), np.zeros((4, 16), np.int32)
    fields[(1,)](x, o, 16)
    wide = x.view(np.uint32).astype(int)
    low = wide >> 5 & 127
    put = ((wide & 0xFFFFF) | low << 20).astype(np.uint32).view(np.int32)
    highest = [int(v if v >= 0 else ~v).bit_length() - 1 for v in x]
    assert o.tolist() == [low.tolist(), (x >> 28).tolist(), put.tolist(), highest]


@tilewright.jit
def to_fp4(x, o, B: tl.constexpr):
    a, b = tl.split(tl.reshape(tl.load(x + tl.arange(0, 2 * B)), (B, 2)))
    v = tl.inline_asm_elementwise(
        """{
        .reg .b8 b0, b1, b2, b3;
        cvt.rn.satfinite.e2m1x2.f32 b0, $5, $1;
        cvt.rn.satfinite.e2m1x2.f32 b1, $6, $2;
        cvt.rn.satfinite.e2m1x2.f32 b2, $7, $3;
        cvt.rn.satfinite.e2m1x2.f32 b3, $8, $4;
        mov.b32 $0, {b0, b1, b2, b3};
        }""",
        "=r,r,r,r,r,r,r,r,r", [a, b], dtype=tl.uint8, is_pure=True, pack=4,
    )  # fmt: skip
    tl.store(o + tl.arange(0, B), v)


@tilewright.jit
def from_fp4(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.inline_asm_elementwise(
        "{ .reg .b8 t; cvt.u8.u32 t, $1; cvt.rn.f16x2.e2m1x2 $0, t; }",
        "=r,r", [tl.load(x + i).to(tl.uint32)], dtype=tl.uint32, is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(o + i, v)


def test_floats_of_4_bits_in_pairs(target):
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    odd = [0.0, -0.0, np.inf, -np.inf, 1e9, 0.2500001, 0.7499, 6.0, -0.1]
    x = np.random.default_rng(0).standard_normal(256).astype(np.float32) * 3
    x[:23] = ties + [-v for v in ties] + odd
    o = np.zeros(128, np.uint8)
    to_fp4[(1,)](x, o, 128)
    codes = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
    assert o.tolist() == (codes[0::2] | codes[1::2] << 4).tolist()
    every, back = np.arange(256).astype(np.uint8), np.zeros((256, 2), np.float16)
    from_fp4[(1,)](every, back.view(np.int32).ravel(), 256)
    pairs = np.stack([every & 15, every >> 4], 1).view(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(back.view(np.uint16), pairs.astype(np.float16).view(np.uint16))


@tilewright.jit
def exponents(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    up, down = tl.inline_asm_elementwise(
        """{
        .reg .b16 h;
        cvt.rp.satfinite.ue8m0x2.f32 h, 0f00000000, $2;
        cvt.u32.u16 $0, h;
        cvt.rz.satfinite.ue8m0x2.f32 h, 0f00000000, $2;
        cvt.u32.u16 $1, h;
        }""",
        "=r,=r,r", [tl.load(x + i)], dtype=(tl.int32, tl.int32), is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(o + i, up)
    tl.store(o + B + i, down)


def test_scales_that_round_up_or_down(target):
    x = [1.0, 1.5, 2.0, 3.0, 0.75, 1e-40, 2.0**-127, 2.0**-126, 3e38, np.inf, np.nan, 0.0, 448.0]
    x, o = np.array(x + [447.0, 5.9e-39, 1e-45], np.float32), np.zeros((2, 16), np.int32)
    exponents[(1,)](x, o, 16)
    with np.errstate(divide="ignore"):
        log = np.log2(x.astype(float)) + 127
    for found, rounded in zip(o, (np.ceil(log), np.floor(log)), strict=True):
        expected = np.where(np.isnan(x), 255, np.clip(rounded, 0, 254))
        assert found.tolist() == expected.tolist()


@tilewright.jit
def by_lane(o):
    tl.store(o, tl.inline_asm_elementwise("mov.u32 $0, %laneid;", "=r", [], tl.int32, False, 1))


def test_what_a_kernel_does_not_have_is_named():
    with pytest.raises(UnsupportedError, match="`%laneid` is not known"):
        by_lane[(1,)](np.zeros(1, np.int32))


@tilewright.jit
def of_two(x, y, o, ASM: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    given = [tl.load(x + i), tl.load(y + i)]
    found = tl.inline_asm_elementwise(ASM, "=r,r,r", given, o.dtype.element_ty, True, 1)
    tl.store(o + i, found)


NAN = float("nan")
LEFT = np.float32([1.5, 2.5, -1.5, NAN, 0.25, -0.75, 300.5, -300.25])
RIGHT = np.float32([1.0, -3.0, NAN, 2.0, -0.5, 0.5, 2.0, -1.0])
TRUE_AS_ONE = "selp.f32 $0, 0f3F800000, 0f00000000, p;"


@pytest.mark.parametrize(
    "asm, expected",
    [
        ("cvt.rni.s32.f32 $0, $1;", np.int32([2, 2, -2, 0, 0, -1, 300, -300])),
        ("cvt.rzi.f32.f32 $0, $1;", np.trunc(LEFT)),
        ("cvt.rni.f32.f32 $0, $1;", np.rint(LEFT)),
        ("cvt.rni.sat.s8.f32 $0, $1;", np.int8([2, 2, -2, 0, 0, -1, 127, -128])),
        ("max.NaN.f32 $0, $1, $2;", np.maximum(LEFT, RIGHT)),
        ("max.f32 $0, $1, $2;", np.fmax(LEFT, RIGHT)),
        (
            "min.NaN.xorsign.abs.f32 $0, $1, $2;",
            np.minimum(abs(LEFT), abs(RIGHT)) * np.sign(LEFT) * np.sign(RIGHT),
        ),
        ("add.sat.f32 $0, $1, $2;", np.float32([1, 0, 0, 0, 0, 0, 1, 0])),
        ("copysign.f32 $0, $1, $2;", np.copysign(RIGHT, LEFT)),
        ("cvt.rn.relu.f16.f32 $0, $1;", np.maximum(LEFT, 0).astype(np.float16)),
        ("setp.ne.f32 p, $1, $2;" + TRUE_AS_ONE, np.float32([1, 1, 0, 0, 1, 1, 1, 1])),
        ("setp.gtu.f32 p, $1, $2;" + TRUE_AS_ONE, np.float32([1, 1, 1, 1, 1, 0, 1, 0])),
        ("setp.num.f32 p, $1, $2;" + TRUE_AS_ONE, np.float32([1, 1, 0, 0, 1, 1, 1, 1])),
        ("setp.gt.f32 q|p, $1, $2;" + TRUE_AS_ONE, np.float32([0, 0, 1, 1, 0, 1, 0, 1])),
        (
            "setp.gt.f32 q, $1, $2; setp.lt.and.f32 p, $2, 0f00000000, !q;" + TRUE_AS_ONE,
            np.float32([0, 0, 0, 0, 0, 0, 0, 1]),
        ),
        ("testp.finite.f32 p, $1;" + TRUE_AS_ONE, np.float32([1, 1, 1, 0, 1, 1, 1, 1])),
        ("set.lt.s32.f32 $0, $1, $2;", np.int32([0, 0, 0, 0, 0, -1, 0, -1])),
        ("slct.f32.s32 $0, $1, $2, -1;", RIGHT),
        ("add.sat.s32 $0, 2147483640, 100;", np.int32([2**31 - 1] * 8)),
        ("mad.hi.u32 $0, 0x80000000, 6, 1;", np.int32([4] * 8)),
        ("mov.b32 $0, 0b1010;", np.int32([10] * 8)),
        ("sad.u32 $0, 3, 5, 1;", np.int32([3] * 8)),
    ],
)
def test_what_modifiers_change(asm, expected, target):
    o = np.zeros_like(expected)
    of_two[(1,)](LEFT, RIGHT, o, asm, 8)
    np.testing.assert_array_equal(o, expected)


@tilewright.jit
def pairs_in_memory(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.inline_asm_elementwise(
        """{
        .reg .pred p;
        setp.lt.s32 p, $3, $4;
        mov.u32 $0, 7;
        mov.u32 $1, 9;
        @p ld.global.v2.b32 {$0, $1}, [$2];
        @p ld.global.relaxed.gpu.u32 $1, [$2 + 4];
        }""",
        "=r,=r,l,r,r", [x + 2 * i, i, n], dtype=(tl.int32, tl.int32), is_pure=False, pack=1,
    )  # fmt: skip
    tl.inline_asm_elementwise(
        """{
        .reg .pred p;
        setp.lt.s32 p, $2, 4;
        @!p st.global.v2.u32 [$1], {$3, $4};
        membar.gl;
        mov.u32 $0, 0;
        }""",
        "=r,l,r,r,r", [out + 2 * i, i, a, b], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


def test_loads_and_stores_by_ptx(target):
    x, out = np.arange(16).astype(np.int32), np.full(16, -1, np.int32)
    pairs_in_memory[(1,)](x, out, 6, 8)
    assert out.tolist() == [-1] * 8 + [8, 9, 10, 11, 7, 9, 7, 9]


@tilewright.jit
def counts(count, out, B: tl.constexpr):
    i = tl.arange(0, B)
    before = tl.inline_asm_elementwise(
        "atom.global.add.relaxed.gpu.s32 $0, [$1], $2;", "=r,l,r", [count + i * 0, i],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + i, before)
    tl.inline_asm_elementwise(
        "red.global.max.s32 [$1], $2; mov.u32 $0, 0;", "=r,l,r", [count + 1 + i * 0, i],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    found = tl.inline_asm_elementwise(
        "atom.acq_rel.gpu.global.cas.b32 $0, [$1], 0, 5;", "=r,l", [count + 2],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + B, found)


def test_atomics_by_ptx(target):
    count, out = np.zeros(3, np.int32), np.full(9, 3, np.int32)
    counts[(1,)](count, out, 8)
    assert count.tolist() == [28, 7, 5] and out[8] == 0
    assert sorted(out[:8])[0] == 0 and max(out[:8]) <= 28


@tilewright.jit
def by_flag(flag, data, out):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(data, 42)
        tl.inline_asm_elementwise(
            "st.release.gpu.global.u32 [$1], 1; mov.u32 $0, 0;", "=r,l", [flag],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
    else:
        seen = 0
        while seen == 0:
            seen = tl.inline_asm_elementwise(
                "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l", [flag],
                dtype=tl.int32, is_pure=False, pack=1,
            )  # fmt: skip
        tl.store(out + pid, tl.load(data))


def test_a_flag_by_ptx(target):
    flag, data, out = (np.zeros(n, np.int32) for n in (1, 1, 8))
    by_flag[(8,)](flag, data, out)
    assert out.tolist() == [0] + [42] * 7


@tilewright.jit
def timed(x, out, CLOCK: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    start = CLOCK()
    for _ in range(50):
        tl.store(x + i, tl.load(x + i) + 1)
    stop = CLOCK()
    tl.store(out, stop - start)
    tl.store(out + 1, cuda.smid())
    tl.store(out + 2, cuda.num_threads())
    by_text = "mov.u64 $0, %globaltimer;"
    tl.store(out + 3, tl.inline_asm_elementwise(by_text, "=l", [], tl.int64, False, 1) - stop)


def test_clocks_count_up(target):
    x, out = np.zeros(128, np.int64), np.full(4, -1, np.int64)
    timed[(1,)](x, out, cuda.globaltimer, 128)
    assert (x == 50).all() and out[0] > 0 and out[1] >= 0 and out[2] == 128 and out[3] >= 0
