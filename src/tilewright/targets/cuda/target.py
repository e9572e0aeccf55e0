"""NVIDIA GPUs as a target: lowering, PTX, machine code, loading."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.codegen import llvm
from tilewright.errors import InternalError, LaunchError
from tilewright.ir.inst import Kernel
from tilewright.later import later
from tilewright.targets.base import Code, Keep, ShortcutSpec
from tilewright.targets.cuda import arch as arches
from tilewright.targets.cuda import driver, fastcall, modules, storage, streams
from tilewright.targets.cuda.arch import ENTRY, Arch
from tilewright.targets.cuda.contract import contract
from tilewright.targets.cuda.dot_table import warps_for
from tilewright.targets.cuda.fit import PRODUCTS, Built, fitted
from tilewright.targets.cuda.launch import WARP, CudaBinary
from tilewright.targets.cuda.moving import part
from tilewright.targets.cuda.several import in_parts
from tilewright.targets.fastcall.shortcut import Shortcut, compile_launcher
from tilewright.targets.storage import Storage

# Most of what a launch from the disk cache would import.
lowering = later("tilewright.targets.cuda.lower")
assembler = later("tilewright.targets.cuda.assembler")

NUM_WARPS, NUM_STAGES = 4, 3
MOST_WARPS = 32
# Explicit code gains nothing from LLVM's optimizer (matmul spilled more with O1), and
# levels 1 to 3 of code generation write the same PTX, the first a fifth faster.
PASSES, CODEGEN_LEVEL = "O0", 1
SERIAL = "serialized"  # the assembler's word for products that wait for one another
# The version of PTX that some instructions need, where it is later than the architecture's: drivers
# that do not know it run all other kernels.
LATER = {re.compile(r"mma\.sync\.\S*\.e[45]m[23]\."): "8.4"}
VERSION = re.compile(r"^\.version (\S+)", re.MULTILINE)
HEADER = re.compile(r"^; arch (\S+) shared (\d+)")


class CudaTarget:
    """Native code on NVIDIA GPUs; for another architecture than the device's, one may be named."""

    name = "cuda"
    devices = "cuda"
    facts = frozenset({"one", "divisible"})
    options = frozenset({"num_warps", "num_stages", "maxnreg", "debug", "enable_fp_fusion"})

    def __init__(self, named: str = ""):
        self.named = named
        self.keep: Keep = lambda name, make: make()

    def arch(self) -> str:
        """What code is made for, as in "sm_80"."""
        return self.machine().name

    def machine(self) -> Arch:
        """The architecture that was named, or that of the current device."""
        if self.named:
            return arches.find(self.named)
        device, _ = streams.current_stream()
        return arches.of_capability(driver.driver().device(device).capability)

    def identity(self) -> str:
        arch = self.machine()
        version = "" if self.named else f" driver {driver.driver().version}"
        return f"{arch.name} ptx{arch.ptx} {llvm.release()}{version}"

    def lower(self, kernel: Kernel, *, bounds: bool, counters: bool) -> Code:
        """The kernel as LLVM IR; `kernel.meta["options"]` holds the options of the launch."""
        options = kernel.meta.get("options", {})
        arch = self.machine()
        stages = options.get("num_stages")
        kernel = in_parts(part(kernel), arch)
        if options.get("enable_fp_fusion") is not False:
            kernel = contract(kernel)
        lowered = lowering.lower(
            kernel, arch, num_warps=warps_for(kernel, warps_of(options)), bounds=bounds,
            stages=NUM_STAGES if stages is None else stages,
            max_registers=0 if counters else options.get("maxnreg") or 0, counters=counters,
        )  # fmt: skip
        metadata = {
            "name": kernel.name,
            "entry": lowered.entry,
            "arch": arch.name,
            "params": [[p.name, str(p.type)] for p in kernel.params],
            "sites": list(lowered.sites),
            "asserts": any(s["kind"] == "assert" for s in lowered.sites),
            "num_warps": lowered.num_warps,
            "num_stages": NUM_STAGES if stages is None else stages,
            "shared": lowered.shared,
            "warp_size": WARP,
            "capability": arch.capability,
        }
        text = f"; arch {arch.name} shared {lowered.shared}\n{lowered.text}"
        return Code(text, json.loads(json.dumps(metadata)))

    def assemble(self, code: Code) -> bytes:
        """Machine code, by the driver's assembler or an installed one; PTX without a driver."""
        text = code.text
        if self.named or not driver.is_available():
            return self.assembly(text).encode()
        found = driver.driver()
        device, stream = streams.current_stream()
        found.use(device)

        def build(version: str) -> Built:
            ptx, done = self.assembly(version), None
            if any(word in version for word in PRODUCTS):
                done = assembler.assembled(ptx, arch_of(text).name, found.version)
            if done is not None:
                with contextlib.suppress(InternalError):  # which this driver does not load
                    return told(*done)
            return told(*modules.link(found, ptx.encode()))

        def probe(version: str) -> Built:
            return told(self.assembly(version).encode() + b"\0")

        def told(image: bytes, log: str = "") -> Built:
            function = modules.facts(found, image, ENTRY)
            return Built(image, function.registers, function.local, SERIAL in log)

        with modules.any_time(stream):
            return fitted(text, arch_of(text), int(HEADER.match(text)[2]), build, probe)

    def assembly(self, text: str) -> str:
        """The PTX of a lowered kernel."""
        machine = arch_of(text).machine
        ptx = llvm.emit_assembly(text, machine, passes=PASSES, codegen_level=CODEGEN_LEVEL)
        for instruction, version in LATER.items():
            if instruction.search(text) and float(VERSION.search(ptx)[1]) < float(version):
                ptx = VERSION.sub(f".version {version}", ptx)
        return ptx

    def load(self, object_bytes: bytes, metadata: dict[str, Any]) -> CudaBinary:
        return CudaBinary(object_bytes, metadata)

    def prepare(self, keep: Keep) -> None:
        """Remember where to keep the native launcher."""
        self.keep = keep

    def place(self, device: str, team: int) -> int:
        """The number of the GPU that arrays are on; -1 without arrays: the current one."""
        kind, _, number = device.partition(":")
        return int(number or 0) if kind == self.devices else -1

    def shortcut(self, spec: ShortcutSpec) -> Shortcut | None:
        """A native launcher for a kernel; None where there is none."""

        def object_bytes() -> bytes:
            name = f"cuda launcher {llvm.host_machine()} LLVM {llvm.llvm_version()}"
            return self.keep(name, lambda: compile_launcher(fastcall.ending()))

        return fastcall.shortcut(spec, CudaBinary.stopped, object_bytes)

    def storage(self, size: int, place: int = -1) -> Storage:
        return storage.DeviceStorage(size, place)

    def room(self, place: int = -1) -> int:
        return storage.room(place)

    def is_recording(self, place: int = -1) -> bool:
        return storage.is_recording(place)

    def clock(
        self, place: int = -1, cold: bool = False
    ) -> Callable[[Callable[[], Any]], int] | None:
        return storage.cold_clock(place) if cold else partial(storage.spent, place)


def arch_of(text: str) -> Arch:
    """The architecture that LLVM IR was written for, as its first line says."""
    return arches.find(HEADER.match(text)[1])


def warps_of(options: dict[str, Any]) -> int:
    """The number of warps of a program.

    Raises:
        LaunchError: unless it is a power of two that a program can have.
    """
    count = options.get("num_warps") or NUM_WARPS
    if not isinstance(count, int) or count & count - 1 or not 1 <= count <= MOST_WARPS:
        raise LaunchError(f"num_warps must be 1, 2, 4, 8, 16 or 32, got {count!r}")
    return count


def ptx_for(kernel: Kernel, arch: str, num_warps: int = NUM_WARPS, bounds: bool = True) -> str:
    """The PTX of a kernel that has been through the passes, for an architecture by name.

    Needs no GPU and no driver.
    """
    kernel = Kernel(
        kernel.name, kernel.params, kernel.body, kernel.loc,
        {**kernel.meta, "options": {"num_warps": num_warps}},
    )  # fmt: skip
    target = CudaTarget(arch)
    return target.assembly(target.lower(kernel, bounds=bounds, counters=False).text)


CUDA = CudaTarget()
