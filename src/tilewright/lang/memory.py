"""Loads, stores and atomics of kernels: masks, casts and broadcasting, then one op each."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TypeRuleError, want
from tilewright.ir import types as t
from tilewright.ir.op import emit, machine
from tilewright.ir.types import Type
from tilewright.lang.block_pointer import block_pointer, make_block_pointer
from tilewright.lang.builtin import builtin
from tilewright.lang.conversion import number_in
from tilewright.lang.promote import as_python, constant, expand_to, is_number
from tilewright.lang.tensor import method, tensor
from tilewright.ops import atomic, memory

LOAD_CACHES = ("", ".ca", ".cg", ".cv")
STORE_CACHES = ("", ".wb", ".cg", ".cs", ".wt")
EVICTIONS = ("", "evict_first", "evict_last", "evict_normal")


def check_pointer(pointer: Any, what: str) -> tensor:
    if not isinstance(pointer, tensor) or not pointer.dtype.is_pointer:
        raise TypeRuleError(
            f"{what} needs pointers, got {describe(pointer)}; pass an array and add offsets to it"
        )
    return pointer


def describe(value: Any) -> str:
    return str(value.handle.type) if isinstance(value, tensor) else repr(value)


def spread(x: tensor, pointer: tensor, what: str) -> tensor:
    """The mask, value or `other` of an access in the shape of its pointers."""
    if joined(x.shape, pointer.shape) != pointer.shape:
        raise TypeRuleError(
            f"the {what} {x.handle.type} does not broadcast to the pointers {pointer.handle.type}"
        )
    return expand_to(x, pointer.shape)


def joined(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape to which both broadcast, None if there is none."""
    rank = max(len(x), len(y))
    x, y = ((1,) * (rank - len(shape)) + shape for shape in (x, y))
    if any(1 not in (n, m) and n != m for n, m in zip(x, y, strict=True)):
        return None
    return tuple(map(max, x, y))


def widened(pointer: tensor, *others: Any) -> tensor:
    """The pointers of a load in the shape that they have together with its mask and `other`."""
    shape = pointer.shape
    for x in others:
        if shape and isinstance(x, tensor):
            shape = joined(shape, x.shape) or shape
    return expand_to(pointer, shape)


def read_mask(mask: Any, pointer: tensor) -> tensor | bool:
    """The mask in the pointers' shape; True for everything, False for nothing."""
    mask = as_python(mask)
    if mask is None:
        return True
    if is_number(mask):
        return bool(mask)
    if not isinstance(mask, tensor) or mask.dtype is not t.int1:
        raise TypeRuleError(f"the mask must be boolean, got {describe(mask)}; write a comparison")
    return spread(mask, pointer, "mask")


def hints(cache: str, evict: str, caches: tuple[str, ...], volatile: bool = False) -> dict:
    """The attributes of an access that steer caches, as far as they are given."""
    if not (cache or evict or volatile):
        return {}
    want(cache in caches, f"no cache_modifier {cache!r}; one of {caches}")
    want(evict in EVICTIONS, f"no eviction_policy {evict!r}; one of {EVICTIONS}")
    found = {"cache": cache, "evict": evict, "volatile": bool(volatile)}
    return {name: value for name, value in found.items() if value}


def no_boundaries(boundary_check: Any, padding_option: str = "") -> None:
    want(
        not boundary_check and not padding_option,
        "boundary_check and padding_option belong to block pointers (tl.make_block_ptr); "
        "pointers take a mask",
    )


@method("load")
@builtin
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """What the pointers point to; where the mask is false `other`, or 0 when there is none."""
    attrs = hints(cache_modifier or "", eviction_policy or "", LOAD_CACHES, volatile)
    if isinstance(pointer, block_pointer):
        want(mask is None and other is None, "a load through a block pointer takes no mask")
        padding = padding_option or machine().padding
        pointer, mask, other = pointer.access(boundary_check, padding)
    else:
        no_boundaries(boundary_check, padding_option)
        want(other is None or mask is not None, "`other` needs a mask")
    return masked_load(check_pointer(pointer, "load"), mask, other, attrs)


def masked_load(pointer: tensor, mask: Any, other: Any, attrs: dict) -> tensor:
    """A load of pointers."""
    element = pointer.dtype.element_ty
    pointer = widened(pointer, mask, other)
    mask = read_mask(mask, pointer)
    if other is not None:
        other = spread(number_in(other, element), pointer, "other")
    if mask is True:
        return tensor(emit(memory.load, pointer.handle, **attrs))
    if mask is False:
        return constant(0, Type(element, pointer.shape)) if other is None else other
    operands = [pointer.handle, mask.handle] + ([] if other is None else [other.handle])
    return tensor(emit(memory.load, *operands, **attrs))


