"""How long a program takes, roughly, and how many threads pay: estimated before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import ceil, log2, prod

from tilewright.ir.inst import Block, Inst, Value
from tilewright.passes.constants import integer
from tilewright.passes.strides import Strides
from tilewright.targets.cpu.kinds import CONTROL

# Nanoseconds for an element, on a core with vectors of 512 bits.
FLOP = 0.02
MOVED = 0.06  # a load or store among neighbours
GATHERED = 0.4
WHOLE = 0.4  # sorts, scans, histograms, each step
PRODUCT = 0.006  # a multiply-add
PLAIN, LOCKED = 0.3, 3.0  # an atomic among neighbours that no other thread meets, or may meet
PLAIN_GATHERED, LOCKED_GATHERED = 0.5, 15.0  # mostly the way of a cache line to another core
TRIPS = 256  # of a loop whose number of rounds is not known: what stands in it is what counts
HAND_OVER = 3000  # ns that it takes until a second thread helps
FEWEST_TRIPS = 8  # of a loop whose number of rounds is not known: what stands around it counts too
LITTLE = 0.05  # of the time of products, that all else may take to be nothing but glue
FEWEST_ROWS, LEAST_PRODUCT = 32, 500  # the second in ns: of smaller ones, glue is a part that shows


@dataclass(slots=True)
class Work:
    """Nanoseconds of one program: without its atomics, and these as plain or as locked ones."""

    other: float = 0.0
    plain: float = 0.0
    locked: float = 0.0
    is_known: bool = True  # whether all rounds of loops are

    @property
    def few(self) -> int:
        """So many programs, or fewer, are done before a second thread could help."""
        if not self.is_known:
            return 1
        return max(1, int(HAND_OVER / max(self.other + self.plain, 1.0)))

    @property
    def alone_until(self) -> int:
        """Of so many threads, or fewer, all are slower than one that takes no locks."""
        return int((self.other + self.locked) / max(self.other + self.plain, 1e-9))


def estimate(body: Block, strides: Callable[..., Strides]) -> Work:
    """The work of a block, loops as often as is known."""
    work = Work()
    count(body, 1.0, strides, work)
    return work


def count(block: Block, times: float, strides: Callable[..., Strides], work: Work) -> None:
    for inst in block.insts:
        name = inst.op.name
        if name.startswith("atomic"):
            spread = is_gathered(inst, strides)
            each = times * elements(inst)
            work.plain += each * (PLAIN_GATHERED if spread else PLAIN)
            work.locked += each * (LOCKED_GATHERED if spread else LOCKED)
        else:
            work.other += times * cost(inst, strides)
        if name in CONTROL:
            rounds = trips(inst)
            work.is_known = work.is_known and rounds is not None
            for inner in inst.blocks:
                count(inner, times * (TRIPS if rounds is None else rounds), strides, work)


def is_glue(body: Block, strides: Callable[..., Strides], packed: Collection[Inst]) -> bool:
    """Whether products, and the packing of these loads by routines, take nearly all the time.

    LLVM takes a quarter of the time over what surrounds them where it does not improve it.
    """
    product, rest = 0.0, 0.0
    data: set[Value] = set()  # not where something lies, nor masks, which are computed for a tile
    todo = [(body, 1.0)]
    while todo:
        block, times = todo.pop()
        for inst in block.insts:
            rounds = trips(inst)
            todo += [(b, times * (FEWEST_TRIPS if rounds is None else rounds)) for b in inst.blocks]
            if inst.op.name == "dot":
                rows = inst.result.type.shape[-2]
                if rows < FEWEST_ROWS or cost(inst, strides) < LEAST_PRODUCT:
                    return False
                product += times * cost(inst, strides)
            elif inst.op.is_pure and not inst.blocks and data.isdisjoint(inst.operands):
                continue
            elif inst not in packed:
                rest += times * cost(inst, strides)
            data.update(inst.results)
    return rest < LITTLE * product


def trips(inst: Inst) -> float | None:
    """How often the body of a loop runs, as far as that is known."""
    if inst.op.name == "while":
        return None
    if inst.op.name != "for":
        return 1
    low, high, step = (integer(x) for x in inst.operands[:3])
    if low is None or high is None or not step:
        return None
    return max(0, ceil((high - low) / step))


def elements(inst: Inst) -> int:
    """Elements that an instruction reads or gives, the larger number."""
    values = (*inst.operands, *inst.results)
    return max((prod(x.type.shape) for x in values), default=1)


def cost(inst: Inst, strides: Callable[..., Strides]) -> float:
    """Nanoseconds of an instruction that is no atomic."""
    name, size = inst.op.name, elements(inst)
    if name in ("load", "store"):
        return size * (GATHERED if is_gathered(inst, strides) else MOVED)
    if name == "dot":
        return PRODUCT * prod(inst.results[0].type.shape) * inst.operands[0].type.shape[-1]
    if name in ("sort", "scan"):
        return WHOLE * size * max(1.0, log2(size))
    if name in ("histogram", "gather"):
        return WHOLE * size
    return FLOP * size * max(inst.op.flops, 1 if name == "reduce" else 0)


def is_gathered(inst: Inst, strides: Callable[..., Strides]) -> bool:
    """Whether no axis of a tile of pointers leads from one element to its neighbour."""
    pointers = inst.operands[0]
    if not pointers.type.shape or prod(pointers.type.shape) == 1:
        return False
    return pointers.type.dtype.element_ty.bytes not in strides(pointers)
