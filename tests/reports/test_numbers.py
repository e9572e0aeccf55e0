"""Whole numbers that wrap, shifts, quotients, conversions, and what mixes them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
import tilewright.language as tl

DTYPES = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64}
DTYPES |= {"uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64}


@tilewright.jit
def quotients(x, y, q, r, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + i, i < n, 0), tl.load(y + i, i < n, 1)
    tl.store(q + i, a // b, i < n)
    tl.store(r + i, a % b, i < n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_go_towards_zero(target, dtype):
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True)
    y = rng.integers(max(info.min, -9), 9, 100, dtype=dtype, endpoint=True)
    x[:2], y[:2] = [info.max, info.min], [7, 7]
    y[y == 0] = 3
    if info.min:
        y[y == -1] = -2  # of which the least number has no quotient
    q, r = np.zeros_like(x), np.zeros_like(x)
    quotients[(4,)](x, y, q, r, 100, 32)
    wide = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    expected = [(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in wide]
    assert q.tolist() == expected
    assert r.tolist() == [a - b * c for (a, b), c in zip(wide, expected, strict=True)]


@tilewright.jit
def floor_quotients(x, out, n, D: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, i < n, 0)
    b = tl.full([B], D, a.dtype)
    rest = a % b
    off = (rest != 0) & ((rest < 0) != (b < 0))
    tl.store(out + i, tl.where(off, a // b - 1, a // b), i < n)
    tl.store(out + n + i, tl.where(off, rest + D, rest), i < n)


@pytest.mark.parametrize("divisor", [4, -4, 7, -7, 1])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_floor_quotients_by_correction(target, dtype, divisor):
    x = np.arange(-30, 31).astype(dtype)
    out = np.zeros((2, x.size), dtype)
    floor_quotients[(1,)](x, out, x.size, divisor, 64)
    np.testing.assert_array_equal(out, [x // divisor, x % divisor])


@tilewright.jit
def float_remainders(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i, i < n), tl.load(y + i, i < n, 1.0)
    tl.store(out + i, a % b, i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_remainders_of_floats_take_the_sign_of_the_first(target, dtype):
    x = np.array([5.5, -5.5, 5.5, -5.5, 0, 1e3, -7, 0.25], dtype)
    y = np.array([2, 2, -2, -2, 3, 0.75, 7, 8], dtype)
    out = np.zeros(8, dtype)
    float_remainders[(1,)](x, y, out, 8, 8)
    np.testing.assert_array_equal(out, np.fmod(x, y))


@tilewright.jit
def shifts(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, i < n, 0)
    tl.store(out + i, a << 3, i < n)
    tl.store(out + n + i, a >> 2, i < n)
    tl.store(out + 2 * n + i, ~a, i < n)
    tl.store(out + 3 * n + i, a ^ (a >> 1), i < n)
    tl.store(out + 4 * n + i, -a, i < n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts(target, dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 5, 100, info.max, info.min, info.max // 3], dtype)
    out = np.zeros((5, 7), dtype)
    shifts[(1,)](x, out, 7, 8)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, [x << 3, x >> 2, ~x, x ^ (x >> 1), 0 - x])


@tilewright.jit
def hash_words(out, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = i.to(tl.uint32) ^ seed.to(tl.uint32)
    h ^= h >> 16
    h *= 0x85EBCA6B
    h ^= h >> 13
    h *= 0xC2B2AE35
    h ^= h >> 16
    tl.store(out + i, h.to(tl.float32) * (1.0 / 4294967296.0), i < n)
    tl.store(out + n + i, (h & 0xFFFF).to(tl.float32), i < n)


def test_a_hash_of_32_bits(target):
    out = np.zeros((2, 100), np.float32)
    hash_words[(4,)](out, 0x9E3779B9, 100, 32)
    h = np.arange(100, dtype=np.uint32) ^ np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h = h * np.uint32(factor)
    h ^= h >> np.uint32(16)
    np.testing.assert_allclose(out[0], h.astype(np.float64) / 2**32, rtol=1e-6)
    assert out[1].tolist() == (h & 0xFFFF).tolist()


@tilewright.jit
def lcg(states, out, TURNS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    s = tl.load(states + i)
    for k in range(TURNS):
        s = s * 6364136223846793005 + 1442695040888963407
        tl.store(out + k * B + i, (s >> 33).to(tl.uint32))
    tl.store(states + i, s)


def test_a_generator_of_64_bits(target):
    states = np.arange(16, dtype=np.uint64) + 2**63
    s, out = states.copy(), np.zeros((5, 16), np.uint32)
    lcg[(1,)](states, out, 5, 16)
    for k in range(5):
        s = s * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        assert out[k].tolist() == (s >> np.uint64(33)).tolist()
    assert states.tolist() == s.tolist()


@tilewright.jit
def convert(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n).to(out.dtype.element_ty), i < n)


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint32", "int64", "bool"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_whole_numbers_are_cut_or_extended(target, dtype, to):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 2, 100, info.max, info.min, info.max - 1, 255 & info.max], dtype)
    out = np.zeros(8, to)
    convert[(1,)](x, out, 8, 8)
    np.testing.assert_array_equal(out, x.astype(to))


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats_lose_their_fractions(target, dtype, to):
    x = np.array([0.0, 0.9, 1.5, 2.5, 100.75, 126.99, 3.0, 64.5], np.float64)
    if not to.startswith("u"):
        x[1::2] *= -1
    x = x.astype(dtype)
    out = np.zeros(8, to)
    convert[(1,)](x, out, 8, 8)
    assert out.tolist() == [int(float(v)) for v in x]


@tilewright.jit
def mixed(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i, i < n, 0), tl.load(y + i, i < n, 1)
    tl.store(out + i, (a + b).to(tl.float64), i < n)
    tl.store(out + n + i, (a * b).to(tl.float64), i < n)
    tl.store(out + 2 * n + i, (a < b).to(tl.float64), i < n)


PAIRS = [("int8", "int32"), ("uint8", "int8"), ("uint8", "int16"), ("int32", "uint32")]
PAIRS += [("int16", "float16"), ("int64", "float32"), ("uint32", "int64"), ("uint64", "int64")]
JOINED = {("uint8", "int8"): "uint8", ("int32", "uint32"): "uint32", ("uint64", "int64"): "uint64"}
JOINED |= {("int16", "float16"): "float16", ("int64", "float32"): "float32"}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_mixed_operands(target, first, second):
    x = np.array([0, 1, 3, 100, 50, 7]).astype(first)
    y = np.array([5, 1, 2, 11, 60, 6]).astype(second)
    out = np.zeros((3, 6))
    mixed[(1,)](x, y, out, 6, 8)
    joined = JOINED.get((first, second)) or np.promote_types(first, second)
    a, b = x.astype(joined), y.astype(joined)
    np.testing.assert_array_equal(out, [a + b, a * b, a < b])


@tilewright.jit
def bits_of(x, out, back, n, B: tl.constexpr):
    i = tl.arange(0, B)
    word = tl.load(x + i, i < n, 0.0).to(tl.int32, bitcast=True)
    sign, exponent, fraction = (word >> 31) & 1, (word >> 23) & 0xFF, word & 0x7FFFFF
    tl.store(out + i, exponent - 127, i < n)
    tl.store(out + n + i, sign * 0x1000000 + fraction, i < n)
    joined = (sign << 31) | (exponent << 23) | fraction
    tl.store(back + i, tl.cast(joined, tl.float32, bitcast=True), i < n)


def test_floats_taken_apart(target):
    x = np.array([1, -2.5, 0.1, 1e-30, -1e30, 3], np.float32)
    out, back = np.zeros((2, 6), np.int32), np.zeros(6, np.float32)
    bits_of[(1,)](x, out, back, 6, 8)
    np.testing.assert_array_equal(back, x)
    assert out[0].tolist() == (np.frexp(x)[1] - 1).tolist()
    words = x.view(np.uint32)
    assert out[1].tolist() == ((words >> 31) * 0x1000000 + (words & 0x7FFFFF)).tolist()


@tilewright.jit
def stochastic_bf16(x, noise, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    bits = tl.load(x + i, i < n, 0.0).to(tl.uint32, bitcast=True)
    bits = (bits + (tl.load(noise + i, i < n, 0) & 0xFFFF)) & 0xFFFF0000
    rounded = bits.to(tl.float32, bitcast=True).to(tl.bfloat16)
    tl.store(out + i, rounded, i < n)


def test_stochastic_rounding_by_bits(target):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50).astype(np.float32)
    noise = rng.integers(0, 2**31, 50).astype(np.int32)
    out = np.zeros(50, ml_dtypes.bfloat16)
    stochastic_bf16[(1,)](x, noise, out, 50, 64)
    bits = (x.view(np.uint32) + (noise.astype(np.uint32) & 0xFFFF)) & 0xFFFF0000
    np.testing.assert_array_equal(out.astype(np.float32), bits.view(np.float32))


@tilewright.jit
def conditions(x, out, n, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, i < n, 0)
    on, odd = a > 2, (a & 1) == 1
    tl.store(out + i, on & ~odd, i < n)
    tl.store(out + n + i, on ^ odd, i < n)
    tl.store(out + 2 * n + i, on != (flag > 0), i < n)
    tl.store(out + 3 * n + i, on + odd, i < n)
    tl.store(out + 4 * n + i, on.to(tl.int32) + odd.to(tl.int32), i < n)
    tl.store(out + 5 * n + i, on * a, i < n)
    tl.store(out + 6 * n + i, not_(on), i < n)


@tilewright.jit
def not_(x):
    return x == 0


@pytest.mark.parametrize("flag", [1, 0, -3])
def test_conditions_as_numbers(target, flag):
    x = np.arange(7, dtype=np.int32)
    out = np.zeros((7, 7), np.int32)
    conditions[(1,)](x, out, 7, flag, 8)
    on, odd = x > 2, x % 2 == 1
    expected = [on & ~odd, on ^ odd, on != (flag > 0), on ^ odd, on.astype(int) + odd, on * x, ~on]
    np.testing.assert_array_equal(out, np.array(expected, np.int32))


@tilewright.jit
def bool_arrays(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, i < n, other=False)
    tl.store(out + i, ~a, i < n)
    tl.store(out + n + i, a, i < n)
    tl.store(out + 2 * n + i, i % 2 == 0, i < n)


def test_arrays_of_bool(target):
    x, out = np.array([1, 0, 0, 1, 1], bool), np.zeros((3, 5), bool)
    bool_arrays[(1,)](x, out, 5, 8)
    np.testing.assert_array_equal(out, [~x, x, [1, 0, 1, 0, 1]])
    assert set(out.view(np.uint8).ravel().tolist()) <= {0, 1}


@tilewright.jit
def high_words(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i, i < n, 0), tl.load(y + i, i < n, 0)
    tl.store(out + i, tl.umulhi(a, b), i < n)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_upper_halves_of_products(target, dtype):
    bits = np.iinfo(dtype).bits
    numbers = [3, 2**31 - 1, 2 ** (bits - 2) + 12345, np.iinfo(dtype).max, 7]
    x, y = np.array(numbers, dtype), np.array(numbers[::-1], dtype)
    out = np.zeros(5, dtype)
    high_words[(1,)](x, y, out, 5, 8)
    expected = [int(a) * int(b) >> bits for a, b in zip(x, y, strict=True)]
    assert out.tolist() == expected


@tilewright.jit
def big_scalars(out, a, b):
    tl.store(out, a + 1)
    tl.store(out + 1, b - 1)
    tl.store(out + 2, a // 3)
    tl.store(out + 3, (b >> 40).to(tl.int64))


@pytest.mark.parametrize("a", [5, 2**31 - 1, 2**31, 2**40, -(2**31), -(2**31) - 1, 2**63 - 5])
def test_ints_of_every_size_as_arguments(target, a):
    out, b = np.zeros(4, np.int64), 2**63 + 9
    big_scalars[(1,)](out, a, b)
    plus = a + 1 if a != 2**31 - 1 else -(2**31)  # an int32, which wraps
    third = abs(a) // 3 * (1 if a > 0 else -1)
    assert out.tolist() == [plus, (b - 1) - 2**64, third, b >> 40]
