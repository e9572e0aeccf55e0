"""How many registers a kernel is given: as few as let a processor hold more of its programs.

The driver hands out machine code only from its linker, for which the assembler takes more registers
than it takes for code that it loads at once: how many these are is what a kernel is limited to.
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
        probe: tells of code that is loaded at once, where that is another one; products of tensor
            cores are as they are built.
    """
    whole, threads = build(text), THREADS.search(text)
    if threads is None or LIMITED in text:
        return whole.image
    if any(word in text for word in PRODUCTS):
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
        found = self.as_usual(whole)
        if WARPGROUPS in self.text and is_worse(found, whole, SPILLED):
            found = whole
        return self.squeezed(found) if found is whole else found

    def as_usual(self, whole: Built) -> Built:
        """With as many programs as without what is rarely run."""
        usual = self.text
        for branch, way in RARE:
            usual = branch.sub(way, usual)
        now = self.programs(whole.registers)
        if usual == self.text and self.probe is None or now.limit != "registers":
            return whole
        if self.registers(now.programs + 1) < LEAST * whole.registers:
            return whole
        wanted = self.programs((self.probe or self.build)(usual).registers).programs
        return self.limited(wanted) or whole if wanted > now.programs else whole

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


def is_worse(found: Built, whole: Built, most: int) -> bool:
    """Whether fewer registers cost more than so many bytes, or the order of products."""
    return found.is_serial > whole.is_serial or found.local > whole.local + most
