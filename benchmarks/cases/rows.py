"""Cases whose kernels normalise, reduce or scan rows."""

from __future__ import annotations

import numpy as np
import peers
import triton
from case import OURS, Case, Run, empty, example, normal
from peers import looped, prange, present, tensor, torch
from sources import (
    layer_norm_backward_kernel,
    layer_norm_kernel,
    sum_cols_kernel,
    sum_rows_kernel,
)

argmax, cross_entropy, layer_norm = map(example, ("argmax", "cross_entropy", "layer_norm"))
prefix_sum, rms_norm, softmax = map(example, ("prefix_sum", "rms_norm", "softmax"))


def softmax_case(rows: int, cols: int, persistent: bool = False) -> Case:
    def make() -> Run:
        x, out, n_out = normal(rows, cols), empty(rows, cols), empty(rows, cols)
        tx, t_out = tensor(x), tensor(empty(rows, cols))
        loop = looped(softmax_loop)
        function = softmax.softmax_persistent if persistent else softmax.softmax
        calls = present(
            torch=lambda: torch.softmax(tx, 1, out=t_out),
            numpy=lambda: softmax.softmax_naive(x),
            numba=loop and (lambda: loop(x, n_out)),
        )
        ours = {OURS: lambda: function(x, out)}
        return Run({**ours, **calls}, lambda: softmax.softmax_naive(x.astype(np.float64)), 2e-6)

    name = "softmax persistent" if persistent else "softmax"
    return Case(name, f"{rows}x{cols}", make, 8 * rows * cols, 20 * rows * cols)


def softmax_loop(x, out):
    rows, cols = x.shape
    for i in prange(rows):
        highest = x[i, 0]
        for j in range(cols):
            highest = max(highest, x[i, j])
        total = np.float32(0)
        for j in range(cols):
            out[i, j] = np.exp(x[i, j] - highest)
            total += out[i, j]
        for j in range(cols):
            out[i, j] /= total
    return out


def layer_norm_case(rows: int, cols: int, block: int = 0) -> Case:
    """With `block` in chunks of so many columns, as rows longer than a tile need it."""

    def make() -> Run:
        x, w, b, _ = layer_norm.inputs(rows, cols)
        y, n_y = empty(rows, cols), empty(rows, cols)
        mean, scale = empty(rows), empty(rows)
        tx, tw, tb, ty = map(tensor, (x, w, b, empty(rows, cols)))
        t_mean, t_scale = tensor(empty(rows, 1)), tensor(empty(rows, 1))
        loop = looped(layer_norm_loop)
        kernel = layer_norm.forward_kernel if block else layer_norm_kernel
        width = block or triton.next_power_of_2(cols)

        def ours():
            kernel[(rows,)](x, w, b, y, mean, scale, cols, 1e-5, BLOCK=width)
            return y

        def with_torch():
            torch.ops.aten.native_layer_norm.out(
                tx, [cols], tw, tb, 1e-5, out0=ty, out1=t_mean, out2=t_scale
            )
            return ty

        calls = present(torch=with_torch, numba=loop and (lambda: loop(x, w, b, n_y)))
        reference = layer_norm.reference_forward
        return Run({OURS: ours, **calls}, lambda: reference(x, w, b)[0], 2e-5)

    name = "layer norm, chunks" if block else "layer norm"
    return Case(name, f"{rows}x{cols}", make, 8 * rows * cols, 8 * rows * cols)


def layer_norm_loop(x, w, b, y):
    rows, cols = x.shape
    for i in prange(rows):
        total = np.float32(0)
        for j in range(cols):
            total += x[i, j]
        mean = total / np.float32(cols)
        squares = np.float32(0)
        for j in range(cols):
            squares += (x[i, j] - mean) ** 2
        scale = np.float32(1) / np.sqrt(squares / np.float32(cols) + np.float32(1e-5))
        for j in range(cols):
            y[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]
    return y


