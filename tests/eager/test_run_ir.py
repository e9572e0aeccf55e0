"""The runner of IR against the same kernel under CPython: one meaning for both."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as tl
from tilewright.eager import Scalar, run_ir
from tilewright.errors import DeadlockError, OutOfBoundsError
from tilewright.ir import types as t
from tilewright.ir.types import Type, pointer_to
from tilewright.lang.frontend import build_kernel

from .launch import DTYPES, buffer, jit, launch


def compiled(kernel, arrays, numbers, constants):
    """The kernel's IR and the values of its parameters."""
    types = {n: Type(pointer_to(DTYPES[a.dtype])) for n, a in arrays.items()}
    types |= {n: Type(t.int32) for n in numbers}
    values = [buffer(n, a) for n, a in arrays.items()]
    values += [Scalar(t.int32, n) for n in numbers.values()]
    return build_kernel(kernel, types, constants), values


def both_ways(kernel, grid, arrays, numbers, constants):
    """What the arrays hold after either way of running."""
    copies = {n: a.copy() for n, a in arrays.items()}
    launch(kernel, grid, *copies.values(), *numbers.values(), *constants.values())
    again = {n: a.copy() for n, a in arrays.items()}
    ir, values = compiled(kernel, again, numbers, constants)
    run_ir(ir, grid, values)
    for name in arrays:
        np.testing.assert_array_equal(copies[name], again[name], err_msg=name)
    return copies


@jit
def keep_larger(a, i, b, j):
    if a > b:
        return a, i
    return b, j


@jit
def mixed_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=-1.0)
    total = 0.0
    for i in range(0, n, 3):
        if i % 2 == 0:
            total += tl.sum(x) + i
        else:
            total -= 1.0
    rounds = 0
    while rounds < n // 4:
        rounds += 1
        total = total * 0.5
    largest, where = tl.reduce((x, at), 0, keep_larger)
    y = tl.associative_scan(x, 0, add_up) + total + largest + where
    tl.store(y_ptr + at, y, mask=at < n)
    tl.atomic_add(y_ptr + n, 1.0)


@jit
def add_up(a, b):
    return a + b


def test_control_flow_regions_and_effects():
    x = np.random.default_rng(0).standard_normal(30).astype(np.float32)
    out = both_ways(
        mixed_kernel, (2,), {"x_ptr": x, "y_ptr": np.zeros(31, np.float32)}, {"n": 30},
        {"BLOCK": 16},
    )  # fmt: skip
    assert out["y_ptr"][30] == 2 and out["y_ptr"][:30].any()


def test_a_fault_names_the_users_line():
    @jit
    def kernel(x_ptr, n):
        tl.store(x_ptr + n, 1)

    x = np.zeros(4, np.int32)
    ir, values = compiled(kernel, {"x_ptr": x}, {"n": 4}, {})
    with pytest.raises(OutOfBoundsError) as error:
        run_ir(ir, (1,), values)
    assert "touches element 4 of 4, 1 element past the end" in str(error.value)
    assert "tl.store(x_ptr + n, 1)" in str(error.value)


def test_waiting_for_ever_is_found(monkeypatch):
    monkeypatch.setattr("tilewright.eager.machine.Eager.most_polls", 20)

    @jit
    def kernel(x_ptr, n):
        while tl.atomic_add(x_ptr, 0) < n:
            pass

    x = np.zeros(1, np.int32)
    ir, values = compiled(kernel, {"x_ptr": x}, {"n": 4}, {})
    with pytest.raises(DeadlockError):
        run_ir(ir, (1,), values)
