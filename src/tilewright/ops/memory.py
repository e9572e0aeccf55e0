"""Pointer arithmetic, loads and stores."""

from __future__ import annotations

from tilewright.errors import TypeRuleError
from tilewright.ir import types as t
from tilewright.ir.op import Access, op
from tilewright.ir.types import Type


def step(pointer, offset, bytes):
    return pointer + offset.astype(pointer.dtype) * bytes


@op(eager=step, emit=lambda b, p, i, bytes: b.offset(p, i))
def offset(pointer, offset, bytes):
    """The pointer, moved by `offset` elements of `bytes` bytes each."""
    if not pointer.dtype.is_pointer:
        raise TypeRuleError(f"needs a pointer, got {pointer}")
    if not offset.dtype.is_integer:
        raise TypeRuleError(f"a pointer moves by integers, got {offset}")
    if pointer.shape != offset.shape:
        raise TypeRuleError(f"shapes differ: {pointer} and {offset}")
    return pointer


def check_access(pointer: Type, mask: Type | None) -> None:
    if not pointer.dtype.is_pointer:
        raise TypeRuleError(
            f"needs pointers, got {pointer}; pass an array to the kernel and add offsets to it"
        )
    if mask is None:
        return
    if mask.dtype is not t.int1:
        raise TypeRuleError(f"the mask must be boolean, got {mask}; write a comparison")
    if mask.shape != pointer.shape:
        raise TypeRuleError(f"shapes differ: pointers {pointer}, mask {mask}")


@op(
    eager=lambda port, pointer, mask=None, other=None, **_: port.load(pointer, mask, other),
    effect="read",
    access=Access("load", pointer=0, mask=1),
)
def load(pointer, mask=None, other=None, cache="", evict="", volatile=False):
    """What the pointers point to; where the mask is false `other`, or 0 when there is none."""
    check_access(pointer, mask)
    result = Type(pointer.dtype.element_ty, pointer.shape)
    if other is not None and other != result:
        raise TypeRuleError(f"`other` must be {result}, got {other}")
    return result


@op(
    eager=lambda port, pointer, value, mask=None, **_: port.store(pointer, value, mask),
    effect="write",
    access=Access("store", pointer=0, value=1, mask=2),
)
def store(pointer, value, mask=None, cache="", evict=""):
    """Write the value where the pointers point to and the mask is true."""
    check_access(pointer, mask)
    if pointer.dtype.const:
        raise TypeRuleError(f"Cannot store to a constant pointer, which {pointer} is")
    expected = Type(pointer.dtype.element_ty, pointer.shape)
    if value != expected:
        raise TypeRuleError(f"the value must be {expected}, got {value}")
