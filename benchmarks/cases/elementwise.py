"""Cases whose kernels work element by element."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import peers
import triton
from case import OURS, Case, Run, empty, example, normal
from peaks import stream
from peers import looped, prange, present, tensor, torch
from sources import adam_kernel, swiglu_kernel

dropout, gelu, rope, vector_add = map(example, ("dropout", "gelu", "rope", "vector_add"))


def vector_add_case(power: int, block: int = 1024) -> Case:
    n = 2**power

    def make() -> Run:
        x, y = normal(2, n)
        outs = [empty(n) for _ in range(4)]
        tx, ty, t_out = tensor(x), tensor(y), tensor(outs[1])
        grid = (triton.cdiv(n, block),)
        loop = looped(add_loop)

        def ours():
            vector_add.add_kernel[grid](x, y, outs[0], n, BLOCK=block)
            return outs[0]

        calls = present(
            torch=lambda: torch.add(tx, ty, out=t_out),
            numpy=lambda: np.add(x, y, out=outs[2]),
            numba=loop and (lambda: loop(x, y, outs[3])),
        )
        return Run({OURS: ours, **calls}, lambda: x + y, 0, roof=stream("add", n))

    return Case("vector add", f"2^{power}", make, 12 * n, n)


def add_loop(x, y, out):
    for i in prange(x.size):
        out[i] = x[i] + y[i]
    return out


def gelu_case(function: str, power: int, dtype: Any = np.float32) -> Case:
    n = 2**power
    form = "none" if function == "gelu_exact" else "tanh"
    is_wide = dtype is np.float32

    def make() -> Run:
        x, out, t_out = normal(n, dtype=dtype), empty(n, dtype=dtype), tensor(empty(n, dtype=dtype))
        b_out = empty(n)
        tx, kernel = tensor(x), getattr(gelu, function)
        loop = looped(gelu_exact_loop if form == "none" else gelu_tanh_loop) if is_wide else None

        def ours():
            grid = (triton.cdiv(n, 1024),)
            gelu.map_kernel[grid](x, out, n, FUNCTION=kernel, BLOCK=1024)
            return out

        def with_torch():
            return torch.ops.aten.gelu.out(tx, approximate=form, out=t_out)

        calls = present(torch=with_torch, numba=loop and (lambda: loop(x, b_out)))
        tolerance = 2e-6 if is_wide else 1e-2
        return Run({OURS: ours, **calls}, lambda: gelu.reference_of(kernel, x), tolerance)

    name = function.replace("_", " ") + ("" if is_wide else f" {np.dtype(dtype).name}")
    return Case(name, f"2^{power}", make, 2 * np.dtype(dtype).itemsize * n, 20 * n)


def gelu_exact_loop(x, out):
    for i in prange(x.size):
        out[i] = np.float32(0.5) * x[i] * (np.float32(1) + math.erf(x[i] * np.float32(0.70710678)))
    return out


def gelu_tanh_loop(x, out):
    for i in prange(x.size):
        inner = np.float32(0.7978845608) * x[i] * (np.float32(1) + np.float32(0.044715) * x[i] ** 2)
        out[i] = np.float32(0.5) * x[i] * (np.float32(1) + math.tanh(inner))
    return out


def swiglu_case(rows: int, cols: int) -> Case:
    def make() -> Run:
        gate, up = normal(2, rows, cols)
        out, b_out = empty(rows, cols), empty(rows, cols)
        tg, tu = tensor(gate), tensor(up)
        fused = peers.compiled(lambda g, u: torch.nn.functional.silu(g) * u)
        loop = looped(swiglu_loop)

        def ours():
            swiglu_kernel[(rows,)](gate, up, out, cols, BLOCK=triton.next_power_of_2(cols))
            return out

        def reference():
            wide = gate.astype(np.float64)
            return wide / (1 + np.exp(-wide)) * up

        calls = present(
            torch=lambda: torch.nn.functional.silu(tg) * tu,
            compile=lambda: fused(tg, tu),
            numpy=lambda: gate / (1 + np.exp(-gate)) * up,
            numba=loop and (lambda: loop(gate.reshape(-1), up.reshape(-1), b_out.reshape(-1))),
        )
        if "numba" in calls:
            run = calls["numba"]
            calls["numba"] = lambda: run().reshape(rows, cols)
        return Run({OURS: ours, **calls}, reference, 2e-6)

    return Case("swiglu", f"{rows}x{cols}", make, 12 * rows * cols, 15 * rows * cols)


def swiglu_loop(gate, up, out):
    for i in prange(gate.size):
        out[i] = gate[i] / (np.float32(1) + np.exp(-gate[i])) * up[i]
    return out


def dropout_case(power: int) -> Case:
    n, p = 2**power, 0.5

    def make() -> Run:
        x, out = np.abs(normal(n)) + 1, empty(n)
        tx = tensor(x)
        grid = (triton.cdiv(n, 1024),)

        def ours():
            dropout.dropout_kernel[grid](x, out, n, p, 123, BLOCK=1024)
            return np.mean(out[:4096] == 0)

        def with_torch():
            return torch.mean(torch.nn.functional.dropout(tx, p)[:4096] == 0, dtype=torch.float32)

        return Run({OURS: ours, **present(torch=with_torch)}, lambda: np.float64(p), 0.05)

    return Case("dropout", f"2^{power}", make, 8 * n, 60 * n)


def adam_case(power: int) -> Case:
    n = 2**power
    rate, beta1, beta2, eps = 1e-3, 0.9, 0.999, 1e-8
    undo1, undo2 = 1 / (1 - beta1), 1 / (1 - beta2)

    def make() -> Run:
        start = normal(4, n)
        start[3] = np.abs(start[3])
        state = {peer: start.copy() for peer in (OURS, "torch", "numpy", "numba")}
        loop = looped(adam_loop)
        grid = (triton.cdiv(n, 1024),)

        def ours():
            p, g, m, v = state[OURS]
            adam_kernel[grid](p, g, m, v, n, rate, beta1, beta2, eps, undo1, undo2, BLOCK=1024)
            return state[OURS]

        def with_numpy(p, g, m, v):
            m *= np.float32(beta1)
            m += np.float32(1 - beta1) * g
            v *= np.float32(beta2)
            v += np.float32(1 - beta2) * g * g
            p -= np.float32(rate * undo1) * m / (np.sqrt(v * np.float32(undo2)) + np.float32(eps))
            return state["numpy"]

        def reference():
            p, g, m, v = start.astype(np.float64)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            return np.stack([p - rate * (m * undo1) / (np.sqrt(v * undo2) + eps), g, m, v])

        constants = tuple(map(np.float32, (rate, beta1, beta2, eps, undo1, undo2)))
        calls = present(
            torch=torch and fused_adam(state["torch"], rate, beta1, beta2, eps),
            numpy=lambda: with_numpy(*state["numpy"]),
            numba=loop and (lambda: loop(*state["numba"], *constants) or state["numba"]),
        )
        return Run({OURS: ours, **calls}, reference)

    return Case("Adam step", f"2^{power}", make, 28 * n, 14 * n)


def fused_adam(state: np.ndarray, rate: float, beta1: float, beta2: float, eps: float):
    """Torch's fused step; its count of steps stays at one, as the other peers' does."""
    p, g, m, v = ([tensor(x)] for x in state)
    count = torch.zeros(())

    def call():
        count.zero_()
        torch._fused_adam_(
            p, g, m, v, [], [count.add_(1)],
            lr=rate, beta1=beta1, beta2=beta2, weight_decay=0, eps=eps, amsgrad=False,
            maximize=False,
        )  # fmt: skip
        return state

    return call


def adam_loop(p, g, m, v, rate, beta1, beta2, eps, undo1, undo2):
    one = np.float32(1)
    for i in prange(p.size):
        m[i] = beta1 * m[i] + (one - beta1) * g[i]
        v[i] = beta2 * v[i] + (one - beta2) * g[i] * g[i]
        p[i] -= rate * (m[i] * undo1) / (np.sqrt(v[i] * undo2) + eps)


def rope_case(tokens: int, heads: int, dim: int) -> Case:
    def make() -> Run:
        x, cos, sin = rope.inputs(tokens, heads, dim)
        out, half = empty(tokens, heads, dim), dim // 2
        tx, t_cos, t_sin = tensor(x), tensor(cos), tensor(sin)

        def rotated(x, cos, sin, cat):
            a, b = x[..., :half], x[..., half:]
            cos, sin = cos[:, None, :], sin[:, None, :]
            return cat([a * cos - b * sin, a * sin + b * cos], -1)

        fused = peers.compiled(lambda *args: rotated(*args, torch.cat))

        def ours():
            rope.rope_kernel[(tokens,)](
                x, cos, sin, out, heads, INVERSE=False, NEIGHBOURS=False, HALF=half,
                HEADS=triton.next_power_of_2(heads),
            )  # fmt: skip
            return out

        calls = present(
            torch=lambda: rotated(tx, t_cos, t_sin, torch.cat),
            compile=lambda: fused(tx, t_cos, t_sin),
            numpy=lambda: rotated(x, cos, sin, np.concatenate),
        )
        wide = [v.astype(np.float64) for v in (x, cos, sin)]
        return Run({OURS: ours, **calls}, lambda: rotated(*wide, np.concatenate), 2e-6)

    n = tokens * heads * dim
    return Case("rope", f"{tokens}x{heads}x{dim}", make, 8 * n, 3 * n)


CASES = [
    vector_add_case(12),
    vector_add_case(24),
    gelu_case("gelu_exact", 16),
    gelu_case("gelu_exact", 22),
    gelu_case("gelu_tanh", 16),
    gelu_case("gelu_tanh", 22),
    gelu_case("gelu_exact", 16, ml_dtypes.bfloat16),
    gelu_case("gelu_tanh", 16, ml_dtypes.bfloat16),
    swiglu_case(64, 4096),
    swiglu_case(1024, 4096),
    dropout_case(16),
    dropout_case(22),
    adam_case(16),
    adam_case(22),
    rope_case(128, 8, 64),
    rope_case(2048, 16, 128),
]
