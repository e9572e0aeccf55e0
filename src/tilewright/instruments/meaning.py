"""The words of findings about memory, the same whether a launch is stepped through or native."""

from __future__ import annotations

from tilewright.errors import Loc
from tilewright.instruments.findings import Finding, Program
from tilewright.instruments.poison import Writer
from tilewright.instruments.releases import Release


def race(
    kernel: str,
    argument: str,
    element: int,
    mine: tuple[str, Program, Loc | None],
    theirs: tuple[str, Program, Loc | None],
) -> Finding:
    """Accesses of two programs to one element, of which nothing says who is first.

    Args:
        mine: What was seen later here: "load", "store" or "atomic", the program, the place.
        theirs: The same of the access before it.
    """
    kind, program, loc = mine
    other_kind, other, other_loc = theirs
    return Finding(
        "race", kernel, argument, program, loc,
        f"{kind} of element {element} of {argument} by program {program} and {other_kind} by "
        f"program {other}{at_line(other_loc, loc)}, in no order; use an atomic operation, or give "
        "each program its own elements",
        element, other, other_loc,
    )  # fmt: skip


def lanes_race(
    kernel: str, argument: str, element: int, program: Program, loc: Loc | None, count: int
) -> Finding:
    """Two lanes of one store with different numbers for one element."""
    more = "" if count == 1 else f" and {count - 1} more"
    return Finding(
        "race", kernel, argument, program, loc,
        f"lanes of one store by program {program} write different numbers to element {element} "
        f"of {argument}{more}, in no order; combine them first, use an atomic operation, or mask "
        "all but one off",
        element, program, loc,
    )  # fmt: skip


def threads_race(
    kernel: str, argument: str, element: int, program: Program, loc: Loc | None, other: Loc | None
) -> Finding:
    """A load of what another thread of the same program stored, with no barrier between."""
    return Finding(
        "race", kernel, argument, program, loc,
        f"load of element {element} of {argument} and store{at_line(other, loc)} by other threads "
        f"of program {program}, in no order; put tl.debug_barrier() between them",
        element, program, other,
    )  # fmt: skip


def overtaken(
    kernel: str, argument: str, element: int, program: Program, loc: Loc | None, other: Loc | None
) -> Finding:
    """A store to what another thread of the same program may not have loaded yet."""
    return Finding(
        "race", kernel, argument, program, loc,
        f"store of element {element} of {argument} by program {program}, in which other threads "
        f"load it before{at_line(other, loc)}, or after, as nothing makes them wait; put "
        "tl.debug_barrier() between them",
        element, program, other,
    )  # fmt: skip


def early(kernel: str, release: Release, store: Loc | None, other: Program) -> Finding:
    """An atomic operation by one thread while others of its program may not have stored yet."""
    argument, element, loc = release.argument, release.element, release.loc
    return Finding(
        "race", kernel, argument, release.program, loc,
        f"one thread of program {release.program} tells others by element {element} of {argument} "
        f"that they may go on, as program {other} does, when other threads may not have made their "
        f"stores{at_line(store, loc)}; put tl.debug_barrier() before it",
        element, other, store,
    )  # fmt: skip


NOBODY = "nobody has written since it was allocated as empty"
FILL = "fill it first, e.g. allocate it as zeros, or mask the access"


def unwritten(
    kernel: str, argument: str, element: int, program: Program, loc: Loc | None
) -> Finding:
    """An atomic operation on memory that nobody wrote."""
    return Finding(
        "undefined", kernel, argument, program, loc,
        f"program {program} updates element {element} of {argument}, which {NOBODY}; {FILL}",
        element,
    )  # fmt: skip


def gap(writer: Writer, reader: str, element: int, count: int, elements: int) -> Finding:
    """Elements that the program reads after launches that wrote only others."""
    some = f"{count} of {elements} elements that {reader} reads"
    return Finding(
        "unwritten", writer.kernel, writer.argument, writer.program, writer.loc,
        f"{some} of {writer.argument} are not written by this store or any other, the first is "
        f"element {element}; check the grid, and the offsets and mask of the store",
        element,
    )  # fmt: skip


def beyond_view(
    kernel: str,
    argument: str,
    element: int,
    kind: str,
    program: Program,
    loc: Loc | None,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> Finding:
    """An access to memory that an array is a view of, but that is not in the view."""
    return Finding(
        "view", kernel, argument, program, loc,
        f"{kind} of element {element} by program {program} lies outside of {argument}, a view of "
        f"shape {shape} and strides {strides}, but inside of the memory that it is a view of; "
        "check the mask and the strides",
        element,
    )  # fmt: skip


def at_line(loc: Loc | None, here: Loc | None) -> str:
    same = here is not None and loc is not None and (loc.file, loc.line) == (here.file, here.line)
    return "" if loc is None or same else f" at {loc}"
