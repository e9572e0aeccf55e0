"""Drive LLVM: text to object code or assembly, and object code to callable addresses."""

from __future__ import annotations

import functools
import itertools
import json
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.codegen import objects, processor
from tilewright.errors import InternalError
from tilewright.locks import Lock, fork_outside

# LLVM objects may be freed by whichever thread collects them, hence reentrant.
_lock = Lock()
_library_numbers = itertools.count()

X86 = ("x86_64", "AMD64")
# What a restricted host may be: arch -> name -> (LLVM's CPU, features that decide the code).
LEVELS = {
    "x86_64": {
        "sse": ("x86-64-v2", "+sse4.2"),
        "avx2": ("haswell", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt"),
        "avx512": (
            "skylake-avx512",
            "+avx,+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,"
            "+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt",
        ),
    },
    "aarch64": {"neon": ("generic", "+neon")},
}


@dataclass(frozen=True)
class Machine:
    """What code is generated for, in LLVM's words; `features` is like "+avx2,+fma,-sse4a"."""

    triple: str
    cpu: str
    features: str = ""

    def has(self, feature: str) -> bool:
        """Whether code for this machine may use `feature` (LLVM's name of it)."""
        return f"+{feature}" in self.features.split(",")

    @property
    def arch(self) -> str:
        """The first part of the triple: x86_64, aarch64, nvptx64, ..."""
        return self.triple.partition("-")[0].replace("arm64", "aarch64")

    @property
    def vector_bytes(self) -> int:
        """The size of the widest vector registers that pay."""
        if all(map(self.has, ("avx512f", "avx512bw", "avx512vl"))):
            return 64
        return 32 if self.has("avx2") else 16


@dataclass(frozen=True)
class ObjectCode:
    """A relocatable object file, and the seconds spent on each phase of making it."""

    bytes: bytes
    times: dict[str, float]


@functools.cache
def _binding() -> ModuleType:
    """llvmlite's binding, ready for the host."""
    import llvmlite.binding as binding

    if platform.machine() in X86:
        binding.set_option("", "-disable-lsr")  # see docs/decisions/
    # A child of a fork in the midst of a call would find LLVM's and llvmlite's locks taken.
    calls = getattr(getattr(binding.ffi.lib, "_lock", None), "_lock", None)
    if calls is not None:
        fork_outside(calls)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def _initialize_all_targets() -> None:
    _binding().initialize_all_targets()
    _binding().initialize_all_asmprinters()


@functools.cache
def _jit() -> Any:
    # The JIT linker maps an object's code and constants in one block, so that the small code
    # model is safe: constants are operands instead of addresses loaded into registers.
    return _binding().create_lljit_compiler(use_jit_link=True)


def llvm_version() -> str:
    """LLVM's version, for cache keys and reports."""
    return _host().version


def release() -> str:
    """The same for keys of code that may be there already: LLVM is not loaded to find out."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}"


class Host(NamedTuple):
    """This computer in LLVM's words, and LLVM's version."""

    triple: str
    cpu: str
    features: str
    version: str


_recalled: list[Host] = []


def recall_host(keep: Callable[[str, Callable[[], bytes]], bytes]) -> None:
    """Take from `keep(name, make)` what LLVM said of this computer to an earlier process."""
    identity = processor.identity()
    if identity and not _recalled:
        made = keep(f"host {release()} {identity}", lambda: json.dumps(_asked_host()).encode())
        _recalled.append(Host(*json.loads(made)))


def _host() -> Host:
    return _recalled[0] if _recalled else _asked_host()


@functools.cache
def _asked_host() -> Host:
    with _lock:
        binding = _binding()
        return Host(
            binding.get_process_triple(),
            binding.get_host_cpu_name(),
            binding.get_host_cpu_features().flatten(),
            ".".join(map(str, binding.llvm_version_info)),
        )


@functools.cache
def host_machine(features_override: str = "") -> Machine:
    """This computer, or with the name of one of the `LEVELS` a lesser one of its kind.

    Raises:
        ValueError: for a name that is not a level of this kind of computer.
    """
    triple, cpu, features, _ = _host()
    arch = Machine(triple, cpu).arch
    if features_override:
        levels = LEVELS.get(arch, {})
        if features_override not in levels:
            raise ValueError(
                f"no feature level {features_override!r} on {arch}; "
                f"there are: {', '.join(levels) or 'none'}"
            )
        cpu, features = levels[features_override]
    elif arch == "aarch64" and "+neon" not in features:
        features = f"{features},+neon".lstrip(",")
    return Machine(triple, cpu, features)


def compile_object(
    ir_text: str, machine: Machine, *, passes: str = "O0", codegen_level: int = 1
) -> ObjectCode:
    """LLVM IR to an object file.

    The default, O0 (which still inlines `alwaysinline` functions) with code generation level 1,
    is a third of O3's time at the same speed of code when vectors are explicit; level 0 halves
    the speed.

    Raises:
        InternalError: when LLVM rejects the text.
    """
    with _lock, _compiled(ir_text, machine, passes, codegen_level) as (target, module, times):
        start = time.perf_counter()
        data = target.emit_object(module)
        times["codegen"] = time.perf_counter() - start
        return ObjectCode(data, times)


def emit_assembly(
    ir_text: str, machine: Machine, *, passes: str = "O0", codegen_level: int = 1
) -> str:
    """LLVM IR to assembly (or PTX), for any machine that LLVM knows.

    Raises:
        InternalError: when LLVM rejects the text.
    """
    with _lock, _compiled(ir_text, machine, passes, codegen_level) as (target, module, _):
        return target.emit_assembly(module)


@contextmanager
def _compiled(
    ir_text: str, machine: Machine, passes: str, codegen_level: int
) -> Iterator[tuple[Any, Any, dict[str, float]]]:
    """The target machine, and the module after the passes, which is freed at the end."""
    binding = _binding()
    start = time.perf_counter()
    target = _target_machine(machine, codegen_level)
    with binding.create_context() as context:
        module = _parse(ir_text, target, context)
        with module:
            parsed = time.perf_counter()
            if passes != "O0" or "alwaysinline" in ir_text:  # the only thing that O0 does
                level = int(passes.lstrip("O"))
                options = binding.create_pipeline_tuning_options(speed_level=level)
                builder = binding.create_pass_builder(target, options)
                with options, builder, builder.getModulePassManager() as manager:
                    manager.run(module, builder)
            times = {"parse": parsed - start, "passes": time.perf_counter() - parsed}
            yield target, module, times


@functools.cache
def _target_machine(machine: Machine, codegen_level: int) -> Any:
    # Kept: what LLVM finds out about a processor at the first use of each takes it 1 ms.
    binding = _binding()
    if machine.arch != host_machine().arch:
        _initialize_all_targets()
    try:
        target = binding.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise InternalError(f"LLVM has no target {machine.triple!r}: {error}") from None
    return target.create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="default",
    )


def _parse(ir_text: str, target: Any, context: Any) -> Any:
    """The verified module of a text, or an `InternalError` that shows the line at fault."""
    # Alignments that the text leaves out come from the data layout, so it has to be there before
    # the first load is read. On the text's own first line, to keep the numbers of lines.
    layout = f'target datalayout = "{target.target_data}" target triple = "{target.triple}" '
    try:
        module = _binding().parse_assembly(layout + ir_text, context)
    except RuntimeError as error:
        raise InternalError(_rejection(ir_text, str(error))) from None
    try:
        module.verify()
    except RuntimeError as error:
        module.close()
        raise InternalError(_rejection(ir_text, str(error))) from None
    return module


def _rejection(ir_text: str, message: str) -> str:
    """LLVM's message and the line of the text it is about (the verifier gives no number)."""
    lines = ir_text.splitlines()
    number = 0
    if place := re.search(r"<string>:(\d+):\d+", message):
        number = int(place[1])
    else:
        quoted = [line.strip() for line in message.splitlines()[1:]]
        bare = [line.strip() for line in lines]
        number = next((bare.index(q) + 1 for q in quoted if q in bare), 0)
    where = f"\nline {number}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""
    return f"LLVM rejects the generated code: {message.strip()}{where}\nPlease report this."


class Library:
    """Object code in memory; its addresses are valid for as long as this object lives."""

    def __init__(self, memory: Any, addresses: dict[str, int]):
        self._memory = memory
        self._addresses = addresses

    @classmethod
    def load(
        cls,
        object_bytes: bytes,
        exports: Iterable[str],
        imports: Mapping[str, int] | None = None,
        beside: Iterable[bytes] = (),
    ) -> Library:
        """Link object code against this process (libc, Python) and `imports` (name -> address).

        `beside` is more object code, which the first may call.

        Raises:
            InternalError: when the object is damaged or needs a symbol that nobody has.
        """
        names = list(exports)
        beside = list(beside)
        mapped = objects.link([object_bytes, *beside], names, imports or {})
        if mapped is not None:
            return cls(mapped, {name: mapped[name] for name in names})
        with _lock:
            builder = _binding().JITLibraryBuilder().add_object_img(object_bytes)
            for other in beside:
                builder.add_object_img(other)
            builder.add_current_process()
            for name, address in (imports or {}).items():
                builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            try:
                tracker = builder.link(_jit(), f"tilewright{next(_library_numbers)}")
            except RuntimeError as error:
                raise InternalError(f"cannot load compiled code: {error}") from None
            return cls(tracker, {name: tracker[name] for name in names})

    def address(self, name: str) -> int:
        """Where the exported function or variable `name` is."""
        return self._addresses[name]
