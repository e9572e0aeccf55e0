"""The errors of Tilewright and how they are shown: what, where with carets, found, what to do."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of the user's source, and the calls through which it was reached (outermost last)."""

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0
    function: str = ""
    caller: Loc | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The source under the span (its first line, when there are several)."""
        line = linecache.getline(self.file, self.line).rstrip("\n")
        end = self.end_col if self.end_line == self.line else len(line)
        return line[self.col : end] if end > self.col else line.strip()


def excerpt(loc: Loc) -> str:
    """`file:line:col`, the source line, carets under the span, and the chain of callers."""
    where = f" in {loc.function}" if loc.function else ""
    lines = [f"  {loc.file}:{loc.line}:{loc.col + 1}{where}"]
    source = linecache.getline(loc.file, loc.line).rstrip("\n")
    if source:
        end = loc.end_col if loc.end_line == loc.line else len(source)
        width = max(1, end - loc.col)
        pad = "".join("\t" if c == "\t" else " " for c in source[: loc.col])
        lines += ["    " + source, "    " + pad + "^" * width]
    if loc.caller is not None:
        lines.append("  called from")
        lines.append(excerpt(loc.caller))
    return "\n".join(lines)


class TilewrightError(Exception):
    """Everything that Tilewright raises on purpose."""


class CompileError(TilewrightError):
    """A kernel that cannot be compiled, at the place in the user's source that is at fault."""

    def __init__(self, message: str, loc: Loc | None = None):
        super().__init__(message)
        self.message = message
        self.loc = loc

    @property
    def error_message(self) -> str:
        """The message without its place, by the name that it has in Triton."""
        return self.message

    def __str__(self) -> str:
        return self.message if self.loc is None else f"{self.message}\n{excerpt(self.loc)}"


class TypeRuleError(CompileError):
    """An op was given operands that its rule does not accept."""


class CompileTimeAssertionFailure(CompileError):
    """A `static_assert` that does not hold."""


class UnsupportedError(CompileError):
    """Something of Triton's language that the target or Tilewright does not do, with the reason."""


class InternalError(TilewrightError):
    """A fault of Tilewright's own; the message asks for a report."""


class LaunchError(TilewrightError, ValueError):
    """Arguments or a grid that a kernel cannot be launched with; no memory was touched."""


class OutsideKernelError(LaunchError, RuntimeError):
    """A kernel without a grid, or a function of the language, called where no kernel runs."""


class OutOfResources(LaunchError):
    """A configuration that wants more of something than the device has."""

    def __init__(self, required: int, limit: int, name: str):
        super().__init__(
            f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. "
            "Reducing block sizes or `num_stages` may help."
        )
        self.required, self.limit, self.name = required, limit, name

    def __reduce__(self) -> tuple:
        return (type(self), (self.required, self.limit, self.name))


class ArgumentOverflowError(LaunchError, OverflowError):
    """An int that no integer of a kernel holds."""


class ArgumentTypeError(LaunchError, TypeError):
    """An argument of a type that a kernel cannot take, or more or fewer than it takes."""


class UnknownArgumentError(ArgumentTypeError, KeyError):
    """A name that neither a parameter has nor an option."""

    __str__ = Exception.__str__


class OptionError(LaunchError, AssertionError):
    """An option of a launch with a value that it cannot have."""


class KernelFault(TilewrightError):
    """What stopped a running kernel; where, as far as that is known."""

    argument: str = ""
    program: tuple[int, int, int] = (0, 0, 0)
    loc: Loc | None = None
    element: int | None = None

    def at(
        self,
        program: tuple[int, int, int],
        loc: Loc | None,
        argument: str = "",
        element: int | None = None,
    ) -> KernelFault:
        """The same error with its place."""
        self.program, self.loc, self.argument, self.element = program, loc, argument, element
        return self


class OutOfBoundsError(KernelFault, IndexError):
    """A kernel touched memory outside an argument; the access itself was not performed."""


class DeviceAssertError(KernelFault, AssertionError, RuntimeError):
    """A `device_assert` of a kernel failed: an AssertionError of Triton's interpreter, a
    RuntimeError on its GPUs."""


class DeadlockError(KernelFault, RuntimeError):
    """Programs wait for others that cannot run."""


def want(condition: bool, message: str) -> None:
    """Raise `TypeRuleError` with `message` unless the condition holds."""
    if not condition:
        raise TypeRuleError(message)


def out_of_bounds_message(
    kernel: str,
    kind: str,
    argument: str,
    loc: Loc | None,
    program: tuple[int, int, int],
    element: int,
    elements: int,
    outside: int,
) -> str:
    """What an access outside its argument is reported as, by every target.

    Args:
        kind: "load", "store" or "atomic".
        program: The program instance that made the access.
        element: The first element outside, counted from the start of the argument.
        elements: How many elements the argument has from its start on.
        outside: By how many elements the access reaches outside, on the side of the first one.
    """
    side = "before the start" if element < 0 else "past the end"
    where = f" at {loc}" if loc is not None else ""
    count = f"{outside} element{'' if outside == 1 else 's'}"
    message = (
        f"{kernel}: {kind} outside {argument}{where}: program {program} "
        f"touches element {element} of {elements}, {count} {side}"
    )
    return message if loc is None else f"{message}\n{excerpt(loc)}"
