"""Numbers packed into the bits of words: weights of 1 to 4 bits, and floats of 4 and 8 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl


@tilewright.jit
def unpack_4_bits(packed, scales, out, n, GROUP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    byte = tl.load(packed + i, i < n, 0)
    low, high = (byte & 0xF).to(tl.int8) - 8, (byte >> 4).to(tl.int8) - 8
    scale = tl.load(scales + i // (GROUP // 2), i < n, 0.0)
    pair = tl.interleave(low.to(tl.float32) * scale, high.to(tl.float32) * scale)
    j = tl.program_id(0) * B * 2 + tl.arange(0, 2 * B)
    tl.store(out + j, pair, j < 2 * n)


def test_4_bits_in_pairs(target):
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, 96).astype(np.uint8)
    scales, out = rng.random(6).astype(np.float32), np.zeros(192, np.float32)
    unpack_4_bits[(3,)](packed, scales, out, 96, 32, 32)
    both = np.stack([packed & 15, packed >> 4], -1).reshape(-1).astype(np.float32) - 8
    np.testing.assert_allclose(out, both * np.repeat(scales, 32), rtol=1e-6)


@tilewright.jit
def signed_4_bits(packed, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    byte = tl.load(packed + i, i < n, 0)
    low, high = (byte << 4) >> 4, byte >> 4
    both = tl.join(low, high).reshape(2 * B)
    j = tl.arange(0, 2 * B)
    tl.store(out + j, both, j < 2 * n)


def test_signed_4_bits_by_shifts(target):
    packed = np.arange(-128, 128).astype(np.int8)
    out = np.zeros(512, np.int8)
    signed_4_bits[(1,)](packed, out, 256, 256)
    nibbles = np.stack([packed.view(np.uint8) & 15, packed.view(np.uint8) >> 4], -1).reshape(-1)
    assert out.tolist() == np.where(nibbles > 7, nibbles.astype(int) - 16, nibbles).tolist()


@tilewright.jit
def awq(qweight, zeros, scales, out, n, G: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    row, col = tl.arange(0, R), tl.program_id(0) * C + tl.arange(0, C)
    words = tl.load(qweight + row[:, None] * n + col[None, :])
    words = tl.interleave(words, words)
    words = tl.interleave(words, words)
    words = tl.interleave(words, words)
    order = (tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]
    shift = tl.reshape(order, (8,)) * 4
    shift = tl.reshape(tl.broadcast_to(shift[None, :], (R * C, 8)), (R, C * 8))
    weights = (words >> shift) & 0xF
    zrow = row // G
    zero = tl.load(zeros + zrow[:, None] * n + col[None, :])
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = tl.interleave(zero, zero)
    zero = (zero >> shift) & 0xF
    at = tl.program_id(0) * C * 8 + tl.arange(0, C * 8)
    scale = tl.load(scales + zrow[:, None] * n * 8 + at[None, :])
    tl.store(out + row[:, None] * n * 8 + at[None, :], (weights - zero) * scale)


def test_weights_in_reverse_awq_order(target):
    rng = np.random.default_rng(0)
    rows, words, group = 16, 8, 8
    q = rng.integers(-(2**31), 2**31, (rows, words)).astype(np.int32)
    z = rng.integers(-(2**31), 2**31, (rows // group, words)).astype(np.int32)
    s = rng.random((rows // group, words * 8)).astype(np.float16)
    out = np.zeros((rows, words * 8), np.float16)
    awq[(2,)](q, z, s, out, words, group, rows, 4)
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7]) * 4
    spread = lambda x: ((x[:, :, None] >> order) & 15).reshape(len(x), -1)  # noqa: E731
    expected = (spread(q) - np.repeat(spread(z), group, 0)).astype(np.float16)
    np.testing.assert_array_equal(out, expected * np.repeat(s, group, 0))


@tilewright.jit
def three_bits(words, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    bit = i * 3
    low, offset = bit // 32, bit % 32
    first = tl.load(words + low, i < n, 0).to(tl.uint32, bitcast=True)
    second = tl.load(words + low + 1, (i < n) & (offset > 29), 0).to(tl.uint32, bitcast=True)
    value = first >> offset
    value = tl.where(offset > 29, value | (second << (32 - offset)), value)
    tl.store(out + i, (value & 7).to(tl.int8), i < n)


def test_3_bits_across_words(target):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 8, 64)
    total = sum(int(v) << (3 * k) for k, v in enumerate(values))
    words = np.array([total >> (32 * k) & 0xFFFFFFFF for k in range(6)], np.uint32)
    out = np.zeros(64, np.int8)
    three_bits[(2,)](words.view(np.int32), out, 64, 32)
    assert out.tolist() == values.tolist()


@tilewright.jit
def pack_bits(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    on = tl.load(x + i, i < n, 0.0) > 0
    bits = on.to(tl.uint32).reshape(B // 32, 32) << tl.arange(0, 32)[None, :]
    tl.store(out + tl.arange(0, B // 32), tl.sum(bits, 1))
    tl.store(out + B // 32 + tl.arange(0, B // 32), tl.xor_sum(bits, axis=1))
    tl.store(out + B // 16 + tl.arange(0, B // 32), tl.reduce(bits, 1, either))


@tilewright.jit
def either(a, b):
    return a | b


def test_signs_packed_into_words(target):
    x = np.random.default_rng(0).standard_normal(120).astype(np.float32)
    out = np.zeros((3, 4), np.uint32)
    pack_bits[(1,)](x, out, 120, 128)
    on = np.concatenate([x > 0, np.zeros(8, bool)])
    expected = np.packbits(on, bitorder="little").view(np.uint32)
    np.testing.assert_array_equal(out, [expected] * 3)


@tilewright.jit
def pack_rows(x, out, n, BITS: tl.constexpr, B: tl.constexpr):
    PER: tl.constexpr = 32 // BITS
    i = tl.arange(0, B)
    word = tl.zeros((B,), tl.int32)
    for k in tl.static_range(PER):
        value = tl.load(x + i * PER + k, i * PER + k < n, 0)
        word |= (value & ((1 << BITS) - 1)).to(tl.int32) << (k * BITS)
    tl.store(out + i, word, i * PER < n)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_packing_in_a_static_loop(target, bits):
    x = np.random.default_rng(0).integers(0, 1 << bits, 128).astype(np.int64)
    per = 32 // bits
    out = np.zeros(128 // per, np.int32)
    pack_rows[(1,)](x, out, 128, bits, max(16, 128 // per))
    expected = (x.reshape(-1, per).astype(np.uint64) << np.arange(per, dtype=np.uint64) * bits).sum(
        1
    )
    assert out.view(np.uint32).tolist() == expected.tolist()


CODES = tl.constexpr((0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))


@tilewright.jit
def fp4_by_choice(packed, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    code = (tl.load(packed + i // 2, i < n, 0) >> ((i % 2) * 4).to(tl.uint8)) & 0xF
    value = tl.zeros((B,), tl.float32)
    for k in tl.static_range(8):
        value = tl.where((code & 7) == k, CODES[k], value)
    tl.store(out + i, tl.where(code >= 8, -value, value), i < n)


def test_4_bit_floats_from_a_list_of_constants(target):
    packed = np.random.default_rng(0).integers(0, 256, 50).astype(np.uint8)
    out = np.zeros(100, np.float32)
    fp4_by_choice[(1,)](packed, out, 100, 128)
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(-1)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    np.testing.assert_array_equal(out, table[codes & 7] * np.where(codes > 7, -1, 1))


@tilewright.jit
def nf4(x, absmax, code, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, 0.0)
    scale = tl.max(tl.abs(v), 0)
    tl.store(absmax + tl.program_id(0), scale)
    v = v / tl.where(scale == 0, 1.0, scale)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.full((BLOCK,), 15, tl.int32)
    for _ in range(4):
        middle = (low + high) // 2
        edge = (tl.load(code + middle) + tl.load(code + middle + 1)) / 2
        above = v > edge
        low, high = tl.where(above, middle + 1, low), tl.where(above, high, middle)
    first, second = low.to(tl.uint8).reshape(BLOCK // 2, 2).split()
    j = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
    tl.store(out + j, first << 4 | second, 2 * j < n)


def test_quantization_by_binary_search(target):
    rng = np.random.default_rng(0)
    x, code = rng.standard_normal(100).astype(np.float32), np.sort(rng.uniform(-1, 1, 17))
    code = code.astype(np.float32)
    code[15:] = 1, 3
    absmax, out = np.zeros(2, np.float32), np.zeros(50, np.uint8)
    nf4[(2,)](x, absmax, code, out, 100, 64)
    padded = np.concatenate([x, np.zeros(28, np.float32)]).reshape(2, 64)
    scale = np.abs(padded).max(1)
    np.testing.assert_array_equal(absmax, scale)
    edges = (code[:15] + code[1:16]) / 2
    chosen = np.searchsorted(edges, (padded / scale[:, None]).reshape(-1)[:100], side="left")
    assert out.tolist() == (chosen[::2] << 4 | chosen[1::2]).tolist()


FLOAT8 = {
    "float8e4nv": ml_dtypes.float8_e4m3fn, "float8e5": ml_dtypes.float8_e5m2,
    "float8e4b8": ml_dtypes.float8_e4m3fnuz, "float8e5b16": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


@tilewright.jit
def from_bytes(x, out, n, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, 0).to(KIND, bitcast=True)
    tl.store(out + i, v.to(tl.float32), i < n)


@pytest.mark.parametrize("kind", FLOAT8)
def test_all_bytes_as_floats(target, kind):
    x, out = np.arange(256).astype(np.uint8), np.zeros(256, np.float32)
    from_bytes[(1,)](x, out, 256, getattr(tl, kind), 256)
    np.testing.assert_array_equal(out, x.view(FLOAT8[kind]).astype(np.float32))


@tilewright.jit
def to_bytes(x, out, n, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, 0.0).to(KIND)
    tl.store(out + i, v.to(tl.uint8, bitcast=True), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["float8e4nv", "float8e5"])
def test_rounding_to_8_bits_goes_to_even(target, kind, dtype):
    exact = np.arange(127 if kind == "float8e4nv" else 124).astype(np.uint8)
    exact = exact.view(FLOAT8[kind]).astype(np.float64)
    between = (exact[1:] + exact[:-1]) / 2
    x = np.concatenate([exact, between, -between, between * 1.02]).astype(dtype)
    out = np.zeros(x.size, np.uint8)
    to_bytes[(1,)](x, out, x.size, getattr(tl, kind), 512)
    expected = x.astype(np.float32).astype(FLOAT8[kind])
    np.testing.assert_array_equal(out.view(FLOAT8[kind]).astype(float), expected.astype(float))


@tilewright.jit
def ue8m0(codes, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    exponent = tl.load(codes + i, i < n, 0)
    tl.store(out + i, (exponent.to(tl.uint32) << 23).to(tl.float32, bitcast=True), i < n)


def test_scales_that_are_exponents(target):
    codes, out = np.arange(1, 255).astype(np.uint8), np.zeros(254, np.float32)
    ue8m0[(1,)](codes, out, 254, 256)
    np.testing.assert_array_equal(out, np.exp2(codes.astype(np.float64) - 127).astype(np.float32))
