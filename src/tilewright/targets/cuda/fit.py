"""How many registers a kernel is given: as few as let a processor hold more of its programs.

The driver hands out machine code only from its linker, for which the assembler takes more registers
than for code that it loads at once. More loads are under way then, which loops gain by; where
threads wait for one another, or once only for memory, more programs are better.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import InternalError
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.occupancy import (
    REGISTERS,
    WARP,
    WARP_REGISTERS,
    Occupancy,
    occupancy,
)

# Branches whose first way, or second one, is nearly always taken.
RARE = (
    (re.compile(r"br i1 \S+, label (%\S+), label %\S+, !prof !0"), r"br label \1"),
    (re.compile(r"br i1 \S+, label %\S+, label (%\S+), !prof !1"), r"br label \1"),
)
THREADS = re.compile(r'"nvvm\.maxntid"="(\d+)"')
LIMITED = '"nvvm.maxnreg"'
WARPGROUPS = "wgmma.mma_async"
PRODUCTS = (WARPGROUPS, "mma.sync")
LOOP = re.compile(r"^head(\d+):", re.M)
LEAST = 0.6  # of a thread's registers may be what it does without the rest; fewer is not tried
PORTION = WARP_REGISTERS // WARP  # registers of a thread are counted in these

ENOUGH = 0.5  # of the threads that a processor can hold; more hide little
SPILLED = 16  # bytes of local memory that one more program is worth
SPILLED_FOR_TWICE = 384  # and twice as many, where that is outside of the loop of products


@dataclass(frozen=True, slots=True)
class Built:
    """Code, and what the assembler said of it."""

    image: bytes
    registers: int  # of a thread
    local: int = 0  # bytes of a thread's memory for registers that did not fit
    is_serial: bool = False  # whether products of warpgroups wait for one another


def fitted(
    text: str,
    arch: Arch,
    shared: int,
    build: Callable[[str], Built],
    probe: Callable[[str], Built] | None = None,
) -> bytes:
    """The code of a kernel, of which a processor holds as many programs as of its usual part.

    Of large ones it holds more still where hardly any register has to give way.

    Args:
        shared: bytes of a program.
        build: makes code of LLVM IR.
        probe: tells of code that is loaded at once, where there is such a thing.
    """
    whole, threads = build(text), THREADS.search(text)
    if threads is None or LIMITED in text:
        return whole.image
    if any(word in text for word in PRODUCTS) or streams(text):
        probe = None
    return Fit(text, arch, int(threads[1]) // WARP, shared, build, probe).best(whole).image


@dataclass(frozen=True)
class Fit:
    """A kernel that may be built with fewer registers."""

    text: str
    arch: Arch
    warps: int
    shared: int
    build: Callable[[str], Built]
    probe: Callable[[str], Built] | None

    def best(self, whole: Built) -> Built:
        found = self.as_loaded(whole) if self.probe else None
        if found is not None:
            return found
        found = self.as_usual(whole)
        multiplies = any(word in self.text for word in PRODUCTS)
        if multiplies and is_worse(found, whole, SPILLED):
            found = whole
        return self.squeezed(found) if found is whole else found

    def as_loaded(self, whole: Built) -> Built | None:
        """As many programs as of its usual part loaded at once, where no register gives way."""
        now = self.programs(whole.registers)
        if now.limit != "registers":
            return None
        wanted = self.programs(self.probe(self.usual).registers).programs
        found = self.limited(wanted) if wanted > now.programs else None
        return None if found is None or is_worse(found, whole, SPILLED) else found

    def as_usual(self, whole: Built) -> Built:
        """With as many programs as without what is rarely run."""
        usual, now = self.usual, self.programs(whole.registers)
        if usual == self.text or now.limit != "registers":
            return whole
        if self.registers(now.programs + 1) < LEAST * whole.registers:
            return whole
        wanted = self.programs(self.build(usual).registers).programs
        return self.limited(wanted) or whole if wanted > now.programs else whole

    @property
    def usual(self) -> str:
        """The kernel without what is rarely run."""
        text = self.text
        for branch, way in RARE:
            text = branch.sub(way, text)
        return text

    def squeezed(self, whole: Built) -> Built:
        """With more programs, where few registers have to give way."""
        now = self.programs(whole.registers)
        limit = self.registers(now.programs + 1)
        fits = now.limit == "registers" and self.programs(limit).programs > now.programs
        if not fits or now.share >= ENOUGH:
            return whole
        found = self.limited(now.programs + 1)
        is_alone = now.programs == 1 and WARPGROUPS in self.text
        most = SPILLED_FOR_TWICE if is_alone else SPILLED
        return whole if found is None or is_worse(found, whole, most) else found

    def limited(self, programs: int) -> Built | None:
        """Built for so many programs; None where the assembler needs more registers."""
        fact = rf'\g<0> {LIMITED}="{self.registers(programs)}"'
        try:
            return self.build(THREADS.sub(fact, self.text))
        except InternalError:
            return None

    def registers(self, programs: int) -> int:
        """What a thread may take at most."""
        return REGISTERS // (programs * self.warps * WARP) // PORTION * PORTION

    def programs(self, registers: int) -> Occupancy:
        return occupancy(self.arch, self.warps, registers, self.shared)


def streams(text: str) -> bool:
    """Whether a kernel has a loop in which threads do not wait for one another."""
    for head in LOOP.finditer(text):
        end = text.find(f"\nexit{int(head[1]) + 2}:", head.end())
        if end >= 0 and "barrier" not in text[head.end() : end]:
            return True
    return False


def is_worse(found: Built, whole: Built, most: int) -> bool:
    """Whether fewer registers cost more than so many bytes, or the order of products."""
    return found.is_serial > whole.is_serial or found.local > whole.local + most
