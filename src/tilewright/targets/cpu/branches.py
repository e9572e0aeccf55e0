"""Code that runs only where a condition holds, and values that come from either way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.targets.cpu.writer import Writer


@contextlib.contextmanager
def where(w: Writer, condition: Lane) -> Iterator[None]:
    """What is written inside runs only where the condition holds."""
    yes, join = w.new_label("yes"), w.new_label("join")
    w.write(f"br i1 {condition.text}, label %{yes}, label %{join}")
    w.label(yes)
    yield
    w.write(f"br label %{join}")
    w.label(join)


def value_where(
    w: Writer, b: Lanes, condition: Lane, make: Callable[[], Lane], other: Lane
) -> Lane:
    """The scalar that `make` writes where the condition holds, else `other`."""
    before = w.here
    with where(w, condition):
        value = make()
        inside = w.here
    return meet(b, (other, before), (value, inside))


def either(
    w: Writer,
    b: Lanes,
    condition: str,
    labels: tuple[str, str],
    ways: tuple[Callable[[], Lane], Callable[[], Lane]],
) -> Lane:
    """What the first way writes where the condition holds, else what the second does."""
    yes, no, join = (w.new_label(stem) for stem in (*labels, "join"))
    w.write(f"br i1 {condition}, label %{yes}, label %{no}")
    ends = []
    for label, way in zip((yes, no), ways, strict=True):
        w.label(label)
        ends.append((way(), w.here))
        w.write(f"br label %{join}")
    w.label(join)
    return meet(b, *ends)


def meet(b: Lanes, one: tuple[Lane, str], two: tuple[Lane, str]) -> Lane:
    """One value of two, each with the label of the block that it comes from."""
    (x, from_one), (y, from_two) = one, two
    text = f"phi {y.type} [{x.text}, %{from_one}], [{y.text}, %{from_two}]"
    return b.value(text, y.dtype, y.width)
