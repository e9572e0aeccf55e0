"""From a kernel and its arguments' types to loaded machine code, by way of the disk cache."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tilewright.lang.jit import JITCallable
from tilewright.later import later
from tilewright.locks import Lock
from tilewright.runtime import cache as disk
from tilewright.runtime.closure import Closure, Place, scan
from tilewright.targets.base import Binary, Target
from tilewright.targets.places import place_and_callers

if TYPE_CHECKING:
    from tilewright.ir.inst import Kernel

# What launches of kernels from the disk cache do without.
arithmetic = later("tilewright.passes.arithmetic")
frontend = later("tilewright.lang.frontend")
origins = later("tilewright.passes.origins")
pipeline = later("tilewright.passes.pipeline")
text = later("tilewright.ir.text")

PACKAGE = Path(__file__).parents[1]
OBJECT = "object"


@dataclass
class Request:
    """What is to be compiled: a kernel for types and constants, for a target."""

    jit: JITCallable
    types: dict[str, Any]  # by parameter: a Type, or a tuple of types and constants
    constants: dict[str, Any]
    facts: dict[str, int]  # by parameter: what addresses and numbers are multiples of
    target: Target
    options: dict[str, Any] = field(default_factory=dict)  # of the launch, as the target asks
    debug: bool = False
    sanitize: bool = False  # whether integers may not wrap around in the kernel's own arithmetic
    bounds: bool = True
    counters: bool = False
    verify: bool = False
    dump: tuple[str, ...] = ()
    use_cache: bool = True

    @property
    def name(self) -> str:
        return self.jit.__name__


@dataclass
class Compilation:
    """A compiled kernel, with everything that is known of how it came about."""

    jit: JITCallable
    hash: str
    target: str
    arch: str
    ir: str  # after all passes
    llvm: str
    metadata: dict[str, Any]
    binary: Binary
    signature: dict[str, str]
    constants: dict[str, Any]
    from_cache: bool
    watched: list[tuple[dict[str, Any], str, Any]]  # globals that were compiled in
    kernel: Kernel | None = None  # None when it came from the disk cache
    times: dict[str, float] = field(default_factory=dict)  # seconds of each step
    disassemble: Callable[[str], str] | None = None

    @property
    def name(self) -> str:
        return self.jit.__name__

    @property
    def source(self) -> str:
        """The text of the kernel from its `def` on."""
        return self.jit.src

    @property
    def asm(self) -> str:
        """Assembly, made anew at each request."""
        return self.disassemble(self.llvm)

    @property
    def sites(self) -> list[dict[str, Any]]:
        """The loads, stores, atomics and asserts of the code, with their places in the source."""
        return self.metadata["sites"]

    @property
    def reads(self) -> frozenset[str]:
        """The parameters whose memory the kernel may read."""
        return frozenset(self.metadata["reads"])

    @property
    def writes(self) -> frozenset[str]:
        """The parameters that the kernel may write to."""
        return frozenset(self.metadata["writes"])


_loaded: dict[tuple, Compilation] = {}
_lock = Lock()


def compile_kernel(request: Request) -> Compilation:
    """Compile, or find what was compiled before in this process or on disk.

    Raises:
        CompileError: with the place in the user's source that is at fault.
    """
    prepare(request.target)
    begin = perf_counter()
    closure = scan(request.jit)
    constants = scan(request.constants, request.types)
    key = key_of(request, closure, constants)
    times = {"key": perf_counter() - begin}
    if request.dump or not request.use_cache or not (closure.is_stable and constants.is_stable):
        return compile_now(request, closure, key, times, keep=False)
    place = (key, tuple(closure.places))
    with _lock:
        found = _loaded.get(place)
        if found is None:
            found = from_disk(request, closure, key, times)
            if found is None:
                found = compile_now(request, closure, key, times, keep=True)
            _loaded[place] = found
    return found


def key_of(request: Request, closure: Closure, constants: Closure) -> str:
    """A digest of all that the code depends on."""
    return disk.digest(
        toolchain(),
        request.target.name,
        request.target.identity(),
        closure.digest,
        constants.digest,
        repr(sorted(request.facts.items())),
        repr(sorted(request.options.items())),
        repr((request.debug, request.sanitize, request.bounds, request.counters)),
    )


@cache
def toolchain() -> str:
    """The state of the compiler: Python, and the names, sizes and times of our own files."""
    return disk.digest(sys.version, repr(sorted(source_files(str(PACKAGE)))))


def source_files(folder: str, within: str = "") -> Iterator[tuple[str, int, int]]:
    """Path in the package, size and time of each file; as text, for `Path` takes ten times as
    long."""
    with os.scandir(folder) as listing:
        for entry in listing:
            name = f"{within}/{entry.name}"
            if entry.is_dir() and not entry.name.startswith("_"):
                yield from source_files(entry.path, name)
            elif name.endswith(".py"):
                status = entry.stat()
                yield name, status.st_size, status.st_mtime_ns


@contextmanager
def timed(times: dict[str, float], step: str) -> Iterator[None]:
    begin = perf_counter()
    yield
    times[step] = times.get(step, 0.0) + perf_counter() - begin


@contextmanager
def uncollected() -> Iterator[None]:
    """No looks for garbage meanwhile: they take a sixth of a compilation, and find little."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@uncollected()
