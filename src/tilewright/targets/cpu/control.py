"""Loops and branches of the IR: scalars become phis, tiles keep one buffer through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Value
from tilewright.later import later
from tilewright.targets.cpu import loop_tiles
from tilewright.targets.cpu.clip import fill_tail
from tilewright.targets.cpu.counted import counted_loop, hand_on_scalars, open_counted
from tilewright.targets.cpu.forms import Uniform
from tilewright.targets.cpu.loops import Carried

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

loop_pieces = later("tilewright.targets.cpu.loop_pieces")
spins = later("tilewright.targets.cpu.spins")


def for_loop(x: Lowering, inst: Inst) -> None:
    """A counted loop."""
    pieces = loop_tiles.find_pieces(x, inst)
    if pieces is not None:
        loop_pieces.PieceLoop(x, inst, pieces).write()
        return
    e = x.e
    x.loops[inst] = e.w.at
    body = inst.blocks[0]
    params = body.params[1:]
    share_buffers(x, inst, params, inst.operands[3:], body)
    loop, scalars = counted_loop(e, inst)
    open_counted(e, inst, loop, scalars)
    ends = body.terminator.operands if body.terminator is not None else ()
    x.block(body, [(p, v) for p, v in zip(params, ends, strict=True) if p.type.shape])
    hand_on_scalars(e, inst, scalars)
    e.forget(loop.close())
    for k, entry in scalars.items():
        e.bound[inst.results[k]] = Uniform(entry.phi, e.w.at)


def share_buffers(
    x: Lowering, inst: Inst, params: list[Value], carried: tuple[Value, ...], body: Block
) -> None:
    """Give each carried tile one buffer, filled with what it starts as."""
    starts = []
    for param, result, value in zip(params, inst.results, carried, strict=True):
        if not param.type.shape:
            continue
        if is_taken_over(x, inst, param, value):
            x.e.buffers[param] = x.e.buffers[value]
            fill_tail(x.e, x.e.buffers[value])  # once: each turn goes on from what it holds
        buffer = x.buffer(param)
        x.e.buffers[result] = buffer
        starts.append((param, value))
    x.straight([], starts)
    for k, param in enumerate(params):
        if param.type.shape and body.terminator is not None:
            share_in_place(x, param, body.terminator.operands[k], body)


def is_taken_over(x: Lowering, inst: Inst, param: Value, value: Value) -> bool:
    """Whether a loop may go on in the buffer of what it starts with: it is the only reader."""
    buffer = x.e.buffers.get(value)
    return (
        buffer is not None
        and buffer.type == param.type
        and x.plan.users[value] == [inst]
        and x.plan.home[value] is x.plan.home[inst.results[0]]
    )


def share_in_place(x: Lowering, param: Value, value: Value, body: Block) -> None:
    """Let a product write to the buffer of the tile that it continues, if nobody else reads it."""
    inst = value.inst
    if inst is None or inst.op.name != "dot" or inst not in body.insts:
        return
    chain = x.plan.only_through(param, inst.operands[2], inst)
    if chain:
        x.e.buffers[value] = x.e.buffers[param]


def while_loop(x: Lowering, inst: Inst) -> None:
    """A loop on a condition, which ends too when the launch is stopped."""
    e, w = x.e, x.e.w
    x.loops[inst] = w.at
    condition, body = inst.blocks
    starts = [(p, v) for p, v in zip(condition.params, inst.operands, strict=True) if p.type.shape]
    for p, q, r in zip(condition.params, body.params, inst.results, strict=True):
        if p.type.shape:
            e.buffers[p] = e.buffers[q] = e.buffers[r] = x.buffer(p)
    x.straight([], starts)
    phis = {
        k: Carried(Lane(w.fresh("phi"), v.type.dtype), e.scalar(v).lane)
        for k, v in enumerate(inst.operands)
        if not v.type.shape
    }
    head, again, leave = w.new_label("head"), w.new_label("body"), w.new_label("exit")
    spin = spins.Spin.of(x, inst)
    w.open(head)
    spin.begin()
    for k, entry in phis.items():
        form = Uniform(entry.phi, w.at)
        e.bound[condition.params[k]] = e.bound[body.params[k]] = form
    x.block(condition)
    test = e.scalar(condition.terminator.operands[0]).lane
    if x.memory.checks is not None:
        counted = phis[-1] = Carried(Lane(w.fresh("rounds"), t.int64), e.const(0))
        counted.next = e.b.add(counted.phi, e.const(1))
        test = x.memory.checks.ends(inst, counted.phi, test)
    w.open(again)
    ends = body.terminator.operands if body.terminator else ()
    x.block(body, [(body.params[k], v) for k, v in enumerate(ends) if v.type.shape])
    for k, entry in phis.items():
        entry.next = entry.next or e.scalar(ends[k]).lane
    spin.end([entry for k, entry in phis.items() if k >= 0])
    inner = w.close()
    e.forget(inner.memo)
    w.write(f"br i1 {test.text}, label %{again}, label %{leave}")
    w.label(again)
    w.take(inner)
    w.write(f"br label %{head}")
    scope = w.close()
    e.forget(scope.memo)
    before = w.here
    w.write(f"br label %{head}")
    w.label(head)
    for entry in phis.values():
        w.write(
            f"{entry.phi.text} = phi {entry.phi.type} [{entry.start.text}, %{before}], "
            f"[{entry.next.text}, %{scope.label}]"
        )
    w.take(scope)
    w.label(leave)
    spin.leave()
    for k, result in enumerate(inst.results):
        if k in phis:
            e.bound[result] = Uniform(phis[k].phi, w.at)


def branch(x: Lowering, inst: Inst) -> None:
    """One of two regions."""
    e, w = x.e, x.e.w
    test = e.scalar(inst.operands[0]).lane
    for r in inst.results:
        if r.type.shape:
            x.buffer(r)
    labels = (w.new_label("then"), w.new_label("else"))
    join = w.new_label("join")
    scopes, values = [], []
    for label, block in zip(labels, inst.blocks, strict=True):
        w.open(label)
        ends = block.terminator.operands if block.terminator else ()
        pairs = list(zip(inst.results, ends, strict=True))
        x.block(block, [(r, v) for r, v in pairs if r.type.shape])
        values.append([e.scalar(v).lane for r, v in pairs if not r.type.shape])
        w.write(f"br label %{join}")
        scope = w.close()
        e.forget(scope.memo)
        scopes.append(scope)
    w.write(f"br i1 {test.text}, label %{labels[0]}, label %{labels[1]}")
    for label, scope in zip(labels, scopes, strict=True):
        w.label(label)
        w.take(scope)
    w.label(join)
    scalars = [r for r in inst.results if not r.type.shape]
    for r, yes, no in zip(scalars, *values, strict=True):
        lane = e.b.value(
            f"phi {yes.type} [{yes.text}, %{scopes[0].label}], [{no.text}, %{scopes[1].label}]",
            r.type.dtype,
            1,
        )
        e.bound[r] = Uniform(lane, w.at)


RULES = {"for": for_loop, "while": while_loop, "if": branch}
