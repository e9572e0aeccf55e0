"""The parameters of a kernel, and what its arguments are to the compiler."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from numbers import Integral
from typing import Any

from tilewright.errors import ArgumentTypeError, LaunchError, OptionError, UnknownArgumentError
from tilewright.ir import types as ir
from tilewright.ir.types import DType, Type, pointer_to
from tilewright.lang.constexpr import constexpr, unwrap
from tilewright.lang.jit import JITCallable
from tilewright.later import later
from tilewright.runtime import arrays
from tilewright.runtime.descriptor import DescriptorItems, TensorDescriptor
from tilewright.runtime.messages import type_of
from tilewright.runtime.typed import TypedFloat, TypedInt, as_dtype

difflib = later("difflib")

# What `kernel[grid](...)` takes beside the kernel's own parameters.
OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "extern_libs", "stream",
    "debug", "launch_cooperative_grid", "launch_pdl", "allow_fp8e4nv",
    "default_dot_input_precision", "max_num_imprecise_acc_default", "sanitize_overflow",
    "instrumentation_mode", "ir_override", "waves_per_eu", "matrix_instr_nonkdim", "kpack",
    "device", "device_type", "cluster_dims", "arch",
)  # fmt: skip
WARP_OPTIONS = {"num_warps": 1, "num_stages": 0, "num_ctas": 1}  # and the least value
ALIGNMENT = 16  # bytes of addresses, units of ints: the divisibility that targets may use

# Annotations of scalars, as Triton spells types in signatures.
SPELLINGS = ir.BY_NAME | ir.BY_SHORT | {"fp8e4": ir.float8e4nv, "u1": ir.int1, "i1": ir.int1}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    index: int
    default: Any
    is_constexpr: bool
    specialize: bool = True  # on the value 1
    align: bool = True  # on divisibility
    dtype: DType | None = None  # asked for by an annotation, scalars only
    const: bool = False  # a pointer that is only read

    # The names by which programs written for Triton ask the same things.

    @property
    def num(self) -> int:
        return self.index

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty

    @property
    def is_const(self) -> bool:
        return self.const

    @property
    def do_not_specialize(self) -> bool:
        return not self.specialize

    @property
    def do_not_specialize_on_alignment(self) -> bool:
        return not self.align


class Signature:
    """The parameters of a kernel, and binding arguments to them with clear errors."""

    def __init__(self, function: JITCallable, no_value: Iterable, no_align: Iterable):
        self.kernel = function.__name__
        self.params: list[Parameter] = []
        self.rest: str | None = None  # the name of *args
        no_value, no_align = set(no_value), set(no_align)
        for index, parameter in enumerate(function.python_signature.parameters.values()):
            name = parameter.name
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = name
            elif parameter.kind is parameter.VAR_KEYWORD:
                raise ArgumentTypeError(
                    f"JIT functions do not support **kwargs: {self.kernel} takes **{name}"
                )
            named = {name, index}
            dtype, const = annotation(parameter.annotation)
            self.params.append(
                Parameter(
                    name,
                    index,
                    parameter.default,
                    name in function.constexpr_names,
                    not named & no_value,
                    not named & (no_align | no_value),
                    dtype,
                    const,
                )  # fmt: skip
            )
        self.names = [p.name for p in self.params]

    def text(self) -> str:
        return f"{self.kernel}({', '.join(self.names)})"

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[dict, dict]:
        """Arguments by parameter, and the launch options.

        Raises:
            LaunchError: when one is missing, given twice, or has no parameter.
        """
        positional = self.params
        if self.rest is not None:  # what follows is passed by name
            positional = self.params[: self.names.index(self.rest)]
        if len(args) > len(positional) and self.rest is None:
            raise ArgumentTypeError(
                f"{self.kernel} takes {len(positional)} arguments, got {len(args)}; "
                f"it is {self.text()}"
            )
        values: dict[str, Any] = {p.name: v for p, v in zip(positional, args)}
        options = {}
        for name, value in kwargs.items():
            if name in values:
                raise ArgumentTypeError(f"{self.kernel}: argument {name!r} is given twice")
            if name in self.names and name != self.rest:
                values[name] = value
            elif name in OPTIONS:
                options[name] = value
            else:
                raise self.unknown(name)
        if self.rest is not None:
            values[self.rest] = tuple(args[len(positional) :])
        self.fill_defaults(values)
        return {name: values[name] for name in self.names}, options

    def fill_defaults(self, values: dict[str, Any]) -> None:
        missing = []
        for parameter in self.params:
            if parameter.name in values:
                continue
            if parameter.default is inspect.Parameter.empty:
                missing.append(parameter.name)
            else:
                values[parameter.name] = parameter.default
        if missing:
            quoted = ", ".join(repr(n) for n in missing)
            plural = "s" if len(missing) > 1 else ""
            raise ArgumentTypeError(
                f"{self.kernel}: missing argument{plural} {quoted}; it is {self.text()}"
            )

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise for launch options that there are not, or of values that they cannot have."""
        for name, value in options.items():
            if name not in OPTIONS:
                raise self.unknown(name)
            if name not in WARP_OPTIONS or value is None:
                continue
            count = unwrap(value)
            whole = isinstance(count, Integral) and not isinstance(count, bool)
            if not whole or count < WARP_OPTIONS[name]:
                raise LaunchError(
                    f"{self.kernel}: {name} is an int of at least {WARP_OPTIONS[name]}, "
                    f"got {value!r}"
                )
            if name == "num_warps" and count & (count - 1):
                raise OptionError(f"{self.kernel}: num_warps must be a power of 2, got {value}")

    def unknown(self, name: str) -> UnknownArgumentError:
        close = difflib.get_close_matches(name, [*self.names, *OPTIONS], 1, 0.6)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return UnknownArgumentError(
            f"{self.kernel} has no parameter {name!r}, and it is no launch option{hint}\n"
            f"it is {self.text()}"
        )


