"""Kernels of programs that make kernels: texts given anew, parts of descriptors, groups of rows."""

from __future__ import annotations

import inspect
import types

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.compat.ragged_tma import create_ragged_descriptor, load_ragged, store_ragged
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.kernel import JITFunction

OFFSET = tl.constexpr(5)


@tilewright.jit
def template(x, o, FN: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, FN(tl.load(x + i)) + OFFSET)


@tilewright.jit
def doubled(x):
    return x * 2


@tilewright.jit
def squared(x):
    return x * x


def specialized(kernel, function):
    """A kernel of the text of another, with a function in place of a parameter."""

    def empty():
        pass

    text = kernel.src.replace("FN: tl.constexpr, ", "").replace("FN(", f"{function.__name__}(")
    names = {**kernel.get_capture_scope(), function.__name__: function}
    exec(text, names)
    made = types.FunctionType(empty.__code__, names)
    made.__signature__ = inspect.signature(names["template"])
    made = JITFunction(made)
    made._unsafe_update_src(text)
    made.raw_src = list(kernel.raw_src)
    made.starting_line_number = kernel.starting_line_number
    return made


def test_texts_under_another_name(target):
    x = np.arange(8).astype(np.int32)
    for function, expected in ((doubled, x * 2 + 5), (squared, x * x + 5)):
        o = np.zeros_like(x)
        specialized(template, function)[(1,)](x, o, 8)
        assert o.tolist() == expected.tolist()
    assert template.raw_src[0] == "@tilewright.jit\n"
    assert template.def_file_line_number == template.starting_line_number + 1


def test_each_text_has_lines_of_its_own():
    kernels = [specialized(template, f) for f in (doubled, squared)]
    places = [k.source.loc(k.source.node.body[-1]) for k in kernels]
    assert ["doubled" in p.text for p in places] == [True, False]


@tilewright.constexpr_function
def element_of(x):
    return x.dtype if isinstance(x, tl.tensor_descriptor) else x.dtype.element_ty


@tilewright.jit
def by_type(x, o, B: tl.constexpr):
    kind: tl.constexpr = element_of(x)
    other: tl.constexpr = element_of(o)
    tl.static_assert(kind == tl.float32 and other == tl.int32)
    tl.store(o + tl.arange(0, B), x.load([0]).to(other))


def test_python_may_ask_for_types(target):
    x, o = np.arange(8).astype(np.float32), np.zeros(8, np.int32)
    by_type[(1,)](TensorDescriptor.from_tensor(x, [8]), o, 8)
    assert o.tolist() == x.tolist()


@tilewright.jit
def wide_masks(x, m, o, n, stride, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    mask = (i[:, None] < n) & (j[None, :] < n)
    kept = tl.load(m + j[None, :], mask=mask, other=0).to(tl.int1)
    filled = tl.load(x + j, mask=j < n, other=tl.zeros((M, 1), tl.float32) - 1)
    tl.store(o + i[:, None] * stride + j[None, :], tl.where(kept, 1, filled), (i < 3)[:, None])


def test_masks_may_be_wider_than_the_pointers_of_a_load(target):
    x, m = np.arange(8).astype(np.float32), np.arange(8).astype(np.int8) % 2
    o = np.zeros((4, 8), np.float32)
    wide_masks[(1,)](x, m, o, 2, 8, 4, 8)
    expected = np.zeros((4, 8))
    expected[:3] = np.where(np.arange(8) < 2, x, -1)
    expected[:2, 1] = 1
    np.testing.assert_array_equal(o, expected)


@tilewright.jit
def joined(offsets, row, axis: tl.constexpr):
    return [0] + offsets[:axis] + [row] + [k + 0 for k in offsets[axis + 1 :]]


@tilewright.jit
def one_row(x, o, N: tl.constexpr):
    block = x.load(joined([2, 3, 0], 1, 1))
    tl.store(o + tl.arange(0, N), tl.reshape(block, [N]))


def test_lists_are_tuples_wherever_they_stand(target):
    x = np.arange(3 * 4 * 8).reshape(1, 3, 4, 8).astype(np.float32)
    o = np.zeros(8, np.float32)
    one_row[(1,)](TensorDescriptor.from_tensor(x, [1, 1, 1, 8]), o, 8)
    assert o.tolist() == x[0, 2, 1].tolist()


@tilewright.jit
def copied_groups(x, y, first, size, AXIS: tl.constexpr, B: tl.constexpr):
    for at in range(0, size, B):
        if AXIS == 0:
            store_ragged(y, first, size, [at, 0], load_ragged(x, first, size, [at, 0]) + 1)
        else:
            block = load_ragged(x, first, size, [2, at, 0], 1)
            store_ragged(y, first, size, [1, at, 0], block + 1, 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_end_with_their_group(axis, target):
    x = np.random.default_rng(0).standard_normal((3, 20, 16)).astype(np.float32)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    expected[1, 5:15] = x[1 + axis, 5:15] + 1
    block = [1, 8, 16] if axis else [8, 16]
    given, taken = (x, y) if axis else (x[1], y[1])
    copied_groups[(1,)](
        create_ragged_descriptor(given, block, axis - len(block)),
        create_ragged_descriptor(taken, block, axis, write_only=True), 5, 10, axis, 8,
    )  # fmt: skip
    np.testing.assert_array_equal(y, expected)
