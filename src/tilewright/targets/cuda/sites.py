"""Loads, stores and atomics: vectors that are proven, layouts that coalesce, sectors touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ops import atomic
from tilewright.passes.facts import Strides
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.axes import Axes
from tilewright.targets.cuda.layout import Layout, blocked, log2, union

WIDEST = 16  # bytes of one access of a lane
ADDED = (t.float32, t.float16, t.bfloat16)  # several at a time
SECTOR = 32  # bytes that memory moves at least


@dataclass(frozen=True)
class Site:
    """What is known of one access.

    `order` has the dimensions from the one with the closest neighbours; `vec` neighbours along
    order[0] may be one access: they are consecutive, aligned, and masked alike.
    """

    shape: tuple[int, ...]
    bytes: int  # of one element
    order: tuple[int, ...]
    vec: int
    strides: Strides  # bytes; None: unknown
    contiguous: tuple[int, ...]  # as of `Axes`
    aligned: int  # what divides the address of each run of neighbours along order[0]
    mask_run: int = WIDEST  # neighbours along order[0] that are masked alike

    @property
    def has_preference(self) -> bool:
        """Whether one layout can be told to coalesce better than another."""
        return any(
            n > 1 and (run > 1 or stride)
            for n, run, stride in zip(self.shape, self.contiguous, self.strides, strict=True)
        )

    def preferred(self, num_warps: int, vec: int | None = None) -> Layout:
        """The layout that coalesces best."""
        return blocked(self.shape, num_warps, self.order, self.vec if vec is None else vec)

    def vector_bits(self, layout: Layout) -> tuple[int, ...]:
        """The index bits that one access covers in a layout: registers alone decide them."""
        if not self.shape:
            return ()
        first, count = layout.span(self.order[0])
        out: list[int] = []
        for k in range(min(log2(self.vec), count)):
            bit = 1 << first + k
            if [c for c in layout.columns if c & bit] != [bit] or bit not in layout.register:
                break
            out.append(bit)
        return tuple(out)

    def vectors(self, layout: Layout) -> list[tuple[int, ...]]:
        """The registers of each access, neighbours in order; copies in a thread stand apart."""
        bits = self.vector_bits(layout)
        steps = [1 << layout.register.index(bit) for bit in bits]
        inside = union(steps)
        return [
            tuple(
                r | sum(s for k, s in enumerate(steps) if e >> k & 1) for e in range(1 << len(bits))
            )
            for r in range(layout.registers)
            if not r & inside
        ]

    def sectors(self, layout: Layout) -> tuple[int, int]:
        """32-byte sectors that the first access of a warp touches, and the least it could.

        Dimensions of unknown stride count as far apart.
        """
        wide = self.bytes << len(self.vector_bits(layout))
        indices = {layout.index(0, lane) for lane in range(1 << len(layout.lane))}
        touched = set()
        for index in indices:
            far, near = self.place(layout.coords(index))
            touched.update((far, s) for s in range(near // SECTOR, (near + wide - 1) // SECTOR + 1))
        return len(touched), max(1, -(-len(indices) * wide // SECTOR))

    def place(self, coords: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Where an element is: positions along what is unknown, and bytes from there."""
        far, near = [], 0
        for c, stride, run in zip(coords, self.strides, self.contiguous, strict=True):
            if stride is not None:
                near += c * stride
            else:
                far.append(c // run)
                near += c % run * self.bytes
        return tuple(far), near

    def traffic(self, layout: Layout) -> int:
        """Sectors that all accesses of a warp touch, each by itself."""
        return self.sectors(layout)[0] * (layout.registers >> len(self.vector_bits(layout)))


def find_site(
    inst: Inst,
    axes: Callable[[Value], Axes],
    strides: Callable[[Value], Strides],
    arch: Arch | None = None,
) -> Site:
    """What facts say of a load, a store or an atomic."""
    access = inst.op.access
    pointer = inst.operands[access.pointer]
    shape, bytes = pointer.type.shape, pointer.type.dtype.element_ty.bytes
    facts, steps = axes(pointer), strides(pointer)
    if not shape:
        return Site((), bytes, (), 1, (), (), facts.every)
    contiguous = facts.contiguous
    order = tuple(
        sorted(range(len(shape)), key=lambda d: closeness(shape[d], contiguous[d], steps[d], d))
    )
    first = order[0]
    vec = min(contiguous[first], max(1, facts.divisor[first] // bytes), max(1, WIDEST // bytes))
    alike = WIDEST
    if 0 <= access.mask < len(inst.operands):
        alike = axes(inst.operands[access.mask]).constant[first]
    if access.kind == "atomic":
        vec = min(vec, 1 if arch is None else added_at_once(inst, arch))
    vec = 1 if inst.attrs.get("volatile") else min(vec, alike)
    return Site(shape, bytes, order, vec, steps, contiguous, facts.divisor[first], alike)


def added_at_once(inst: Inst, arch: Arch) -> int:
    """To how many neighbours one instruction can add."""
    dtype = inst.operands[0].type.dtype.element_ty
    if not arch.has_wide_atomics or inst.op is not atomic.atomic_rmw:
        return 1
    is_sum = inst.attrs.get("kind", "add") == "add" and dtype in ADDED
    return WIDEST // dtype.bytes if is_sum else 1


def closeness(size: int, run: int, stride: int | None, d: int) -> tuple:
    """A key that sorts dimensions: runs, then small strides, then unknown ones, then none."""
    if size > 1 and run > 1:
        return 0, -run, -d
    if size > 1 and stride:
        return 1, abs(stride), -d
    return (3 if size == 1 or stride == 0 else 2), 0, -d


def keeping_warps(source: Layout, site: Site, vec: int) -> Layout | None:
    """A layout that coalesces and whose warps hold what those of the source hold, if any.

    A conversion to it stays within warps, where no barrier is needed.
    """
    warp = [c for c in source.warp if c]
    if any(c & c - 1 for c in warp) or union(warp) & union((*source.lane, *source.register)):
        return None
    spans = [source.span(d) for d in site.order]
    bits = [1 << first + k for first, count in spans for k in range(count)]
    free = [b for b in bits if b not in warp]
    wide, lanes = min(log2(vec), max(0, len(free) - len(source.lane))), len(source.lane)
    if free[:wide] != bits[:wide]:
        return None
    lane = free[wide : wide + lanes]
    return replace(
        source,
        register=(*free[:wide], *free[wide + lanes :]),
        lane=(*lane, *(0,) * (lanes - len(lane))),
    )
