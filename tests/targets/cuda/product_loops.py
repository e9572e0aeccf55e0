"""Loops around products, whose loads may run ahead of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from launch_case import Case, random

import tilewright as tw
from tilewright import language as tl

HALVES = (np.float16, ml_dtypes.bfloat16)
BYTES = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@tw.jit
def matmul(x, y, z, rows, columns, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.program_id(0) * M + tl.arange(0, M)
    j = tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    xs = x + i[:, None] * inner + k[None, :]
    ys = y + k[:, None] * columns + j[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, inner, K):
        inside = inner - start
        left = tl.load(xs, mask=(i[:, None] < rows) & (k[None, :] < inside), other=0.0)
        right = tl.load(ys, mask=(k[:, None] < inside) & (j[None, :] < columns), other=0.0)
        total = tl.dot(left, right, total)
        xs += K
        ys += K * columns
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(z + i[:, None] * columns + j[None, :], total, mask=mask)


@tw.jit
def transposed(x, y, z, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """x [K n, M] turned, y [N, K n] turned, and the number of the turn in what is added."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), z.dtype.element_ty)
    for turn in range(n):
        left = tl.load(x + (turn * K + k[:, None]) * M + i[None, :])
        right = tl.load(y + j[:, None] * n * K + turn * K + k[None, :])
        total += tl.dot(left.T, right.T, out_dtype=z.dtype.element_ty) * (turn + 1)
    tl.store(z + i[:, None] * N + j[None, :], total)


