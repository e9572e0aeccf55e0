"""Run a kernel's own Python, program instance after program instance."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tilewright.eager.machine import Eager
from tilewright.eager.rewrite import HELPERS, code_of
from tilewright.errors import CompileError
from tilewright.ir.op import running
from tilewright.lang.arithmetic import maximum, minimum
from tilewright.lang.builtin import argument, builtin
from tilewright.lang.constexpr import unwrap
from tilewright.lang.jit import JITCallable
from tilewright.lang.meta import range as tile_range
from tilewright.lang.promote import to_tensor
from tilewright.lang.substitutes import check_order, is_instance, length
from tilewright.lang.substitutes import show as device_show
from tilewright.lang.tensor import METHODS, tensor
from tilewright.lang.values import assigned


def pick(python: Callable, tile: Callable) -> Callable:
    """Python's min or max, which on tiles is the elementwise one; numbers become scalars."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2 or not any(isinstance(a, tensor) for a in args):
            check_order(args)
            return assigned(python(*args, **kwargs))
        out = args[0]
        for x in args[1:]:
            out = tile(out, x)
        return out

    return apply


def show(*values: Any, **options: Any) -> None:
    """Python's print, which on tiles is that of a running kernel."""
    if options or not any(isinstance(v, tensor) for v in values):
        print(*values, **options)
    else:
        device_show(*values)


KERNEL_BUILTINS = {
    **vars(builtins),
    "range": tile_range,
    "isinstance": is_instance,
    "len": length,
    "print": show,
    "min": pick(builtins.min, minimum),
    "max": pick(builtins.max, maximum),
}


class Constant(int):
    """A constexpr int: Python's own, with the `value` that constexprs have."""

    @property
    def value(self) -> int:
        return int(self)

    def __getattr__(self, name: str) -> Any:
        """What scalars have: `stride.to(tl.int64)` also where a stride of 1 is compiled in."""
        if name in METHODS or name == "dtype":
            return getattr(to_tensor(int(self)), name)
        raise AttributeError(f"an int has no attribute {name!r}")


def constant(value: Any) -> Any:
    """A constexpr argument as the kernel's Python sees it."""
    value = unwrap(value)
    return Constant(value) if type(value) is int else value


def outer(value: Any) -> Any:
    """A global as the kernel's Python sees it."""
    if getattr(value, "__triton_builtin__", False):  # a program's own, by Triton's mark
        return builtin(value)
    return constant(value)


class Functions:
    """The user's functions with the language's meaning of `range`, `min` and `max`."""

    def __init__(self, machine: Eager):
        self.machine = machine
        self.known: dict[JITCallable, FunctionType] = {}
        self.globals: dict[int, dict[str, Any]] = {}

    def of(self, jit: JITCallable) -> FunctionType:
        found = self.known.get(jit)
        if found is None:
            found = self.known[jit] = self.make(jit)
        return found

    def make(self, jit: JITCallable) -> FunctionType:
        fn = jit.fn
        names = self.globals.get(id(fn.__globals__))
        if names is None:
            names = {k: outer(v) for k, v in fn.__globals__.items()}
            names |= HELPERS
            names["__builtins__"] = KERNEL_BUILTINS
            self.globals[id(fn.__globals__)] = names
        code = code_of(jit)
        self.machine.codes.add(code)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        closure = tuple(cells[name] for name in code.co_freevars)
        defaults = tuple(
            constant(p.default)
            for p in jit.python_signature.parameters.values()
            if p.kind is not p.KEYWORD_ONLY and p.default is not p.empty
        )
        function = FunctionType(code, names, fn.__name__, defaults, closure)
        function.__kwdefaults__ = fn.__kwdefaults__
        function.__qualname__ = fn.__qualname__
        return function

    def call(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A jit function, or any other that a kernel may call."""
        inner = getattr(function, "fn", None)
        if isinstance(inner, JITCallable):  # with heuristics or autotuning around it
            function = inner
        if not isinstance(function, JITCallable):
            return function(*args, **kwargs)
        static = function.constexpr_names
        given = [argument(a, n in static) for a, n in zip(args, function.arg_names)]
        given += [unwrap(a) for a in args[len(given) :]]
        named = {k: argument(v, k in static) for k, v in kwargs.items()}
        return self.of(function)(*given, **named)


def programs(
    grid: tuple[int, int, int], order_seed: int, only: Sequence[int | None] | None
) -> Iterator[tuple[int, int, int]]:
    """The program instances in the order in which they run."""
    x, y, z = grid
    if only is not None:
        only = (*only, *(None,) * (3 - len(only)))
        axes = [range(n) if o is None else [o] for n, o in zip(grid, only, strict=True)]
        yield from ((i, j, k) for k in axes[2] for j in axes[1] for i in axes[0])
        return
    numbers = range(x * y * z)
    if order_seed:
        numbers = np.random.default_rng(order_seed).permutation(len(numbers)).tolist()
    for n in numbers:
        yield n % x, n // x % y, n // (x * y)


def full_grid(grid: Sequence[int]) -> tuple[int, int, int]:
    """The grid with all three axes."""
    sizes = tuple(int(n) for n in grid)
    return (*sizes, *(1,) * (3 - len(sizes)))


def run_kernel(
    jit: JITCallable,
    grid: Sequence[int],
    arguments: dict[str, Any],
    constants: dict[str, Any],
    *,
    observers: Sequence[Callable] = (),
    order_seed: int = 0,
    only: Sequence[int | None] | None = None,
    order: Iterable[tuple[int, int, int]] | None = None,
    debug: bool = False,
    sanitize: bool = False,
    machine: type[Eager] = Eager,
) -> Eager:
    """Run a launch in Python; gives the machine that did it.

    Args:
        arguments: By parameter, a `Buffer`, a `Scalar`, or a tuple of them.
        constants: By parameter, values known at compile time.
        observers: Called with (op, Touch) before each access to memory.
        order_seed: 0 for ascending program ids, else a seed of a shuffled order.
        only: Program ids, None for all along that axis; the others do not run.
        order: The programs to run, in place of all.
        debug: Whether `device_assert` checks.
        sanitize: Whether integers may not wrap around in the kernel's own arithmetic.
        machine: What runs the ops, e.g. one that follows values.
    """
    machine = machine(jit.__name__, full_grid(grid), observers, debug)
    machine.sanitize = sanitize
    functions = Functions(machine)
    machine.caller = functions.call
    function = functions.of(jit)
    with running(machine), np.errstate(all="ignore"):
        values = {name: machine.argument(v) for name, v in arguments.items()}
        values |= {name: constant(v) for name, v in constants.items()}
        given = inspect.BoundArguments(jit.python_signature, values)
        for program in programs(machine.grid, order_seed, only) if order is None else order:
            machine.start(program)
            try:
                function(*given.args, **given.kwargs)
            except CompileError as error:
                error.loc = error.loc or machine.raised_at(error)
                raise
    return machine
