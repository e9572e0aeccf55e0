"""Keep the rare version of a kernel from taking registers that the usual one does without."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.occupancy import REGISTERS, WARP, WARP_REGISTERS, occupancy

# The test at the start of a kernel that is written in two versions.
CHOICE = re.compile(r"br i1 \S+, label %(safe\d+), label %careful\d+, !prof !0")
THREADS = re.compile(r'"nvvm\.maxntid"="(\d+)"')
LIMITED = '"nvvm.maxnreg"'
PORTION = WARP_REGISTERS // WARP  # registers of a thread are counted in these

Image = bytes


def fitted(
    text: str, arch: Arch, build: Callable[[str], Image], registers: Callable[[Image], int]
) -> Image:
    """The code of a kernel, of which a processor holds as many programs as of its usual version.

    Args:
        build: makes code of LLVM IR.
        registers: says how many of them a thread of the code takes.
    """
    image = build(text)
    choice, threads = CHOICE.search(text), THREADS.search(text)
    if choice is None or threads is None or LIMITED in text:
        return image
    warps = int(threads[1]) // WARP
    whole = occupancy(arch, warps, registers(image), 0)
    if whole.limit != "registers":
        return image
    usual = CHOICE.sub(r"br label %\1", text)
    wanted = occupancy(arch, warps, registers(build(usual)), 0).programs
    if wanted <= whole.programs:
        return image
    limit = REGISTERS // (wanted * warps * WARP) // PORTION * PORTION
    return build(THREADS.sub(rf'\g<0> {LIMITED}="{limit}"', text))