@tw.jit
def attention(q, k, v, out, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    queries = tl.load(q + i[:, None] * D + d[None, :])
    top = tl.full((M,), float("-inf"), tl.float32)
    whole = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    for start in tl.range(0, n, N, num_stages=2):
        inside = start + j < n
        keys = tl.load(k + (start + j)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        score = tl.dot(queries, tl.trans(keys)) * 0.125
        score = tl.where(inside[None, :], score, float("-inf"))
        above = tl.maximum(top, tl.max(score, 1))
        weights = tl.exp(score - above[:, None])
        scale = tl.exp(top - above)
        values = tl.load(v + (start + j)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        total = tl.dot(weights.to(v.dtype.element_ty), values, total * scale[:, None])
        whole = whole * scale + tl.sum(weights, 1)
        top = above
    tl.store(out + i[:, None] * D + d[None, :], total / whole[:, None])


@tw.jit
def persistent(x, y, z, rows, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Tiles of the rows in an outer loop; what is loaded also is summed in every other one."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    for tile in range(tl.program_id(0), rows // M, tl.num_programs(0)):
        total = tl.zeros((M, N), tl.float32)
        for start in range(0, inner, K):
            left = tl.load(x + (tile * M + i[:, None]) * inner + start + k[None, :])
            right = tl.load(y + (start + k[:, None]) * N + j[None, :])
            total = tl.dot(left, right, total)
            if tile % 2 == 1:
                total += tl.sum(left.to(tl.float32), 1)[:, None]
        tl.store(z + (tile * M + i[:, None]) * N + j[None, :], total)


@tw.jit
def in_place(x, y, n, M: tl.constexpr):
    """Each turn multiplies what the turn before has stored."""
    i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    for turn in range(n):
        left = tl.load(x + turn * M * M + i * M + j)
        right = tl.load(y + i * M + j)
        found = tl.dot(left, right) * 0.125
        tl.store(x + (turn + 1) * M * M + i * M + j, found.to(x.dtype.element_ty))


@tw.jit
def gathered(x, rows, y, blocks, out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Rows of x by a tile of indices in each turn, and blocks of y by a scalar one."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for turn in range(n):
        row = tl.load(rows + turn * M + i, mask=i < M - 3, other=0)
        left = tl.load(x + row[:, None] * K + k[None, :], mask=(i < M - 3)[:, None], other=0.0)
        block = tl.load(blocks + turn)
        right = tl.load(y + (block * K + k[:, None]) * N + j[None, :])
        total = tl.dot(left, right, total) + block
    tl.store(out + i[:, None] * N + j[None, :], total)


@tw.jit
def chosen(x, rows, y, out, count, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Rows that are chosen once for all turns; those from `count` on lie nowhere."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    on = i < count
    row = tl.load(rows + i).to(tl.int64)
    xs = x + row[:, None] * inner + k[None, :]
    ys = y + k[:, None] * N + j[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, inner, K):
        inside = inner - start
        left = tl.load(xs, mask=on[:, None] & (k[None, :] < inside), other=0.0)
        right = tl.load(ys, mask=k[:, None] < inside, other=0.0)
        total = tl.dot(left, right, total)
        xs += K
        ys += K * N
    tl.store(out + i[:, None] * N + j[None, :], total)


@tw.jit
def states(x, y, out, n, M: tl.constexpr, N: tl.constexpr):
    """Each turn stores what it has found, and adds to a state."""
    i, j, d = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :], tl.arange(0, N)[None, :]
    state = tl.zeros((M, N), tl.float32)
    for turn in range(n):
        left = tl.load(x + turn * M * M + i * M + j)
        right = tl.load(y + turn * M * N + i * N + d)
        state = tl.dot(left, right, state)
        tl.store(out + turn * M * N + i * N + d, (state * 0.25).to(out.dtype.element_ty))


def cases() -> Iterator[Case]:
    sizes = ((32, 32, 16), (32, 32, 64), (48, 40, 80), (33, 64, 100), (64, 24, 40))
    for (rows, columns, inner), dtype in zip(sizes, [*HALVES, np.float32, *HALVES], strict=True):
        x, y = random((rows, inner), dtype), random((inner, columns), dtype, 1)
        yield product_of(x, y, {"M": 32, "N": 32, "K": 32})
    x, y = random((64, 288), np.float16), random((288, 128), np.float16, 1)
    for stages in (1, 2, 4):
        yield product_of(x, y, {"M": 64, "N": 64, "K": 32, "num_stages": stages})
    for dtype in (*HALVES, np.int8, *BYTES, np.float64):
        for n in (0, 1, 5):
            x, y = random((32 * n, 32), dtype), random((64, 32 * n), dtype, 1)
            sums = {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32)
            out = np.zeros((32, 64), sums)
            yield Case(
                f"turned products {n} {np.dtype(dtype)}", transposed, (1,), [x, y, out, n],
                {"M": 32, "N": 64, "K": 32}, 1e-2,
            )  # fmt: skip
    for n, dtype in ((64, np.float16), (70, ml_dtypes.bfloat16)):
        q, k, v = random((32, 32), dtype), random((n, 32), dtype, 1), random((n, 32), dtype, 2)
        yield Case(
            f"attention {n} {np.dtype(dtype)}", attention, (1,),
            [q, k, v, np.zeros((32, 32), np.float32), n], {"M": 32, "N": 32, "D": 32}, 2e-2,
        )  # fmt: skip
    x, y = random((128, 96), np.float16), random((96, 32), np.float16, 1)
    yield Case(
        "products of persistent programs", persistent, (2,),
        [x, y, np.zeros((128, 32), np.float32), 128, 96], {"M": 32, "N": 32, "K": 32}, 1e-2,
    )  # fmt: skip
    x = np.concatenate([random((1, 32, 32), np.float16), np.zeros((4, 32, 32), np.float16)])
    yield Case(
        "products in place", in_place, (1,), [x, random((32, 32), np.float16, 1), 4], {"M": 32},
        1e-2,
    )  # fmt: skip

    for inner in (16, 96, 144):
        size = {"M": 32, "N": 32, "K": 32, "num_stages": 3}
        yield Case(f"chosen rows {inner}", chosen, (1,), chosen_rows(inner), size, 1e-2)
    for n in (0, 1, 2, 6):
        size = {"M": 32, "N": 32, "K": 32, "num_stages": 3}
        rows, blocks = random((n, 32), np.int32) % 40, random((n,), np.int64) % 5
        x, y = random((40, 32), np.float16), random((5, 32, 32), np.float16, 1)
        out = np.zeros((32, 32), np.float32)
        yield Case(
            f"gathered products {n}", gathered, (1,), [x, rows, y, blocks, out, n], size, 1e-2
        )
        x, y = random((n, 32, 32), np.float16), random((n, 32, 64), np.float16, 1)
        yield Case(
            f"products of states {n}", states, (1,), [x, y, y * 0, n], {"M": 32, "N": 64}, 1e-2
        )


def chosen_rows(inner: int, count: int = 28, far: int = 39) -> list[Any]:
    """Arguments of `chosen`: of 40 rows, but that one is `far`; rows that are off are further."""
    rows = random((32,), np.int32) % 40
    rows[5], rows[count:] = far, 1 << 20
    x, y = random((40, inner), np.float16), random((inner, 32), np.float16, 1)
    return [x, rows, y, np.zeros((32, 32), np.float32), count, inner]


def product_of(x: np.ndarray, y: np.ndarray, constants: dict[str, Any]) -> Case:
    rows, inner = x.shape
    columns = y.shape[1]
    grid = (-(-rows // constants["M"]), -(-columns // constants["N"]))
    name = f"matmul {rows}x{columns}x{inner} {x.dtype} {constants.get('num_stages', '')}".strip()
    out = np.zeros((rows, columns), np.float32)
    return Case(name, matmul, grid, [x, y, out, rows, columns, inner], constants, 1e-2)
