"""Roofs of this machine: multiply-adds a second, and streaming add and copy by size.

The loops are those of `tilewright.targets.cpu.roofs`, here by the clock of the process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time_ns

import machine
from case import empty

from tilewright.codegen import llvm
from tilewright.targets.cpu import roofs

FMA_ROUNDS = 200_000
SIZES = {"in L2": 2**15, "in L3": 2**20, "from memory": 2**24}


def fma_peak(repeats: int = 15) -> float:
    """fp32 operations a second of one core, two for a multiply-add."""
    host = llvm.host_machine()
    function, _library = roofs.native(roofs.product_ir("fp32", host), "product", 2)
    memory = empty(roofs.ACCUMULATORS * 16)
    best = best_ns(lambda: function(memory.ctypes.data, FMA_ROUNDS), repeats)
    return roofs.product_flops("fp32", FMA_ROUNDS, host) / best * 1e9


def stream(operation: str, size: int) -> Callable[[], None]:
    """A call that streams `size` floats through one core."""
    lanes = llvm.host_machine().vector_bytes // 4
    function, library = roofs.native(roofs.stream_ir(lanes, operation), operation, 4)
    arrays = [empty(size) for _ in range(3)]
    addresses = [x.ctypes.data for x in arrays]

    def call(keep: object = (library, arrays)) -> None:
        function(*addresses, size)

    return call


def stream_peak(operation: str, size: int, repeats: int = 15) -> float:
    """Bytes a second of one core."""
    call, moved = stream(operation, size), 4 * size * roofs.OPERANDS[operation]
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
    found = {"fma fp32 GFLOP/s": fma_peak() / 1e9}
    for operation in roofs.OPERANDS:
        for where, size in SIZES.items():
            found[f"{operation} {where} GB/s"] = stream_peak(operation, size) / 1e9
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine.restart(1)
    for name, value in measured().items():
        print(f"{name:24} {value:8.1f}")


if __name__ == "__main__":
    main()
