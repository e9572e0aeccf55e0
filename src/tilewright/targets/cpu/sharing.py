"""Which arguments are taken not to share memory, and how far apart they must start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Kernel, Value
from tilewright.passes.origins import root_params
from tilewright.passes.strides import Strides
from tilewright.targets.cpu.launch import HEAD_SLOTS

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator

ANYWHERE = 1 << 61  # arguments may not meet at all
FAR_APART = 1 << 60  # they may only start at one place
MOST_PAIRS = 16  # of arguments that are compared one by one; more are looked up in a table

# Whether two arguments of a table meet that may not. A row of it says where among the slots both
# are (value, lowest and highest address), and how far apart they may not start, from 0 or 1 on.
ANY_MEETS = """
define internal i1 @tw_any_meets(ptr %args, ptr %table, i64 %count) {
  br label %head
head:
  %k = phi i64 [ 0, %0 ], [ %n, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %none
body:
  %row = getelementptr [4 x i64], ptr %table, i64 %k
  %first = load i64, ptr %row
  %p1 = getelementptr i64, ptr %row, i64 1
  %second = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %row, i64 2
  %least = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %row, i64 3
  %reach = load i64, ptr %p3
  %x = getelementptr i64, ptr %args, i64 %first
  %y = getelementptr i64, ptr %args, i64 %second
  %x1 = getelementptr i64, ptr %x, i64 1
  %x2 = getelementptr i64, ptr %x, i64 2
  %y1 = getelementptr i64, ptr %y, i64 1
  %y2 = getelementptr i64, ptr %y, i64 2
  %xv = load i64, ptr %x
  %xl = load i64, ptr %x1
  %xh = load i64, ptr %x2
  %yv = load i64, ptr %y
  %yl = load i64, ptr %y1
  %yh = load i64, ptr %y2
  %a = icmp slt i64 %xl, %yh
  %b = icmp slt i64 %yl, %xh
  %apart = sub i64 %xv, %yv
  %back = sub i64 0, %apart
  %ahead = icmp sge i64 %apart, 0
  %gap = select i1 %ahead, i64 %apart, i64 %back
  %c = icmp sge i64 %gap, %least
  %d = icmp slt i64 %gap, %reach
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %bad = and i1 %ab, %cd
  br i1 %bad, label %some, label %next
next:
  %n = add i64 %k, 1
  br label %head
none:
  ret i1 false
some:
  ret i1 true
}
"""


class Reliance(NamedTuple):
    """What is taken of a pair of arguments."""

    reach: int  # bytes that they start apart, at least
    same: bool  # or they start at one place


class Sharing:
    """What a plan relies on, which a launch then makes sure of."""

    def __init__(self, kernel: Kernel, strides: Callable[[Value], Strides], shared: bool):
        self.params = kernel.body.params
        self.strides = strides
        self.roots = root_params(kernel)
        self.shared = shared  # arguments may share memory
        # Pairs of parameters that were taken not to share memory, or not to start less than so many
        # bytes apart; those with `same` may start at one place.
        self.relied: dict[tuple[int, int], Reliance] = {}

    def apart(self, p: Value, q: Value, same: bool) -> bool:
        """Whether two pointers come from different arguments, which a launch then makes sure of.

        `same`: elements at one position may be the same one.
        """
        a, b = self.roots(p), self.roots(q)
        if self.shared or not a or not b or a & b:
            return False
        reach = self.reach(p, q) if self.alike(p, q) else ANYWHERE
        for i in a:
            for j in b:
                pair = (min(i, j), max(i, j))
                before = self.relied.get(pair, Reliance(0, True))
                self.relied[pair] = Reliance(max(reach, before.reach), same and before.same)
        return True

    def reach(self, p: Value, q: Value) -> int:
        """How far apart two tiles of pointers of the same offsets must start to never meet."""
        reach = 0
        for pointer in (p, q):
            steps = self.strides(pointer)
            if None in steps:
                return FAR_APART
            spans = [abs(s) * (n - 1) for n, s in zip(pointer.type.shape, steps, strict=True)]
            reach = max(reach, sum(spans) + pointer.type.dtype.element_ty.bytes)
        return reach

    def alike(self, p: Value, q: Value) -> bool:
        """Whether two pointers are moved by the same offsets from the start of an argument each."""
        while p.inst is not None and q.inst is not None:
            x, y = p.inst, q.inst
            moved = x.op.name in ("offset", "splat", "broadcast", "reshape", "hint")
            if not moved or (x.op, x.attrs) != (y.op, y.attrs) or x.operands[1:] != y.operands[1:]:
                return False
            p, q = x.operands[0], y.operands[0]
        return p in self.params and q in self.params


def any_pair_meets(e: Evaluator, pairs: Iterable[tuple[tuple[int, int], Reliance]]) -> Lane:
    """Whether two arguments of some pair share memory that were taken not to."""
    rows: list[int] = []
    for (i, j), (reach, same) in pairs:
        rows += [HEAD_SLOTS + 3 * i, HEAD_SLOTS + 3 * j, int(same), reach]
    numbers = ", ".join(f"i64 {n}" for n in rows)
    table = f"@tw_pairs.{len(e.w.declared)}"
    e.w.declare(f"{table} = private constant [{len(rows)} x i64] [{numbers}]")
    e.w.declare(ANY_MEETS)
    call = f"call i1 @tw_any_meets(ptr %args, ptr {table}, i64 {len(rows) // 4})"
    return e.b.value(call, t.int1, 1)
