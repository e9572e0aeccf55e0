"""Which combining functions commute."""

from __future__ import annotations

import pytest

import tilewright.language as tl
from tilewright.ir.op import running
from tilewright.ir.types import Type
from tilewright.lang.frontend import Frontend
from tilewright.lang.jit import JITCallable as jit
from tilewright.lang.scope import Scope
from tilewright.passes.commutes import commutes_but_for_rounding, commutes_exactly


@jit
def add(a, b):
    return a + b


@jit
def larger(a, b):
    return tl.where(a > b, a, b)


@jit
def first(a, b):
    return a


@jit
def chain(a, b):
    return a * 2.0 + b


@jit
def mean(m1, w1, m2, w2):
    w = w1 + w2
    return m1 + (m2 - m1) * tl.where(w == 0.0, 0.0, w2 / w), w


@jit
def larger_place(a, i, b, j):
    return tl.where(a >= b, a, b), tl.where(a >= b, i, j)


def region(function, *dtypes):
    frontend = Frontend({})
    frontend.scope = Scope("test", function.source, {}, function.fn)
    with running(frontend):
        return frontend.region(function, [Type(d) for d in dtypes] * 2)


@pytest.mark.parametrize(
    "function, dtypes, exactly, in_exact_numbers",
    [
        (add, (tl.int32,), True, False),
        (add, (tl.float32,), True, True),
        (larger, (tl.int32,), True, False),
        (larger, (tl.float32,), False, False),  # of a NaN and a number
        (first, (tl.float32,), False, False),
        (chain, (tl.float32,), False, False),
        (mean, (tl.float32, tl.float32), False, True),
        (larger_place, (tl.float32, tl.int32), False, False),
    ],
)
def test_functions(function, dtypes, exactly, in_exact_numbers):
    block = region(function, *dtypes)
    assert commutes_exactly(block) is exactly
    assert commutes_but_for_rounding(block) is in_exact_numbers
