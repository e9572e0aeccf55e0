"""Which integer arithmetic may not be what it says in one launch, and tests of it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import types as t
from tilewright.ir.inst import Block, Builder, Inst, Kernel, Param, Value, walk
from tilewright.ir.op import Op
from tilewright.ir.rewrite import rebuild
from tilewright.ops import control, debug, math, program, shape
from tilewright.passes import loops
from tilewright.passes.constants import constant
from tilewright.passes.flow import find_facts
from tilewright.passes.ranges import RULES, Interval, RangeAnalysis, every

EXACT = (math.add, math.sub, math.mul)
NARROW = (t.int8, t.int16, t.int32)
SMALL = (t.int8, t.int16, t.uint8, t.uint16)  # what runs over of these matters wherever it goes
BITS = {"bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr", "bitcast"}  # make words
MOVES = {"splat", "broadcast", "reshape", "permute", "cast"}
# Where a number that ran over is meant: hashes, random numbers, indices that are cut to size.
ENDS = {math.bit_and, math.bit_or, math.bit_xor, math.bit_not, math.shl, math.shr, math.irem}


class LaunchRanges(RangeAnalysis):
    """The ranges of integers in one launch, of which arguments and grid are known."""

    def __init__(self, kernel: Kernel, values: Sequence[int | None], grid: tuple[int, int, int]):
        self.params, self.values, self.grid = kernel.body.params, values, grid
        self.facts: dict[Value, Interval] = {}
        self.over: set[Inst] = set()  # what matters in addresses
        self.undefined: set[Inst] = set()

    def param(self, index: int, param: Param) -> Interval:
        value = self.values[index]
        out = every(param.type.dtype) if value is None else (value, value)
        self.facts[self.params[index]] = out
        return out

    def result(self, inst: Inst, facts: list[Interval], position: int) -> Interval:
        if inst.op is program.program_id:
            out = (0, self.grid[inst.attrs["axis"]] - 1)
        elif inst.op is program.num_programs:
            out = (self.grid[inst.attrs["axis"]],) * 2
        else:
            out = super().result(inst, facts, position)
        if runs_over(inst, facts, out):
            self.over.add(inst)
        elif is_undefined(inst, facts):
            self.undefined.add(inst)
        self.facts[inst.results[position]] = out
        return out

    def foresee(self, loop: Inst, facts: list[Interval]) -> dict[int, Interval]:
        """The range of what grows by steps of one range in a loop of so many turns at most."""
        if loop.op is not control.for_ or facts[2][0] <= 0:
            return {}
        turns = max(0, -(-(facts[1][1] - facts[0][0]) // facts[2][0]))
        out = {}
        block = loops.body(loop)
        params = loops.carried_params(loop, block)
        for k, (p, y) in enumerate(zip(params, loops.yields(loop), strict=True)):
            step = self.step(p, y, block)
            if step is not None:
                low, high = facts[3 + k]
                low, high = low + min(0, turns * step[0]), high + max(0, turns * step[1])
                least, most = every(p.type.dtype)
                if least <= low and high <= most:
                    out[k] = (low, high)
        return out

    def step(self, before: Value, after: Value, block: Block) -> Interval | None:
        """By how much a carried integer grows each turn, if it is that simple."""
        inst = after.inst
        if not before.type.dtype.is_integer or inst is None or inst.op not in (math.add, math.sub):
            return None
        x, y = inst.operands
        if inst.op is math.add and y is before:
            x, y = y, x
        known = self.outside(y, set(walk(block)))
        if x is not before or known is None:
            return None
        return known if inst.op is math.add else (-known[1], -known[0])

    def outside(self, value: Value, inside: set[Inst]) -> Interval | None:
        """The range of what is made of nothing inside a loop."""
        inst = value.inst
        if inst not in inside:
            return self.facts.get(value)
        if inst.op in (shape.splat, shape.broadcast, shape.reshape):
            return self.outside(inst.operands[0], inside)
        return RULES[inst.op](inst, []) if inst.op is shape.constant else None


def runs_over(inst: Inst, facts: list[Interval], found: Interval) -> bool:
    """Whether numbers may come to be that their dtype does not hold."""
    if inst.op in EXACT and inst.result.type.dtype in {*NARROW, *SMALL}:
        exact = RULES[inst.op](inst, facts)
        return exact is None or exact != found
    if inst.op is math.cast and inst.result.type.dtype is t.int32:
        return inst.operands[0].type.dtype is t.int64 and facts[0] != found
    return is_cut(inst) and facts[0] != found


def is_cut(inst: Inst) -> bool:
    """Whether a cast keeps the lower bits of what may be more, and is no word of bits."""
    if inst.op is not math.cast or inst.result.type.dtype not in (t.int8, t.int16):
        return False
    value = inst.operands[0]
    if not value.type.dtype.is_integer or value.type.dtype.bits <= inst.result.type.dtype.bits:
        return False
    while value.inst is not None and value.inst.op.name in MOVES:
        value = value.inst.operands[0]
    return value.inst is None or value.inst.op.name not in BITS


def is_undefined(inst: Inst, facts: list[Interval]) -> bool:
    """Whether an operation may be given what it has no result for."""
    if not inst.results:
        return False
    dtype = inst.results[0].type.dtype
    if not dtype.is_integer or dtype is t.int1:
        return False
    if inst.op in (math.idiv, math.irem):
        return facts[1][0] <= 0 <= facts[1][1]
    if inst.op in (math.shl, math.shr):
        return facts[1][0] < 0 or facts[1][1] >= dtype.bits
    return inst.op is math.cast and inst.operands[0].type.dtype.is_float


def may_go_wrong(
    kernel: Kernel, values: Sequence[int | None], grid: tuple[int, int, int]
) -> tuple[int, ...]:
    """The numbers, in program order, of the instructions that a launch should test.

    `values` are the integers that are passed, parameter by parameter.
    """
    ranges = LaunchRanges(kernel, values, grid)
    find_facts(kernel, ranges)
    if ranges.over:
        ways = ways_to_addresses(kernel)
        ranges.over = {x for x in ranges.over if x in ways or x.result.type.dtype in SMALL}
    found = ranges.over | ranges.undefined | {x for x in kernel.walk() if is_promise(x)}
    return tuple(n for n, inst in enumerate(kernel.walk()) if inst in found)


def ways_to_addresses(kernel: Kernel) -> set[Inst]:
    """The instructions whose results an address is made of."""
    sources: dict[Value, list[Value]] = {}  # of what loops and branches give or are given
    for inst in kernel.walk():
        if inst.op in loops.LOOPS:
            start = loops.bounds(inst)
            for k, y in enumerate(loops.yields(inst)):
                both = [inst.operands[start + k], y]
                sources[inst.results[k]] = both
                for block in inst.blocks:
                    sources[loops.carried_params(inst, block)[k]] = both
        elif inst.op is control.if_:
            for k, result in enumerate(inst.results):
                sources[result] = [block.terminator.operands[k] for block in inst.blocks]
    out: set[Inst] = set()
    seen: set[Value] = set()
    stack = [i.operands[i.op.access.pointer] for i in kernel.walk() if i.op.access is not None]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        stack += sources.get(value, ())
        inst = value.inst
        if inst is None or inst.op.effect not in ("pure", "program"):
            continue
        out.add(inst)
        if inst.op not in ENDS:
            stack += inst.operands
    return out


def with_tests(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    """The kernel with a soft assertion after each of these instructions that all went well.

    `numbers` are those of `may_go_wrong` of the same kernel.
    """
    tested = set(numbers)
    chosen = {i.results[0] for n, i in enumerate(kernel.walk()) if n in tested}

    def rule(b: Builder, inst: Inst, operands: tuple[Value, ...]) -> Value | None:
        if not inst.results or inst.results[0] not in chosen:
            return None
        out = b.emit(inst.op, *operands, **inst.attrs)
        if inst.op is debug.hint:
            b.emit(debug.device_assert, test_of_promise(b, operands[0], inst), soft="hint")
            return out
        make = test_of_range if inst.op in EXACT or is_narrowing(inst) else test_of_operand
        soft = "overflow" if make is test_of_range else "arithmetic"
        b.emit(debug.device_assert, make(b, inst.op, operands, out), soft=soft)
        return out

    return rebuild(kernel, rule)


def is_promise(inst: Inst) -> bool:
    """Whether a hint says of an integer, or of a row of them, that it is a multiple."""
    if inst.op is not debug.hint or not inst.operands[0].type.dtype.is_integer:
        return False
    sizes = inst.attrs.get("multiple") or (1,)
    return len(inst.operands[0].type.shape) <= 1 and sizes[0] > 1


def test_of_promise(b: Builder, x: Value, inst: Inst) -> Value:
    """Whether a number is a multiple; of a row the first, and what counts up from it."""
    x = b.emit(math.cast, x, to=t.int64.short)
    size = constant(b.emit, inst.attrs["multiple"][0], x.type)
    rest = b.emit(math.irem, x, size)
    if not x.type.shape:
        return b.emit(math.eq, rest, constant(b.emit, 0, x.type))
    lane = b.emit(shape.arange, start=0, end=x.type.shape[0])
    lane = b.emit(math.cast, lane, to=t.int64.short)
    same = b.emit(math.eq, rest, b.emit(math.irem, lane, size))
    return b.emit(math.bit_or, same, b.emit(math.lt, x, lane))  # `% n` starts again at 0


def is_narrowing(inst: Inst) -> bool:
    return inst.op is math.cast and inst.operands[0].type.dtype.is_integer


def test_of_range(b: Builder, op: Op, operands: tuple[Value, ...], out: Value) -> Value:
    """Whether a result is that of the same operation in 64 bits; a cast to few bits may keep those
    of an unsigned number."""
    if op is math.cast and out.type.dtype in SMALL:
        x, bits = operands[0], out.type.dtype.bits
        x = b.emit(math.cast, x, to=t.int64.short)
        low = b.emit(math.ge, x, constant(b.emit, -1 << bits - 1, x.type))
        return b.emit(math.bit_and, low, b.emit(math.lt, x, constant(b.emit, 1 << bits, x.type)))
    wide = [b.emit(math.cast, x, to=t.int64.short) for x in operands]
    exact = wide[0] if op is math.cast else b.emit(op, *wide)
    return b.emit(math.eq, exact, b.emit(math.cast, out, to=t.int64.short))


def test_of_operand(b: Builder, op: Op, operands: tuple[Value, ...], out: Value) -> Value:
    """Whether an operand is one that there is a result for."""
    x, low, high = operands[-1], None, None
    if op in (math.idiv, math.irem):
        return b.emit(math.ne, x, constant(b.emit, 0, x.type))
    if op is math.cast:
        low, high = every(out.type.dtype)
        x = b.emit(math.cast, x, to=t.float64.short)
        # The limits of 64 bits are no floats; the next numbers outside of them are.
        low = b.emit(math.ge if low < -(1 << 53) else math.gt, x, constant(
            b.emit, float(low) if low < -(1 << 53) else float(low - 1), x.type
        ))  # fmt: skip
        high = b.emit(math.lt, x, constant(b.emit, float(high + 1), x.type))
    else:
        low = b.emit(math.ge, x, constant(b.emit, 0, x.type))
        high = b.emit(math.lt, x, constant(b.emit, out.type.dtype.bits, x.type))
    return b.emit(math.bit_and, low, high)
