"""Products of few rows, with the right operand read where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.codegen.lanes import Lane
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.gemm import Gemm
from tilewright.targets.cpu.gemm_pack import load_part
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE
from tilewright.targets.cpu.gemm_product import product_of
from tilewright.targets.cpu.routine import Function, Routine

VECTORS = 8  # sums at a time: as many as hide the latency of an fma


def parameters(gemm: Gemm, source: DType) -> dict[str, Lane]:
    """`a` has rows of `gemm.operand`, `b` is a matrix of `source` in memory, `c` has rows of
    `gemm.acc`. `next_b`, which may be null, is as `b` and will be read next."""
    pointers = {"a": gemm.operand, "b": source, "c": gemm.acc, "next_b": source}
    dtypes = {name: pointer_to(dtype) for name, dtype in pointers.items()}
    order = ("a", "lda", "b", "ldb", "c", "next_b", "rows", "columns", "depth")
    return {name: Lane(f"%{name}", dtypes.get(name, ty.int64)) for name in order}


@cache
def row_function(gemm: Gemm, source: DType, machine: Machine) -> Function:
    """What `gemm` does for a single row, of a right operand that is row-major in memory."""
    r, of = Routine(machine), parameters(gemm, source)
    acc = gemm.acc
    lanes = min(gemm.n, machine.vector_bytes // acc.bytes)
    product = product_of(1, lanes, gemm.operand, acc, machine, native_bf16=False)
    columns = of["columns"]
    most = min(VECTORS, gemm.n // lanes)
    line = CACHE_LINE // source.bytes

    def start(ptr: Lane) -> Lane:
        return r.b.const(0, acc, lanes) if gemm.fresh else r.load(ptr, lanes)

    def sums(column: Lane, vectors: int, left: Lane | None) -> None:
        out = [r.at(of["c"], column, v * lanes) for v in range(vectors)]

        def step(k: Lane, *held: Lane) -> Sequence[Lane]:
            moved = r.b.add(r.b.mul(k, of["ldb"]), column)
            here, there = r.at(of["b"], moved), r.at(of["next_b"], moved)
            x = r.b.splat(r.load(r.at(of["a"], k)), lanes)
            for u in range(0, vectors * lanes, line):
                r.prefetch(r.at(there, u))
            rows = [load_part(r, r.at(here, v * lanes), lanes, left) for v in range(vectors)]
            rows = [r.b.cast(row, gemm.operand) for row in rows]
            return [product.emit(r.b, h, x, row) for h, row in zip(held, rows, strict=True)]

        found = r.count(r.index(0), of["depth"], 1, step, [start(ptr) for ptr in out])
        for value, ptr in zip(found, out, strict=True):
            r.store(value, ptr)

    whole = r.b.bit_and(columns, r.index(-most * lanes))
    r.count(r.index(0), whole, most * lanes, lambda i: sums(i, most, None))
    r.count(whole, columns, lanes, lambda i: sums(i, 1, r.b.sub(columns, i)))
    name = f"tw_row_{gemm.n}_{source.short}_{gemm.operand.short}_{acc.short}"
    name += "_new" * gemm.fresh
    return r.finish(name, list(of.values()))


@cache
def few_columns_function(gemm: Gemm, source: DType, machine: Machine) -> Function:
    """What `gemm` does, of a right operand whose transpose is row-major in memory.

    Every sum is made of one sum for each lane of a vector.
    """
    r, of = Routine(machine), parameters(gemm, source)
    product, acc = gemm.product, gemm.acc
    lanes = min(gemm.n, machine.vector_bytes // acc.bytes)
    together, wide = min(VECTORS, lanes), lanes * product.k_group
    columns, depth = of["columns"], of["depth"]
    last = r.b.sub(columns, r.index(1))

    def some(column: Lane) -> None:
        numbers = [r.b.add(column, r.index(u)) if u else column for u in range(together)]
        starts = [r.b.mul(r.b.minimum(number, last), of["ldb"]) for number in numbers]

        def row(i: Lane) -> None:
            left = r.at(of["a"], r.b.mul(i, of["lda"]))

            def step(k: Lane, held: Sequence[Lane], rest: Lane | None) -> list[Lane]:
                x = load_part(r, r.at(left, k), wide, rest)
                out = []
                for sums, start in zip(held, starts, strict=True):
                    at = r.b.add(start, k)
                    y = load_part(r, r.at(of["b"], at), wide, rest)
                    out.append(product.emit(r.b, sums, x, r.b.cast(y, gemm.operand)))
                    r.prefetch(r.at(of["next_b"], at))
                return out

            zeros = [r.b.const(0, acc, lanes)] * together
            whole = r.b.bit_and(depth, r.index(-wide))
            held = r.count(r.index(0), whole, wide, lambda k, *held: step(k, held, None), zeros)
            held = r.count(
                whole, depth, wide, lambda k, *held: step(k, held, r.b.sub(depth, k)), held
            )
            place = r.at(of["c"], r.times(i, gemm.n), column)
            made = sums_of(r, held)
            r.store(made if gemm.fresh else r.b.add(r.load(place, together), made), place)

        r.count(r.index(0), of["rows"], 1, row)

    r.count(r.index(0), columns, together, some)
    name = f"tw_few_{gemm.n}_{source.short}_{gemm.operand.short}x{product.k_group}_{acc.short}"
    name += "_new" * gemm.fresh
    return r.finish(name, list(of.values()))


def sums_of(r: Routine, parts: Sequence[Lane]) -> Lane:
    """The sum of the lanes of each part, as one vector; powers of two."""
    run = parts[0].width  # lanes that belong to one part
    while run > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        run //= 2
        starts = range(0, parts[0].width, 2 * run)
        halves = [
            [lane for start in starts for lane in range(start + h * run, start + (h + 1) * run)]
            for h in range(2)
        ]
        parts = [r.b.add(*(picked(r, pair, half) for half in halves)) for pair in pairs]
    return parts[0]


def picked(r: Routine, parts: Sequence[Lane], order: list[int]) -> Lane:
    """These lanes of each part."""
    x, width = parts[0], parts[0].width
    order = [u * width + lane for u in range(len(parts)) for lane in order]
    mask = ", ".join(f"i32 {lane}" for lane in order)
    text = f"shufflevector {x.typed}, {parts[-1].typed}, <{len(order)} x i32> <{mask}>"
    return r.b.value(text, x.dtype, len(order))
