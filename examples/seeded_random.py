"""Random numbers that depend only on a seed and a position, checked against Philox in NumPy."""

import math

import numpy as np
import triton
import triton.language as tl


@triton.jit
def random_kernel(ints_ptr, uniform_ptr, normal_ptr, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(ints_ptr + at, tl.randint(seed, at).to(tl.int32, bitcast=True), mask=inside)
    tl.store(uniform_ptr + at, tl.rand(seed, at), mask=inside)
    tl.store(normal_ptr + at, tl.randn(seed, at), mask=inside)


@triton.jit
def four_kernel(out_ptr, n, seed, BLOCK: tl.constexpr):
    """One round of Philox gives four numbers; using all four is four times cheaper."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(out_ptr + at, a, mask=at < n)
    tl.store(out_ptr + n + at, b, mask=at < n)
    tl.store(out_ptr + 2 * n + at, c, mask=at < n)
    tl.store(out_ptr + 3 * n + at, d, mask=at < n)


@triton.jit
def pi_kernel(hits_ptr, seed, DARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Throw DARTS blocks of darts at a square and count those in the quarter circle."""
    hits = tl.zeros([BLOCK], tl.int32)
    for i in range(DARTS):
        at = (tl.program_id(0) * DARTS + i) * BLOCK + tl.arange(0, BLOCK)
        x, y, _, _ = tl.rand4x(seed, at)
        hits += (x * x + y * y < 1).to(tl.int32)
    tl.atomic_add(hits_ptr, tl.sum(hits, axis=0))


def random_numbers(n, seed, block=256):
    """`n` integers, uniform floats and normal floats."""
    ints = np.empty(n, np.int32)
    uniform, normal = np.empty(n, np.float32), np.empty(n, np.float32)
    random_kernel[(triton.cdiv(n, block),)](ints, uniform, normal, n, seed, BLOCK=block)
    return ints.view(np.uint32), uniform, normal


def random_four(n, seed, block=256):
    """Four rows of `n` uniform floats."""
    out = np.empty((4, n), np.float32)
    four_kernel[(triton.cdiv(n, block),)](out, n, seed, BLOCK=block)
    return out


def estimate_pi(programs, seed, darts=8, block=256):
    hits = np.zeros(1, np.int32)
    pi_kernel[(programs,)](hits, seed, DARTS=darts, BLOCK=block)
    return 4 * hits[0] / (programs * darts * block)


def philox(n, seed):
    """Philox 4x32 with 10 rounds: counters (i, 0, 0, 0), the seed as key; four uint32 rows."""
    low, thirty_two = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [np.arange(n, dtype=np.uint64), *(np.zeros(n, np.uint64) for _ in range(3))]
    key = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        a = counter[0] * np.uint64(0xD2511F53)
        b = counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (b >> thirty_two) ^ counter[1] ^ np.uint64(key[0]),
            b & low,
            (a >> thirty_two) ^ counter[3] ^ np.uint64(key[1]),
            a & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter).astype(np.uint32)


def to_uniform(bits):
    """The float in [0, 1) that Triton makes of 32 random bits."""
    signed = bits.view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def to_normal(bits):
    """Box and Muller's transform of the first two words, in float64."""
    radius = np.maximum(to_uniform(bits[0]).astype(np.float64), 1e-7)
    return np.sqrt(-2 * np.log(radius)) * np.cos(2 * math.pi * to_uniform(bits[1]))


def cases():
    """Small runs for the tests: name, function giving result, reference and tolerance."""
    seed, wide_seed = 1234, 0x1234_5678_9ABC_DEF0
    return [
        ("integers", lambda: (random_numbers(1823, seed)[0], philox(1823, seed)[0], 0)),
        ("wide seed", lambda: (random_numbers(99, wide_seed)[0], philox(99, wide_seed)[0], 0)),
        ("uniform", lambda: (random_numbers(781, seed)[1], to_uniform(philox(781, seed)[0]), 0)),
        ("normal", lambda: (random_numbers(781, seed)[2], to_normal(philox(781, seed)), 2e-5)),
        ("four", lambda: (random_four(781, seed), to_uniform(philox(781, seed)), 0)),
        ("pi", lambda: (np.float64(estimate_pi(16, seed)), np.float64(math.pi), 0.02)),
    ]


def main():
    ints, uniform, normal = random_numbers(1_000_003, 42, block=1024)
    bits = philox(ints.size, 42)
    np.testing.assert_array_equal(ints, bits[0])
    np.testing.assert_array_equal(uniform, to_uniform(bits[0]))
    np.testing.assert_allclose(normal, to_normal(bits), rtol=2e-5, atol=2e-5)
    pi = estimate_pi(64, 42, darts=64, block=1024)
    print(f"seeded_random: {ints.size} numbers match Philox bit for bit; pi is about {pi:.4f}")


if __name__ == "__main__":
    main()