@method("store")
@builtin
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write the value where the pointers point to and the mask is true."""
    attrs = hints(cache_modifier or "", eviction_policy or "", STORE_CACHES)
    if isinstance(pointer, block_pointer):
        want(mask is None, "a store through a block pointer takes no mask")
        pointer, mask, _ = pointer.access(boundary_check, "")
    else:
        no_boundaries(boundary_check)
    masked_store(check_pointer(pointer, "store"), value, mask, attrs)


def masked_store(pointer: tensor, value: Any, mask: Any, attrs: dict) -> None:
    """A store to pointers in their own shape."""
    value = spread(number_in(value, pointer.dtype.element_ty), pointer, "value")
    mask = read_mask(mask, pointer)
    if mask is False:
        return
    operands = [pointer.handle, value.handle] + ([] if mask is True else [mask.handle])
    emit(memory.store, *operands, **attrs)


# --- atomics


def order(sem: str | None, scope: str | None) -> dict[str, str]:
    """The attributes of an atomic operation, as far as they are given."""
    sems, scopes = (None, "", *atomic.SEMANTICS), (None, "", *atomic.SCOPES)
    want(sem in sems, f"no memory semantics {sem!r}; one of {atomic.SEMANTICS}")
    want(scope in scopes, f"no scope {scope!r}; one of {atomic.SCOPES}")
    return {name: value for name, value in (("sem", sem), ("scope", scope)) if value}


def check_element(pointer: tensor, kind: str) -> None:
    element = pointer.dtype.element_ty
    half = element in (t.float16, t.bfloat16)
    want(
        element.bits >= 32 or (half and kind in ("add", "xchg")),
        f"atomic_{kind} does not work on {element}; it needs 32 or 64 bits"
        + (", or fp16 or bf16" if kind == "add" else ""),
    )


def update(kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any) -> tensor:
    """A read-modify-write of memory; gives what was there before."""
    pointer = check_pointer(pointer, f"atomic_{kind}")
    check_element(pointer, kind)
    element = pointer.dtype.element_ty
    value = spread(number_in(val, element), pointer, "value")
    mask = read_mask(mask, pointer)
    if mask is False:
        return constant(0, Type(element, pointer.shape))
    operands = [pointer.handle, value.handle] + ([] if mask is True else [mask.handle])
    return tensor(emit(atomic.atomic_rmw, *operands, kind=kind, **order(sem, scope)))


@method("atomic_add")
@builtin
def atomic_add(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Add to memory at once; gives what was there before."""
    return update("add", pointer, val, mask, sem, scope)


@method("atomic_max")
@builtin
def atomic_max(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Replace memory by the larger number at once; gives what was there before."""
    return update("max", pointer, val, mask, sem, scope)


@method("atomic_min")
@builtin
def atomic_min(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Replace memory by the smaller number at once; gives what was there before."""
    return update("min", pointer, val, mask, sem, scope)


@method("atomic_and")
@builtin
def atomic_and(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise and into memory at once; gives what was there before."""
    return update("and", pointer, val, mask, sem, scope)


@method("atomic_or")
@builtin
def atomic_or(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise or into memory at once; gives what was there before."""
    return update("or", pointer, val, mask, sem, scope)


@method("atomic_xor")
@builtin
def atomic_xor(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise exclusive or into memory at once; gives what was there before."""
    return update("xor", pointer, val, mask, sem, scope)


@method("atomic_xchg")
@builtin
def atomic_xchg(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Replace memory at once; gives what was there before."""
    return update("xchg", pointer, val, mask, sem, scope)


@method("atomic_cas")
@builtin
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Write `val` where memory holds `cmp`, at once; gives what was there before."""
    pointer = check_pointer(pointer, "atomic_cas")
    element = pointer.dtype.element_ty
    want(
        element.bits in (16, 32, 64),
        f"atomic_cas does not work on {element}; it needs 16, 32 or 64 bits",
    )
    expected = spread(number_in(cmp, element), pointer, "expected value")
    value = spread(number_in(val, element), pointer, "value")
    attrs = order(sem, scope)
    return tensor(emit(atomic.atomic_cas, pointer.handle, expected.handle, value.handle, **attrs))


# --- block pointers


@builtin
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> block_pointer:
    """A pointer to a block of a tensor in memory, for loads and stores with boundary_check."""
    return make_block_pointer(base, shape, strides, offsets, block_shape, order)


@method("advance")
@builtin
def advance(base: Any, offsets: Any) -> block_pointer:
    """The block pointer, moved by offsets along each dimension."""
    want(
        isinstance(base, block_pointer),
        f"advance needs a block pointer from tl.make_block_ptr, got {describe(base)}",
    )
    return base.advance(offsets)
