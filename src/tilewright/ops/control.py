"""Loops and branches as regions, and what ends a region."""

from __future__ import annotations

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.ir.op import op
from tilewright.ir.types import parse_type


@op(effect="control")
def for_(low, high, step, *carried, **hints):
    """The region for each number from low up to high, handing the carried values on."""
    want(
        low == high == step and low.dtype.is_integer and not low.shape,
        f"bounds and step must be integer scalars of one type, got {low}, {high}, {step}",
    )
    return tuple(carried)


@op(effect="control")
def while_(*carried):
    """The second region while the first one yields true as its first value."""
    return tuple(carried)


@op(effect="control")
def if_(condition, types=()):
    """The first region where the scalar condition holds, else the second; gives what it yields."""
    want(
        condition.dtype is t.int1 and not condition.shape,
        f"the condition must be one boolean, got {condition}",
    )
    return tuple(parse_type(x) for x in types)


@op(effect="control")
def yield_(*values):
    """The values that a region gives to the instruction it belongs to."""
    return None
