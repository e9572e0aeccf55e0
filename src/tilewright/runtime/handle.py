"""What a launch returns: the compiled kernel, its stages by name, and how it was configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tilewright.ir.types import DType
from tilewright.runtime.compile import Compilation
from tilewright.runtime.cpu_driver import GPUTarget
from tilewright.runtime.signature import OPTIONS, SPELLINGS
from tilewright.runtime.typed import typed

if TYPE_CHECKING:
    from tilewright.runtime.kernel import JITFunction

# Programs compute an occupancy by dividing a GPU's resources by these, so none of them is 0.
REGISTERS = 32
SHARED = 1
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None, "debug": False}
# Stages under Triton's names and ours.
STAGES = {
    "source": "source",
    "ir": "ir",
    "ttir": "ir",
    "llvm": "llvm",
    "llir": "llvm",
    "asm": "asm",
}
GPU_STAGES = ("ttgir", "ptx", "cubin", "sass", "amdgcn", "hsaco")
CUDA_STAGES = ("ptx", "cubin")


class Stages(Mapping):
    """The stages of a compilation; `asm` is made when it is asked for."""

    def __init__(self, compilation: Compilation):
        self.compilation = compilation

    def __getitem__(self, name: str) -> str | bytes:
        if name not in self.names:
            if name not in GPU_STAGES:
                raise KeyError(name)
            raise KeyError(
                f"{name}: the {self.compilation.target} target makes none; "
                f"there are {', '.join(self.names)}"
            )
        if name == "ptx":
            return self.compilation.asm
        if name == "cubin":
            return self.compilation.binary.image
        return getattr(self.compilation, STAGES[name])

    @property
    def names(self) -> tuple[str, ...]:
        is_gpu = "warp_size" in self.compilation.metadata
        return (*STAGES, *CUDA_STAGES) if is_gpu else tuple(STAGES)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class KernelMetadata(SimpleNamespace):
    """The configuration of a compiled kernel."""

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))


class CompiledKernel:
    """A kernel compiled for certain types, constants and options."""

    def __init__(self, jit: JITFunction, compilation: Compilation, options: dict[str, Any]):
        self.jit = jit
        self.compilation = compilation
        self.options = options
        self.name = jit.repr(
            SimpleNamespace(constants=compilation.constants, signature=compilation.signature)
        )
        self.hash = compilation.hash
        self.asm = Stages(compilation)
        self.src = SimpleNamespace(
            fn=jit, name=jit.__name__, constants=compilation.constants,
            signature=compilation.signature,
        )  # fmt: skip
        known = {k: v for k, v in options.items() if k in OPTIONS}
        code = compilation.metadata
        warp, arch = code.get("warp_size", 1), code.get("capability", compilation.arch)
        self.metadata = KernelMetadata(
            **{**DEFAULTS, **known}, shared=max(SHARED, code.get("shared", 0)), name=self.name,
            hash=self.hash, warp_size=warp, target=GPUTarget(compilation.target, arch, warp),
        )  # fmt: skip

    @cached_property
    def facts(self) -> dict[str, int]:
        """What the machine code takes, where the target knows it."""
        known = getattr(self.compilation.binary, "facts", None)
        return known() if known is not None else {}

    @cached_property
    def scalars(self) -> dict[str, DType]:
        """The types of the numbers that are passed at run time."""
        texts = self.compilation.signature.items()
        found = {name: SPELLINGS[text] for name, text in texts if text in SPELLINGS}
        return {name: dtype for name, dtype in found.items() if not dtype.is_pointer}

    @property
    def n_regs(self) -> int:
        """Registers of a thread."""
        return self.facts.get("n_regs", REGISTERS)

    @property
    def n_spills(self) -> int:
        """Words of registers that a thread keeps in memory."""
        return self.facts.get("n_spills", 0)

    @property
    def n_max_threads(self) -> int:
        """Threads that a program can have, with the registers that each takes."""
        return self.facts.get("max_threads", 1024)

    def _init_handles(self) -> None:
        """Nothing to do: a compiled kernel is loaded when it is made."""

    @property
    def kernel(self) -> str | bytes:
        """The last stage."""
        return self.asm[self.asm.names[-1]]

    @property
    def function(self) -> int:
        """The address of the machine code."""
        return self.compilation.binary.entry

    @property
    def times(self) -> dict[str, float]:
        """Seconds of each step of the compilation."""
        return self.compilation.times

    def __getitem__(self, grid: Any) -> Callable:
        """`handle[grid](*args)`: launch again; constexprs that are left out keep their values."""

        return relaunch(self.jit, grid, self.compilation.constants, self.options)

    @property
    def run(self) -> Callable:
        """What launches with the arguments of Triton's launchers, the kernel's after them.

        Numbers are passed as the types that the kernel was compiled for. Hooks among the
        arguments are those of the settings, which every launch calls itself.
        """
        options = {k: v for k, v in self.options.items() if k in OPTIONS}
        launch, names = self.jit.run, self.jit.arg_names
        scalars = [(i, n, self.scalars[n]) for i, n in enumerate(names) if n in self.scalars]

        def run(
            x: int, y: int, z: int, stream: Any, function: Any, metadata: Any,
            launch_metadata: Any, enter: Any, exit: Any, *args: Any,
        ) -> None:  # fmt: skip
            args = list(args)
            for i, name, dtype in scalars:
                args[i] = typed(name, args[i], dtype)
            launch(*args, grid=(x, y, z), **options)

        return run

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> dict[str, Any]:
        """What hooks are told about a launch."""
        return {"name": self.name, "function": self.function, "stream": stream, "grid": grid}

    def __repr__(self) -> str:
        return f"<compiled {self.name} for {self.compilation.target}>"


class SteppedKernel:
    """What a launch that was stepped in Python returns: it can be launched again."""

    def __init__(
        self,
        jit: JITFunction,
        types: dict[str, Any],
        constants: dict[str, Any],
        options: dict[str, Any],
    ):
        self.jit = jit
        self.types = types
        self.constants = constants
        self.options = options

    @cached_property
    def name(self) -> str:
        """As of a compiled kernel."""
        signature = {name: str(kind) for name, kind in self.types.items()}
        return self.jit.repr(SimpleNamespace(constants=self.constants, signature=signature))

    def __getitem__(self, grid: Any) -> Callable:
        """As of a compiled kernel."""
        return relaunch(self.jit, grid, self.constants, self.options)

    def __repr__(self) -> str:
        return f"<stepped {self.name}>"


def relaunch(jit: JITFunction, grid: Any, constants: dict[str, Any], options: dict) -> Callable:
    """What launches a kernel again; constexprs that are left out keep their values."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = {*jit.arg_names[: len(args)], *kwargs}
        kept = {k: v for k, v in constants.items() if k not in given}
        return jit.run(*args, grid=grid, **{**options, **kept, **kwargs})

    return run
