"""Functions of libraries and of one GPU: what has a meaning elsewhere, and what has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError, want
from tilewright.ir.op import emit, machine
from tilewright.lang import arithmetic as a
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import as_dtype, cast, cast_function
from tilewright.lang.tensor import tensor
from tilewright.later import later
from tilewright.ops import program

libdevice = later("tilewright.lang.libdevice")
ptx = later("tilewright.lang.ptx")


def of_libdevice(symbol: str) -> Callable | None:
    """The function behind a symbol such as `__nv_tanhf`."""
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f"), name.removeprefix("ll"), name[1:]):
        if candidate in libdevice.__all__:
            return getattr(libdevice, candidate)
    return None


@builtin
def extern_elementwise(
    lib_name: str, lib_path: str, args: Sequence, arg_type_symbol_dict: dict, is_pure: bool
) -> tensor:
    """A function of libdevice by the symbol that belongs to the operands' dtypes."""
    xs = a.tensors_together(*args)
    dtypes = tuple(x.dtype for x in xs)
    table = {tuple(map(as_dtype, key)): value for key, value in arg_type_symbol_dict.items()}
    want(
        dtypes in table,
        f"no function for ({', '.join(map(str, dtypes))}); there are {sorted(map(str, table))}",
    )
    symbol, dtype = table[dtypes]
    function = of_libdevice(symbol)
    if function is None:
        raise UnsupportedError(
            f"the external function `{symbol}` is not supported: only those of libdevice are; "
            "write what it computes with functions of the language"
        )
    return cast(function(*xs), as_dtype(dtype))


@builtin
def inline_asm_elementwise(
    asm: str, constraints: str, args: Sequence, dtype: Any, is_pure: bool, pack: int
) -> Any:
    """What a short PTX text computes for each element, where its instructions are known."""
    return ptx.run_elementwise(asm, constraints, args, dtype, pack)


def extern(fn: Callable) -> Callable:
    """Decorator: a function of the language that calls external ones."""
    return builtin(fn)


def must_use_result(x: Any, s: bool = True) -> Any:
    """Decorator: a function that does nothing beyond what it returns."""
    return x if callable(x) else lambda fn: fn


def unsupported(name: str, reason: str) -> Callable:
    """A function of the language that this computer cannot have."""

    @builtin
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedError(f"{name} is not supported: {reason}")

    refuse.__name__ = name
    refuse.__doc__ = f"Not supported: {reason}."
    return refuse


@builtin
def num_warps() -> int:
    """How many warps share a program on a GPU; on the CPU what a launch gets that says nothing."""
    return machine().warps


@builtin
def num_threads() -> int:
    """How many threads share a program on a GPU: 32 in each warp."""
    return 32 * machine().warps


@builtin
def smid() -> tensor:
    """The number of the multiprocessor that runs the program instance; 0 on the CPU."""
    return tensor(emit(program.processor))


@builtin
def globaltimer() -> tensor:
    """A clock that counts up: nanoseconds on GPUs and in eager mode, cycles on the CPU."""
    return tensor(emit(program.clock))


@builtin
def memrealtime() -> tensor:
    """The same clock."""
    return tensor(emit(program.clock))


dispatch = unsupported("dispatch", "use libdevice, or extern_elementwise")


@builtin
def gdc_wait() -> None:
    """Wait for the kernel before, which has ended: launches do not overlap."""


@builtin
def gdc_launch_dependents() -> None:
    """Let the next kernel start early, which it does not: launches do not overlap."""


@builtin
def convert_custom_float8_sm80(
    arg: Any, dst_ty: Any, fp_downcast_rounding: str | None = None
) -> tensor:
    """A conversion from or to float8e4b15."""
    return cast_function(arg, dst_ty, fp_downcast_rounding)


convert_custom_float8_sm70 = convert_custom_float8_sm80
