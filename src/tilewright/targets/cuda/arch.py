"""The architectures of NVIDIA GPUs that code is made for, and what each of them has."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.llvm import Machine
from tilewright.errors import LaunchError

TRIPLE = "nvptx64-nvidia-cuda"
# LLVM ends the process when it meets an instruction that an architecture or the version of PTX
# lacks, so what may be emitted is asked for here, before.
OLDEST = 75
# Loads and stores that say what caches are to keep came with PTX 7.4 (CUDA 11.4), for all of them.
ENTRY = "tw_entry"  # the name of every kernel in its machine code


@dataclass(frozen=True)
class Arch:
    """One architecture: `name` is as ptxas spells it, `ptx` the version of PTX that is written."""

    name: str
    capability: int
    ptx: int
    shared_limit: int  # bytes that one program can have
    # Of a multiprocessor at a time:
    resident_threads: int
    resident_programs: int
    processor_shared: int  # bytes, of which each program takes `shared_reserved` beside its own
    shared_reserved: int = 1 << 10
    warpgroups: bool = True  # whether wgmma is made use of where there is any

    @property
    def machine(self) -> Machine:
        """The same in LLVM's words."""
        return Machine(TRIPLE, self.name, f"+ptx{self.ptx}")

    @property
    def has_bf16(self) -> bool:
        """bf16 and tf32 on tensor cores came together."""
        return self.capability >= 80

    @property
    def has_fp8(self) -> bool:
        """Whether mma.sync multiplies bytes that are floats; wgmma does wherever it is."""
        return self.capability >= 89

    @property
    def has_async(self) -> bool:
        """Copies from global to shared memory that threads need not wait for."""
        return self.capability >= 80

    @property
    def has_wgmma(self) -> bool:
        return self.name == "sm_90a" and self.warpgroups

    @property
    def has_wide_atomics(self) -> bool:
        """Sums of several neighbours in memory, and of bf16."""
        return self.capability >= 90

    @property
    def mma_inner(self) -> int:
        """How many elements of K one mma of 16-bit floats takes."""
        return 16 if self.capability >= 80 else 8


ARCHES = {
    arch.name: arch
    for arch in (
        Arch("sm_75", 75, 74, 64 << 10, 1024, 16, 64 << 10, 0),
        Arch("sm_80", 80, 74, 163 << 10, 2048, 32, 164 << 10),
        Arch("sm_86", 86, 74, 99 << 10, 1536, 16, 100 << 10),
        Arch("sm_87", 87, 74, 163 << 10, 1536, 16, 164 << 10),
        Arch("sm_89", 89, 78, 99 << 10, 1536, 24, 100 << 10),
        Arch("sm_90", 90, 81, 227 << 10, 2048, 32, 228 << 10),
        Arch("sm_90a", 90, 81, 227 << 10, 2048, 32, 228 << 10),
        Arch("sm_100", 100, 86, 227 << 10, 2048, 32, 228 << 10),
        Arch("sm_120", 120, 87, 99 << 10, 1536, 24, 100 << 10),
    )
}


def find(name: str) -> Arch:
    """The architecture of a name such as "sm_80" (or 80).

    Raises:
        LaunchError: when code cannot be made for it.
    """
    spelled = name if name.startswith("sm_") else f"sm_{name}"
    if spelled not in ARCHES:
        raise LaunchError(f"no architecture {name!r}; there are {', '.join(ARCHES)}")
    return ARCHES[spelled]


def of_capability(capability: int) -> Arch:
    """The architecture to make code for, given what a device is: the newest that runs there.

    Raises:
        LaunchError: when the device is too old.
    """
    if capability == 90:
        return ARCHES["sm_90a"]
    usable = [
        a
        for a in ARCHES.values()
        if a.capability <= capability and not a.name.endswith("a") and a.capability != 87
    ]
    if not usable:
        raise LaunchError(
            f"the GPU has compute capability {capability // 10}.{capability % 10}, "
            f"code can be made from {OLDEST // 10}.{OLDEST % 10} on"
        )
    return max(usable, key=lambda a: a.capability)
