"""Names of types as kernels write them: dtype, pointer_type, block_type, const, aggregates."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.op import has_machine
from tilewright.ir.types import DType, PointerDType, Type, pointer_to
from tilewright.lang.constexpr import constexpr, constexpr_function, unwrap
from tilewright.lang.tensor import tensor


class _StandsFor(type):
    """The type of a name whose instances are those of another class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.stands_for)


class dtype(metaclass=_StandsFor):
    """The type of tl.float32 and the like; `tl.dtype("fp32")` finds one by its name."""

    stands_for = DType

    # The names in groups, as programs ask for them.
    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    FP_TYPES = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", *STANDARD_FP_TYPES]
    OTHER_TYPES = ["void"]
    SIGNEDNESS = DType.SIGNEDNESS

    def __new__(cls, name: str) -> DType:
        return t.BY_NAME[name]


class pointer_type(metaclass=_StandsFor):
    """`tl.pointer_type(tl.float32)` is the dtype of pointers to fp32."""

    stands_for = PointerDType

    def __new__(cls, element_ty: DType, address_space: int = 1, const: bool = False) -> DType:
        return pointer_to(unwrap(element_ty), bool(unwrap(const)))


def const_pointer_type(element_ty: DType, address_space: int = 1) -> DType:
    """The dtype of pointers through which nothing is written."""
    return pointer_to(unwrap(element_ty), True)


class block_type(metaclass=_StandsFor):
    """`tl.block_type(tl.float32, [4, 8])` is the type of such tiles."""

    stands_for = Type

    def __new__(cls, element_ty: DType, shape: Any) -> Type:
        return Type(unwrap(element_ty), tuple(int(n) for n in shape))


class const:
    """As an annotation of a pointer argument: the kernel does not write through it."""


def aggregate(cls: type) -> type:
    """Decorator: a class whose instances hold tensors, and are passed around as one value.

    Outside kernels its fields that are annotated as constexpr hold constexprs, as do tuples.
    """
    made = dataclasses.dataclass(eq=False, repr=False, init=False)(cls)
    fields = dataclasses.fields(made)
    fixed = {f.name for f in fields if is_note(f.type, "constexpr")}
    fixed |= {f.name for f in fields if is_note(f.type, "tuple")}
    if "__init__" not in vars(cls):
        made.__init__ = initializer(fields)
    if fixed and "__setattr__" not in vars(cls):

        def assign(self: Any, name: str, value: Any) -> None:
            if name in fixed and not has_machine():
                value = as_constexpr(value)
            object.__setattr__(self, name, value)

        made.__setattr__ = assign
    return made


def initializer(fields: Sequence[dataclasses.Field]) -> Callable:
    """An `__init__` that takes the fields in order; those with defaults may be left out."""
    signature = inspect.Signature(
        inspect.Parameter(f.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for f in fields
    )
    defaults = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind_partial(*args, **kwargs).arguments
        signature.bind(**(values := {**defaults, **given}))  # says which are missing
        for field in fields:
            setattr(self, field.name, values[field.name])

    return __init__


def as_constexpr(value: Any) -> Any:
    """A value of the host as a constexpr; in tuples, each item."""
    if isinstance(value, tuple):
        items = [as_constexpr(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return constexpr(value)


def is_note(note: Any, name: str) -> bool:
    """Whether an annotation, or its text, is the name."""
    text = note if isinstance(note, str) else getattr(note, "__name__", "")
    return text.split("[")[0].split(".")[-1] == name


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """The integer dtype of a width."""
    return t.BY_NAME["int1" if bitwidth == 1 else f"{'' if signed else 'u'}int{bitwidth}"]


class base_type(metaclass=_StandsFor):
    """What every type of the language is an instance of."""

    stands_for = (DType, Type)


class base_value(metaclass=_StandsFor):
    """What every value of the language is an instance of."""

    stands_for = (tensor, constexpr)


@dataclasses.dataclass(frozen=True)
class tuple_type:
    """The type of a tuple: those of its items, and their names if they have some."""

    types: tuple
    fields: tuple | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))


@dataclasses.dataclass(frozen=True)
class constexpr_type:
    """The type of a value that is known while the kernel is compiled."""

    value: Any


def type_of(value: Any) -> Any:
    """What `x.type` is for any value of a kernel."""
    value = unwrap(value)
    if isinstance(value, tuple):
        return tuple_type(tuple(map(type_of, value)), getattr(value, "_fields", None))
    return value.type if hasattr(value, "type") else constexpr_type(value)


class slice_type:
    """The type of a slice."""


@dataclasses.dataclass(frozen=True)
class tensor_descriptor_type:
    """The type of a tensor descriptor: its blocks, and the types of its shape and strides."""

    block_type: Type
    shape_type: Any = None
    strides_type: Any = None


def str_to_ty(name: str, c: Any = None) -> Any:
    """The type that a signature spells, e.g. `*fp32` or `i32`."""
    if name == "constexpr":
        return constexpr_type(c)
    if name.startswith("*"):
        constant = name.startswith("*k")
        return pointer_to(str_to_ty(name[2 if constant else 1 :]), constant)
    return t.BY_NAME[SHORT.get(name, name)]


SHORT = {"u1": "int1", "i1": "int1"} | {
    f"{kind}{bits}": f"{word}{bits}"
    for kind, word in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}


def aggregate_replace(value: Any, **fields: Any) -> Any:
    """An aggregate with other values of some fields."""
    if not hasattr(type(value), "__dataclass_fields__"):
        raise TypeError(f"aggregate_replace expects an aggregate instance, got {value!r}")
    known = {f.name for f in dataclasses.fields(value)}
    for name in fields:
        if name not in known:
            raise TypeError(f"{type(value).__name__} has no field {name!r}: {sorted(known)}")
    new = object.__new__(type(value))
    for name in known:
        setattr(new, name, fields.get(name, getattr(value, name)))
    return new


aggregate_replace.is_tile_builtin = True  # kernels call it too


def refused(name: str, reason: str) -> type:
    """A class of Triton's that has no instances here."""

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise UnsupportedError(f"{name} is not supported: {reason}")

    return type(name, (), {"__init__": refuse, "__doc__": f"Not supported: {reason}."})


async_task = refused(
    "async_task",
    "which warps do what is decided by the compiler; write the statements without it",
)
function_type = refused("function_type", "functions are compiled in place and have no type")
nv_tma_desc_type = refused(
    "nv_tma_desc_type", "raw descriptors are for one GPU; use tl.make_tensor_descriptor"
)
