"""Cases whose kernels multiply matrices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import triton
from case import OURS, Case, Run, empty, example, normal
from peers import present, tensor, torch
from sources import (
    batched_matmul_kernel,
    convolution_kernel,
    experts_kernel,
    matmul_int8_kernel,
    matmul_rows_kernel,
    matmul_weights_kernel,
    matmul_wrapped_kernel,
)

matmul = example("matmul")
BLOCK = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}  # little waste at the edges of odd sizes
LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}  # 4 % faster where they all fit
DEEP = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}  # the same, of 16-bit operands
SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
FEW = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64}  # a few rows
TOLERANCE = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 1e-2}


def matmul_case(
    m: int,
    n: int,
    k: int,
    dtype: type = np.float32,
    activation: str = "",
    block: dict = BLOCK,
    turned: bool = False,
    left_turned: bool = False,
) -> Case:
    """Operands that are turned are transposes of row-major matrices."""
    kind = np.dtype(dtype).name

    def make() -> Run:
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
        if turned:
            b = normal(n, k, dtype=dtype, seed=1).T
        if left_turned:
            a = normal(k, m, dtype=dtype).T
        b[...] = b / np.sqrt(k).astype(dtype)
        c, ta, tb = empty(m, n, dtype=dtype), tensor(a), tensor(b)
        n_c, t_c = empty(m, n, dtype=dtype), tensor(empty(m, n, dtype=dtype))
        function = getattr(matmul, activation) if activation else None
        grid = (triton.cdiv(m, block["BLOCK_M"]) * triton.cdiv(n, block["BLOCK_N"]),)

        def ours():
            matmul.matmul_kernel[grid](
                a, b, c, m, n, k, *((1, m) if left_turned else (k, 1)),
                *((1, k) if turned else (n, 1)), n, 1,
                ACTIVATION=function, **block, BAND=4,
            )  # fmt: skip
            return c

        def with_torch():
            product = torch.mm(ta, tb, out=t_c)
            return torch.nn.functional.leaky_relu_(product) if activation else product

        def with_numpy():
            product = np.matmul(a, b, out=n_c)
            return np.maximum(product, np.float32(0.01) * product) if activation else product

        calls = present(torch=with_torch, numpy=with_numpy if kind == "float32" else None)
        reference = matmul.reference_of
        return Run({OURS: ours, **calls}, lambda: reference(a, b, function), TOLERANCE[kind])

    turns = ", w.T" * turned + ", x.T" * left_turned
    name = f"matmul {kind}" + (f" + {activation}" if activation else turns)
    moved = np.dtype(dtype).itemsize * (m * k + k * n + m * n)
    return Case(name, sides(m, n, k) + tiles(block), make, moved, 2 * m * n * k)


def tiles(block: dict) -> str:
    """The sides of the tiles, unless they are those of most cases."""
    return "" if block is BLOCK else f", {sides(*block.values())} tiles"


def sides(m: int, n: int, k: int) -> str:
    return f"{m}^3" if m == n == k else f"{m}x{n}x{k}"


def wrapped_case(m: int, n: int, k: int) -> Case:
    def make() -> Run:
        a, b = normal(m, k), normal(k, n, seed=1)
        c, n_c, t_c = (empty(m, n) for _ in range(3))
        ta, tb, t_c = tensor(a), tensor(b), tensor(t_c)
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))

        def ours():
            matmul_wrapped_kernel[grid](a, b, c, m, n, k, **BLOCK)
            return c

        calls = present(
            torch=lambda: torch.mm(ta, tb, out=t_c), numpy=lambda: np.matmul(a, b, out=n_c)
        )
        return Run({OURS: ours, **calls}, lambda: a.astype(float) @ b.astype(float), 1e-4)

    moved = 4 * (m * k + k * n + m * n)
    return Case("matmul float32, % n", sides(m, n, k), make, moved, 2 * m * n * k)


def weights_case(m: int, n: int, k: int, block: dict = BLOCK) -> Case:
    kind = ml_dtypes.bfloat16

    def make() -> Run:
        a, c = normal(m, k, dtype=kind), empty(m, n, dtype=kind)
        w = np.random.default_rng(0).integers(-128, 128, (k, n), np.int8)
        scale = np.abs(normal(n)) / 1000
        ta, tw, ts = map(tensor, (a, w, scale))
        grid = (triton.cdiv(m, block["BLOCK_M"]), triton.cdiv(n, block["BLOCK_N"]))

        def ours():
            matmul_weights_kernel[grid](a, w, c, scale, m, n, k, **block)
            return c

        def reference():
            return (a.astype(np.float64) @ w.astype(np.float64)) * scale

        calls = present(torch=lambda: (torch.mm(ta, tw.to(ta.dtype)) * ts).to(ta.dtype))
        return Run({OURS: ours, **calls}, reference, 2e-2)

    moved = 2 * m * k + k * n + 2 * m * n
    return Case(
        "matmul bf16, int8 weights", sides(m, n, k) + tiles(block), make, moved, 2 * m * n * k
    )


def int8_case(m: int, n: int, k: int, block: dict = BLOCK) -> Case:
    def make() -> Run:
        rng = np.random.default_rng(0)
        a = rng.integers(-128, 128, (m, k), np.int8)
        b = rng.integers(-128, 128, (k, n), np.int8)
        scale, c = np.abs(normal(n)) / 1000, empty(m, n)
        ta, tb, ts = map(tensor, (a, b, scale))
        grid = (triton.cdiv(m, block["BLOCK_M"]), triton.cdiv(n, block["BLOCK_N"]))

        def ours():
            matmul_int8_kernel[grid](a, b, c, scale, m, n, k, **block)
            return c

        def reference():
            return (a.astype(np.float64) @ b.astype(np.float64)) * scale

        calls = {OURS: ours, **present(torch=lambda: torch._int_mm(ta, tb) * ts)}
        return Run(calls, reference)

    return Case(
        "matmul int8, scaled",
        sides(m, n, k) + tiles(block),
        make,
        m * k + k * n + 4 * m * n,
        2 * m * n * k,
    )


def rows_case(m: int, n: int, k: int, dtype: type = np.float32) -> Case:
    def make() -> Run:
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
        b[...] = b / np.sqrt(k).astype(dtype)
        chosen = np.random.default_rng(0).permutation(m).astype(np.int32)
        c, n_c, t_c = (empty(m, n, dtype=dtype) for _ in range(3))
        ta, tb, t_c, t_chosen = tensor(a), tensor(b), tensor(t_c), tensor(chosen)
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))

        def ours():
            matmul_rows_kernel[grid](a, b, c, chosen, m, n, k, **BLOCK)
            return c

        def reference():
            return a[chosen].astype(float) @ b.astype(float)

        is_float32 = dtype is np.float32
        calls = present(
            torch=lambda: torch.mm(ta[t_chosen], tb, out=t_c),
            numpy=(lambda: np.matmul(a[chosen], b, out=n_c)) if is_float32 else None,
        )
        return Run({OURS: ours, **calls}, reference, TOLERANCE[np.dtype(dtype).name])

    kind = np.dtype(dtype)
    moved = kind.itemsize * (m * k + k * n + m * n)
    return Case(f"matmul {kind.name}, chosen rows", sides(m, n, k), make, moved, 2 * m * n * k)


def experts_case(tokens: int, n: int, k: int, dtype: type = np.float32) -> Case:
    """Each token goes to 2 of 8 experts; the rows of a tile all go to one of them."""
    experts, chosen = 8, 2
    block = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}

    def make() -> Run:
        rng = np.random.default_rng(0)
        x, w = normal(tokens, k, dtype=dtype), normal(experts, n, k, dtype=dtype, seed=1)
        w[...] = w / np.sqrt(k).astype(dtype)
        sent = rng.permuted(np.tile(np.arange(experts), (tokens, 1)), axis=1)[:, :chosen].ravel()
        groups = [np.flatnonzero(sent == e) for e in range(experts)]
        spare = tokens * chosen  # in place of the rows that a tile lacks
        tiles_of = [-(-len(group) // 64) for group in groups]
        rows = np.concatenate([
            np.pad(g, (0, 64 * count - len(g)), constant_values=spare)
            for g, count in zip(groups, tiles_of)
        ]).astype(np.int32)  # fmt: skip
        expert = np.repeat(np.arange(experts), tiles_of).astype(np.int32)
        out, t_out = (empty(spare, n, dtype=dtype) for _ in range(2))
        tx, tw, t_out, t_groups = *map(tensor, (x, w, t_out)), [*map(tensor, groups)]
        grid = (len(expert), triton.cdiv(n, 64))

        def ours():
            experts_kernel[grid](x, w, out, rows, expert, spare, n, k, CHOSEN=chosen, **block)
            return out

        def with_torch():
            for e, group in enumerate(t_groups):
                t_out[group] = tx[group // chosen] @ tw[e].T
            return t_out

        def reference():
            pairs = zip(sent, np.arange(spare) // chosen)
            return np.stack([w[e].astype(float) @ x[t].astype(float) for e, t in pairs])

        return Run({OURS: ours, **present(torch=with_torch)}, reference, TOLERANCE[kind.name])

    kind = np.dtype(dtype)
    moved = kind.itemsize * (tokens * k + experts * n * k + tokens * chosen * n)
    size = f"{tokens}x{n}x{k}, {chosen} of {experts}"
    return Case(f"experts {kind.name}", size, make, moved, 2 * tokens * chosen * n * k)


def batched_case(batch: int, m: int, n: int, k: int) -> Case:
    def make() -> Run:
        a, b = normal(batch, m, k), normal(batch, k, n, seed=1)
        c, n_c, t_c = (empty(batch, m, n) for _ in range(3))
        ta, tb, t_c = tensor(a), tensor(b), tensor(t_c)
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), batch)

        def ours():
            batched_matmul_kernel[grid](a, b, c, m, n, k, **BLOCK)
            return c

        calls = present(
            torch=lambda: torch.bmm(ta, tb, out=t_c), numpy=lambda: np.matmul(a, b, out=n_c)
        )
        return Run({OURS: ours, **calls}, lambda: a.astype(float) @ b.astype(float), 1e-4)

    moved = 4 * batch * (m * k + k * n + m * n)
    return Case("batched matmul", f"{batch} {sides(m, n, k)}", make, moved, 2 * batch * m * n * k)


def convolution_case(images: int, side: int, channels: int, filters: int) -> Case:
    pixels = images * side * side

    def make() -> Run:
        x, w = normal(images, side, side, channels), normal(3, 3, channels, filters, seed=1)
        w /= np.float32(3 * np.sqrt(channels))
        y = empty(images, side, side, filters)
        grid = (triton.cdiv(side * side, 64), filters // 64, images)

        def ours():
            convolution_kernel[grid](
                x, w, y, side, side, channels, filters,
                SIDE=3, BLOCK_P=64, BLOCK_F=64, BLOCK_C=64,
            )  # fmt: skip
            return y

        def reference():
            padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
            parts = [
                padded[:, i : i + side, j : j + side] @ w[i, j] for i in range(3) for j in range(3)
            ]
            return np.sum(parts, axis=0)

        calls = {OURS: ours}
        if torch is not None:
            tx = tensor(x).permute(0, 3, 1, 2)
            tw = tensor(w).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            convolve = torch.nn.functional.conv2d
            calls["torch"] = lambda: convolve(tx, tw, padding=1).permute(0, 2, 3, 1)
        return Run(calls, reference, 1e-4)

    moved = 4 * (pixels * (channels + filters) + 9 * channels * filters)
    size = f"{images}x{side}x{side}, {channels} to {filters}"
    return Case("convolution 3x3", size, make, moved, 2 * pixels * 9 * channels * filters)


ODD = [(509, 509, 509), (1000, 1000, 1000), (777, 513, 1023), (1823, 781, 256), (100, 2048, 2048)]
CASES = [
    matmul_case(512, 512, 512, block=LARGE),
    matmul_case(1024, 1024, 1024, block=LARGE),
    *(matmul_case(*sizes) for sizes in ODD),
    *(matmul_case(*sizes, block=LARGE) for sizes in ODD[:4]),
    matmul_case(1024, 1024, 1024, activation="leaky_relu", block=LARGE),
    matmul_case(512, 512, 512, ml_dtypes.bfloat16, block=DEEP),
    matmul_case(1024, 1024, 1024, ml_dtypes.bfloat16, block=DEEP),
    matmul_case(777, 513, 1023, ml_dtypes.bfloat16),
    matmul_case(777, 513, 1023, ml_dtypes.bfloat16, block=DEEP),
    matmul_case(512, 512, 512, np.float16, block=LARGE),
    matmul_case(512, 512, 512, block=SMALL),
    matmul_case(1, 2048, 2048, block=FEW),
    matmul_case(16, 2048, 2048, block=FEW),
    matmul_case(1, 2048, 2048, ml_dtypes.bfloat16, block=FEW),
    matmul_case(16, 2048, 2048, ml_dtypes.bfloat16, block=FEW),
    *(matmul_case(rows, 2048, 2048, block=FEW, turned=True) for rows in (1, 8, 16)),
    matmul_case(512, 512, 512, turned=True),
    matmul_case(777, 513, 1023, left_turned=True),
    wrapped_case(512, 512, 512),
    wrapped_case(777, 513, 1023),
    int8_case(1024, 1024, 1024, block=DEEP),
    int8_case(777, 513, 1023),
    weights_case(256, 1024, 1024),
    weights_case(16, 1024, 1024, block=FEW),
    rows_case(512, 512, 512),
    rows_case(777, 513, 1023, ml_dtypes.bfloat16),
    experts_case(512, 512, 512),
    experts_case(512, 512, 512, ml_dtypes.bfloat16),
    batched_case(64, 128, 128, 128),
    convolution_case(4, 28, 128, 128),
]
