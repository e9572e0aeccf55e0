"""Keep what a kernel rarely does from taking registers that the rest does without."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.occupancy import REGISTERS, WARP, WARP_REGISTERS, occupancy

# Branches whose first way, or second one, is nearly always taken.
RARE = (
    (re.compile(r"br i1 \S+, label (%\S+), label %\S+, !prof !0"), r"br label \1"),
    (re.compile(r"br i1 \S+, label %\S+, label (%\S+), !prof !1"), r"br label \1"),
)
THREADS = re.compile(r'"nvvm\.maxntid"="(\d+)"')
LIMITED = '"nvvm.maxnreg"'
LEAST = 0.6  # of a thread's registers may be what it does without the rest; fewer is not tried
PORTION = WARP_REGISTERS // WARP  # registers of a thread are counted in these

Image = bytes


def fitted(
    text: str,
    arch: Arch,
    shared: int,
    build: Callable[[str], Image],
    registers: Callable[[Image], int],
) -> Image:
    """The code of a kernel, of which a processor holds as many programs as of its usual part.

    Args:
        shared: bytes of a program.
        build: makes code of LLVM IR.
        registers: says how many of them a thread of the code takes.
    """
    image = build(text)
    usual, threads = text, THREADS.search(text)
    for branch, way in RARE:
        usual = branch.sub(way, usual)
    if usual == text or threads is None or LIMITED in text:
        return image
    warps = int(threads[1]) // WARP
    taken = registers(image)
    whole = occupancy(arch, warps, taken, shared)
    one_more = REGISTERS // ((whole.programs + 1) * warps * WARP)
    if whole.limit != "registers" or one_more < LEAST * taken:
        return image
    wanted = occupancy(arch, warps, registers(build(usual)), shared).programs
    if wanted <= whole.programs:
        return image
    limit = REGISTERS // (wanted * warps * WARP) // PORTION * PORTION
    return build(THREADS.sub(rf'\g<0> {LIMITED}="{limit}"', text))