def layer_norm_backward_case(rows: int, cols: int, rows_each: int = 0) -> Case:
    """With `rows_each` a program takes so many rows; without it one, and a lock for its sums."""

    def make() -> Run:
        x, w, b, dy = layer_norm.inputs(rows, cols)
        _, mean, scale = layer_norm.forward(x, w, b)
        tx, tw, tb, t_dy = map(tensor, (x, w, b, dy))
        t_mean, t_scale = tensor(mean[:, None]), tensor(scale[:, None])
        outs = [tensor(v) for v in (empty(rows, cols), empty(cols), empty(cols))]

        def with_torch():
            torch.ops.aten.native_layer_norm_backward.out(
                t_dy, tx, [cols], t_mean, t_scale, tw, tb, [True] * 3,
                out0=outs[0], out1=outs[1], out2=outs[2],
            )  # fmt: skip
            return outs

        programs = triton.cdiv(rows, rows_each or rows)
        dx, dw, db = empty(rows, cols), empty(cols), empty(cols)
        parts = [empty(programs, cols) for _ in range(2)]

        def in_groups():
            layer_norm_backward_kernel[(programs,)](
                dy, x, w, mean, scale, dx, *parts, rows, cols,
                ROWS=rows_each, BLOCK=triton.next_power_of_2(cols),
            )  # fmt: skip
            for part, out in zip(parts, (dw, db)):
                grid = (triton.cdiv(cols, 128),)
                sum_cols_kernel[grid](part, out, programs, cols, ROWS=32, COLS=128)
            return dx, dw, db

        def locked():
            return layer_norm.backward(dy, x, w, mean, scale)

        calls = {OURS: in_groups if rows_each else locked, **present(torch=with_torch)}
        return Run(calls, lambda: layer_norm.reference_backward(dy, x, w, b), 2e-3)

    name = "layer norm backward" + ("" if rows_each else ", lock")
    return Case(name, f"{rows}x{cols}", make, 12 * rows * cols, 16 * rows * cols)


def rms_norm_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, w = normal(rows, cols), normal(cols, seed=1)
        y, n_y, tx, tw = empty(rows, cols), empty(rows, cols), tensor(x), tensor(w)
        fused = peers.compiled(lambda x, w: torch.rms_norm(x, [cols], w, 1e-6))
        loop = looped(rms_norm_loop)

        def ours():
            rms_norm.rms_norm_kernel[(triton.cdiv(rows, 4),)](
                x, None, w, y, rows, cols, 1e-6,
                HAS_RESIDUAL=False, ROWS=4, BLOCK=triton.next_power_of_2(cols),
            )  # fmt: skip
            return y

        def reference():
            wide = x.astype(np.float64)
            return wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * w

        calls = present(
            torch=lambda: torch.rms_norm(tx, [cols], tw, 1e-6),
            compile=lambda: fused(tx, tw),
            numba=loop and (lambda: loop(x, w, n_y)),
        )
        return Run({OURS: ours, **calls}, reference)

    return Case("rms norm", f"{rows}x{cols}", make, 8 * rows * cols, 5 * rows * cols)


def rms_norm_loop(x, w, y):
    rows, cols = x.shape
    for i in prange(rows):
        squares = np.float32(0)
        for j in range(cols):
            squares += x[i, j] * x[i, j]
        scale = np.float32(1) / np.sqrt(squares / np.float32(cols) + np.float32(1e-6))
        for j in range(cols):
            y[i, j] = x[i, j] * scale * w[j]
    return y


def cross_entropy_case(tokens: int, vocab: int, block: int = 4096) -> Case:
    def make() -> Run:
        logits = normal(tokens, vocab)
        target = np.random.default_rng(1).integers(0, vocab, tokens)
        loss, grad = empty(tokens), empty(tokens, vocab)
        t_logits, t_target = tensor(logits), tensor(target)

        def ours():
            cross_entropy.cross_entropy_kernel[(tokens,)](
                logits, target, loss, grad, vocab, IGNORED=cross_entropy.IGNORED, BLOCK=block
            )
            return loss, grad

        def with_torch():
            with torch.enable_grad():
                x = t_logits.detach().requires_grad_()
                losses = torch.nn.functional.cross_entropy(x, t_target, reduction="none")
                losses.sum().backward()
            return losses, x.grad

        calls = {OURS: ours, **present(torch=with_torch)}
        return Run(calls, lambda: cross_entropy.reference_of(logits, target))

    n = tokens * vocab
    return Case("cross entropy, both ways", f"{tokens}x{vocab}", make, 8 * n, 40 * n)


