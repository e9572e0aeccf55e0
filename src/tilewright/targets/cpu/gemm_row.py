"""One row of a matrix product, with the right operand read where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.codegen.lanes import Lane
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType, pointer_to
from tilewright.targets.cpu.gemm import Gemm, product_of
from tilewright.targets.cpu.gemm_pack import load_part
from tilewright.targets.cpu.gemm_prefetch import CACHE_LINE
from tilewright.targets.cpu.routine import Function, Routine

VECTORS = 8  # sums at a time: as many as hide the latency of an fma


@cache
def row_function(gemm: Gemm, source: DType, machine: Machine) -> Function:
    """What `gemm` does for a single row, of a right operand that is not packed.

    Its arguments are `ptr a, ptr b, i64 ldb, ptr c, ptr next_b, i64 columns, i64 depth`: a row of
    `gemm.operand`, a row-major matrix of `source`, a row of `gemm.acc` and the matrix that will
    be read next, `ldb` apart too; or null.
    """
    r = Routine(machine)
    acc = gemm.acc
    lanes = min(gemm.n, machine.vector_bytes // acc.bytes)
    product = product_of(gemm, lanes, machine)
    a, c = Lane("%a", pointer_to(gemm.operand)), Lane("%c", pointer_to(acc))
    b, ahead = (Lane(f"%{name}", pointer_to(source)) for name in ("b", "next_b"))
    stride, columns, depth = (Lane(f"%{name}", ty.int64) for name in ("ldb", "columns", "depth"))
    most = min(VECTORS, gemm.n // lanes)
    line = CACHE_LINE // source.bytes

    def sums(column: Lane, vectors: int, left: Lane | None) -> None:
        out = [r.at(c, column, v * lanes) for v in range(vectors)]

        def step(k: Lane, *held: Lane) -> Sequence[Lane]:
            moved = r.b.add(r.b.mul(k, stride), column)
            here, there = r.at(b, moved), r.at(ahead, moved)
            x = r.b.splat(r.load(r.at(a, k)), lanes)
            for u in range(0, vectors * lanes, line):
                r.prefetch(r.at(there, u))
            rows = [load_part(r, r.at(here, v * lanes), lanes, left) for v in range(vectors)]
            rows = [r.b.cast(row, gemm.operand) for row in rows]
            return [product.emit(r.b, h, x, row) for h, row in zip(held, rows, strict=True)]

        found = r.count(r.index(0), depth, 1, step, [r.load(ptr, lanes) for ptr in out])
        for value, ptr in zip(found, out, strict=True):
            r.store(value, ptr)

    whole = r.b.bit_and(columns, r.index(-most * lanes))
    r.count(r.index(0), whole, most * lanes, lambda i: sums(i, most, None))
    r.count(whole, columns, lanes, lambda i: sums(i, 1, r.b.sub(columns, i)))
    name = f"tw_row_{gemm.n}_{source.short}_{gemm.operand.short}_{acc.short}"
    return r.finish(name, [a, b, stride, c, ahead, columns, depth])