def compile_now(
    request: Request, closure: Closure, key: str, times: dict[str, float], keep: bool
) -> Compilation:
    """Run the frontend, the passes, the target's lowering and the assembler."""
    target = request.target
    kernel, ir = make_ir(request, times)
    with timed(times, "lower"):
        code = target.lower(kernel, bounds=request.bounds, counters=request.counters)
    show(request, "llvm", code.text)
    with timed(times, "assemble"):
        object_bytes = target.assemble(code)
    if "asm" in request.dump:
        show(request, "asm", target.assembly(code.text))
    metadata = {
        **code.metadata,
        "reads": sorted(kernel.params[i].name for i in origins.read_params(kernel)),
        "writes": sorted(kernel.params[i].name for i in origins.written_params(kernel)),
        "places": [[p.file, p.first, p.count] for p in closure.places],
    }
    if keep:
        disk.default_cache().put(key, {
            "metadata": json.dumps(metadata).encode(), "object": object_bytes,
            "ir": ir.encode(), "llvm": code.text.encode(),
        })  # fmt: skip
    with timed(times, "load"):
        binary = target.load(object_bytes, metadata)
    if "times" in request.dump:
        show(request, "times", "".join(f"{v * 1e3:9.3f} ms  {k}\n" for k, v in times.items()))
    return finished(request, closure, key, metadata, ir, code.text, binary, times, kernel)


def front_ir(request: Request) -> Kernel:
    """The kernel as the frontend gives it."""
    return frontend.build_kernel(
        request.jit, request.types, request.constants, request.facts,
        options={**request.options, "debug": request.debug, "sanitize": request.sanitize},
    )  # fmt: skip


def make_ir(request: Request, times: dict[str, float]) -> tuple[Kernel, str]:
    """The kernel after all passes, and its text."""
    with timed(times, "frontend"):
        kernel = front_ir(request)
    if request.options.get("tested"):
        kernel = arithmetic.with_tests(kernel, request.options["tested"])
    kernel.meta["options"] = request.options
    if "frontend" in request.dump:
        show(request, "frontend", text.print_kernel(kernel, locations=True))

    def dump(step: str, kernel: Kernel) -> None:
        if step in request.dump:
            show(request, step, text.print_kernel(kernel, locations=True))

    passes = pipeline.STANDARD
    if "checked" in request.options:
        passes = pipeline.with_all_loads(passes)
    kernel = pipeline.run(
        kernel, passes, verify=request.verify, dump=dump, record=times.__setitem__
    )
    ir = text.print_kernel(kernel, locations=True)
    show(request, "ir", ir)
    return kernel, ir


def show(request: Request, stage: str, text: str) -> None:
    """Print a stage that the setting `dump` asks for."""
    if stage in request.dump:
        print(f"; {request.name}: {stage}\n{text}", file=sys.stderr)


def from_disk(
    request: Request, closure: Closure, key: str, times: dict[str, float]
) -> Compilation | None:
    """What the disk cache has, with the places of its sites as they are now."""
    with timed(times, "read"):
        files = disk.default_cache().get(key)
    if files is None:
        return None
    with timed(times, "load"):
        metadata = json.loads(files["metadata"])
        move_sites(metadata, closure.places)
        binary = request.target.load(files["object"], metadata)
    texts = (files["ir"].decode(), files["llvm"].decode())
    return finished(request, closure, key, metadata, *texts, binary, times, None)


def move_sites(metadata: dict[str, Any], places: list[Place]) -> None:
    """Functions may stand elsewhere than when they were compiled; so do their sites."""
    before = [Place(*p) for p in metadata["places"]]
    if before == places or len(before) != len(places):
        return
    moves = list(zip(before, places))
    sites = (x for site in metadata["sites"] for x in place_and_callers(site))
    for site in sites:
        for old, new in moves:
            if site["file"] == old.file and old.first <= site["line"] < old.first + old.count:
                site["file"] = new.file
                site["line"] += new.first - old.first
                site["end_line"] += new.first - old.first
                break
    metadata["places"] = [[p.file, p.first, p.count] for p in places]


def finished(
    request: Request,
    closure: Closure,
    key: str,
    metadata: dict[str, Any],
    ir: str,
    llvm_text: str,
    binary: Binary,
    times: dict[str, float],
    kernel: Kernel | None,
) -> Compilation:
    def recompile(**options: Any) -> Binary:
        return compile_kernel(replace(request, options={**request.options, **options})).binary

    binary.recompile = recompile
    return Compilation(
        jit=request.jit,
        hash=key,
        target=request.target.name,
        arch=request.target.arch(),
        ir=ir,
        llvm=llvm_text,
        metadata=metadata,
        binary=binary,
        signature={name: str(kind) for name, kind in request.types.items()},
        constants=dict(request.constants),
        from_cache=kernel is None,
        watched=closure.watched,
        kernel=kernel,
        times=times,
        disassemble=request.target.assembly,
    )


@cache
def prepare(target: Target) -> None:
    """Get a target ready; its own code is kept on disk as kernels are."""
    target.prepare(keep)


def keep(name: str, make: Callable[[], bytes]) -> bytes:
    """What `make` gives, by way of the disk cache."""
    folder = disk.default_cache()
    key = disk.digest(OBJECT, name, toolchain())
    files = folder.get(key)
    if files is None:
        files = {OBJECT: make()}
        folder.put(key, files)
    return files[OBJECT]
