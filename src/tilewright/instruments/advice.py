"""What to change, and at which line, so that a GPU does less for the same result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .gpu import SECTOR, GpuCode, OddNumbers, SharedAccess, WarpAccess
from .traffic import KernelRun
from .wording import place, plural, shortened

EXCESS_WORTH_SAYING = 1.25  # sectors over the fewest
SHARE_WORTH_SAYING = 0.05  # of all sectors of a kernel
RELOAD_WORTH_SAYING = 32  # additions to one element
LOW_OCCUPANCY = 0.25
WIDEST = 16  # bytes that a lane can move at once
NARROW = 4  # with fewer, a warp moves less than the 128 bytes that memory takes at once

ALIGNED = (
    "its address is not known to be a multiple of 16 bytes; sizes and strides that are multiples "
    "of 16 are noticed at the launch, others can be said with tl.multiple_of"
)
MASKED = (
    "its mask may end at any element; a limit that is a multiple of 16 is noticed at the launch, "
    "so pad the array, or round the limit up where what lies behind it does no harm"
)


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to change; `about` is "coalescing", "width", "banks", "registers", "occupancy",
    "grid", "atomics" or "numbers"."""

    about: str
    file: str
    line: int
    sentence: str


def advice(run: KernelRun) -> list[Remark]:
    """What a kernel's code and counts for a GPU give reason to say; nothing for other targets."""
    code = run.gpu
    if code is None:
        return []
    return [
        *on_numbers(code),
        *on_sectors(code),
        *on_width(code),
        *on_banks(code),
        *on_registers(run, code),
        *on_occupancy(run, code),
        *on_atomics(run),
    ]


def on_sectors(code: GpuCode) -> Iterator[Remark]:
    """Accesses of which a warp touches more sectors than need be, the worst first."""
    total = sum(a.counted[1] for a in code.accesses if a.counted)
    for a in sorted(code.accesses, key=wasted, reverse=True):
        share = wasted(a) / total if total else 1.0
        if a.excess < EXCESS_WORTH_SAYING or share < SHARE_WORTH_SAYING:
            continue
        yield Remark(
            "coalescing", a.file, a.line,
            f"{place(a.file, a.line)}, {shortened(a.expression)}: an access of a warp touches "
            f"{a.per_request:.3g} sectors of {SECTOR} bytes where {a.least_per_request:.3g} could "
            f"hold its elements. {remedy(a)}",
        )  # fmt: skip


def wasted(a: WarpAccess) -> float:
    """Sectors beyond the fewest: of the launch, or of one access where nothing was counted."""
    return a.counted[1] - a.counted[2] if a.counted else a.sectors - a.least_sectors


def remedy(a: WarpAccess) -> str:
    """What brings the elements of a warp together."""
    if a.gap is None:
        return (
            f"Where lanes go in {a.argument} is not known when compiling: make a stride a "
            "tl.constexpr or 1 if it can be; if indices come from memory, sort them."
        )
    if abs(a.gap) > a.vector:
        return (
            f"Neighbouring lanes are {abs(a.gap)} bytes apart: let the tile run along the "
            f"dimension in which {a.argument} is contiguous, and turn it with tl.trans if it is "
            "wanted otherwise."
        )
    return (
        f"Its rows do not start at multiples of {SECTOR} bytes: pad the row stride of "
        f"{a.argument} to such a multiple."
    )


def on_width(code: GpuCode) -> Iterator[Remark]:
    """Accesses of neighbours that could be wider were more known."""
    reasons = {"aligned": ALIGNED, "mask": MASKED}
    for a in code.accesses:
        if a.limit in reasons and a.vector < NARROW:
            yield Remark(
                "width", a.file, a.line,
                f"{place(a.file, a.line)}, {shortened(a.expression)}: a lane moves "
                f"{plural(a.vector, 'byte')} at once instead of {WIDEST}, for {reasons[a.limit]}.",
            )  # fmt: skip


def on_banks(code: GpuCode) -> Iterator[Remark]:
    for s in code.shared_accesses:
        if s.ways > 1:
            yield Remark("banks", s.file, s.line, banks_sentence(s))


