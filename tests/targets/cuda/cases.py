"""Kernels that exercise every rule of the CUDA target, with arguments; eager mode says the result.

They run on the simulator in tests, and on a GPU by tools/gpu_check.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import product_loops
from launch_case import Case, compare, random

import tilewright as tw
from tilewright import language as tl

# --- moving elements


@tw.jit
def transposed(x, y, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + i * N + j)
    i, j = tl.arange(0, N)[:, None], tl.arange(0, M)[None, :]
    tl.store(y + i * M + j, tl.trans(tile))


@tw.jit
def shuffled(x, y, N: tl.constexpr):
    """Interleave, join, split, reshape, permute and flip, one after the other."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.flip(a, 0)
    both = tl.interleave(a, b)
    first, second = tl.split(tl.reshape(both, (N, 2)))
    joined = tl.join(second, first)
    turned = tl.permute(joined, (1, 0))
    flat = tl.reshape(turned, (2 * N,))
    tl.store(y + tl.arange(0, 2 * N), flat)
    tl.store(y + 2 * N + tl.arange(0, 2 * N), tl.cat(b, a, can_reorder=True))


@tw.jit
def gathered(x, index, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    source = tl.load(x + rows * N + cols)
    if AXIS == 1:
        places = rows * K + tl.arange(0, K)[None, :]
    else:
        places = tl.arange(0, K)[:, None] * N + cols
    tl.store(y + places, tl.gather(source, tl.load(index + places), AXIS))


# --- reductions and scans


@tw.jit
def row_sums(x, y, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    out = tl.arange(0, M if AXIS == 1 else N)
    size: tl.constexpr = M if AXIS == 1 else N
    tl.store(y + out, tl.sum(tile, AXIS))
    tl.store(y + size + out, tl.max(tile, AXIS))
    tl.store(y + 2 * size + out, tl.min(tile, AXIS))


@tw.jit
def largest(x, y, where, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    out = tl.arange(0, M if AXIS == 1 else N)
    value, index = tl.max(tile, AXIS, return_indices=True)
    tl.store(y + out, value)
    tl.store(where + out, index)


@tw.jit
def affine(a, b, c, d):
    """Apply x -> a x + b, then x -> c x + d: the order matters."""
    return c * a, c * b + d


@tw.jit
def composed(x, y, z, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    slope, shift = tl.reduce((tl.load(x + places), tl.load(y + places)), AXIS, affine)
    out = tl.arange(0, M if AXIS == 1 else N)
    tl.store(z + out, slope)
    tl.store(z + (M if AXIS == 1 else N) + out, shift)


@tw.jit
def running(x, y, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + places, tl.cumsum(tl.load(x + places), AXIS, reverse=REVERSE))


@tw.jit
def recurrence(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    slope, shift = tl.associative_scan((tl.load(x + i), tl.load(y + i)), 0, affine)
    tl.store(z + i, slope)
    tl.store(z + N + i, shift)


@tw.jit
def sorted_rows(x, y, M: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + places, tl.sort(tl.load(x + places), 1, DESCENDING))


@tw.jit
def counted(x, y, N: tl.constexpr, BINS: tl.constexpr):
    values = tl.load(x + tl.arange(0, N))
    tl.store(y + tl.arange(0, BINS), tl.histogram(values, BINS))


# --- memory


@tw.jit
def strided(x, y, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * step, mask=i < n, other=7), mask=i < n)


@tw.jit
def copied_rows(x, y, rows, cols, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    mask = (i < rows) & (j < cols)
    tl.store(y + i * cols + j, tl.load(x + i * cols + j, mask=mask), mask=mask)


@tw.jit
def updated(x, y, old, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    if KIND == "add":
        before = tl.atomic_add(y + i, value, mask=i % 3 > 0)
    elif KIND == "max":
        before = tl.atomic_max(y + i, value, mask=i % 3 > 0)
    elif KIND == "min":
        before = tl.atomic_min(y + i, value, mask=i % 3 > 0)
    elif KIND == "and":
        before = tl.atomic_and(y + i, value, mask=i % 3 > 0)
    elif KIND == "or":
        before = tl.atomic_or(y + i, value, mask=i % 3 > 0)
    elif KIND == "xor":
        before = tl.atomic_xor(y + i, value, mask=i % 3 > 0)
    else:
        before = tl.atomic_xchg(y + i, value, mask=i % 3 > 0)
    tl.store(old + i, before)


@tw.jit
def swapped(x, expected, y, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_cas(y + i, tl.load(expected + i), tl.load(x + i)))


@tw.jit
def tickets(counter, y, total):
    number = tl.atomic_add(counter, 1)
    tl.store(y + number, number * 10)
    tl.atomic_add(total, number, sem="relaxed")


@tw.jit
def shifted_in_place(x, N: tl.constexpr):
    """Each element is loaded before the one before it is stored there."""
    i = tl.arange(0, N)
    tl.store(x + i + 1, tl.load(x + i))


@tw.jit
def through_memory(x, y, N: tl.constexpr):
    """What is stored is loaded again, by other threads."""
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))
    for _ in range(3):
        tl.store(y + i, tl.load(y + (N - 1 - i)) + 1)
    tl.store(y + N, tl.load(y + 1))
    tl.store(y + N + 1, tl.load(y + N))


# --- control flow


@tw.jit
def collatz(x, y, N: tl.constexpr):
    number = tl.load(x + tl.program_id(0))
    steps = 0
    trail = tl.zeros((N,), tl.int32)
    while number != 1:
        if number % 2 == 0:
            number = number // 2
        else:
            number = 3 * number + 1
        steps += 1
        trail = tl.where(tl.arange(0, N) == steps, number, trail)
    tl.store(y + tl.program_id(0) * N + tl.arange(0, N), trail + steps)


@tw.jit
def nested(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    largest = tl.full((), -1e30, tl.float32)
    for k in range(n):
        row = tl.load(x + k * BLOCK + i)
        top = tl.max(row, 0)
        if top > largest:
            largest = top
            total = total + row
        else:
            for j in range(k, n):
                total -= tl.load(x + j * BLOCK + i) * 0.125
    tl.store(y + i, total * largest)


@tw.jit
def product(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(x + i[:, None] * K + k[None, :])
    right = tl.load(y + k[:, None] * N + j[None, :])
    found = tl.dot(left, right, input_precision="ieee")
    tl.store(z + i[:, None] * N + j[None, :], found)


@tw.jit
def products(x, y, z, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    b = tl.arange(0, B)[:, None, None]
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(x + b * M * K + i[None, :, None] * K + k[None, None, :])
    right = tl.load(y + b * K * N + k[None, :, None] * N + j[None, None, :])
    found = tl.dot(left, right, input_precision="ieee")
    tl.store(z + b * M * N + i[None, :, None] * N + j[None, None, :], found)


@tw.jit
def drawn(y, z, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.randint(seed, i))
    tl.store(z + i, tl.rand(seed, i))


SHAPES = ((4, 8), (16, 64), (128, 16), (1, 256), (64, 1), (2, 512))
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def movement() -> Iterator[Case]:
    for m, n in SHAPES:
        for dtype in (np.int8, np.float16, np.float32, np.int64):
            x = random((m, n), dtype)
            yield Case(
                f"transpose {m}x{n} {np.dtype(dtype)}", transposed, (1,),
                [x, np.zeros((n, m), dtype)], {"M": m, "N": n},
            )  # fmt: skip
    for n in (2, 32, 256, 1024):
        x = random(n, np.int32)
        yield Case(f"shuffled {n}", shuffled, (1,), [x, np.zeros(4 * n, np.int32)], {"N": n})
    for axis, (m, n, k) in ((1, (8, 32, 16)), (0, (32, 16, 8)), (1, (1, 64, 256))):
        index = np.random.default_rng(1).integers(0, n if axis else m, (m, k) if axis else (k, n))
        x, y = random((m, n), np.float16), np.zeros(index.shape, np.float16)
        yield Case(
            f"gather {m}x{n} axis {axis}", gathered, (1,), [x, index.astype(np.int32), y],
            {"M": m, "N": n, "K": k, "AXIS": axis},
        )  # fmt: skip


def reductions() -> Iterator[Case]:
    for m, n in SHAPES:
        for axis in (0, 1):
            size = n if axis == 0 else m
            names = {"M": m, "N": n, "AXIS": axis}
            label = f"{m}x{n} axis {axis}"
            for dtype in (np.int32, np.float32, np.float16, np.int8, np.float64):
                x = random((m, n), dtype)
                tolerance = {np.float16: 2e-3, np.float32: 1e-5, np.float64: 1e-12}.get(dtype, 0)
                out = np.zeros((3, size), np.int32 if dtype is np.int8 else dtype)
                yield Case(
                    f"sums {label} {np.dtype(dtype)}", row_sums, (1,), [x, out], names, tolerance
                )
            x = random((m, n)).round(1)
            yield Case(
                f"argmax {label}", largest, (1,),
                [x, np.zeros(size, np.float32), np.zeros(size, np.int32)], names,
            )  # fmt: skip
            x, y = random((m, n), np.int32), random((m, n), np.int32, 1)
            yield Case(
                f"composed {label}", composed, (1,), [x, y, np.zeros((2, size), np.int32)], names
            )
            for reverse in (False, True):
                x = random((m, n), np.int32)
                yield Case(
                    f"running {label} {'reversed' if reverse else ''}", running, (1,),
                    [x, np.zeros_like(x)], {**names, "REVERSE": reverse},
                )  # fmt: skip
    for n in (1, 16, 128, 1024):
        x, y = random(n, np.int32), random(n, np.int32, 1)
        yield Case(
            f"recurrence {n}", recurrence, (1,), [x, y, np.zeros((2, n), np.int32)], {"N": n}
        )
    for m, n in ((1, 64), (8, 16), (2, 512), (64, 2)):
        for dtype in (np.int32, np.float32, np.float16, np.uint8):
            for descending in (False, True):
                x = random((m, n), dtype)
                yield Case(
                    f"sort {m}x{n} {np.dtype(dtype)} {'down' if descending else 'up'}",
                    sorted_rows, (1,), [x, np.zeros_like(x)],
                    {"M": m, "N": n, "DESCENDING": descending},
                )  # fmt: skip
    x = np.random.default_rng(0).integers(0, 40, 512).astype(np.int32)
    yield Case("histogram", counted, (1,), [x, np.zeros(32, np.int32)], {"N": 512, "BINS": 32})


def accesses() -> Iterator[Case]:
    for dtype in (*INTS, *FLOATS):
        for n, step in ((1000, 1), (500, 2), (333, 3)):
            x = random(n * step, dtype)
            yield Case(
                f"strided {np.dtype(dtype)} by {step}", strided, (-(-n // 256),),
                [x, np.zeros(n, dtype), n, step], {"BLOCK": 256},
            )  # fmt: skip
    x = random(1000, np.int32) > 0
    yield Case("booleans", strided, (4,), [x, np.zeros(1000, bool), 1000, 1], {"BLOCK": 256})
    for rows, cols in ((10, 64), (7, 100), (33, 48)):
        x = random((rows, cols))
        yield Case(
            f"rows {rows}x{cols}", copied_rows, (-(-rows // 8),),
            [x, np.zeros_like(x), rows, cols], {"M": 8, "N": 128},
        )  # fmt: skip
    for dtype in (np.int32, np.int64, np.uint32, np.uint64, *FLOATS):
        kinds = ["add", "xchg"]
        if np.dtype(dtype).itemsize >= 4:
            kinds += ["max", "min"]
        if np.dtype(dtype).kind in "iu":
            kinds += ["and", "or", "xor"]
        for kind in kinds:
            x, y = random(64, dtype), random(64, dtype, 1)
            yield Case(
                f"atomic {kind} {np.dtype(dtype)}", updated, (1,), [x, y, np.zeros_like(y)],
                {"N": 64, "KIND": kind},
            )  # fmt: skip
    for dtype in (np.int32, np.int64, np.float32, np.int16):
        x, y = random(64, dtype), random(64, dtype, 1)
        expected = np.where(np.arange(64) % 2 == 0, y, x)
        yield Case(
            f"atomic cas {np.dtype(dtype)}", swapped, (1,), [x, expected, y, np.zeros_like(y)],
            {"N": 64},
        )  # fmt: skip
    yield Case(
        "tickets", tickets, (20,), [np.zeros(1, np.int32), np.zeros(20, np.int32),
                                    np.zeros(1, np.int32)],
    )  # fmt: skip


def others() -> Iterator[Case]:
    x = np.arange(1, 9, dtype=np.int32)
    yield Case("while", collatz, (8,), [x, np.zeros((8, 32), np.int32)], {"N": 32})
    x = random(513, np.int32)
    yield Case("shifted in place", shifted_in_place, (1,), [x], {"N": 512})
    x = random(256, np.int32)
    yield Case("through memory", through_memory, (1,), [x, np.zeros(258, np.int32)], {"N": 256})
    x = random((5, 128))
    yield Case("nested", nested, (1,), [x, np.zeros(128, np.float32), 5], {"BLOCK": 128}, 1e-5)
    for m, n, k in ((16, 16, 16), (32, 64, 32), (64, 16, 64)):
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.float64):
            x, y = random((m, k), dtype), random((k, n), dtype, 1)
            out = {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32)
            yield Case(
                f"dot {m}x{n}x{k} {np.dtype(dtype)}", product, (1,), [x, y, np.zeros((m, n), out)],
                {"M": m, "N": n, "K": k}, 1e-4,
            )  # fmt: skip
    for dtype in (np.float32, np.float16):
        x, y = random((2, 16, 32), dtype), random((2, 32, 16), dtype, 1)
        yield Case(
            f"batched dot {np.dtype(dtype)}", products, (1,),
            [x, y, np.zeros((2, 16, 16), np.float32)], {"B": 2, "M": 16, "N": 16, "K": 32}, 1e-4,
        )  # fmt: skip
    yield Case(
        "random", drawn, (1,), [np.zeros(256, np.int32), np.zeros(256, np.float32), 1234],
        {"N": 256},
    )  # fmt: skip


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "movement": movement,
    "reductions": reductions,
    "accesses": accesses,
    "others": others,
    "product loops": product_loops.cases,
}


__all__ = ["Case", "all_cases", "compare"]


def all_cases() -> list[Case]:
    return [case for group in GROUPS.values() for case in group()]
