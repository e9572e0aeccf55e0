"""Cases whose kernels compute in loops, or much for each element."""

from __future__ import annotations

import numpy as np
import triton
from case import OURS, Case, Run, empty, normal
from loop_sources import (
    distances_kernel,
    polynomial_kernel,
    power_kernel,
    rows_times_vector_kernel,
)
from peers import looped, prange, present, tensor, torch

DEGREE = 15


def distances_case(m: int, n: int, depth: int) -> Case:
    def make() -> Run:
        x, y = normal(m, depth), normal(depth, n, seed=1)
        outs = [empty(m, n) for _ in range(2)]
        tx, ty = tensor(x), tensor(np.ascontiguousarray(y.T))
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 64))
        loop = looped(distances_loop)

        def ours():
            distances_kernel[grid](x, y, outs[0], m, n, depth, M=32, N=64)
            return outs[0]

        mode = "donot_use_mm_for_euclid_dist"
        calls = present(
            torch=lambda: torch.cdist(tx, ty, compute_mode=mode),
            numba=loop and (lambda: loop(x, y, outs[1])),
        )

        def reference():
            columns = (x[:, k, None].astype(np.float64) - y[k] for k in range(depth))
            return np.sqrt(sum(difference**2 for difference in columns))

        return Run({OURS: ours, **calls}, reference)

    moved = 4 * (m * depth + depth * n + m * n)
    return Case("distances", f"{m}x{n}x{depth}", make, moved, 3 * m * n * depth)


def distances_loop(x, y, out):
    m, depth = x.shape
    n = y.shape[1]
    for i in prange(m):
        out[i] = 0
        for k in range(depth):
            for j in range(n):
                out[i, j] += (x[i, k] - y[k, j]) ** 2
        for j in range(n):
            out[i, j] = np.sqrt(out[i, j])
    return out


def polynomial_case(power: int) -> Case:
    n = 2**power

    def make() -> Run:
        x, factors = normal(n) / 4, normal(DEGREE + 1, seed=1)
        outs = [empty(n) for _ in range(2)]
        grid = (triton.cdiv(n, 1024),)
        loop = looped(polynomial_loop)

        def ours():
            polynomial_kernel[grid](x, factors, outs[0], n, DEGREE=DEGREE, BLOCK=1024)
            return outs[0]

        calls = present(numba=loop and (lambda: loop(x, factors, outs[1])))
        return Run({OURS: ours, **calls}, lambda: np.polyval(factors, x.astype(np.float64)))

    return Case(f"polynomial of degree {DEGREE}", f"2^{power}", make, 8 * n, 2 * DEGREE * n)


def polynomial_loop(x, factors, out):
    for i in prange(x.size):
        total = np.float32(0)
        for k in range(factors.size):
            total = total * x[i] + factors[k]
        out[i] = total
    return out


def rows_times_vector_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, v = normal(rows, cols), normal(cols, seed=1)
        out, n_out = empty(rows), empty(rows)
        tx, tv, t_out = map(tensor, (x, v, empty(rows)))
        grid = (triton.cdiv(rows, 16),)

        def ours():
            rows_times_vector_kernel[grid](x, v, out, rows, cols, M=16, N=128)
            return out

        calls = present(
            torch=lambda: torch.mv(tx, tv, out=t_out), numpy=lambda: np.dot(x, v, out=n_out)
        )
        return Run({OURS: ours, **calls}, lambda: x.astype(np.float64) @ v, 1e-4)

    return Case("rows times a vector", f"{rows}x{cols}", make, 4 * rows * cols, 2 * rows * cols)


def power_case(power: int) -> Case:
    n = 2**power

    def make() -> Run:
        x, y = np.abs(normal(n)) + np.float32(0.1), 2 * normal(n, seed=1)
        outs = [empty(n) for _ in range(3)]
        tx, ty, t_out = tensor(x), tensor(y), tensor(outs[1])
        grid = (triton.cdiv(n, 1024),)

        def ours():
            power_kernel[grid](x, y, outs[0], n, BLOCK=1024)
            return outs[0]

        calls = present(
            torch=lambda: torch.pow(tx, ty, out=t_out),
            numpy=lambda: np.power(x, y, out=outs[2]),
        )
        return Run({OURS: ours, **calls}, lambda: x.astype(np.float64) ** y)

    return Case("power", f"2^{power}", make, 12 * n, 40 * n)


CASES = [
    distances_case(128, 128, 64), distances_case(512, 512, 128),
    polynomial_case(16), polynomial_case(22),
    rows_times_vector_case(64, 1000), rows_times_vector_case(1000, 1000),
    rows_times_vector_case(2048, 1024),
    power_case(16), power_case(22),
]  # fmt: skip
