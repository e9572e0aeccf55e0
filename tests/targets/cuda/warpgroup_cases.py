"""Products of tiles that warpgroups multiply: 64 rows and more, four warps and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from launch_case import Case, random
from product_loops import attention, persistent, product_of, transposed

import tilewright as tw
from tilewright import language as tl

F16, BF16, F32 = np.float16, ml_dtypes.bfloat16, np.float32
E4, E5 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@tw.jit
def single(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORM: tl.constexpr):
    """One product: of what is loaded, of what is computed, or of turned tiles."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if FORM[0] == "t":
        left = tl.load(x + k[:, None] * M + i[None, :]).T
    else:
        left = tl.load(x + i[:, None] * K + k[None, :])
    if FORM[1] == "t":
        right = tl.load(y + j[:, None] * K + k[None, :]).T
    else:
        right = tl.load(y + k[:, None] * N + j[None, :])
    if FORM[2] == "c":
        left = (left.to(tl.float32) * 0.5).to(left.dtype)
        right = tl.where(k[:, None] % 3 == 0, 0.0, right.to(tl.float32)).to(right.dtype)
    total = tl.dot(left, right, out_dtype=z.dtype.element_ty)
    tl.store(z + i[:, None] * N + j[None, :], total)


@tw.jit
def chain(x, y, w, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, L: tl.constexpr):
    """(x @ y, rounded) @ w, and the turned product times x."""
    i, j, k, n = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, L)
    left = tl.load(x + i[:, None] * K + k[None, :])
    right = tl.load(y + k[:, None] * N + j[None, :])
    inner = tl.dot(left, right).to(left.dtype)
    last = tl.load(w + j[:, None] * L + n[None, :])
    tl.store(z + i[:, None] * L + n[None, :], tl.dot(inner, last))
    more = tl.dot(inner.T, left)
    tl.store(z + M * L + j[:, None] * K + k[None, :], more)


