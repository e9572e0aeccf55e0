"""Classes of values: what they inherit, defaults, and what is said of wrong uses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError
from tilewright.language.core import _aggregate as aggregate


@aggregate
class Base:
    data: tl.tensor
    scale: tl.constexpr = tl.constexpr(3)

    @tilewright.jit
    def scaled(self):
        return self.data * self.scale


@aggregate
class Child(Base):
    bias: tl.tensor


@tilewright.jit
def inherited(out, B: tl.constexpr):
    i = tl.arange(0, B)
    child = Child(i, bias=i + 1)
    tl.store(out + i, child.scaled() + child.bias)
    other = tl.aggregate_replace(child, data=i * 0, scale=5)
    tl.store(out + B + i, other.scaled() + child.data * other.scale)


def test_a_class_inherits_fields_defaults_and_methods(target):
    out, i = np.zeros((2, 8), np.int32), np.arange(8)
    inherited[(1,)](out, 8)
    np.testing.assert_array_equal(out, [4 * i + 1, 5 * i])


class Shape(NamedTuple):
    x: tl.constexpr
    y: tl.constexpr


def test_classes_outside_of_kernels():
    @aggregate
    class State:
        shape: tl.tuple
        strides: tl.tuple
        size: tl.constexpr = 4

    state = State(Shape(3, tl.constexpr(7)), (7, tl.constexpr(1)))
    assert [type(v) for v in (state.shape.x, state.strides[1], state.size)] == [tl.constexpr] * 3
    assert (state.shape.y.value, state.strides[0].value, state.size.value) == (7, 7, 4)
    assert tl.aggregate_replace(state, size=5).size.value == 5
    with pytest.raises(TypeError, match="missing a required argument: 'strides'"):
        State(())
    with pytest.raises(TypeError, match="State has no field 'z'"):
        tl.aggregate_replace(state, z=1)
    with pytest.raises(TypeError, match="expects an aggregate instance"):
        tl.aggregate_replace(42, x=1)


@tilewright.jit
def changes(out):
    pair = Base(tl.arange(0, 4))
    pair.data, one = pair.data + 1, 2
    tl.store(out, one)


@tilewright.jit
def adds(out):
    pair = Base(tl.arange(0, 4))
    pair.data += 1


@pytest.mark.parametrize("kernel", [changes, adds])
def test_objects_stay_as_they_are(target, kernel):
    with pytest.raises(CompileError, match="cannot assign to `pair.data`"):
        kernel[(1,)](np.zeros(4, np.int32))


@tilewright.jit
def declared():
    a: tl.constexpr
    a, b = ((0, 1), 2), 3
    c: tl.constexpr = ((0, 1), 2)
    tl.static_assert(a == c)
    tl.static_assert(a.type == c.type)
    tl.static_assert(b.dtype == tl.int32)


def test_constants_beside_names_that_are_declared(target):
    """Numbers in `c` became scalars, because `a` is declared by a line of its own."""
    declared[(1,)]()


@tilewright.jit
def too_many():
    (a, b), c = ((1, 2, 3), 4)
    tl.static_print(a, b, c)


@tilewright.jit
def too_few():
    a, b, c = (1, 2)
    tl.static_print(a, b, c)


@tilewright.jit
def pairs_of_threes():
    tl.static_print([a + b for a, b in ((1, 2, 3),)])


@tilewright.jit
def pairs_of_numbers():
    tl.static_print([a + b for a, b in (1, 2)])


@pytest.mark.parametrize(
    "kernel, message",
    [
        (too_many, "too many values to unpack"),
        (too_few, r"not enough values to unpack \(expected 3, got 2\)"),
        (pairs_of_threes, "too many values to unpack"),
        (pairs_of_numbers, "cannot unpack non-iterable"),
    ],
)
def test_names_without_values(host_target, kernel, message):
    with pytest.raises((CompileError, ValueError, TypeError), match=message):
        kernel[(1,)]()
