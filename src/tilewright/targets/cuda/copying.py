"""What a thread copies of a tile from global to shared memory, by asynchronous copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.targets.cuda.layout import Layout, union
from tilewright.targets.cuda.memory import Place, Vector, offset_text
from tilewright.targets.cuda.operands import Shared

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering

COPY = "llvm.nvvm.cp.async"


@dataclass(frozen=True)
class Copies:
    """What one thread copies for one load: vectors, where they go, and under which conditions."""

    load: Inst
    shared: Shared
    bytes: int  # of one vector
    vectors: list[Vector]
    targets: list[Lane]
    masks: list[Lane | None]
    owner: Lane | None


class Copier:
    """Writes copies of a kernel's loads."""

    def __init__(self, x: Lowering):
        self.x, self.e = x, x.e

    def wait(self, count: int) -> None:
        """Until at most so many of this thread's groups of copies are under way."""
        self.e.w.declare(f"declare void @{COPY}.wait.group(i32 immarg)")
        self.e.w.write(f"call void @{COPY}.wait.group(i32 {count})")

    def commit(self) -> None:
        """What was asked for since the last time is a group."""
        self.e.w.declare(f"declare void @{COPY}.commit.group()")
        self.e.w.write(f"call void @{COPY}.commit.group()")

    def copies(self, load: Inst, shared: Shared, base: Lane) -> Copies:
        """What a load would load, and zeros where its mask is false."""
        x, m = self.x, self.x.memory
        layout = x.access_layout(load)
        pointer = x.tile(load.operands[0], layout)
        mask = x.tile(load.operands[1], layout) if len(load.operands) > 1 else None
        spare = layout.free_bits()[0]
        accesses = [rs for rs in x.assigned.vectors(load) if not any(r & spare for r in rs)]
        places = m.places(load.operands[0], pointer)
        vectors = [Vector(rs, places[rs[0]]) for rs in accesses]
        masks = [mask.lanes[v.registers[0]] if mask is not None else None for v in vectors]
        m.hazards.before(load, layout)
        targets = self.targets(layout, shared, base, [rs[0] for rs in accesses])
        size = len(accesses[0]) * shared.bytes
        return Copies(load, shared, size, vectors, targets, masks, self.e.owner(layout))

    def perform(self, copies: Copies, on: Lane) -> None:
        """Copy where `on` holds."""
        on = self.e.both(on, copies.owner)
        for vector, target, mask in zip(copies.vectors, copies.targets, copies.masks, strict=True):
            self.copy_vector(target, vector.place, copies.bytes, mask, on)

    def check(self, copies: Copies) -> None:
        """Copy what lies inside of the argument."""
        on = copies.owner or self.e.b.const(1, t.int1)

        def one(k: int, mask: Lane | None) -> list[Lane]:
            place = copies.vectors[k].place
            self.copy_vector(copies.targets[k], place, copies.bytes, mask, on)
            return []

        size = copies.shared.bytes
        self.x.guard.moved(copies.load, copies.vectors, copies.masks, size, one)

    def targets(
        self, layout: Layout, shared: Shared, base: Lane, registers: Sequence[int]
    ) -> list[Lane]:
        """Where each register's element goes: a sum of a few bases and constants."""
        e = self.e
        columns = [shared.offset(c) * shared.bytes for c in layout.thread]
        own, used = e.of_thread(columns), union(columns)
        bases: dict[int, Lane] = {}
        out = []
        for r in registers:
            constant = shared.offset(layout.index(r)) * shared.bytes
            low = constant & used
            if low not in bases:
                bases[low] = e.b.add(base, e.xor(own, low))
            out.append(e.plus(bases[low], constant ^ low))
        return out

    def copy_vector(
        self, target: Lane, place: Place, bytes: int, mask: Lane | None, on: Lane
    ) -> None:
        """Where `on` holds, copy one vector, or zeros where the mask is false."""
        e = self.e
        kind = "cg" if bytes == 16 else "ca"
        source = offset_text("$1", place.bytes)
        text = f"@$2 cp.async.{kind}.shared.global [$0], [{source}], {bytes}"
        pointer = self.x.memory.global_pointer(place.pointer)
        operands = [target.typed, f"ptr addrspace(1) {pointer}", on.typed]
        constraints = "r,l,b"
        if mask is not None:
            size = e.b.select(mask, e.const(bytes), e.const(0))
            text, constraints = text + ", $3", constraints + ",r"
            operands.append(size.typed)
        e.w.write(
            f'call void asm sideeffect "{text};", "{constraints},~{{memory}}"'
            f"({', '.join(operands)})"
        )