@tw.jit
def two_sums(x, y, w, z, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """One left operand and two right ones; a sum is looked at in between."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    first, second = tl.zeros((M, N), tl.float32), tl.zeros((M, N), tl.float32)
    largest = tl.full((M,), float("-inf"), tl.float32)
    for start in range(0, inner, K):
        left = tl.load(x + i[:, None] * inner + start + k[None, :])
        first = tl.dot(left, tl.load(y + (start + k[:, None]) * N + j[None, :]), first)
        part = tl.dot(left, tl.load(w + (start + k[:, None]) * N + j[None, :]))
        largest = tl.maximum(largest, tl.max(part, 1))
        second += part * 0.5
    total = first * second + largest[:, None]
    tl.store(z + i[:, None] * N + j[None, :], total)


@tw.jit
def rows_times_rows(x, y, z, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """x [M, n K] times y [N, n K] turned: both lie along what is summed over."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), z.dtype.element_ty)
    for start in range(0, n * K, K):
        left = tl.load(x + i[:, None] * n * K + start + k[None, :])
        right = tl.load(y + j[None, :] * n * K + start + k[:, None])
        total = tl.dot(left, right, total)
    tl.store(z + i[:, None] * N + j[None, :], total)


@tw.jit
def quantized(x, y, scales, z, columns, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Weights of 8 bits with a scale for each column and block of rows."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for step in range(tl.cdiv(inner, K)):
        inside = k < inner - step * K
        left = tl.load(
            x + i[:, None] * inner + step * K + k[None, :], mask=inside[None, :], other=0
        )
        at = y + (step * K + k[:, None]) * columns + j[None, :]
        codes = tl.load(at, mask=inside[:, None] & (j[None, :] < columns), other=0)
        scale = tl.load(scales + step * columns + j, mask=j < columns, other=0.0)
        total += tl.dot(left, codes.to(x.dtype.element_ty) * scale[None, :].to(x.dtype.element_ty))
    tl.store(z + i[:, None] * columns + j[None, :], total, mask=j[None, :] < columns)


@tw.jit
def held(x, y, z, rows, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The right operand stays while the left one goes over all rows."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    right = tl.load(y + k[:, None] * N + j[None, :])
    for start in range(0, rows, M):
        left = tl.load(x + (start + i[:, None]) * K + k[None, :])
        tl.store(z + (start + i[:, None]) * N + j[None, :], tl.dot(left, right))


def cases() -> Iterator[Case]:
    shapes = (
        (64, 64, 64, 4, 3), (64, 32, 32, 4, 2), (128, 256, 64, 8, 3), (128, 128, 32, 4, 4),
        (64, 16, 16, 4, 3), (256, 64, 64, 8, 3), (64, 128, 128, 8, 2), (128, 128, 16, 16, 3),
    )  # fmt: skip
    for n, (m, columns, inner, warps, stages) in enumerate(shapes):
        dtype = (F16, BF16)[n % 2]
        blocks = {"M": m, "N": columns, "K": inner, "num_warps": warps, "num_stages": stages}
        depth = inner * (3 + n % 3) + (8 if n % 2 else 0)
        x, y = random((m + 8, depth), dtype), random((depth, columns + 24), dtype, 1)
        yield product_of(x, y, blocks)
    for n, form in enumerate(("nnl", "tnl", "ntl", "ttl", "nnc", "ttc")):
        for dtype, (m, columns, inner), warps in (
            (F16, (64, 128, 64), 4), (BF16, (128, 64, 32), 4), (F16, (128, 256, 128), 8),
            (BF16, (64, 128, 16), 8), (F32, (64, 64, 32), 4), (np.int8, (64, 128, 64), 4),
            (E4, (128, 64, 64), 8), (E5, (64, 32, 128), 4),
        ):  # fmt: skip
            x = random((inner, m) if form[0] == "t" else (m, inner), dtype, n)
            y = random((columns, inner) if form[1] == "t" else (inner, columns), dtype, n + 1)
            yield Case(
                f"single {form} {m}x{columns}x{inner} {np.dtype(dtype)} {warps}", single, (1,),
                [x, y, np.zeros((m, columns), np.int32 if dtype is np.int8 else np.float32)],
                {"M": m, "N": columns, "K": inner, "FORM": form, "num_warps": warps}, 1e-2,
            )  # fmt: skip
    for m, n, k, last, warps in ((64, 64, 32, 64, 4), (128, 64, 64, 32, 4), (64, 128, 64, 128, 8)):
        x, y, w = random((m, k), F16), random((k, n), F16, 1), random((n, last), F16, 2)
        yield Case(
            f"chain {m}x{n}x{k}x{last} {warps}", chain, (1,),
            [x / 4, y / 4, w / 4, np.zeros(m * last + n * k, np.float32)],
            {"M": m, "N": n, "K": k, "L": last, "num_warps": warps}, 2e-2,
        )  # fmt: skip
    for n, d, dtype, warps, rows in (
        (160, 64, F16, 4, 64), (128, 128, BF16, 4, 64), (130, 64, BF16, 8, 128),
        (64, 64, F16, 4, 128),
    ):  # fmt: skip
        q, k, v = random((rows, d), dtype), random((n, d), dtype, 1), random((n, d), dtype, 2)
        yield Case(
            f"attention {rows}x{n}x{d} {np.dtype(dtype)} {warps}", attention, (1,),
            [q, k, v, np.zeros((rows, d), np.float32), n],
            {"M": rows, "N": 64, "D": d, "num_warps": warps}, 2e-2,
        )  # fmt: skip
    yield from loops()


def loops() -> Iterator[Case]:
    blocks: dict[str, Any] = {"M": 64, "N": 64, "K": 32, "num_warps": 4}
    for n in (0, 1, 4):
        for dtype in (F16, F32, np.int8, E4):
            x, y = random((32 * n, 64), dtype), random((64, 32 * n), dtype, 1)
            out = np.zeros((64, 64), np.int32 if dtype is np.int8 else F32)
            yield Case(
                f"turned products {n} {np.dtype(dtype)}", transposed, (1,), [x, y, out, n],
                blocks, 4e-2,
            )  # fmt: skip
            x, y = random((64, 32 * n), dtype, 2), random((64, 32 * n), dtype, 3)
            yield Case(
                f"rows times rows {n} {np.dtype(dtype)}", rows_times_rows, (1,),
                [x, y, np.zeros_like(out), n], blocks, 2e-2,
            )  # fmt: skip
    for columns, inner, dtype in ((64, 160, F16), (48, 76, BF16)):
        x, y = random((64, inner), dtype), random((inner, columns), np.int8, 1)
        scales = random((-(-inner // 32), columns), F32, 2) / 64
        yield Case(
            f"quantized {columns}x{inner}", quantized, (1,),
            [x, y, scales, np.zeros((64, columns), F32), columns, inner], blocks, 2e-2,
        )  # fmt: skip
    for stages in (2, 3):
        yield product_of(
            random((72, 160), F32), random((160, 64), F32, 1), {**blocks, "num_stages": stages}
        )
    x, y = random((256, 96), BF16), random((96, 64), BF16, 1)
    yield Case(
        "persistent", persistent, (2,), [x, y, np.zeros((256, 64), np.float32), 256, 96],
        blocks, 2e-2,
    )  # fmt: skip
    x, y, w = random((64, 160), F16), random((160, 64), F16, 1), random((160, 64), F16, 2)
    yield Case(
        "two sums", two_sums, (1,), [x, y, w, np.zeros((64, 64), np.float32), 160], blocks, 2e-2
    )
    x, y = random((256, 32), F16), random((32, 64), F16, 1)
    yield Case("held", held, (1,), [x, y, np.zeros((256, 64), np.float32), 256], blocks, 1e-2)
