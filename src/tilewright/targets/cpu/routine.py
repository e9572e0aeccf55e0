"""Write the functions that kernels call as LLVM IR text: their loops, loads and stores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.codegen.lanes import Lane, Lanes, llvm_type
from tilewright.codegen.llvm import Machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType


@dataclass(frozen=True)
class Function:
    """A function; `needs` are declarations and functions, each wanted once a module.

    Its name tells all that it depends on but the machine, so that kernels can share its code.
    """

    name: str
    definition: str
    needs: tuple[str, ...]

    @property
    def declaration(self) -> str:
        head, _, _ = self.definition.partition(" {")
        return head.replace("define", "declare", 1)

    @property
    def module(self) -> str:
        """A module of its own."""
        return "\n".join([*self.needs, self.definition, ""])


class Routine:
    """The text of a function while it is written; indices are i64 lanes, `b` writes on lanes."""

    def __init__(self, machine: Machine):
        self.lines = ["entry:"]
        self.here = "entry"  # the label of the block being written, for phis
        self.needs: dict[str, None] = {}
        self.numbers = itertools.count()
        target = {"x86_64": "x86"}.get(machine.arch, machine.arch)
        features = frozenset(f[1:] for f in machine.features.split(",") if f.startswith("+"))
        self.b = Lanes(self.write, self.fresh, self.needs.setdefault, target, features)

    def write(self, line: str) -> None:
        self.lines.append("  " + line)

    def fresh(self) -> str:
        return f"%t{next(self.numbers)}"

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.here = name

    def index(self, value: int) -> Lane:
        return self.b.const(value, ty.int64)

    def at(self, base: Lane, *terms: Lane | int) -> Lane:
        """The pointer `base` moved by a sum of elements."""
        for term in terms:
            if term != 0:
                index = self.index(term) if isinstance(term, int) else term
                base = self.b.offset(base, index)
        return base

    def times(self, x: Lane, factor: int) -> Lane:
        return x if factor == 1 else self.b.mul(x, self.index(factor))

    def load(self, ptr: Lane, width: int = 1, align: int = 0, dtype: DType | None = None) -> Lane:
        """`width` elements from memory, aligned as one element is unless told."""
        element = ptr.dtype.element_ty
        dtype = dtype or element
        kind, align = llvm_type(dtype, width), align or element.bytes
        return self.b.value(f"load {kind}, ptr {ptr.text}, align {align}", dtype, width)

    def store(self, value: Lane, ptr: Lane, align: int = 0) -> None:
        align = align or ptr.dtype.element_ty.bytes
        self.write(f"store {value.typed}, ptr {ptr.text}, align {align}")

    def prefetch(self, ptr: Lane, writes: bool = False) -> None:
        """Ask for the cache line of an address, which may be any, to read it or to write there."""
        self.b.require("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.write(f"call void @llvm.prefetch.p0(ptr {ptr.text}, i32 {writes:d}, i32 3, i32 1)")

    def loop(
        self,
        stop: int,
        step: int,
        body: Callable[..., Sequence[Lane] | None],
        carried: Sequence[Lane] = (),
    ) -> Sequence[Lane]:
        """`carried = body(i, *carried)` for i = 0, step, ... below `stop`; no loop for one turn."""
        if stop <= step:
            return body(self.index(0), *carried) or ()
        number, entry = next(self.numbers), self.here
        index = Lane(f"%i{number}", ty.int64)
        inside = [Lane(self.fresh(), x.dtype, x.width) for x in carried]
        self.write(f"br label %loop{number}")
        self.label(f"loop{number}")
        top = len(self.lines)
        after = body(index, *inside) or ()
        following = self.b.add(index, self.index(step))
        latch = self.here
        again = self.b.lt(following, self.index(stop))
        self.write(f"br {again.typed}, label %loop{number}, label %end{number}")
        self.lines[top:top] = [
            f"  {x.text} = phi {x.type} [ {first.text}, %{entry} ], [ {last.text}, %{latch} ]"
            for x, first, last in zip(
                [index, *inside], [self.index(0), *carried], [following, *after], strict=True
            )
        ]
        self.label(f"end{number}")
        return after

    def count(
        self,
        start: Lane,
        stop: Lane,
        step: int,
        body: Callable[..., Sequence[Lane] | None],
        carried: Sequence[Lane] = (),
    ) -> Sequence[Lane]:
        """`carried = body(i, *carried)` for i = start, start + step, ... below `stop`, if any."""
        number, entry = next(self.numbers), self.here
        index = Lane(f"%i{number}", ty.int64)
        held = [Lane(self.fresh(), x.dtype, x.width) for x in carried]
        self.write(f"br label %head{number}")
        self.label(f"head{number}")
        top = len(self.lines)
        inside = self.b.lt(index, stop)
        self.write(f"br {inside.typed}, label %loop{number}, label %end{number}")
        self.label(f"loop{number}")
        after = body(index, *held) or ()
        following = self.b.add(index, self.index(step))
        latch = self.here
        self.write(f"br label %head{number}")
        self.lines[top:top] = [
            f"  {x.text} = phi {x.type} [ {first.text}, %{entry} ], [ {last.text}, %{latch} ]"
            for x, first, last in zip(
                [index, *held], [start, *carried], [following, *after], strict=True
            )
        ]
        self.label(f"end{number}")
        return held

    def when(self, condition: Lane, body: Callable[[], object]) -> None:
        """`body()` if the condition holds."""
        number = next(self.numbers)
        self.write(f"br {condition.typed}, label %then{number}, label %end{number}")
        self.label(f"then{number}")
        body()
        self.write(f"br label %end{number}")
        self.label(f"end{number}")

    def finish(self, name: str, parameters: Sequence[Lane]) -> Function:
        """The function, returning nothing."""
        names = ", ".join(p.typed for p in parameters)
        head = f"define void @{name}({names}) nounwind {{"
        text = "\n".join([head, *self.lines, "  ret void", "}"])
        return Function(name, text, tuple(self.needs))
