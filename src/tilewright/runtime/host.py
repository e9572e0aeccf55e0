"""What programs call outside of kernels under Triton's names."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NoReturn

from tilewright.errors import TilewrightError
from tilewright.ir.op import has_machine
from tilewright.lang.arithmetic import cdiv as tile_cdiv
from tilewright.lang.constexpr import unwrap


class InterpreterError(TilewrightError):
    """What Triton's interpreter raises; programs name it to catch it."""


def cdiv(x: Any, y: Any) -> Any:
    """x / y rounded up, of ints; inside kernels also of tiles.

    >>> cdiv(10, 4)
    3
    """
    if has_machine():
        return tile_cdiv(x, y)
    x, y = unwrap(x), unwrap(y)
    return (x + y - 1) // y


cdiv.is_tile_builtin = True


def next_power_of_2(n: Any) -> int:
    """The smallest power of two that is at least n.

    >>> next_power_of_2(5)
    8
    """
    n = unwrap(n)
    return 1 << (n - 1).bit_length() if n > 0 else 0


next_power_of_2.is_tile_builtin = True


def must_use_result(fn: Any, s: Any = True) -> Any:
    """Mark a function whose result a caller must not drop; the mark is kept, not checked."""
    fn._must_use_result = s
    return fn


class NullAllocator:
    """The allocator of scratch memory when none was set."""

    def __call__(self, size: int, alignment: int, stream: Any) -> NoReturn:
        raise TilewrightError(
            f"a kernel wants {size} bytes of scratch memory and no allocator is set; "
            "call triton.set_allocator(fn) first"
        )


no_allocator = NullAllocator()
allocator: ContextVar[Callable] = ContextVar("allocator", default=no_allocator)


def set_allocator(fn: Callable) -> None:
    """Who allocates the scratch memory of kernels; those for the CPU need none."""
    allocator.set(fn)
