"""Launches that were given memory allocated as empty: where they would have written to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.instruments import poison
from tilewright.lang.frontend import build_kernel
from tilewright.passes.origins import root_params
from tilewright.runtime.call import Call
from tilewright.runtime.kernel import JITFunction


@dataclass(frozen=True)
class Passed:
    """An argument of a launch, without the arrays of that."""

    jit: JITFunction
    types: dict[str, Any]
    constants: dict[str, Any]
    argument: str
    address: int

    def writer(self) -> poison.Writer | None:
        """The last store that the kernel has for it, if it has any."""
        try:
            kernel = build_kernel(self.jit, self.types, self.constants)
        except TilewrightError:
            return None
        roots_of, found = root_params(kernel), None
        names = [param.name for param in kernel.params]
        for inst in kernel.walk():
            if inst.op.effect == "write":
                roots = roots_of(inst.operands[inst.op.access.pointer])
                if roots and self.argument in {names[k] for k in roots}:
                    found = inst
        if found is None:
            return None
        name = self.jit.__name__
        return poison.Writer(name, self.argument, (0, 0, 0), found.loc, self.address)


def note(call: Call) -> None:
    """Note the arguments of a launch that lie in such memory, and that no kernel wrote before."""
    for leaf in call.leaves:
        if leaf.type is None or not leaf.type.dtype.is_pointer:
            continue
        memory = poison.allocated.get(leaf.bounds[0])
        if memory is not None and memory.writer is None:
            memory.passed = Passed(call.jit, call.types, call.constants, leaf.name, leaf.value)
