"""Run an IR kernel natively on NumPy arrays, and on the eager runner for comparison."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.codegen import llvm
from tilewright.eager.machine import Scalar
from tilewright.eager.memory import Buffer
from tilewright.eager.run import run_ir
from tilewright.ir.inst import Kernel
from tilewright.ops.rules import numpy_dtype
from tilewright.targets.cpu import threads
from tilewright.targets.cpu.launch import HEAD_SLOTS, SLOTS, STATE_WORDS, TAKEN, import_address
from tilewright.targets.cpu.lower import lower


class Native:
    """A kernel compiled for this computer, or for a lesser one of its kind."""

    def __init__(self, kernel: Kernel, features: str = ""):
        machine = llvm.host_machine(features)
        lowered = lower(kernel, machine)
        self.kernel = kernel
        self.text = lowered.text
        self.sites = lowered.sites
        code = llvm.compile_object(lowered.text, machine)
        imports = {name: import_address(name) for name in lowered.imports}
        self.library = llvm.Library.load(code.bytes, [lowered.entry], imports)
        self.entry = self.library.address(lowered.entry)

    def run(
        self, grid: Sequence[int], values: Sequence[Any], team: int = 1, chunk: int = 1
    ) -> list[int]:
        """Launch; gives the record of a fault: taken, site, program, address, stride, count."""
        sizes = (*grid, 1, 1)[:3]
        state = (ctypes.c_int64 * STATE_WORDS)()
        slots = np.zeros(HEAD_SLOTS + SLOTS * len(values), np.int64)
        slots[0] = ctypes.addressof(state)
        slots[1:4] = sizes
        for k, (param, value) in enumerate(zip(self.kernel.params, values, strict=True)):
            slot = slots[HEAD_SLOTS + SLOTS * k :][:SLOTS]
            if isinstance(value, np.ndarray):
                start = value.ctypes.data
                slot[:] = start, start, start + value.nbytes
            else:
                number = np.array([value]).astype(numpy_dtype(param.type.dtype))
                slot.view(np.uint8)[: number.nbytes] = number.view(np.uint8)
        total = sizes[0] * sizes[1] * sizes[2]
        threads.parallel(self.entry, slots.ctypes.data, total, chunk, team)
        return list(state[TAKEN : TAKEN + 6])


def run_native(
    kernel: Kernel, grid: Sequence[int], values: Sequence[Any], features: str = ""
) -> list[int]:
    """Compile and launch once; the arrays are changed in place."""
    return Native(kernel, features).run(grid, values)


def run_eager(
    kernel: Kernel, grid: Sequence[int], values: Sequence[Any], observers: Sequence[Any] = ()
) -> None:
    """The same on NumPy."""
    given = []
    for param, value in zip(kernel.params, values, strict=True):
        if isinstance(value, np.ndarray):
            start = value.ctypes.data
            dtype = param.type.dtype.element_ty
            given.append(Buffer(param.name, dtype, start, start, start + value.nbytes))
        else:
            given.append(Scalar(param.type.dtype, value))
    run_ir(kernel, grid, given, observers=observers)


def slots_of(values: Sequence[Any]) -> list[Any]:
    """What a launch passes for arrays and numbers."""
    slots: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray):
            start = value.ctypes.data
            slots += [start, start, start + value.nbytes]
        else:
            slots.append(value)
    return slots
