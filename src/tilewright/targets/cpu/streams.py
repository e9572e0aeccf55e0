"""Stores that go past the caches, where a launch writes more than they keep until it ends.

A plain store reads the line that it changes first, a quarter or a third of the traffic of kernels
that stream. Only whole lines of memory that the kernel does not read are written past the caches.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel
from tilewright.passes.origins import read_params
from tilewright.targets.cpu.asked import STREAMS, STREAMS_IMPORT

if TYPE_CHECKING:
    from tilewright.targets.cpu.memory import Access, Memory
    from tilewright.targets.cpu.schedule import Anchor

LINE = 64  # bytes
READS = "@tw_reads"
USUAL_CACHE = {2: 1 << 20, 3: 32 << 20}  # by level, where the system does not tell
FENCE = "declare void @llvm.x86.sse.sfence()"
NONTEMPORAL = "!0 = !{i32 1}"


@functools.cache
def cache_bytes(level: int = 3) -> int:
    """The size of a cache, the last one if not told."""
    try:
        size = os.sysconf(f"SC_LEVEL{level}_CACHE_SIZE")
    except (ValueError, OSError):
        size = 0
    return size if size > 0 else USUAL_CACHE[level]


@dataclass(eq=False, slots=True)
class Streams:
    """Which stores of a kernel may go past the caches, and where they do."""

    kernel: Kernel
    read: set[int] = field(init=False)
    once: set[Inst] = field(init=False)  # what a program runs at most once
    large: dict[Inst, Lane | None] = field(default_factory=dict)
    rows: dict[tuple, Lane] = field(default_factory=dict)  # access -> if its row does
    are_used: bool = False
    # Of the turn that is being written: its stores, plain and past the caches, and where they go.
    turn: list[tuple[str, str]] | None = None
    turn_goes: Lane | None = None

    def __post_init__(self) -> None:
        self.read = read_params(self.kernel)
        self.once = {i for i in self.kernel.body.insts if not i.blocks}

    def look(self, m: Memory, inst: Inst, key: tuple, a: Access) -> None:
        """Find out whether a row of stores goes past the caches."""
        if m.e.b.target != "x86" or m.counters is not None or not a.contiguous:
            return
        if m.e.row.width * a.size < LINE // 2 or m.e.row.start is not None:
            return
        large = self.is_large(m, inst)
        if large is None:
            return
        b = m.e.b
        low = b.bit_and(b.bitcast(a.pointer.base, t.int64), m.e.const(LINE - 1))
        self.rows[key] = b.bit_and(large, b.eq(low, m.e.const(0)))

    def is_large(self, m: Memory, inst: Inst) -> Lane | None:
        """Whether a launch stores so much, to memory that it does not read."""
        if inst not in self.large:
            param = m.param(inst)
            if inst.op.name != "store" or param is None or param in self.read:
                self.large[inst] = None
            else:
                with m.e.w.outside(0):
                    self.large[inst] = self.find_large(m, inst, param)
        return self.large[inst]

    def find_large(self, m: Memory, inst: Inst, param: int) -> Lane:
        pointer, each = inst.operands[0].type, 0
        if inst in self.once:
            each = pointer.size * pointer.dtype.element_ty.bytes
        m.imports.update(STREAMS_IMPORT)
        reads = ", ".join(f"i64 {k}" for k in sorted(self.read))
        m.e.w.declare(f"{READS} = private constant [{len(self.read)} x i64] [{reads}]")
        numbers = f"i64 {param}, i64 {each}, ptr {READS}, i64 {len(self.read)}"
        call = f"call i1 @{STREAMS}(ptr %args, {numbers}, i64 {cache_bytes()})"
        return m.e.b.value(call, t.int1, 1)

    def store(self, m: Memory, key: tuple, a: Access, lane: Lane) -> None:
        """Store a whole chunk, past the caches where its row goes there."""
        plain = f"store {lane.typed}, ptr {a.pointer.base.text}, align {a.size}"
        past = self.rows.get(key)
        size = lane.width * a.size
        if past is None or size < LINE // 2:
            m.e.w.write(plain)
            return
        aligned = f"{plain.rpartition(' ')[0]} {min(size, LINE)}, !nontemporal !0"
        if self.turn is not None:
            self.turn.append((plain, aligned))
            self.turn_goes = past
        else:
            self.write(m, past, [(plain, aligned)])

    @contextlib.contextmanager
    def one_turn(self, m: Memory, anchors: list[Anchor]) -> Iterator[None]:
        """Write the chunks of a turn of a loop, whose stores take one branch.

        They come after the loads of all chunks. Only one store is put off so: others might be to
        the same place.
        """
        if len(anchors) > 1 or anchors[0].kind != "store":
            yield
            return
        self.turn = []
        yield
        stores, self.turn = self.turn, None
        if stores:
            self.write(m, self.turn_goes, stores)

    def write(self, m: Memory, past: Lane, stores: list[tuple[str, str]]) -> None:
        """The stores as they are, or past the caches."""
        w = m.e.w
        self.are_used = True
        w.declare(NONTEMPORAL)
        w.declare(FENCE)
        labels = [w.new_label(stem) for stem in ("past", "near", "stored")]
        w.write(f"br i1 {past.text}, label %{labels[0]}, label %{labels[1]}")
        for way in (1, 0):
            w.label(labels[1 - way])
            for store in stores:
                w.write(store[way])
            w.write(f"br label %{labels[2]}")
        w.label(labels[2])
