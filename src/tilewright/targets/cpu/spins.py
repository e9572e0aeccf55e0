"""`while` loops that may wait for other programs: their rounds that change nothing are reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value, walk
from tilewright.ir.rewrite import free_values
from tilewright.targets.cpu.atomics import same_bits
from tilewright.targets.cpu.bounds import raise_fault
from tilewright.targets.cpu.locks import takes_lock
from tilewright.targets.cpu.loops import Carried
from tilewright.targets.cpu.waits import DEADLOCK, WAIT_WORDS

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

POLL = "tw_poll"  # gives the stop word of the launch; looks at signals on the launching thread
WAIT = "tw_wait"  # the same after a round that changed nothing, or that this is a deadlock
GO_ON = "tw_go_on"  # a round did change something, after some that did not


def poll(x: Lowering) -> None:
    """Leave the kernel when the launch is stopped."""
    w = x.e.w
    x.imports[POLL] = f"i64 @{POLL}(ptr)"
    state, word, stopped = w.fresh(), w.fresh(), w.fresh()
    w.write(f"{state} = load ptr, ptr %args")
    w.write(f"{word} = call i64 @{POLL}(ptr {state})")
    w.write(f"{stopped} = icmp ne i64 {word}, 0")
    go = w.new_label("go")
    w.write(f"br i1 {stopped}, label %{x.memory.fault_label}, label %{go}")
    w.label(go)


def is_spin(inst: Inst) -> bool:
    """Whether a loop has rounds that, once they change nothing, are all the same.

    Not a loop that stores in every round, nor one whose tiles depend on those of the round
    before: these compute.
    """
    if any(i.op.effect == "write" for block in inst.blocks for i in block.insts):
        return False
    condition, body = inst.blocks
    tiles = {p for p in body.params if p.type.shape}
    if not tiles or body.terminator is None:
        return True
    tainted = tiles | {p for p in condition.params if p.type.shape}
    for block in inst.blocks:
        spread(block, tainted)
    ends = zip(body.params, body.terminator.operands, strict=True)
    return all(end is p or end not in tainted for p, end in ends if p.type.shape)


def spread(block: Block, tainted: set[Value]) -> None:
    """Add the results of what reads a tainted value."""
    for inst in block.insts:
        inner = any(not tainted.isdisjoint(free_values(b)) for b in inst.blocks)
        if inner or not tainted.isdisjoint(inst.operands):
            tainted.update(inst.results)


def depends(loop: Inst, reads: list[Inst]) -> bool:
    """Whether what some instructions inside of a loop read decides if it goes on."""
    condition, body = loop.blocks
    tainted = {result for inst in reads for result in inst.results}
    for outer in (i for block in loop.blocks for i in block.insts):
        if not set(reads).isdisjoint(i for block in outer.blocks for i in walk(block)):
            tainted.update(outer.results)
    ends = body.terminator.operands if body.terminator is not None else ()
    size = -1
    while size < len(tainted):
        size = len(tainted)
        for block in loop.blocks:
            spread(block, tainted)
        for p, q, end in zip(condition.params, body.params, ends, strict=True):
            if end in tainted:
                tainted |= {p, q}
    return condition.terminator.operands[0] in tainted


def waits_for_others(kernel: Kernel) -> bool:
    """Whether a loop may read memory until another program has written it."""
    loops = (inst for inst in kernel.walk() if inst.op.name == "while")
    return any(is_spin(i) and looks(i) and not takes_lock(kernel.body, i) for i in loops)


def looks(loop: Inst) -> bool:
    """Whether a loop reads memory."""
    insts = (i for block in loop.blocks for i in walk(block))
    return any(i.op.effect in ("read", "atomic") for i in insts)


@dataclass(eq=False, slots=True)
class Spin:
    """The text that a `while` loop has beside its own; none but a poll in one that computes."""

    x: Lowering
    inst: Inst
    may_wait: bool
    before: str | None = None  # where an outer loop counts changes
    moves: str = ""  # the changes counted when a round begins

    @classmethod
    def of(cls, x: Lowering, inst: Inst) -> Spin:
        spin = cls(x, inst, is_spin(inst), x.memory.moves)
        if spin.may_wait:
            if x.memory.checks is None:
                may_look = looks(inst)
            else:  # which knows whose memory programs change
                insts = (i for block in inst.blocks for i in walk(block))
                may_look = depends(inst, [i for i in insts if x.memory.checks.may_change(i)])
            x.waits = x.waits or (may_look and not takes_lock(x.kernel.body, inst))
            x.imports[WAIT] = f"i64 @{WAIT}(ptr, ptr)"
            x.imports[GO_ON] = f"void @{GO_ON}(ptr, ptr)"
        return spin

    def begin(self) -> None:
        """At the start of a round."""
        if not self.may_wait:
            return
        w = self.x.e.w
        self.x.memory.moves = self.x.memory.moves or zeroed(self.x, 1)
        self.moves = w.fresh("moves")
        w.write(f"{self.moves} = load i64, ptr {self.x.memory.moves}")

    def end(self, scalars: list[Carried]) -> None:
        """At the end of a round."""
        if not self.may_wait:
            poll(self.x)
            return
        w = self.x.e.w
        stuck, moved, join = w.new_label("stuck"), w.new_label("moved"), w.new_label("on")
        same = self.unchanged(scalars)
        w.write(f"br i1 {same.text}, label %{stuck}, label %{moved}")
        w.label(stuck)
        self.wait(join)
        w.label(moved)
        self.leave()
        poll(self.x)
        w.write(f"br label %{join}")
        w.label(join)
        self.x.memory.moves = self.before

    def unchanged(self, scalars: list[Carried]) -> Lane:
        """Whether the round left the scalars and the memory as they were."""
        b = self.x.e.b
        now = b.value(f"load i64, ptr {self.x.memory.moves}", t.int64, 1)
        same = b.eq(Lane(self.moves, t.int64), now)
        for entry in scalars:
            same = b.bit_and(same, same_bits(b, entry.phi, entry.next))
        return same

    def wait(self, join: str) -> None:
        """Wait a little; leave the kernel when it is stopped, or when this is a deadlock."""
        x, w, b = self.x, self.x.e.w, self.x.e.b
        leave, fault = w.new_label("leave"), w.new_label("fault")
        state = w.fresh()
        w.write(f"{state} = load ptr, ptr %args")
        word = b.value(f"call i64 @{WAIT}(ptr {state}, ptr {own(x)})", t.int64, 1)
        going = b.eq(word, b.const(0, t.int64))
        w.write(f"br i1 {going.text}, label %{join}, label %{leave}")
        w.label(leave)
        dead = b.eq(word, b.const(DEADLOCK, t.int64))
        w.write(f"br i1 {dead.text}, label %{fault}, label %{x.memory.fault_label}")
        w.label(fault)
        running, unstarted = (own_word(x, k) for k in (5, 6))
        raise_fault(x.memory, self.inst, unstarted, running, running)

    def leave(self) -> None:
        """Where the loop ends, or goes on to something new."""
        if not self.may_wait:
            return
        w, b = self.x.e.w, self.x.e.b
        on, join = w.new_label("on"), w.new_label("join")
        waiting = b.ne(own_word(self.x, 0), b.const(0, t.int64))
        w.write(f"br i1 {waiting.text}, label %{on}, label %{join}")
        w.label(on)
        state = w.fresh()
        w.write(f"{state} = load ptr, ptr %args")
        w.write(f"call void @{GO_ON}(ptr {state}, ptr {own(self.x)})")
        w.write(f"br label %{join}")
        w.label(join)


def zeroed(x: Lowering, words: int) -> str:
    """Words on the stack that are 0 at first."""
    w = x.e.w
    name = w.alloca("i64", words)
    w.allocas.append(f"  store [{words} x i64] zeroinitializer, ptr {name}")
    return name


def own(x: Lowering) -> str:
    """What a waiting program keeps for itself: one for the whole kernel."""
    if not x.standing:
        x.standing = zeroed(x, WAIT_WORDS)
    return x.standing


def own_word(x: Lowering, number: int) -> Lane:
    b = x.e.b
    place = b.value(f"getelementptr i64, ptr {own(x)}, i64 {number}", t.pointer_to(t.int64), 1)
    return b.value(f"load i64, ptr {place.text}", t.int64, 1)
