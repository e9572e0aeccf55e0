"""Planted faults in integers of 8 and 16 bits, and what takes bits of words on purpose."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(15)

PRODUCT = """
@triton.jit
def product(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=0)
    b = tl.load(b_ptr + at, mask=at < n, other=0)
    tl.store(y_ptr + at, (a.to(tl.int32) * b).to(tl.float32) * 0.01, mask=at < n)
"""
NARROW = change("a.to(tl.int32) * b", "a * b")


def product(k, dtype=np.int8):
    a, b = (rng.integers(50, 100, 100).astype(dtype) for _ in range(2))
    k.product[(4,)](a, b, np.empty(100, np.float32), 100, BLOCK=32)


products = Family(
    "product", PRODUCT, product,
    (
        Fault("in int8", "overflow", NARROW, says="int8 arithmetic ran over"),
        Fault("in uint8", "overflow", NARROW, run=lambda k: product(k, np.uint8)),
    ),
)  # fmt: skip
wide = Family("product in int16", PRODUCT, lambda k: product(k, np.int16), ())

BRIGHTER = """
@triton.jit
def brighter(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)
    tl.store(y_ptr + at, tl.minimum(x + 60, 255).to(tl.uint8), mask=at < n)
"""


def brighter(k):
    x = rng.integers(150, 256, 100).astype(np.uint8)
    k.brighter[(4,)](x, np.empty_like(x), 100, BLOCK=32)


images = Family(
    "brighter", BRIGHTER, brighter,
    (Fault("in bytes", "overflow", change("other=0).to(tl.int32)", "other=0)"), at="tl.minimum"),),
)  # fmt: skip

ROUNDED = """
@triton.jit
def rounded(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.floor(tl.load(x_ptr + at, mask=at < n, other=0.0) + 0.5).to(tl.int32)
    x = tl.minimum(tl.maximum(x, -128), 127)
    tl.store(y_ptr + at, x.to(tl.int8), mask=at < n)
"""


def rounded(k):
    x = (300 * rng.standard_normal(100)).astype(np.float32)
    k.rounded[(4,)](x, np.empty(100, np.int8), 100, BLOCK=32)


roundings = Family(
    "rounded", ROUNDED, rounded,
    (
        Fault("not cut to size", "overflow",
              change("x = tl.minimum(tl.maximum(x, -128), 127)", "x = x + 0"), at="tl.store",
              says="lost the upper bits"),
    ),
)  # fmt: skip

NIBBLES = """
@triton.jit
def nibbles(q_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + at // 2, mask=at < n, other=0)
    q = (q >> (at % 2 * 4)) & 15
    tl.store(y_ptr + at, (q.to(tl.int8) - 8).to(tl.float16), mask=at < n)
"""


def nibbles(k):
    q = rng.integers(0, 256, 50).astype(np.uint8)
    k.nibbles[(4,)](q, np.empty(100, np.float16), 100, BLOCK=32)


unpacked = Family(
    "nibbles", NIBBLES, nibbles,
    (
        Fault("zero taken from bytes", "overflow",
              change("q.to(tl.int8) - 8", "q.to(tl.uint8) - 8")),
    ),
)  # fmt: skip
signed_later = Family(
    "nibbles, signed later",
    NIBBLES.replace("q.to(tl.int8) - 8", "(q.to(tl.uint8) - 8).to(tl.int8)"), nibbles, (),
)  # fmt: skip

BITS = """
@triton.jit
def bits(w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + at // 4, mask=at < n, other=0) >> (at % 4 * 8)
    noise = tl.randint(3, at)
    tl.store(y_ptr + at, w.to(tl.int8) ^ noise.to(tl.int8), mask=at < n)
    tl.store(y_ptr + n + at, noise.to(tl.int8), mask=at < n)
    tl.store(y_ptr + 2 * n + at, w.to(tl.int8), mask=at < n)
"""


def bits(k):
    w = rng.integers(-(2**31), 2**31, 25).astype(np.int32)
    k.bits[(4,)](w, np.empty(300, np.int8), 100, BLOCK=32)


words = Family("bytes of words", BITS, bits, ())

test_twin, test_fault = cases(products, wide, images, roundings, unpacked, signed_later, words)
