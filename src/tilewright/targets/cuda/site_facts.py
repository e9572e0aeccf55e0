"""What the code says of each access before it runs: widths, sectors, bank conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir.inst import Inst
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.sites import WIDEST, Site

if TYPE_CHECKING:
    from tilewright.targets.cuda.lower import Lowering


def describe_sites(x: Lowering) -> None:
    """Add facts to the records of accesses, and a record for each use of shared memory."""
    for inst, use in x.e.uses:
        record = x.memory.sites[x.memory.site(inst, "shared")]
        times = x.e.uses[inst, use]
        record.setdefault("uses", []).append(
            {
                "kind": use.kind, "bytes": use.bytes, "ways": use.ways,
                "requests": use.requests * times, "turns": use.turns * times,
            }
        )  # fmt: skip
    for inst in x.kernel.walk():
        if inst.op.access is not None:
            x.memory.site(inst)
    for (inst, kind), number in x.memory.numbers.items():
        if inst.op.access and not kind:
            x.memory.sites[number] |= access_facts(x, inst)


def access_facts(x: Lowering, inst: Inst) -> dict:
    """How a warp accesses memory, by the layout and what is known of addresses.

    `vector` are the bytes that a lane moves at once, and `limit` says what keeps it from more.
    `sectors` and `least_sectors` are of one access of a warp, where strides that are not known
    count as far apart; `gap` are the bytes from one lane to the next, None where not known.
    """
    site, layout = x.assigned.sites[inst], x.access_layout(inst)
    if not site.shape:
        return {
            "vector": site.bytes, "limit": "", "sectors": 1, "least_sectors": 1, "gap": 0,
            "known": True,
        }  # fmt: skip
    touched, least = site.sectors(layout)
    return {
        "vector": site.bytes << len(site.vector_bits(layout)),
        "limit": limit_of(inst, site, layout),
        "sectors": touched,
        "least_sectors": min(touched, least),
        "gap": gap_of(site, layout),
        "known": all(map(is_known, *along_lanes(site, layout))),
    }


def limit_of(inst: Inst, site: Site, layout: Layout) -> str:
    """What keeps an access from moving more at once; empty: nothing, or there is no more."""
    first = site.order[0]
    registers = len([c for c in layout.along(first).register if c])
    most = min(WIDEST // site.bytes, site.shape[first], 1 << registers)
    if inst.op.access.kind == "atomic" or inst.attrs.get("volatile"):
        return ""
    if 1 << len(site.vector_bits(layout)) >= most:
        return ""
    for limit, run in (
        ("apart", site.contiguous[first]),
        ("aligned", site.aligned // site.bytes),
        ("mask", site.mask_run),
    ):
        if run < most:
            return limit
    return ""


def along_lanes(site: Site, layout: Layout) -> tuple[list, list, list]:
    """Of the dimensions that lanes move along: size, stride and run of neighbours."""
    moved = [d for d in range(len(site.shape)) if any(layout.along(d).lane)]
    return tuple([part[d] for d in moved] for part in (site.shape, site.strides, site.contiguous))


def is_known(size: int, stride: int | None, run: int) -> bool:
    """Whether all elements along a dimension are where the facts say."""
    return stride is not None or run >= size


def gap_of(site: Site, layout: Layout) -> int | None:
    """The bytes between the elements of two neighbouring lanes; None where that is not known."""
    coords = layout.coords(layout.lane[0])
    far, near = site.place(coords)
    here, start = site.place((0,) * len(coords))
    return near - start if far == here else None