def banks_sentence(s: SharedAccess) -> str:
    lost = "" if s.conflicts is None else f" ({plural(s.conflicts, 'turn')} of a launch lost)"
    kind = "stores" if s.store_ways >= s.load_ways else "loads"
    what = "Another block size or number of warps gives another layout."
    if s.op in ("reduce", "scan"):
        what = "In a loop, add up tiles and do it once behind the loop, or give it fewer warps."
    return (
        f"{place(s.file, s.line)}, {shortened(s.expression)}: {s.op} goes through shared memory, "
        f"and its {kind} ask for {s.ways} words of one bank at once{lost}. {what}"
    )


def on_registers(run: KernelRun, code: GpuCode) -> Iterator[Remark]:
    if code.spill_bytes:
        yield Remark(
            "registers", run.file, run.line,
            f"{run.title} keeps {plural(code.spill_bytes, 'byte')} of each thread in memory, for "
            f"its {code.registers} registers do not suffice: take smaller blocks, or "
            f"num_warps={2 * code.warps}.",
        )  # fmt: skip


def on_occupancy(run: KernelRun, code: GpuCode) -> Iterator[Remark]:
    """Programs that are too few, or too large to share a multiprocessor."""
    if code.processors and run.programs < code.processors:
        idle = code.processors - run.programs
        yield Remark(
            "grid", run.file, run.line,
            f"{run.title} has {plural(run.programs, 'program')}, so {idle} of "
            f"{code.processors} multiprocessors are idle: take smaller blocks, or split the work "
            "along another axis as well.",
        )  # fmt: skip
    if code.occupancy is None or code.occupancy >= LOW_OCCUPANCY:
        return
    ways = {
        "registers": "smaller blocks take fewer registers",
        "shared memory": "smaller blocks take less shared memory",
        "programs": "more warps a program fill it",
        "warps": "fewer warps a program fit better",
    }
    yield Remark(
        "occupancy", run.file, run.line,
        f"{run.title} fills {code.occupancy:.0%} of the warps of a multiprocessor "
        f"({plural(code.programs, 'program')} of {plural(code.warps, 'warp')}), limited by its "
        f"{code.limit}: {ways[code.limit]}.",
    )  # fmt: skip


def on_atomics(run: KernelRun) -> Iterator[Remark]:
    for site in run.sites:
        if site.kind == "atomic" and site.reload > RELOAD_WORTH_SAYING:
            yield Remark(
                "atomics", site.file, site.line,
                f"{place(site.file, site.line)}, {shortened(site.expression)}: each element of "
                f"{site.argument} is updated {site.reload:,.0f} times, one after the other: "
                "combine within the program first (tl.sum, tl.histogram), then update once.",
            )  # fmt: skip


def on_numbers(code: GpuCode) -> Iterator[Remark]:
    """Where NaN and infinities that are stored come from."""
    for stored in (n for n in code.numbers if n.kind == "store"):
        wanted = "nans" if stored.nans else "infinities"
        sources = [n for n in code.numbers if n.kind != "store" and getattr(n, wanted)]
        if not sources:  # NaN may come of infinities, and these of numbers
            sources = [n for n in code.numbers if n.kind != "store"]
        come = "; ".join(source_words(n) for n in sources) or "a constant, or a product or scan"
        yield Remark(
            "numbers", stored.file, stored.line,
            f"{place(stored.file, stored.line)}, {shortened(stored.expression)}: stores "
            f"{odd_words(stored)} in {stored.argument}, first in program {stored.program}. "
            f"Where such come from: {come}.",
        )  # fmt: skip


def odd_words(n: OddNumbers) -> str:
    parts = [f"{n.nans:,} NaN"] if n.nans else []
    if n.infinities:
        parts.append(f"{n.infinities:,} " + ("infinity" if n.infinities == 1 else "infinities"))
    return " and ".join(parts)


def source_words(n: OddNumbers) -> str:
    where = f"{place(n.file, n.line)}, {shortened(n.expression)}"
    first = f"first in program {n.program}, element {n.element} of the tile"
    if n.kind == "load":
        return f"{where}, reads {odd_words(n)} of {n.argument} ({first})"
    return f"{where}, where {n.op} makes {odd_words(n)} of numbers that are none ({first})"
