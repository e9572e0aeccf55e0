"""Roofs of this machine: multiply-adds a second, and streaming add and copy by size.

The loops are LLVM IR through the same code generator as the kernels.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from time import process_time_ns

import machine
from case import empty

from tilewright.codegen import llvm

ACCUMULATORS = 12  # enough to cover the latency of two units
FMA_ROUNDS = 200_000
UNROLL = 4
SIZES = {"in L2": 2**15, "in L3": 2**20, "from memory": 2**24}
OPERANDS = {"add": 3, "copy": 2}


def fma_ir(lanes: int) -> str:
    """A loop of independent multiply-adds of fp32."""
    kind = f"<{lanes} x float>"
    names = range(ACCUMULATORS)
    fma = f"call {kind} @llvm.fma({kind} %a, {kind} %b, {kind}"
    lines = [
        "define void @fma(ptr %p, i64 %n) {",
        "entry:",
        f"  %a = load {kind}, ptr %p",
        f"  %b = load {kind}, ptr %p",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %c{k} = phi {kind} [zeroinitializer, %entry], [%d{k}, %loop]" for k in names),
        *(f"  %d{k} = {fma} %c{k})" for k in names),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
    ]
    for k in names:
        lines.append(f"  %q{k} = getelementptr {kind}, ptr %p, i64 {k}")
        lines.append(f"  store {kind} %d{k}, ptr %q{k}")
    lines += ["  ret void", "}", f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})"]
    return "\n".join(lines).replace("@llvm.fma(", f"@llvm.fma.v{lanes}f32(")


def stream_ir(lanes: int, operation: str) -> str:
    """`c = a + b` or `c = a` over n elements, a multiple of the step."""
    kind = f"<{lanes} x float>"
    body = []
    for u in range(UNROLL):
        body.append(f"  %i{u} = add i64 %i, {u * lanes}")
        for name in "abc":
            body.append(f"  %p{name}{u} = getelementptr float, ptr %{name}, i64 %i{u}")
        body.append(f"  %x{u} = load {kind}, ptr %pa{u}")
        if operation == "add":
            body.append(f"  %y{u} = load {kind}, ptr %pb{u}")
            body.append(f"  %z{u} = fadd {kind} %x{u}, %y{u}")
        body.append(f"  store {kind} %{'z' if operation == 'add' else 'x'}{u}, ptr %pc{u}")
    lines = [
        f"define void @{operation}(ptr %a, ptr %b, ptr %c, i64 %n) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *body,
        f"  %next = add i64 %i, {UNROLL * lanes}",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def native(text: str, name: str, arguments: int) -> tuple[Callable, object]:
    """The function of a module, and what keeps it loaded."""
    code = llvm.compile_object(text, llvm.host_machine())
    library = llvm.Library.load(code.bytes, [name])
    kinds = [ctypes.c_void_p] * (arguments - 1) + [ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *kinds)(library.address(name)), library


def lanes() -> int:
    return llvm.host_machine().vector_bytes // 4


def fma_peak(repeats: int = 15) -> float:
    """fp32 operations a second of one core, two for a multiply-add."""
    function, _library = native(fma_ir(lanes()), "fma", 2)
    memory = empty(ACCUMULATORS * 16)
    best = best_ns(lambda: function(memory.ctypes.data, FMA_ROUNDS), repeats)
    return 2 * lanes() * ACCUMULATORS * FMA_ROUNDS / best * 1e9


def stream(operation: str, size: int) -> Callable[[], None]:
    """A call that streams `size` floats through one core."""
    function, library = native(stream_ir(lanes(), operation), operation, 4)
    arrays = [empty(size) for _ in range(3)]
    addresses = [x.ctypes.data for x in arrays]

    def call(keep: object = (library, arrays)) -> None:
        function(*addresses, size)

    return call


def stream_peak(operation: str, size: int, repeats: int = 15) -> float:
    """Bytes a second of one core."""
    call, moved = stream(operation, size), 4 * size * OPERANDS[operation]
    count = max(1, 2**22 // size)
    return moved * count / best_ns(lambda: [call() for _ in range(count)], repeats) * 1e9


def best_ns(call: Callable, repeats: int) -> int:
    times = []
    for _ in range(repeats):
        start = process_time_ns()
        call()
        times.append(process_time_ns() - start)
    return min(times)


def measured() -> dict[str, float]:
    """All roofs of one core by name, in GFLOP/s and GB/s."""
    roofs = {"fma fp32 GFLOP/s": fma_peak() / 1e9}
    for operation in OPERANDS:
        for where, size in SIZES.items():
            roofs[f"{operation} {where} GB/s"] = stream_peak(operation, size) / 1e9
    return roofs


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine.restart(1)
    for name, value in measured().items():
        print(f"{name:24} {value:8.1f}")


if __name__ == "__main__":
    main()