def annotation(note: Any) -> tuple[DType | None, bool]:
    """The scalar dtype that an annotation asks for, and whether it says `const`."""
    if isinstance(note, DType):
        return (None if note.is_pointer else note), False
    text = note if isinstance(note, str) else getattr(note, "__name__", "")
    text = text.strip("'\"").rpartition(".")[2] if not text.startswith("*") else text
    if text == "const" or text.startswith("*k"):
        return None, True
    found = SPELLINGS.get(text)
    if found is None:
        public = {v: k for k, v in ir.PUBLIC_NAMES.items()}
        found = ir.BY_NAME.get(public.get(text, ""))
    return found, False


@dataclass(frozen=True, slots=True)
class Leaf:
    """What one argument, or one item of a tuple, is to the compiler.

    With a `type` it is passed at run time, without it is the constant `value`.
    """

    name: str
    original: Any
    type: Type | None = None
    value: Any = None
    divisible: int = 1
    bounds: tuple[int, int] = (0, 0)
    is_writable: bool = True
    is_one: bool = False  # a run-time int that is compiled in as the constant 1

    @property
    def slots(self) -> tuple[Any, ...]:
        """What a launch passes."""
        if self.type is None:
            return ()
        return (self.value, *self.bounds) if self.type.dtype.is_pointer else (self.value,)


Tree = Any  # a Leaf, or a tuple of trees for an argument that is a tuple


def inspect_arguments(
    signature: Signature, arguments: dict[str, Any], facts: frozenset[str], device: str
) -> dict[str, Tree]:
    """What each argument is to a target that uses these facts.

    Raises:
        LaunchError: for what no kernel can take; the message names kernel and argument.
    """
    trees = {}
    for parameter in signature.params:
        try:
            trees[parameter.name] = look(
                parameter, parameter.name, arguments[parameter.name], facts, device
            )
        except LaunchError as error:
            raise type(error)(f"{signature.kernel}: {error}") from None
    return trees


