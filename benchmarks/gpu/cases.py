"""What is timed on a GPU: inputs, the launch of a kernel, torch's way, bytes or operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
BANDWIDTH, COMPUTE = "TB/s", "TFLOP/s"


@dataclass(frozen=True)
class Run:
    """A case with its inputs: `launch` takes the namespace of kernels, of ours or of Triton's."""

    launch: Callable[[Any], Any]
    outputs: Sequence[torch.Tensor]
    torch: Callable[[], Any] | None = None
    tolerance: float = 1e-4
    restore: Callable[[], Any] | None = None  # what a kernel that works in place needs before


@dataclass(frozen=True)
class Case:
    """One row: `work` are the bytes that must move, or the operations that must be done."""

    name: str
    work: float
    make: Callable[[], Run]
    unit: str = BANDWIDTH


class Inputs:
    """Where tensors are made; anything but a GPU gets their shapes alone."""

    device = "cuda"

    @classmethod
    def normal(cls, *shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
        if cls.device != "cuda":
            return torch.empty(shape, dtype=dtype)
        return torch.randn(shape, device=cls.device).to(dtype)

    @classmethod
    def empty(cls, *shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=cls.device)

    @classmethod
    def numbers(cls, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        if cls.device != "cuda":
            return torch.empty(shape, dtype=dtype)
        return torch.randint(high, shape, device=cls.device).to(dtype)


normal, empty, numbers = Inputs.normal, Inputs.empty, Inputs.numbers


def cdiv(n: int, by: int) -> int:
    return -(-n // by)


def power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def warps_for(block: int) -> int:
    return 4 if block < 2048 else 8 if block < 8192 else 16


def name_of(dtype: torch.dtype) -> str:
    return {F16: "fp16", BF16: "bf16", F32: "fp32"}.get(dtype, str(dtype).rpartition(".")[2])


# --- one element at a time


def vector_add(n: int) -> Case:
    def make() -> Run:
        x, y, out = normal(n), normal(n), empty(n)
        return Run(
            lambda k: k.add_kernel[(cdiv(n, 1024),)](x, y, out, n, BLOCK=1024),
            [out], lambda: torch.add(x, y),
        )  # fmt: skip

    return Case(f"vector add {n} fp32", 12 * n, make)


def unary(
    title: str, kernel: str, n: int, dtype: torch.dtype, of: Callable, *more: Any,
    to: torch.dtype | None = None, tolerance: float = 1e-2, grid: int = 0, at: int = 1024,
) -> Case:  # fmt: skip
    to = to or dtype

    def make() -> Run:
        x, out = normal(n, dtype=dtype), empty(n, dtype=to)
        size = (grid or cdiv(n, at),)
        return Run(
            lambda k: getattr(k, kernel)[size](x, out, n, *more, BLOCK=at),
            [out], lambda: of(x), tolerance,
        )  # fmt: skip

    return Case(f"{title} {n} {name_of(dtype)}", n * (dtype.itemsize + to.itemsize), make)


def swiglu(rows: int, cols: int, dtype: torch.dtype) -> Case:
    def make() -> Run:
        gate, up, out = normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), None
        out = empty(rows, cols, dtype=dtype)
        block = power_of_two(cols)
        return Run(
            lambda k: k.swiglu_kernel[(rows,)](gate, up, out, cols, BLOCK=block, num_warps=8),
            [out], lambda: F.silu(gate.float()) * up.float(), 3e-2,
        )  # fmt: skip

    return Case(f"swiglu {rows}x{cols} {name_of(dtype)}", 3 * rows * cols * dtype.itemsize, make)


def dropout(n: int) -> Case:
    def make() -> Run:
        x, out = normal(n), empty(n)
        return Run(
            lambda k: k.dropout_kernel[(cdiv(n, 1024),)](x, out, n, 0.5, 123, BLOCK=1024), [out]
        )

    return Case(f"dropout {n} fp32", 8 * n, make)


def adam(n: int) -> Case:
    def make() -> Run:
        p, g, m, v = normal(n), normal(n), normal(n), normal(n)
        start = [x.clone() for x in (p, m, v)] if Inputs.device == "cuda" else []

        def restore() -> None:
            v.abs_()
            for x, y in zip((p, m, v), start):
                x.copy_(y.abs() if x is v else y)

        return Run(
            lambda k: k.adam_kernel[(cdiv(n, 1024),)](
                p, g, m, v, n, 1e-3, 0.9, 0.999, 1e-8, 1.1, 1.2, BLOCK=1024
            ),
            [p, m, v], restore=restore,
        )  # fmt: skip

    return Case(f"Adam step {n} fp32", 28 * n, make)


def rope(tokens: int, heads: int, half: int, dtype: torch.dtype) -> Case:
    def make() -> Run:
        x, out = (f(tokens, heads, 2 * half, dtype=dtype) for f in (normal, empty))
        cos, sin = normal(tokens, half), normal(tokens, half)

        def rotated() -> torch.Tensor:
            a, b = x[..., :half].float(), x[..., half:].float()
            c, s = cos[:, None], sin[:, None]
            return torch.cat([a * c - b * s, b * c + a * s], -1)

        return Run(
            lambda k: k.rope_kernel[(tokens,)](
                x, cos, sin, out, heads, HALF=half, HEADS=power_of_two(heads)
            ),
            [out], rotated, 5e-2,
        )  # fmt: skip

    work = 2 * tokens * heads * 2 * half * dtype.itemsize + 8 * tokens * half
    return Case(f"rope {tokens}x{heads}x{2 * half} {name_of(dtype)}", work, make)


def bias_relu(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, bias, out = normal(rows, cols), normal(cols), empty(rows, cols)
        grid = (cdiv(rows, 32), cdiv(cols, 128))
        return Run(
            lambda k: k.bias_relu_kernel[grid](x, bias, out, rows, cols, BLOCK_M=32, BLOCK_N=128),
            [out], lambda: F.leaky_relu(x + bias, 0.01),
        )  # fmt: skip

    return Case(f"bias, leaky relu {rows}x{cols} fp32", 8 * rows * cols, make)


# --- rows


def softmax(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols), empty(rows, cols)
        block = power_of_two(cols)
        return Run(
            lambda k: k.softmax_kernel[(rows,)](
                out, x, cols, cols, cols, BLOCK=block, num_warps=warps_for(block)
            ),
            [out], lambda: torch.softmax(x, 1),
        )  # fmt: skip

    return Case(f"softmax {rows}x{cols} fp32", 8 * rows * cols, make)


def softmax_persistent(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols), empty(rows, cols)
        block = power_of_two(cols)
        return Run(
            lambda k: k.softmax_persistent_kernel[(132 * 8,)](
                out, x, cols, rows, cols, BLOCK=block, num_warps=warps_for(block)
            ),
            [out], lambda: torch.softmax(x, 1),
        )  # fmt: skip

    return Case(f"softmax persistent {rows}x{cols} fp32", 8 * rows * cols, make)


def softmax_online(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols), empty(rows, cols)
        return Run(
            lambda k: k.softmax_online_kernel[(rows,)](out, x, cols, BLOCK=4096, num_warps=8),
            [out], lambda: torch.softmax(x, 1),
        )  # fmt: skip

    return Case(f"softmax online {rows}x{cols} fp32", 8 * rows * cols, make)


def layer_norm(
    rows: int, cols: int, warps: int, kernel: str = "layer_norm_kernel", block: int = 0
) -> Case:
    def make() -> Run:
        x, out = (f(rows, cols, dtype=F16) for f in (normal, empty))
        w, b = normal(cols, dtype=F16), normal(cols, dtype=F16)
        return Run(
            lambda k: getattr(k, kernel)[(rows,)](
                out, x, w, b, cols, cols, 1e-5, BLOCK=block or power_of_two(cols), num_warps=warps
            ),
            [out], lambda: F.layer_norm(x, (cols,), w, b, 1e-5), 3e-2,
        )  # fmt: skip

    title = "layer norm, loop" if block else "layer norm"
    return Case(f"{title} {rows}x{cols} fp16, {warps} warps", 4 * rows * cols, make)


def layer_norm_backward(rows: int, cols: int) -> Case:
    per, dtype = 16, F16

    def make() -> Run:
        x, dy, dx = (f(rows, cols, dtype=dtype) for f in (normal, normal, empty))
        w, part = normal(cols, dtype=dtype), empty(rows // per, cols)
        return Run(
            lambda k: k.layer_norm_backward_kernel[(rows // per,)](
                dx, dy, x, w, part, rows, cols, per, 1e-5, BLOCK=power_of_two(cols), num_warps=8
            ),
            [dx, part], tolerance=3e-2,
        )  # fmt: skip

    return Case(f"layer norm backward {rows}x{cols} fp16", 6 * rows * cols, make)


def rms_norm(rows: int, cols: int, dtype: torch.dtype) -> Case:
    def make() -> Run:
        x, out = (f(rows, cols, dtype=dtype) for f in (normal, empty))
        w = normal(cols, dtype=dtype)
        block = power_of_two(cols)
        return Run(
            lambda k: k.rms_norm_kernel[(rows,)](
                out, x, w, cols, 1e-6, BLOCK=block, num_warps=warps_for(block)
            ),
            [out], lambda: F.rms_norm(x.float(), (cols,), w.float(), 1e-6), 5e-2,
        )  # fmt: skip

    work = 2 * rows * cols * dtype.itemsize
    return Case(f"rms norm {rows}x{cols} {name_of(dtype)}", work, make)


def group_norm(n: int, channels: int, side: int, groups: int) -> Case:
    size = side * side

    def make() -> Run:
        x, out = (f(n, channels, side, side, dtype=F16) for f in (normal, empty))
        w, b = normal(channels), normal(channels)
        return Run(
            lambda k: k.group_norm_kernel[(n, groups)](
                out, x, w, b, channels, size, groups, 1e-5, BLOCK=2048, num_warps=8
            ),
            [out], lambda: F.group_norm(x.float(), groups, w, b, 1e-5), 3e-2,
        )  # fmt: skip

    return Case(f"group norm {n}x{channels}x{side}x{side} fp16", 4 * n * channels * size, make)


def cross_entropy(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, loss = normal(rows, cols, dtype=BF16), empty(rows)
        target = numbers(cols, rows, dtype=torch.int64)
        start = x.clone() if Inputs.device == "cuda" else x
        return Run(
            lambda k: k.cross_entropy_kernel[(rows,)](
                x, target, loss, cols, BLOCK=8192, num_warps=8
            ),
            [loss, x], tolerance=1e-2, restore=lambda: x.copy_(start),
        )  # fmt: skip

    return Case(f"cross entropy, both ways {rows}x{cols} bf16", 4 * rows * cols, make)


def sum_rows(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols), empty(rows)
        block = power_of_two(cols)
        return Run(
            lambda k: k.sum_rows_kernel[(rows,)](
                x, out, cols, BLOCK=block, num_warps=warps_for(block)
            ),
            [out], lambda: x.sum(1), 1e-2,
        )  # fmt: skip

    return Case(f"sum of rows {rows}x{cols} fp32", 4 * rows * cols, make)


def sum_cols(rows: int, cols: int) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols), empty(cols)
        return Run(
            lambda k: k.sum_cols_kernel[(cdiv(cols, 64),)](
                x, out, rows, cols, BLOCK_M=64, BLOCK_N=64, num_warps=8
            ),
            [out], lambda: x.sum(0), 1e-2,
        )  # fmt: skip

    return Case(f"sum of columns {rows}x{cols} fp32", 4 * rows * cols, make)


def sum_all(n: int) -> Case:
    def make() -> Run:
        x, out = normal(n), empty(1)
        return Run(
            lambda k: k.sum_all_kernel[(cdiv(n, 4096),)](x, out, n, BLOCK=4096, num_warps=8),
            [out], tolerance=1.0, restore=lambda: out.zero_(),
        )  # fmt: skip

    return Case(f"sum of all {n} fp32", 4 * n, make)


def rowwise(
    title: str, kernel: str, rows: int, cols: int, warps: int, of: Callable | None,
    outs: Sequence[tuple[tuple[int, ...], torch.dtype]], inputs: int = 1, passes: float = 2,
    dtype: torch.dtype = F32, tolerance: float = 1e-2, given: bool = True,
) -> Case:  # fmt: skip
    """One tile a row, of some inputs; `given`: the kernel takes the number of columns."""

    def make() -> Run:
        xs = [normal(rows, cols, dtype=dtype) for _ in range(inputs)]
        if inputs > 1 and Inputs.device == "cuda":
            xs[0].sigmoid_()
        results = [empty(*shape, dtype=kind) for shape, kind in outs]
        return Run(
            lambda k: getattr(k, kernel)[(rows,)](
                *xs, *results, cols, BLOCK=power_of_two(cols), num_warps=warps
            ),
            results, None if of is None else lambda: of(*xs), tolerance,
        )  # fmt: skip

    work = passes * rows * cols * dtype.itemsize
    return Case(f"{title} {rows}x{cols} {name_of(dtype)}", work, make)


# --- moves


def transpose(rows: int, cols: int, dtype: torch.dtype, block: int = 64) -> Case:
    def make() -> Run:
        x, out = normal(rows, cols, dtype=dtype), empty(cols, rows, dtype=dtype)
        grid = (cdiv(rows, block), cdiv(cols, block))
        return Run(
            lambda k: k.transpose_kernel[grid](x, out, rows, cols, BLOCK_M=block, BLOCK_N=block),
            [out], lambda: x.t().contiguous(),
        )  # fmt: skip

    work = 2 * rows * cols * dtype.itemsize
    return Case(f"transpose {rows}x{cols} {name_of(dtype)}", work, make)


def batched_transpose(count: int, rows: int, cols: int, dtype: torch.dtype) -> Case:
    def make() -> Run:
        x, out = normal(count, rows, cols, dtype=dtype), empty(count, cols, rows, dtype=dtype)
        grid = (cdiv(rows, 64), cdiv(cols, 64), count)
        return Run(
            lambda k: k.batched_transpose_kernel[grid](
                x, out, rows, cols, BLOCK_M=64, BLOCK_N=64
            ),
            [out], lambda: x.transpose(1, 2).contiguous(),
        )  # fmt: skip

    work = 2 * count * rows * cols * dtype.itemsize
    return Case(f"batched transpose {count}x{rows}x{cols} {name_of(dtype)}", work, make)


def strided_copy(n: int, step: int) -> Case:
    def make() -> Run:
        x, out = normal(n * step), empty(n)
        return Run(
            lambda k: k.strided_copy_kernel[(cdiv(n, 1024),)](x, out, n, step, BLOCK=1024),
            [out], lambda: x[::step].clone(),
        )  # fmt: skip

    return Case(f"strided copy {n} by {step} fp32", 4 * n * (1 + min(step, 8)), make)


def embedding(tokens: int, words: int, dim: int) -> Case:
    def make() -> Run:
        table, out = normal(words, dim, dtype=BF16), empty(tokens, dim, dtype=BF16)
        index = numbers(words, tokens)
        return Run(
            lambda k: k.embedding_kernel[(tokens,)](
                table, index, out, dim, BLOCK=power_of_two(dim)
            ),
            [out], lambda: F.embedding(index, table),
        )  # fmt: skip

    return Case(f"embedding {tokens} of {words}x{dim} bf16", 4 * tokens * dim, make)


def gather(n: int, of: int) -> Case:
    def make() -> Run:
        x, index, out = normal(of), numbers(of, n), empty(n)
        return Run(
            lambda k: k.gather_kernel[(cdiv(n, 1024),)](x, index, out, n, BLOCK=1024),
            [out], lambda: x[index],
        )  # fmt: skip

    return Case(f"gather {n} of {of} fp32", 12 * n, make)


def scatter_add(n: int, of: int) -> Case:
    def make() -> Run:
        x, index, out = normal(n), numbers(of, n), empty(of)
        return Run(
            lambda k: k.scatter_add_kernel[(cdiv(n, 1024),)](x, index, out, n, BLOCK=1024),
            [out], tolerance=1e-2, restore=lambda: out.zero_(),
        )  # fmt: skip

    return Case(f"scatter add {n} to {of} fp32", 8 * n, make)


def histogram(n: int, bins: int, kernel: str, title: str, *, block: int, **named: int) -> Case:
    def make() -> Run:
        x, out = numbers(bins, n), empty(bins, dtype=torch.int32)
        return Run(
            lambda k: getattr(k, kernel)[(cdiv(n, block),)](x, out, n, BLOCK=block, **named),
            [out], restore=lambda: out.zero_(),
        )  # fmt: skip

    return Case(f"{title} {n} in {bins}", 4 * n, make)


def gemv(rows: int, cols: int) -> Case:
    def make() -> Run:
        a, x, out = normal(rows, cols, dtype=BF16), normal(cols, dtype=BF16), empty(rows)
        return Run(
            lambda k: k.gemv_kernel[(cdiv(rows, 16),)](
                a, x, out, rows, cols, BLOCK_M=16, BLOCK_N=512
            ),
            [out], lambda: (a @ x).float(), 2.0,
        )  # fmt: skip

    return Case(f"matrix times vector {rows}x{cols} bf16", 2 * rows * cols, make)


# --- products


def matmul(
    size: int, block: tuple[int, int, int], warps: int, stages: int, dtype: torch.dtype = BF16
) -> Case:
    def make() -> Run:
        a, b, out = (f(size, size, dtype=dtype) for f in (normal, normal, empty))
        torch.backends.cuda.matmul.allow_tf32 = True
        grid = ((size // block[0]) * (size // block[1]),)
        return Run(
            lambda k: k.matmul_kernel[grid](
                a, b, out, size, size, size, size, size, size, BLOCK_M=block[0],
                BLOCK_N=block[1], BLOCK_K=block[2], BAND=8, num_warps=warps, num_stages=stages,
            ),
            [out], lambda: torch.matmul(a, b), size / 256,
        )  # fmt: skip

    return Case(product_name(size, dtype, block), 2 * size**3, make, COMPUTE)


def product_name(size: int, dtype: torch.dtype, block: tuple[int, int, int]) -> str:
    kinds = {BF16: "bf16", F16: "fp16", F32: "tf32", torch.int8: "int8"}
    return f"matmul {size} {kinds.get(dtype, 'fp8')}, {'x'.join(map(str, block))}"


def matmul_rows(
    size: int, dtype: torch.dtype, block: tuple[int, int, int], warps: int, stages: int
) -> Case:
    def make() -> Run:
        if dtype is torch.int8:
            a, b = (numbers(100, size, size, dtype=dtype) for _ in range(2))
            out = empty(size, size, dtype=torch.int32)
            product = partial(torch._int_mm, a, b.T)
        else:
            a, b = (normal(size, size, dtype=dtype) for _ in range(2))
            one = torch.ones((), device=a.device)
            out = empty(size, size, dtype=BF16)
            product = partial(
                torch._scaled_mm, a, b.T, one, one, out_dtype=BF16, use_fast_accum=True
            )
        grid = ((size // block[0]) * (size // block[1]),)
        return Run(
            lambda k: k.matmul_rows_kernel[grid](
                a, b, out, size, size, size, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2],
                BAND=8, INTEGER=dtype is torch.int8, num_warps=warps,
                num_stages=stages,
            ),
            [out], product, size / 256,
        )  # fmt: skip

    return Case(product_name(size, dtype, block), 2 * size**3, make, COMPUTE)


def matmul_int8_weights(size: int, block: tuple[int, int, int], warps: int, stages: int) -> Case:
    def make() -> Run:
        a, out = normal(size, size, dtype=BF16), empty(size, size, dtype=BF16)
        b = numbers(100, size, size, dtype=torch.int8)
        scale = normal(size, dtype=F32) / 100
        return Run(
            lambda k: k.matmul_int8_weights_kernel[(size // block[0], size // block[1])](
                a, b, scale, out, size, size, size, BLOCK_M=block[0], BLOCK_N=block[1],
                BLOCK_K=block[2], num_warps=warps, num_stages=stages,
            ),
            [out], lambda: torch.matmul(a, b.to(BF16)) * scale.to(BF16), size / 256,
        )  # fmt: skip

    blocks = "x".join(map(str, block))
    return Case(f"matmul {size} bf16 by int8 weights, {blocks}", 2 * size**3, make, COMPUTE)


def attention(
    batch: int, length: int, d: int, block: tuple[int, int] = (128, 64), warps: int = 4,
    causal: bool = False,
) -> Case:  # fmt: skip
    def make() -> Run:
        q, k, v, out = (f(1, batch, length, d, dtype=F16) for f in (*[normal] * 3, empty))
        return Run(
            lambda kernels: kernels.attention_kernel[(cdiv(length, block[0]), batch)](
                q, k, v, out, length, d**-0.5, D=d, BLOCK_M=block[0], BLOCK_N=block[1],
                CAUSAL=causal, num_warps=warps, num_stages=3,
            ),
            [out], lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), 1e-2,
        )  # fmt: skip

    flops = 4 * batch * length**2 * d // (2 if causal else 1)
    name = f"attention {batch}x{length}x{d}{' causal' if causal else ''} fp16"
    return Case(f"{name}, {block[0]}x{block[1]} {warps} warps", flops, make, COMPUTE)


def all_cases() -> list[Case]:
    n = 1 << 26
    return [
        vector_add(1 << 28), vector_add(1 << 20),
        softmax(65536, 1024), softmax(16384, 8192), softmax(4096, 32768), softmax(4096, 1024),
        softmax(1823, 781), softmax_persistent(65536, 1024), softmax_online(4096, 32768),
        layer_norm(8192, 4096, 8), layer_norm(8192, 4096, 4),
        layer_norm(4096, 8192, 8, "layer_norm_loop_kernel", 2048), layer_norm_backward(8192, 4096),
        rms_norm(8192, 4096, BF16), rms_norm(16384, 8192, F32), rms_norm(4096, 1000, F32),
        cross_entropy(4096, 32000),
        rope(16384, 32, 64, BF16), dropout(n), adam(n),
        unary("gelu tanh", "gelu_tanh_kernel", n, F16, lambda x: F.gelu(x, approximate="tanh")),
        unary("gelu exact", "gelu_exact_kernel", n, F32, F.gelu),
        unary("silu", "silu_kernel", n, BF16, F.silu, tolerance=5e-2),
        swiglu(8192, 4096, BF16),
        unary("cast to bf16", "cast_kernel", n, F32, lambda x: x.bfloat16(), to=BF16),
        unary("cast to fp32", "cast_kernel", n, F16, lambda x: x.float(), to=F32),
        unary("cast to fp8", "cast_kernel", n, F32, lambda x: x.to(torch.float8_e4m3fn),
              to=torch.float8_e4m3fn),
        unary("scale, grid stride", "grid_stride_kernel", n, F32, lambda x: x * 3, 3.0, grid=1056),
        bias_relu(8192, 8192),
        transpose(8192, 8192, F32), transpose(8192, 8192, F16), transpose(4095, 8190, F32),
        batched_transpose(64, 1024, 1024, F32), batched_transpose(64, 1024, 1024, BF16),
        strided_copy(1 << 24, 3),
        rowwise("cumsum", "cumsum_kernel", 16384, 4096, 8, lambda x: x.cumsum(1),
                [((16384, 4096), F32)], tolerance=5e-2),
        rowwise("decay scan", "decay_scan_kernel", 16384, 2048, 4, None,
                [((16384, 2048), F32)], inputs=2, passes=3),
        rowwise("argmax", "argmax_kernel", 16384, 4096, 8, lambda x: x.argmax(1),
                [((16384,), torch.int32)], passes=1),
        rowwise("variance, welford", "variance_kernel", 16384, 4096, 8,
                lambda x: x.mean(1), [((16384,), F32)] * 2, passes=1),
        rowwise("sort", "sort_kernel", 16384, 1024, 4, lambda x: x.sort(1)[0],
                [((16384, 1024), F32)]),
        rowwise("quantize to int8", "quantize_kernel", 16384, 4096, 8, None,
                [((16384, 4096), torch.int8), ((16384,), F32)], passes=1.25, tolerance=1.0),
        group_norm(32, 256, 64, 32),
        sum_rows(65536, 1024), sum_rows(4096, 16384), sum_cols(8192, 8192), sum_all(1 << 28),
        histogram(n, 256, "histogram_kernel", "histogram", block=4096, BINS=256),
        histogram(n, 1024, "histogram_atomic_kernel", "histogram, atomic", block=1024),
        embedding(16384, 32000, 4096), gather(n, 1 << 22), scatter_add(1 << 24, 1 << 22),
        gemv(16384, 16384),
        matmul(4096, (128, 128, 64), 4, 3), matmul(4096, (128, 256, 64), 8, 3),
        matmul(8192, (128, 256, 64), 8, 3), matmul(2048, (128, 128, 64), 8, 3, F16),
        matmul(4096, (128, 128, 32), 8, 3, F32),
        matmul_rows(4096, torch.float8_e4m3fn, (128, 256, 128), 8, 3),
        matmul_rows(4096, torch.int8, (128, 256, 128), 8, 3),
        matmul_int8_weights(4096, (128, 128, 64), 8, 3),
        attention(64, 4096, 64), attention(64, 4096, 64, (64, 64)),
        attention(64, 4096, 64, causal=True), attention(64, 4096, 128, warps=8),
        attention(64, 4096, 128, warps=8, causal=True),
    ]  # fmt: skip
