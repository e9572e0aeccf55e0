"""Cases whose indices are taken apart, lie apart or meet: broadcasts, images, gradients by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import triton
from case import OURS, Case, Run, empty, normal
from flat_sources import (
    add_bias_kernel,
    batch_norm_kernel,
    bias_tiles_kernel,
    channels_kernel,
    embedding_backward_kernel,
    group_norm_kernel,
    join_rows_kernel,
    max_pool_kernel,
    permute_kernel,
    reverse_kernel,
    rope_pairs_kernel,
    scale_rows_kernel,
    scatter_kernel,
    sum_middle_kernel,
    unpack_kernel,
)
from peers import present, tensor, torch

BLOCK = 1024


def blocks(n: int) -> tuple[int]:
    return (triton.cdiv(n, BLOCK),)


def row_case(kernel: Callable, name: str, rows: int, cols: int) -> Case:
    """A number for each row (the factor) or each column (the summand)."""

    def make() -> Run:
        by_row = kernel is scale_rows_kernel
        x, out, n_out = normal(rows, cols), empty(rows, cols), empty(rows, cols)
        y = normal(*((rows, 1) if by_row else (1, cols)), seed=1)
        tx, ty, t_out = tensor(x), tensor(y), tensor(empty(rows, cols))
        combine = np.multiply if by_row else np.add

        def ours():
            kernel[blocks(x.size)](x, y, out, x.size, cols, BLOCK=BLOCK)
            return out

        calls = present(
            torch=lambda: (torch.mul if by_row else torch.add)(tx, ty, out=t_out),
            numpy=lambda: combine(x, y, out=n_out),
        )
        return Run({OURS: ours, **calls}, lambda: combine(x.astype(np.float64), y))

    return Case(name, f"{rows}x{cols}", make, 8 * rows * cols)


def unpack_case(n: int, group: int = 64) -> Case:
    def make() -> Run:
        x = np.random.default_rng(0).integers(0, 256, n // 2, np.uint8)
        scale, out = normal(n // group), empty(n)
        tx, t_scale = tensor(x), tensor(scale)

        def ours():
            unpack_kernel[(triton.cdiv(n, BLOCK),)](x, scale, out, n, GROUP=group, BLOCK=BLOCK)
            return out

        def with_torch():
            codes = torch.stack([tx & 15, tx >> 4], 1).reshape(-1, group)
            return ((codes.float() - 8) * t_scale[:, None]).reshape(-1)

        def with_numpy():
            codes = np.stack([x & 15, x >> 4], 1).reshape(-1, group).astype(np.float32)
            return ((codes - 8) * scale[:, None]).reshape(-1)

        calls = present(torch=with_torch, numpy=with_numpy)
        return Run({OURS: ours, **calls}, with_numpy, 0)

    return Case("weights of 4 bits", f"{n}", make, n // 2 + 4 * n)


def channels_case(images: int, channels: int, side: int) -> Case:
    def make() -> Run:
        x, out = normal(images, channels, side, side), empty(images, channels, side, side)
        w, b = normal(channels), normal(channels, seed=1)
        tx, tw, tb = tensor(x), tensor(w)[:, None, None], tensor(b)[:, None, None]

        def ours():
            channels_kernel[blocks(x.size)](
                x, w, b, out, x.size, side * side, channels, BLOCK=BLOCK
            )
            return out

        def with_numpy():
            return x * w[:, None, None] + b[:, None, None]

        calls = present(torch=lambda: torch.addcmul(tb, tx, tw), numpy=with_numpy)
        return Run({OURS: ours, **calls}, with_numpy)

    n = images * channels * side * side
    return Case("channel affine", f"{images}x{channels}x{side}x{side}", make, 8 * n)


def permute_case(shape: tuple[int, int, int], order: tuple[int, int, int]) -> Case:
    def make() -> Run:
        x = normal(*shape)
        view = x.transpose(order)
        out, n_out = empty(*view.shape), empty(*view.shape)
        t_view, t_out = tensor(x).permute(order), tensor(empty(*view.shape))
        strides = [s // 4 for s in view.strides]

        def ours():
            permute_kernel[blocks(x.size)](x, out, x.size, *view.shape[1:], *strides, BLOCK=BLOCK)
            return out

        def with_numpy():
            n_out[...] = view
            return n_out

        calls = present(torch=lambda: t_out.copy_(t_view), numpy=with_numpy)
        return Run({OURS: ours, **calls}, lambda: view, 0)

    name = f"permute {''.join(map(str, order))}, flat"
    return Case(name, "x".join(map(str, shape)), make, 8 * int(np.prod(shape)))


def norm_case(kind: str, images: int, channels: int, side: int, groups: int = 16) -> Case:
    def make() -> Run:
        x = normal(images, channels, side, side)
        y, w, b = empty(*x.shape), normal(channels), normal(channels, seed=1)
        tx, tw, tb = map(tensor, (x, w, b))
        axes = (0, 2, 3) if kind == "batch" else (2, 3, 4)

        def ours():
            if kind == "batch":
                batch_norm_kernel[(channels,)](
                    x, y, w, b, images, channels, side * side, 1e-5, BLOCK=512
                )
            else:
                each = channels // groups
                group_norm_kernel[(images * groups,)](
                    x, y, w, b, each, side * side, groups, 1e-5,
                    BLOCK=triton.next_power_of_2(each * side * side),
                )  # fmt: skip
            return y

        def with_torch():
            if kind == "batch":
                return torch.nn.functional.batch_norm(tx, None, None, tw, tb, True)
            return torch.nn.functional.group_norm(tx, groups, tw, tb)

        def reference():
            wide = x.astype(np.float64)
            if kind == "group":
                wide = wide.reshape(images, groups, channels // groups, side, side)
            mean = wide.mean(axes, keepdims=True)
            normal_x = (wide - mean) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
            return normal_x.reshape(x.shape) * w[:, None, None] + b[:, None, None]

        return Run({OURS: ours, **present(torch=with_torch)}, reference, 1e-4)

    n = images * channels * side * side
    return Case(f"{kind} norm", f"{images}x{channels}x{side}x{side}", make, 8 * n)


def max_pool_case(images: int, channels: int, side: int) -> Case:
    def make() -> Run:
        x = normal(images, channels, side, side)
        out, tx = empty(images, channels, side // 2, side // 2), tensor(x)

        def ours():
            max_pool_kernel[blocks(out.size)](x, out, out.size, side, side, BLOCK=BLOCK)
            return out

        def with_numpy():
            return x.reshape(images, channels, side // 2, 2, side // 2, 2).max((3, 5))

        calls = present(torch=lambda: torch.nn.functional.max_pool2d(tx, 2), numpy=with_numpy)
        return Run({OURS: ours, **calls}, with_numpy, 0)

    n = images * channels * side * side
    return Case("max pool 2x2", f"{images}x{channels}x{side}x{side}", make, 5 * n)


def rope_pairs_case(tokens: int, heads: int, dim: int) -> Case:
    def make() -> Run:
        x, out = normal(tokens, heads, dim), empty(tokens, heads, dim)
        cos, sin = normal(tokens, dim // 2), normal(tokens, dim // 2, seed=1)
        tx, t_cos, t_sin = tensor(x), tensor(cos)[:, None], tensor(sin)[:, None]

        def rotated(stack, x, cos, sin):
            x, y = x[..., ::2], x[..., 1::2]
            return stack([x * cos - y * sin, y * cos + x * sin], -1).reshape(tokens, heads, dim)

        def ours():
            rope_pairs_kernel[(tokens, heads)](x, cos, sin, out, heads, dim, HALF=dim // 2)
            return out

        def with_numpy():
            return rotated(np.stack, x, cos[:, None], sin[:, None])

        calls = present(torch=lambda: rotated(torch.stack, tx, t_cos, t_sin), numpy=with_numpy)
        return Run({OURS: ours, **calls}, with_numpy)

    n = tokens * heads * dim
    return Case("rope of pairs", f"{tokens}x{heads}x{dim}", make, 8 * n + 4 * tokens * dim)


def reverse_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out, n_out = normal(rows, cols), empty(rows, cols), empty(rows, cols)
        tx = tensor(x)

        def ours():
            reverse_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
            return out

        def with_numpy():
            n_out[...] = x[:, ::-1]
            return n_out

        calls = present(torch=lambda: tx.flip(1), numpy=with_numpy)
        return Run({OURS: ours, **calls}, lambda: x[:, ::-1], 0)

    return Case("reverse", f"{rows}x{cols}", make, 8 * rows * cols)


def embedding_backward_case(words: int, dim: int, tokens: int) -> Case:
    def make() -> Run:
        grad, table, t_table = normal(tokens, dim), empty(words, dim), empty(words, dim)
        index = np.random.default_rng(1).integers(0, words, tokens)
        tg, ti, tt = tensor(grad), tensor(index), tensor(t_table)

        def ours():
            table.fill(0)
            block = triton.next_power_of_2(dim)
            embedding_backward_kernel[(tokens,)](grad, index, table, dim, BLOCK=block)
            return table

        def reference():
            out = np.zeros((words, dim))
            np.add.at(out, index, grad)
            return out

        calls = present(torch=lambda: tt.zero_().index_add_(0, ti, tg))
        return Run({OURS: ours, **calls}, reference)

    return Case("embedding backward", f"{tokens} of {words}x{dim}", make, 12 * tokens * dim)


def sum_middle_case(shape: tuple[int, int, int]) -> Case:
    def make() -> Run:
        x = normal(*shape)
        count, depth, cols = shape
        out, n_out = empty(count, cols), empty(count, cols)
        tx, t_out = tensor(x), tensor(empty(count, cols))

        def ours():
            grid = (count, triton.cdiv(cols, 64))
            sum_middle_kernel[grid](x, out, depth, cols, ROWS=16, COLS=64)
            return out

        calls = present(
            torch=lambda: torch.sum(tx, 1, out=t_out), numpy=lambda: np.sum(x, 1, out=n_out)
        )
        return Run({OURS: ours, **calls}, lambda: x.sum(axis=1, dtype=np.float64), 1e-4)

    return Case("sum over the middle", "x".join(map(str, shape)), make, 4 * int(np.prod(shape)))


def join_rows_case(rows: int, first: int, second: int) -> Case:
    def make() -> Run:
        a, b, out = normal(rows, first), normal(rows, second, seed=1), empty(rows, first + second)
        n_out, ta, tb, t_out = empty(*out.shape), tensor(a), tensor(b), tensor(empty(*out.shape))

        def ours():
            block = triton.next_power_of_2(first + second)
            join_rows_kernel[(rows,)](a, b, out, first, second, BLOCK=block)
            return out

        calls = present(
            torch=lambda: torch.cat([ta, tb], 1, out=t_out),
            numpy=lambda: np.concatenate([a, b], 1, out=n_out),
        )
        return Run({OURS: ours, **calls}, lambda: np.concatenate([a, b], 1), 0)

    n = rows * (first + second)
    return Case("rows side by side", f"{rows}x{first}+{second}", make, 8 * n)


def bias_tiles_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, bias, out = normal(rows, cols), normal(cols, seed=1), empty(rows, cols)
        n_out, tx, tb, t_out = empty(rows, cols), tensor(x), tensor(bias), tensor(empty(rows, cols))

        def ours():
            grid = (triton.cdiv(rows, 32), triton.cdiv(cols, 64))
            bias_tiles_kernel[grid](x, bias, out, rows, cols, ROWS=32, COLS=64)
            return out

        calls = present(
            torch=lambda: torch.add(tx, tb, out=t_out), numpy=lambda: np.add(x, bias, out=n_out)
        )
        return Run({OURS: ours, **calls}, lambda: x + bias, 0)

    return Case("bias, 32x64 tiles", f"{rows}x{cols}", make, 8 * rows * cols)


def scatter_case(n: int) -> Case:
    def make() -> Run:
        x, out, n_out = normal(n), empty(n), empty(n)
        index = np.random.default_rng(1).permutation(n)
        tx, ti, t_out = tensor(x), tensor(index), tensor(empty(n))

        def ours():
            scatter_kernel[blocks(n)](x, index, out, n, BLOCK=BLOCK)
            return out

        def with_numpy():
            n_out[index] = x
            return n_out

        calls = present(torch=lambda: t_out.scatter_(0, ti, tx), numpy=with_numpy)
        return Run({OURS: ours, **calls}, with_numpy, 0)

    return Case("scatter", f"{n}", make, 16 * n)


CASES = [
    row_case(scale_rows_kernel, "rows by //", 64, 1000),
    row_case(scale_rows_kernel, "rows by //", 1024, 1000),
    row_case(scale_rows_kernel, "rows by //", 1024, 64),
    row_case(scale_rows_kernel, "rows by //", 8192, 7),
    unpack_case(1 << 18),
    row_case(add_bias_kernel, "bias by %", 64, 1000),
    row_case(add_bias_kernel, "bias by %", 1024, 1000),
    row_case(add_bias_kernel, "bias by %", 8192, 7),
    channels_case(1, 64, 28),
    channels_case(16, 64, 28),
    permute_case((16, 16, 256), (1, 0, 2)),
    permute_case((64, 64, 256), (1, 0, 2)),
    permute_case((64, 64, 256), (0, 2, 1)),
    norm_case("group", 4, 64, 16),
    norm_case("group", 4, 256, 7),
    norm_case("batch", 4, 64, 28),
    max_pool_case(1, 32, 56),
    rope_pairs_case(128, 8, 64),
    reverse_case(128, 1024),
    embedding_backward_case(512, 256, 256),
    sum_middle_case((4, 64, 256)),
    sum_middle_case((16, 256, 256)),
    join_rows_case(128, 600, 400),
    join_rows_case(4096, 600, 400),
    bias_tiles_case(256, 256),
    bias_tiles_case(4096, 1000),
    scatter_case(2**16),
    scatter_case(2**20),
]
