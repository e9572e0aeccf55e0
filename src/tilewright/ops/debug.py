"""Printing and checking from inside a kernel, barriers, and hints to the compiler."""

from __future__ import annotations

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import op


@op(eager=lambda port, *xs, **attrs: port.print(*xs, **attrs), effect="debug")
def device_print(*xs, prefix="", hex=False):
    """Print values, one line a program instance."""
    return None


@op(eager=lambda port, condition, mask=None, **attrs: port.check(condition, mask, **attrs),
    effect="debug")  # fmt: skip
def device_assert(condition, mask=None, message="", soft=""):
    """Stop the launch with an error unless the condition holds in every (unmasked) element.

    With `soft`, a kind of fault, the launch goes on, and checked code notes it.
    """
    want(condition.dtype is t.int1, f"the condition must be boolean, got {condition}")
    return None


@op(eager=lambda port: None, effect="debug")
def barrier():
    """What was stored before is seen by loads after it, in every thread of the program."""
    return None


@op(eager=lambda x, **_: x, emit=lambda b, x, **_: x)
def hint(x, multiple=(), contiguous=(), constant=()):
    """x itself, with promises about its numbers, one per dimension (see `tl.multiple_of`)."""
    want(x.dtype.is_integer or x.dtype.is_pointer, f"needs integers or pointers, got {x}")
    return x
