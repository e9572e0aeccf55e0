"""Cases whose kernels move data: gathers, scatters, transposes."""

from __future__ import annotations

import numpy as np
import triton
from case import OURS, Case, Run, empty, example, normal
from peers import looped, prange, present, tensor, torch
from sources import embedding_kernel, gather_kernel

histogram, transpose = map(example, ("histogram", "transpose"))


def transpose_case(rows: int, cols: int, dtype: type, block: int = 64) -> Case:
    def make() -> Run:
        x, y = (10 * normal(rows, cols)).astype(dtype), empty(cols, rows, dtype=dtype)
        n_y, tx, t_y = empty(cols, rows, dtype=dtype), tensor(x), tensor(y.copy())
        grid = (triton.cdiv(rows, block), triton.cdiv(cols, block))

        def ours():
            kernel = transpose.transpose_kernel
            kernel[grid](x, y, rows, cols, BLOCK_R=block, BLOCK_C=block)
            return y

        def with_numpy():
            n_y[...] = x.T
            return n_y

        calls = present(torch=lambda: t_y.copy_(tx.T), numpy=with_numpy)
        return Run({OURS: ours, **calls}, lambda: x.T, 0)

    size = np.dtype(dtype).itemsize
    name = f"transpose {np.dtype(dtype).name}"
    return Case(name, f"{rows}x{cols}", make, 2 * size * rows * cols)


def embedding_case(words: int, dim: int, tokens: int) -> Case:
    def make() -> Run:
        table, out, n_out = normal(words, dim), empty(tokens, dim), empty(tokens, dim)
        index = np.random.default_rng(1).integers(0, words, tokens)
        tt, ti, t_out = tensor(table), tensor(index), tensor(empty(tokens, dim))

        def ours():
            block = triton.next_power_of_2(dim)
            embedding_kernel[(tokens,)](table, index, out, dim, BLOCK=block)
            return out

        calls = present(
            torch=lambda: torch.index_select(tt, 0, ti, out=t_out),
            numpy=lambda: np.take(table, index, axis=0, out=n_out, mode="clip"),
        )
        return Run({OURS: ours, **calls}, lambda: table[index], 0)

    return Case("embedding", f"{tokens} of {words}x{dim}", make, tokens * (8 * dim + 8))


def gather_case(source: int, count: int) -> Case:
    def make() -> Run:
        x, out, n_out, b_out = normal(source), empty(count), empty(count), empty(count)
        index = np.random.default_rng(1).integers(0, source, count).astype(np.int32)
        tx, ti, t_out = tensor(x), tensor(index), tensor(empty(count))
        grid = (triton.cdiv(count, 1024),)
        loop = looped(gather_loop)

        def ours():
            gather_kernel[grid](x, index, out, count, BLOCK=1024)
            return out

        calls = present(
            torch=lambda: torch.index_select(tx, 0, ti, out=t_out),
            numpy=lambda: np.take(x, index, out=n_out, mode="clip"),
            numba=loop and (lambda: loop(x, index, b_out)),
        )
        return Run({OURS: ours, **calls}, lambda: x[index], 0)

    return Case("gather", f"{count} of {source}", make, 12 * count)


def gather_loop(x, index, out):
    for i in prange(out.size):
        out[i] = x[index[i]]
    return out


def histogram_case(private: bool, n: int, bins: int) -> Case:
    def make() -> Run:
        x, out = histogram.inputs(n, bins), empty(bins, dtype=np.int32)
        tx, grid = tensor(x), (triton.cdiv(n, 1024),)

        def ours():
            out.fill(0)
            if private:
                histogram.private_kernel[grid](x, out, n, BINS=bins, BLOCK=1024)
            else:
                histogram.scatter_kernel[grid](x, out, n, BLOCK=1024)
            return out

        calls = present(
            torch=lambda: torch.bincount(tx, minlength=bins),
            numpy=lambda: np.bincount(x, minlength=bins),
        )
        return Run({OURS: ours, **calls}, lambda: np.bincount(x, minlength=bins), 0)

    name = "histogram, private" if private else "histogram, atomic"
    return Case(name, f"{n} in {bins}", make, 4 * n)


CASES = [
    transpose_case(1024, 1024, np.float32),
    transpose_case(4032, 4160, np.float32),
    transpose_case(1024, 1024, np.float16),
    transpose_case(1024, 1024, np.int8),
    transpose_case(1823, 781, np.float32),
    embedding_case(32000, 1024, 4096),
    gather_case(2**12, 2**20),
    gather_case(2**24, 2**20),
    histogram_case(False, 2**20, 256),
    histogram_case(True, 2**20, 256),
]
