"""What steers a kernel: loops, program ids, static and run-time checks, prints, hints."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.errors import CompileTimeAssertionFailure, want
from tilewright.ir.op import emit, machine
from tilewright.lang.builtin import builtin, public
from tilewright.lang.constexpr import unwrap
from tilewright.lang.conversion import cast, truth
from tilewright.lang.promote import integer_promotion, same_shape, to_tensor
from tilewright.lang.tensor import known, tensor
from tilewright.ops import debug, program


@public(program.program_id)
def program_id(axis: int) -> tensor:
    """The index of the running program instance along an axis of the grid."""
    return tensor(emit(program.program_id, axis=axis))


@public(program.num_programs)
def num_programs(axis: int) -> tensor:
    """The number of program instances along an axis of the grid."""
    return tensor(emit(program.num_programs, axis=axis))


# --- loops


class range:
    """A run-time loop `for i in tl.range(...)` with hints for the compiler."""

    is_tile_builtin = True

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: int | None = None,
        loop_unroll_factor: int | None = None,
        disallow_acc_multi_buffer: bool = False,
        flatten: bool = False,
        warp_specialize: bool = False,
        disable_licm: bool = False,
    ):
        self.start, self.end = (0, unwrap(arg1)) if arg2 is None else (unwrap(arg1), unwrap(arg2))
        self.step = 1 if step is None else unwrap(step)
        self.num_stages = unwrap(num_stages)
        self.loop_unroll_factor = unwrap(loop_unroll_factor)
        self.disallow_acc_multi_buffer = unwrap(disallow_acc_multi_buffer)
        self.flatten = unwrap(flatten)
        self.warp_specialize = unwrap(warp_specialize)
        self.disable_licm = unwrap(disable_licm)

    def bounds(self) -> tuple[tensor, tensor, tensor]:
        """Start, end and step as scalars of one integer dtype."""
        return loop_bounds(self.start, self.end, self.step)

    def __iter__(self) -> Iterator[tensor]:
        return machine().iterate(*self.bounds())


def loop_bounds(*bounds: Any) -> tuple[tensor, ...]:
    """The bounds and step of a loop as scalars of the integer dtype in which they meet."""
    scalars = [to_tensor(b) for b in bounds]
    dtype = scalars[0].dtype
    for x in scalars:
        want(
            x.dtype.is_integer and not x.shape,
            f"bounds and step of a loop must be integer scalars, got {x.handle.type}",
        )
        dtype = integer_promotion(dtype, x.dtype)
    return tuple(cast(x, dtype) for x in scalars)


@builtin
def condition(arg1: Any, disable_licm: bool = False) -> Any:
    """The condition of a `while`, with hints for the compiler."""
    return arg1


class static_range:
    """A loop `for i in tl.static_range(...)` that is unrolled while the kernel is compiled."""

    is_tile_builtin = True

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None):
        self.start, self.end = (0, known(arg1)) if arg2 is None else (known(arg1), known(arg2))
        self.step = 1 if step is None else known(step)
        for bound in (self.start, self.end, self.step):
            want(
                isinstance(bound, int),
                f"static_range needs numbers known at compile time, got {bound!r}; "
                "use range or tl.range",
            )

    def __iter__(self) -> Iterator[int]:
        return iter(builtins.range(self.start, self.end, self.step))


# --- checks and prints


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Fail the compilation unless a condition known at compile time holds."""
    want(
        not isinstance(cond, tensor),
        "static_assert needs a condition known at compile time; use tl.device_assert",
    )
    if not cond:
        raise CompileTimeAssertionFailure(str(msg) or "static_assert does not hold")


@builtin
def static_print(
    *values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False
) -> None:
    """Print while the kernel is compiled."""
    shown = [machine().show_static(v.handle) if isinstance(v, tensor) else v for v in values]
    builtins.print(*shown, sep=sep, end=end, file=file, flush=flush)


@public(debug.device_print)
def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Print values at run time, with the program id and a prefix."""
    want(isinstance(prefix, str), f"the first argument is a string, got {prefix!r}")
    handles = [to_tensor(a).handle for a in args]
    emit(debug.device_print, *handles, prefix=prefix, hex=bool(hex))


@public(debug.device_assert)
def device_assert(cond: Any, msg: str = "", mask: Any = None) -> None:
    """Stop the launch unless the condition holds in every element, when debugging is on."""
    if not machine().debug:
        return
    condition = truth(cond)
    operands = [condition] if mask is None else same_shape(condition, truth(mask))
    emit(debug.device_assert, *[x.handle for x in operands], message=str(msg))


@builtin
def debug_barrier() -> None:
    """What was stored before is seen by loads after it."""
    emit(debug.barrier)


# --- hints


def as_values(values: Any) -> tuple[int, ...]:
    """The argument of a hint as a tuple of numbers."""
    if isinstance(values, Sequence):
        return tuple(int(unwrap(v)) for v in values)
    return (int(values),)


def hint(x: Any, kind: str, values: Any) -> tensor:
    x, values = to_tensor(x), as_values(values)
    want(
        len(values) == max(1, len(x.shape)),
        f"needs one number per dimension of {x.handle.type}, got {list(values)}",
    )
    return tensor(emit(debug.hint, x.handle, **{kind: values}))


@builtin
def multiple_of(input: Any, values: Any) -> tensor:
    """The tile, with the promise that along each dimension runs start at multiples of values."""
    return hint(input, "multiple", values)


@builtin
def max_contiguous(input: Any, values: Any) -> tensor:
    """The tile, with the promise that along each dimension runs of values numbers count up."""
    return hint(input, "contiguous", values)


@builtin
def max_constancy(input: Any, values: Any) -> tensor:
    """The tile, with the promise that along each dimension runs of values numbers are equal."""
    return hint(input, "constant", values)


@builtin
def assume(cond: Any) -> None:
    """A promise that a scalar condition holds, checked when debugging is on."""
    if machine().debug:
        emit(debug.device_assert, truth(cond).handle, message="tl.assume does not hold")