def sum_case(axis: int, rows: int, cols: int) -> Case:
    def make() -> Run:
        x = normal(rows, cols)
        out, n_out = empty(x.shape[1 - axis]), empty(x.shape[1 - axis])
        tx, t_out = tensor(x), tensor(empty(x.shape[1 - axis]))

        def ours():
            if axis == 1:
                sum_rows_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
            else:
                sum_cols_kernel[(triton.cdiv(cols, 128),)](x, out, rows, cols, ROWS=32, COLS=128)
            return out

        calls = present(
            torch=lambda: torch.sum(tx, axis, out=t_out),
            numpy=lambda: np.sum(x, axis=axis, out=n_out),
        )
        return Run({OURS: ours, **calls}, lambda: x.sum(axis=axis, dtype=np.float64), 1e-4)

    return Case(f"sum over axis {axis}", f"{rows}x{cols}", make, 4 * rows * cols, rows * cols)


def cumsum_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out, n_out = normal(rows, cols), empty(rows, cols), empty(rows, cols)
        b_out, tx, t_out = empty(rows, cols), tensor(x), tensor(empty(rows, cols))
        loop = looped(cumsum_loop)

        def ours():
            kernel = prefix_sum.running_sum_kernel
            kernel[(rows,)](x, out, cols, REVERSE=False, BLOCK=1024)
            return out

        calls = present(
            torch=lambda: torch.cumsum(tx, 1, out=t_out),
            numpy=lambda: np.cumsum(x, axis=1, out=n_out),
            numba=loop and (lambda: loop(x, b_out)),
        )
        return Run({OURS: ours, **calls}, lambda: np.cumsum(x, 1, dtype=np.float64), 1e-3)

    return Case("cumsum", f"{rows}x{cols}", make, 8 * rows * cols, rows * cols)


def cumsum_loop(x, out):
    rows, cols = x.shape
    for i in prange(rows):
        total = np.float32(0)
        for j in range(cols):
            total += x[i, j]
            out[i, j] = total
    return out


def argmax_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        x = normal(rows, cols)
        tx = tensor(x)
        index, value = empty(rows, dtype=np.int32), empty(rows)

        def ours():
            block = triton.next_power_of_2(cols)
            argmax.argmax_kernel[(rows,)](x, index, value, cols, BLOCK=block)
            return index, value

        def with_torch():
            found = torch.max(tx, 1)
            return found.indices, found.values

        def with_numpy():
            found = np.argmax(x, axis=1)
            return found, np.take_along_axis(x, found[:, None], 1)[:, 0]

        return Run({OURS: ours, **present(torch=with_torch, numpy=with_numpy)}, with_numpy, 0)

    return Case("argmax", f"{rows}x{cols}", make, 4 * rows * cols, rows * cols)


CASES = [
    softmax_case(4096, 1024),
    softmax_case(1823, 781),
    softmax_case(128, 1024),
    softmax_case(1024, 64),
    softmax_case(4096, 1024, persistent=True),
    layer_norm_case(4096, 1024),
    layer_norm_case(1823, 781),
    layer_norm_case(128, 1024),
    layer_norm_case(1823, 781, block=256),
    layer_norm_backward_case(4096, 1024, rows_each=64),
    layer_norm_backward_case(1823, 781, rows_each=64),
    layer_norm_backward_case(1823, 781),
    rms_norm_case(4096, 1024),
    rms_norm_case(1823, 781),
    rms_norm_case(128, 1024),
    cross_entropy_case(32, 8192),
    cross_entropy_case(512, 32000),
    sum_case(1, 4096, 1024),
    sum_case(0, 4096, 1024),
    cumsum_case(128, 1024),
    cumsum_case(4096, 1024),
    argmax_case(128, 1024),
    argmax_case(4096, 1024),
]
