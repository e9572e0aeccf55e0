"""`tl.tensor`: a tile or scalar inside a kernel, with the operators and methods of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.errors import TypeRuleError
from tilewright.ir.op import Handle, machine
from tilewright.ir.types import DType, Type
from tilewright.lang.constexpr import constexpr

# Filled by the modules of `lang` that define what a method or operator does, so that
# promotion can know tensors and tensors can know promotion.
METHODS: dict[str, Callable] = {}


def method(*names: str) -> Callable[[Callable], Callable]:
    """Decorator: the function is also a method of tensors, under these names."""

    def attach(function: Callable) -> Callable:
        for name in names or (function.__name__,):
            METHODS[name] = function
        return function

    return attach


class tensor:
    """A tile (or, with an empty shape, a scalar) of one dtype.

    What it holds belongs to the machine that runs the kernel: an IR value while a kernel is
    compiled, a NumPy array while it is stepped through.
    """

    __slots__ = ("handle",)
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, handle: Handle):
        self.handle = handle

    @property
    def type(self) -> Type | DType:
        kind = self.handle.type
        return kind if kind.shape else kind.dtype

    @property
    def dtype(self) -> DType:
        return self.handle.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.handle.type.shape

    @property
    def numel(self) -> constexpr:
        return constexpr(self.handle.type.size)

    @property
    def ndim(self) -> int:
        return len(self.handle.type.shape)

    @property
    def T(self) -> tensor:
        return METHODS["trans"](self)

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is None:
            raise AttributeError(f"tiles have no attribute {name!r}")
        return _Bound(function, self)

    def __repr__(self) -> str:
        return machine().show(self.handle)

    def __bool__(self) -> bool:
        one = self.item() if math.prod(self.shape) == 1 else self
        return bool(one.concrete("a condition"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeRuleError(f"needs an integer, got {self.handle.type}")
        return int(self.concrete("an index"))

    def __int__(self) -> int:
        return int(self.concrete("a Python int"))

    def __float__(self) -> float:
        return float(self.concrete("a Python float"))

    def __format__(self, spec: str) -> str:
        number = known(self)
        return format(repr(self) if number is self else number, spec)

    def __pow__(self, other: Any) -> Any:
        return power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return power(other, self)

    def concrete(self, purpose: str) -> Any:
        """The number that a scalar holds now; compiled kernels do not know it."""
        if self.shape:
            raise TypeRuleError(
                f"a tile cannot be {purpose}, got {self.handle.type}; "
                "reduce it first, e.g. with tl.sum or tl.max"
            )
        return machine().concrete(self.handle, purpose)

    def numpy(self) -> Any:
        """The NumPy array that the tile holds, in eager mode."""
        return machine().concrete(self.handle, "a NumPy array")

    def __iter__(self) -> Any:
        raise TypeRuleError(f"tiles cannot be iterated over or unpacked, got {self.handle.type}")


def known(value: Any) -> Any:
    """The number that a scalar holds, if it is known now, also inside tuples; others as they are.

    Kernels may use a literal that was assigned to a name wherever they need a number.
    """
    if isinstance(value, tensor):
        if value.handle.type.shape:
            return value
        number = machine().known(value.handle)
        return value if number is None else number
    if isinstance(value, constexpr):
        return value.value
    if isinstance(value, (tuple, list)):
        items = [known(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def power(base: Any, exponent: Any) -> Any:
    """`**`, which is for numbers only."""
    numbers = known((base, exponent))
    if any(isinstance(x, tensor) for x in numbers):
        raise TypeRuleError(
            f"tiles have no operator `**`, got {' and '.join(map(repr, (base, exponent)))}; use "
            "tl.exp2 or tl.math.pow, or multiply"
        )
    return numbers[0] ** numbers[1]


class _Bound:
    """A method of a tensor."""

    __slots__ = ("function", "self")

    def __init__(self, function: Callable, self_: tensor):
        self.function = function
        self.self = self_

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.self, *args, **kwargs)


def install_operators() -> None:
    """Give `tensor` the Python operators, each by the function registered under its name."""

    def operator_of(name: str) -> Callable:
        return lambda self, *args: METHODS[name](self, *args)

    def reflected_of(name: str) -> Callable:
        return lambda self, other: METHODS[name](other, self)

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift",
                 "rshift", "matmul"):  # fmt: skip
        setattr(tensor, f"__{name}__", operator_of(f"__{name}__"))
        setattr(tensor, f"__r{name}__", reflected_of(f"__{name}__"))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "abs", "getitem"):
        setattr(tensor, f"__{name}__", operator_of(f"__{name}__"))


install_operators()
