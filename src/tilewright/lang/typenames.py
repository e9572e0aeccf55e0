"""Names of types as kernels write them: dtype, pointer_type, block_type, const, aggregates."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.types import DType, PointerDType, Type, pointer_to
from tilewright.lang.builtin import builtin
from tilewright.lang.constexpr import constexpr_function, unwrap


class _StandsFor(type):
    """The type of a name whose instances are those of another class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.stands_for)


class dtype(metaclass=_StandsFor):
    """The type of tl.float32 and the like; `tl.dtype("fp32")` finds one by its name."""

    stands_for = DType

    def __new__(cls, name: str) -> DType:
        return t.BY_NAME[name]


class pointer_type(metaclass=_StandsFor):
    """`tl.pointer_type(tl.float32)` is the dtype of pointers to fp32."""

    stands_for = PointerDType

    def __new__(cls, element_ty: DType, address_space: int = 1, const: bool = False) -> DType:
        return pointer_to(unwrap(element_ty), bool(unwrap(const)))


class block_type(metaclass=_StandsFor):
    """`tl.block_type(tl.float32, [4, 8])` is the type of such tiles."""

    stands_for = Type

    def __new__(cls, element_ty: DType, shape: Any) -> Type:
        return Type(unwrap(element_ty), tuple(int(n) for n in shape))


class const:
    """As an annotation of a pointer argument: the kernel does not write through it."""


def aggregate(cls: type) -> type:
    """Decorator: a class whose instances hold tensors, and are passed around as one value."""
    return dataclasses.dataclass(eq=False, repr=False, init="__init__" not in vars(cls))(cls)


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """The integer dtype of a width."""
    return t.BY_NAME["int1" if bitwidth == 1 else f"{'' if signed else 'u'}int{bitwidth}"]


@builtin
def inline_asm_elementwise(asm: str, *_: Any, **__: Any) -> Any:
    """Instructions of one GPU cannot be run elsewhere."""
    raise UnsupportedError(
        "inline_asm_elementwise is not supported: its text is for one GPU; "
        "write what it computes with functions of the language"
    )
