"""The definition of an op, the table of all ops, and the one seam through which ops happen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.errors import InternalError
from tilewright.ir.types import Type

OPS: dict[str, Op] = {}


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction does to memory: positions of its operands, -1 where it has none."""

    kind: str  # "load", "store" or "atomic"
    pointer: int = 0
    mask: int = -1
    value: int = -1


@dataclass(eq=False, slots=True)
class Op:
    """One operation. Everything that the project knows about it hangs here."""

    name: str
    rule: Callable  # (operand types..., attrs) -> result type, tuple of types, or None
    eager: Callable | None = None  # (NumPy operands..., attrs) -> NumPy results
    emit: Callable | None = None  # (b, lanes...) -> lane; elementwise ops only
    effect: str = "pure"  # pure, program, read, write, atomic, control, debug
    access: Access | None = None
    flops: float = 0  # per element of the result
    public: Callable | None = None  # what a call in a kernel does; set by `lang`
    signature_of: Callable | None = None  # whose signature and docstring are the documentation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.public is None:
            raise InternalError(f"{self.name} is not a function of the language")
        return self.public(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str:
        return (self.public or self.rule).__doc__

    @property
    def is_elementwise(self) -> bool:
        return self.emit is not None

    @property
    def is_pure(self) -> bool:
        """Whether equal operands give equal results within a program, and nothing else happens."""
        return self.effect in ("pure", "program")


def op(**facts: Any) -> Callable[[Callable], Op]:
    """Decorator: the function is the type rule of a new op of that name."""

    def attach(rule: Callable) -> Op:
        new = Op(rule.__name__.rstrip("_"), rule, **facts)
        if new.name in OPS:
            raise InternalError(f"op {new.name} defined twice")
        OPS[new.name] = new
        return new

    return attach


class Handle(Protocol):
    """What machines pass around: anything with a type."""

    type: Type


class Machine(Protocol):
    """Something that makes ops happen: the frontend records them, the eager machine runs them."""

    debug: bool  # whether `device_assert` checks
    sanitize: bool  # whether integers may not wrap around in the kernel's own arithmetic
    warps: int  # of a program, as the language tells
    padding: str  # what blocks read outside of their tensor where kernels do not say
    calls: int  # of functions of the language that are being made, where that is to be known

    def emit(self, op: Op, *operands: Handle, region: Any = None, **attrs: Any) -> Any: ...

    def region(self, function: Callable, types: list[Type]) -> Any:
        """What `emit` takes as a region: the function of scalars of these types."""

    def acts(self, region: Any) -> bool:
        """Whether a region does more than compute, so that it must run where Python would."""

    def call(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a jit function."""

    def concrete(self, handle: Handle, purpose: str) -> Any:
        """The number or array that a value holds; an error where it is not known yet."""

    def show(self, handle: Handle) -> str:
        """A value as text."""

    def show_static(self, handle: Handle) -> str:
        """A value as `static_print` shows it."""

    def iterate(self, *bounds: Any) -> Any:
        """The numbers of a run-time loop: start, end and step are tensors."""


_local = threading.local()


def machine() -> Machine:
    """The machine in force on this thread."""
    stack = getattr(_local, "stack", None)
    if not stack:
        raise InternalError("ops of the language can only be used inside a kernel")
    return stack[-1]


def has_machine() -> bool:
    """Whether code is running inside a kernel on this thread."""
    return bool(getattr(_local, "stack", None))


class running:
    """`with running(machine):` makes ops happen there."""

    def __init__(self, machine: Machine):
        self.machine = machine

    def __enter__(self) -> Machine:
        if not hasattr(_local, "stack"):
            _local.stack = []
        _local.stack.append(self.machine)
        return self.machine

    def __exit__(self, *exc: Any) -> None:
        _local.stack.pop()


def emit(op: Op, *operands: Handle, region: Any = None, **attrs: Any) -> Any:
    """Make `op` happen. The only way in which anything does."""
    return machine().emit(op, *operands, region=region, **attrs)