def look(parameter: Parameter, name: str, value: Any, facts: frozenset, device: str) -> Tree:
    if parameter.is_constexpr:
        return Leaf(name, value, value=constant(name, value))
    if isinstance(value, TensorDescriptor):
        return descriptor_items(parameter, name, value, facts, device)
    if isinstance(value, tuple):
        items = [look(parameter, f"{name}.{i}", v, facts, device) for i, v in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if is_constant(value):
        return Leaf(name, value, value=unwrap(value))
    what = arrays.kind(value, name)
    if what == "array":
        address, low, high, dtype, writable = arrays.pointer(value, name, device)
        aligned = "divisible" in facts and parameter.align and address % ALIGNMENT == 0
        return Leaf(
            name, value, Type(pointer_to(dtype, parameter.const)), address,
            ALIGNMENT if aligned else 1, (low, high), writable,
        )  # fmt: skip
    dtype, plain = arrays.scalar(value, name)
    if parameter.dtype is not None:
        return Leaf(name, value, Type(parameter.dtype), as_dtype(name, plain, parameter.dtype))
    if isinstance(value, TypedInt | TypedFloat):
        return Leaf(name, value, Type(dtype), plain)
    if what == "int" and plain == 1 and "one" in facts and parameter.specialize:
        return Leaf(name, value, value=1, is_one=True)
    aligned = what == "int" and "divisible" in facts and parameter.align and plain % ALIGNMENT == 0
    return Leaf(name, value, Type(dtype), plain, ALIGNMENT if aligned else 1)


def descriptor_items(
    parameter: Parameter, name: str, value: TensorDescriptor, facts: frozenset, device: str
) -> DescriptorItems:
    """A descriptor as a tuple of its parts: of these the block's shape is compiled in."""
    may_align = "divisible" in facts and parameter.align

    def number(name: str, value: int) -> Leaf:
        return Leaf(name, value, Type(ir.int64), value, gcd(value, ALIGNMENT) if may_align else 1)

    def numbers(label: str, items: Sequence[int]) -> tuple[Leaf, ...]:
        return tuple(number(f"{name}.{label}.{i}", int(v)) for i, v in enumerate(items))

    return DescriptorItems(
        look(parameter, f"{name}.0", value.base, facts, device),
        numbers("1", value.shape),
        numbers("2", value.strides),
        tuple(Leaf(f"{name}.3.{i}", v, value=int(v)) for i, v in enumerate(value.block_shape)),
        Leaf(f"{name}.4", value.padding, value=value.padding),
    )


def is_constant(value: Any) -> bool:
    """Whether a value is a constant of the kernel wherever it is passed."""
    if value is None or isinstance(value, (str, DType, Type, constexpr, JITCallable)):
        return True
    return isinstance(value, type) or (callable(value) and not hasattr(value, "data_ptr"))


def constant(name: str, value: Any) -> Any:
    """The value of a constexpr parameter."""
    value = unwrap(value)
    if hasattr(value, "data_ptr") or hasattr(value, "__array_interface__"):
        if getattr(value, "ndim", 1) == 0 and hasattr(value, "item"):
            return value.item()
        raise ArgumentTypeError(
            f"argument {name!r}: is a tl.constexpr, got an array ({type_of(value)}); pass a "
            f"number known at compile time, or drop the annotation of {name!r}"
        )
    return value


def leaves(tree: Tree) -> list[Leaf]:
    """The leaves of a tree in the order in which the kernel's parameters take them."""
    if isinstance(tree, Leaf):
        return [tree]
    return [leaf for item in tree for leaf in leaves(item)]


def as_type(tree: Tree) -> Any:
    """A tree as the frontend takes it: types, and constants among them."""
    if isinstance(tree, Leaf):
        return tree.value if tree.type is None else tree.type
    items = [as_type(item) for item in tree]
    return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
