"""Compile a jit function: its syntax tree, run on tensors that hold IR values, gives a Kernel."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.errors import CompileError, Loc
from tilewright.ir.inst import Block, Builder, Kernel, Param, Value, walk
from tilewright.ir.op import Op, running
from tilewright.ir.types import Type, float32
from tilewright.lang import calls, displays, expressions, inline, statements
from tilewright.lang.constexpr import unwrap
from tilewright.lang.jit import JITCallable
from tilewright.lang.outcome import FALL, NOTHING, Returned
from tilewright.lang.scope import Scope
from tilewright.lang.tensor import known, tensor
from tilewright.lang.values import flatten
from tilewright.later import later
from tilewright.ops.control import yield_
from tilewright.ops.known import evaluate
from tilewright.ops.math import cast
from tilewright.ops.shape import constant

control = later("tilewright.lang.control")  # which many kernels have none of

EXPRESSIONS = expressions.TABLE | displays.TABLE | calls.TABLE | inline.EXPRESSIONS
STATEMENTS = statements.TABLE | inline.STATEMENTS
COMPOUND = (ast.If, ast.For, ast.While)
RECURSION = 5_000  # Python frames; 100 inlined calls inside nested statements need about 2000


class Frontend:
    """The machine of compiled kernels: it records ops, and gives meaning to syntax.

    What can be computed now is computed now; the rest becomes instructions of the builder.
    """

    def __init__(self, options: dict[str, Any]):
        self.builder = Builder()
        self.builder.region_builder = self.region
        self.options = options
        self.debug = bool(options.get("debug", False))
        self.sanitize = bool(options.get("sanitize", False))
        self.warps = options.get("num_warps") or 4
        self.padding = ""
        self.calls = 0  # of functions of the language that are being made, where it matters
        self.scope: Scope = None  # set before anything is compiled
        self.regions = 0  # how many regions of the IR stand around this point
        self.mapping = 0  # whether tiles stand for scalars, of which `if` may choose
        self.captured: dict[str, Any] = {}
        self.sources: dict[str, str] = {}

    # --- syntax

    def expr(self, node: ast.expr) -> Any:
        """What an expression gives: a tensor, or a Python value known now."""
        visit = EXPRESSIONS.get(type(node)) or control.EXPRESSIONS.get(type(node))
        if visit is None:
            raise expressions.unsupported(self, node)
        return visit(self, node)

    def block(self, body: Sequence[ast.stmt], rest: Callable | None = None) -> Any:
        """Compile statements; how control left them: an outcome

        `rest` compiles what follows the block up to the end of the function. A branch that returns
        takes it into its other side, and then the outcome is `Returned`.
        """
        for position, node in enumerate(body):
            try:
                outcome = self.statement(body, position, node, rest)
            except CompileError as error:
                if error.loc is None:
                    error.loc = self.builder.loc
                raise
            if outcome is not FALL:
                return outcome
        return FALL

    def statement(self, body: Sequence, position: int, node: ast.stmt, rest: Callable | None):
        visit = STATEMENTS.get(type(node)) or control.STATEMENTS.get(type(node))
        if visit is None:
            raise statements.unsupported(self, node)
        if type(node) not in COMPOUND or not control.contains_return(node):
            outcome = visit(self, node)
            return FALL if outcome is None else outcome

        def after() -> Any:
            outcome = self.block(body[position + 1 :], rest)
            if outcome is not FALL:
                return outcome
            return NOTHING if rest is None else rest()

        return visit(self, node, after)

    def at(self, node: ast.AST) -> None:
        """What happens next belongs to this node."""
        self.builder.loc = self.scope.loc(node)

    def error(self, message: str, node: ast.AST) -> CompileError:
        return CompileError(message, self.scope.loc(node))

    # --- the machine

    def emit(self, op: Op, *operands: Value, region: Any = None, **attrs: Any) -> Any:
        """Append an instruction, or the number that it gives for numbers."""
        if op.emit is not None and operands and all(map(is_constant, operands)):
            result = op.rule(*[x.type for x in operands], **attrs)
            numbers = [x.inst.attrs["value"] for x in operands]
            dtypes = [x.type.dtype for x in operands]
            found = evaluate(op, dtypes, numbers, attrs, result.dtype)
            if found is not None:
                return self.builder.emit(constant, value=found, type=str(result))
        return self.builder.emit(op, *operands, region=region, **attrs)

    def known(self, handle: Value) -> Any:
        """The number that a scalar holds, None if only the run knows it."""
        return handle.inst.attrs["value"] if is_constant(handle) else None

    def call(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A jit function called by a function of the language."""
        return inline.call(self, function, [unwrap(a) for a in args], unwrap_all(kwargs))

    def map(self, function: Callable, tiles: Sequence[tensor]) -> Any:
        """A function of scalars on whole tiles: its branches choose element by element."""
        self.mapping += 1
        try:
            return calls.call_object(self, function, tiles, {})
        finally:
            self.mapping -= 1

    def region(self, function: Callable, types: list[Type]) -> Block:
        """A block that gives what a function of tensors gives for its parameters."""
        block = Block()
        params = [tensor(block.add_param(kind)) for kind in types]
        loc = self.builder.loc
        with self.builder.inside(block):
            self.regions += 1
            result = calls.call_object(self, function, params, {})
            leaves = [leaf for _, leaf in flatten(result)]
            handles = [calls.as_tensor(leaf).handle for leaf in leaves]
            self.builder.loc = loc
            check_combined(function, [h.type for h in handles], types[: len(types) // 2])
            self.emit(yield_, *handles)
            self.regions -= 1
        return block

    def acts(self, region: Block) -> bool:
        return any(inst.op.effect not in ("pure", "control") for inst in walk(region))

    def concrete(self, handle: Value, purpose: str) -> Any:
        number = self.known(handle)
        if number is not None:
            return number
        raise CompileError(
            f"a value of type {handle.type} is only known when the kernel runs and cannot be "
            f"{purpose}; pass it as a tl.constexpr argument, or step through the kernel with "
            "TILEWRIGHT_TARGET=eager"
        )

    def show(self, handle: Value) -> str:
        return f"a run-time {handle.type}"

    def show_static(self, handle: Value) -> str:
        """A value as Triton's `static_print` shows it: its type."""
        sizes = ", ".join(f"constexpr[{n}]" for n in handle.type.shape)
        return f"{handle.type.dtype}[{sizes}]"

    def iterate(self, *bounds: tensor) -> Iterator[int]:
        """The numbers of a range outside a `for` statement, e.g. in a comprehension."""
        if not all(is_constant(x.handle) for x in bounds):
            raise CompileError(
                "the bounds of a range must be known at compile time here; only a `for` "
                "statement can count to a value that is known when the kernel runs"
            )
        return iter(range(*known(bounds)))


def check_combined(function: Any, found: list[Type], wanted: list[Type]) -> None:
    """Raise unless a function that combines two groups gives one."""
    if found == wanted:
        return
    name = getattr(function, "__name__", "the function")
    gives = ", ".join(map(str, found)) or "nothing"
    raise CompileError(
        f"`{name}` combines two groups of ({', '.join(map(str, wanted))}) into one, and gives "
        f"({gives}); it must return a value of the same type for each tile"
    )


def is_constant(handle: Value) -> bool:
    """Whether a value is a scalar that is written in the kernel."""
    return handle.inst is not None and handle.inst.op is constant and not handle.type.shape


def unwrap_all(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: unwrap(value) for name, value in kwargs.items()}


def build_kernel(
    jit: JITCallable,
    types: dict[str, Any],
    constants: dict[str, Any],
    facts: dict[str, int] | None = None,
    *,
    options: dict[str, Any] | None = None,
) -> Kernel:
    """The kernel for parameters of these types and constants of these values.

    Args:
        types: For each run-time parameter its type; for a tuple a tuple of types and constants,
            whose types become parameters named `x.0`, `x.1`, ...
        constants: The values of the others; what is in neither has its default.
        facts: By name, what every argument (an address, or a number) is a multiple of.
        options: `debug` compiles `device_assert` in, `sanitize` checks for integer overflow;
            `num_warps` is what kernels may ask for.

    Raises:
        CompileError: with the place in the user's source that is at fault.
    """
    frontend = Frontend(options or {})
    source = jit.source
    params: list[Param] = []
    names: dict[str, Any] = {}
    for name in jit.arg_names:
        if name in types:
            names[name] = argument(name, types[name], facts or {}, params, frontend.builder)
        elif name in constants:
            names[name] = unwrap(constants[name])
    loc = source.loc(source.node, jit.__name__)
    inline.fill_defaults(jit, names, loc)
    frontend.sources[inline.full_name(jit)] = source.text
    frontend.scope = Scope(jit.__name__, source, names, jit.fn)
    with running(frontend), deep_recursion():
        run_kernel(frontend, source.node, loc)
    meta = {"name": jit.__name__, "globals": frontend.captured, "sources": frontend.sources}
    return Kernel(jit.__name__, params, frontend.builder.block, loc, meta)


def argument(name: str, kind: Any, facts: dict[str, int], params: list, b: Builder) -> Any:
    """What a parameter's name holds: a tensor, a constant, or a tuple of those."""
    if isinstance(kind, Type):
        narrow = kind.dtype.is_float and kind.dtype.bits < 32  # launches pass fp32 and fp64
        passed = Type(float32) if narrow else kind
        params.append(Param(name, passed, facts.get(name, 1)))
        value = b.block.add_param(passed)
        return tensor(b.emit(cast, value, to=kind.dtype.short) if narrow else value)
    if isinstance(kind, tuple):
        items = [argument(f"{name}.{i}", k, facts, params, b) for i, k in enumerate(kind)]
        return type(kind)(*items) if hasattr(kind, "_fields") else tuple(items)
    return unwrap(kind)


def run_kernel(frontend: Frontend, node: ast.AST, loc: Loc) -> None:
    try:
        outcome = frontend.block(node.body)
    except RecursionError as error:
        raise CompileError("the kernel is nested too deeply to be compiled", loc) from error
    if isinstance(outcome, Returned) and outcome.value is not None:
        raise frontend.error(
            "a kernel cannot return a value; store it through a pointer argument", outcome.node
        )


class deep_recursion:
    """Within, Python may recurse as deep as nested kernels need."""

    def __enter__(self) -> None:
        self.before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.before, RECURSION))

    def __exit__(self, *exc: Any) -> None:
        sys.setrecursionlimit(self.before)
