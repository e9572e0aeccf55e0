"""Faults are told at the user's line, and with the calls that led there."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError


@tilewright.jit
def row(p, i, n):
    return tl.load(p + i, mask=i < n)


@tilewright.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, row(x, i, n), i < n)


def first_line(kernel):
    return inspect.getsourcelines(kernel.fn)[1]


def test_a_fault_in_a_helper_names_its_caller(target):
    with pytest.raises(OutOfBoundsError) as error:
        copy[(2,)](np.zeros(11, np.float32), np.zeros(16, np.float32), 12, B=8)
    text = str(error.value)
    load, call = first_line(row) + 2, first_line(copy) + 3
    assert f"load outside x at {__file__}:{load}: program (1, 0, 0) touches element 11 of" in text
    after = text.split("called from", 1)[1]
    assert f"{__file__}:{call}:" in after
    assert "in copy" in after


@tilewright.jit
def copy_rows(x, out, m, n, MASKED: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    mask = (j < n)[None, :] & ((i < m) | (not MASKED))[:, None]
    at = i[:, None] * n + j[None, :]
    v = tl.load(x + at, mask)
    tl.store(out + at, v, mask)


def test_the_load_is_told_before_the_store_that_it_leads_to(host_target):
    """Both lie outside; native code told of the store."""
    x, out = np.ones((10, 20), np.float32), np.zeros((10, 20), np.float32)
    copy_rows[(2,)](x, out, 10, 20, True, 8, 32)
    assert (out == 1).all()
    with pytest.raises(OutOfBoundsError, match=r"load outside x at .*program \(1, 0, 0\)") as error:
        copy_rows[(2,)](x, out, 10, 20, False, 8, 32)
    assert "element 200 of 200" in str(error.value)


def test_functions_of_kernels_called_outside():
    with pytest.raises(ValueError, match="tl.exp was called .* Did you forget to add @triton.jit"):
        tl.exp(1.0)
    with pytest.raises(RuntimeError, match="Cannot call @triton.jit'd outside of the scope of a"):
        copy(np.zeros(1), np.zeros(1), 1, 8)


@tilewright.jit
def takes_two(x, n, B: tl.constexpr):
    tl.store(x, n + B)


@pytest.mark.parametrize(
    "given, named, kind, message",
    [
        ((1,), {}, TypeError, "missing argument 'B'"),
        ((1, 2, 3), {}, TypeError, "takes 3 arguments, got 4"),
        ((1, 2), {"n": 3}, TypeError, "'n' is given twice|multiple values for argument 'n'"),
        ((1, 2), {"block": 3}, KeyError, "no parameter 'block'"),
        ((1, 2), {"num_warp": 3}, KeyError, "did you mean 'num_warps'"),
    ],
)
def test_wrong_calls_are_errors_of_the_kind_of_pythons_or_tritons(
    host_target, given, named, kind, message
):
    x = np.zeros(1, np.float32)
    for _ in range(3):  # through every way of launching
        takes_two[(1,)](x, 1, 2)
        with pytest.raises(kind, match=message):
            takes_two[(1,)](x, *given, **named)
