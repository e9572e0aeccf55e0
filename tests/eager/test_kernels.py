"""Kernels run by CPython: what they compute, how they loop, branch and call."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright.language as tl
from tilewright.errors import CompileError, TypeRuleError

from .launch import jit, launch

GLOBAL = tl.constexpr(3)


@jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
)
def test_addition_in_every_size(dtype):
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(1000) * 50).astype(dtype) for _ in range(2))
    out = np.zeros_like(x)
    launch(add_kernel, (8,), x, y, out, 1000, 128)
    np.testing.assert_array_equal(out, x + y)


def test_order_of_programs():
    seen = []

    @jit
    def kernel(note: tl.constexpr):
        note((int(tl.program_id(0)), int(tl.program_id(1)), int(tl.num_programs(1))))

    launch(kernel, (2, 3), seen.append)
    assert [s[:2] for s in seen] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert {s[2] for s in seen} == {3}
    ascending = list(seen)
    seen.clear()
    launch(kernel, (2, 3), seen.append, order_seed=1)
    assert seen != ascending and sorted(seen) == sorted(ascending)
    seen.clear()
    launch(kernel, (2, 3), seen.append, only=(1, None))
    assert [s[:2] for s in seen] == [(1, 0), (1, 1), (1, 2)]


@jit
def double(x, FACTOR: tl.constexpr = 2):
    return x * FACTOR


@jit
def twice(x):
    return double(double(x)), double(x, FACTOR=GLOBAL)


def test_helpers_defaults_and_constexpr_globals():
    @jit
    def kernel(x_ptr, out_ptr):
        at = tl.arange(0, 4)
        four, three = twice(tl.load(x_ptr + at))
        tl.store(out_ptr + at, four)
        tl.store(out_ptr + 4 + at, three)

    x, out = np.arange(4, dtype=np.int32), np.zeros(8, np.int32)
    launch(kernel, (1,), x, out)
    assert out.tolist() == [0, 4, 8, 12, 0, 3, 6, 9]


def test_value_of_a_constexpr():
    @jit
    def kernel(out, FACTOR: tl.constexpr, kind: tl.constexpr):
        tl.store(out, tl.full((), FACTOR.value + GLOBAL.value, kind.value))

    out = np.zeros(1, np.int32)
    launch(kernel, (1,), out, 4, tl.int32)
    assert out[0] == 7


def test_closures_and_tuples():
    scale = 5

    @jit
    def kernel(pair, out_ptr):
        x_ptr, n = pair
        for i in range(n):
            tl.store(out_ptr + i, tl.load(x_ptr + i) * scale)

    x, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    launch(kernel, (1,), (x, 3), out)
    assert out.tolist() == [0, 5, 10, 0]


def test_loop_variables_wrap_as_compiled_code_does():
    seen = []

    @jit
    def kernel(n, note: tl.constexpr):
        for i in range(n - 1, n):
            note((int(i * 4), i.dtype))
        for i in tl.range(0, 4, 2):
            note((int(i), i.dtype))
        for i in tl.static_range(2):
            note(i)

    launch(kernel, (1,), 2**30 + 1, seen.append)
    assert seen == [(0, tl.int32), (0, tl.int32), (2, tl.int32), 0, 1]


def test_scalars_act_as_numbers_and_conditions():
    @jit
    def kernel(out_ptr, n, flag):
        count = 0
        while count < n and flag:
            count += 1
        low = min(n, 3)
        high = max(n, 3, count)
        if not flag or n == 0:
            tl.store(out_ptr, -1)
            return
        tl.store(out_ptr, count)
        tl.store(out_ptr + 1, low if low < high else 0)
        tl.store(out_ptr + 2, high)

    out = np.zeros(3, np.int32)
    launch(kernel, (1,), out, 7, True)
    assert out.tolist() == [7, 3, 7]
    launch(kernel, (1,), out, 7, False)
    assert out.tolist() == [-1, 3, 7]


def test_and_or_not_and_chains_on_tiles():
    @jit
    def kernel(out_ptr, n):
        at = tl.arange(0, 8)
        inside = (at > 1 and at < n) or at == 7
        tl.store(out_ptr + at, inside.to(tl.int32) + 2 * (0 < at < 3).to(tl.int32))
        tl.store(out_ptr + 8 + at, (not inside).to(tl.int32))

    out = np.zeros(16, np.int32)
    launch(kernel, (1,), out, 4)
    assert out[:8].tolist() == [0, 2, 3, 1, 0, 0, 0, 1]
    assert out[8:].tolist() == [1, 1, 0, 0, 1, 1, 1, 0]


def test_numbers_that_a_loop_changes_are_tensors_from_its_start():
    kinds = []

    @jit
    def kernel(x_ptr, n, note: tl.constexpr):
        carry = 0.0
        step = 0
        for _ in range(n):
            h = tl.load(x_ptr) * carry
            note(h.dtype)
            carry = carry + h
            step += 1
        note(step.dtype)
        scale = 1.0
        if n > 1:
            scale = 2.0
        note(scale.dtype)
        note((1 if n > 5 else 2).dtype)

    launch(kernel, (1,), np.ones(1, np.float16), 2, kinds.append)
    assert kinds == [tl.float32, tl.float32, tl.int32, tl.float32, tl.int32]


def test_constants_stay_python_values():
    seen = []

    @jit
    def kernel(SIZE: tl.constexpr, OPTION: tl.constexpr, note: tl.constexpr):
        half: tl.constexpr = SIZE // 2
        if OPTION is None:
            note((half, SIZE.value))

    launch(kernel, (1,), 8, None, seen.append)
    assert seen == [(4, 8)] and type(seen[0][0]) is int


def test_lists_and_comprehensions_are_what_they_are_to_the_compiler():
    @jit
    def kernel(x_ptr, out_ptr, ROWS: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, 8)).reshape(ROWS, 8 // ROWS)
        shape = [2] * 2
        y = tl.reshape(x, x.shape[:1] + [2] + shape[1:])
        parts = [tl.arange(0, 2 << i) for i in range(2)]
        tl.store(out_ptr + tl.arange(0, 8), tl.ravel(y))
        tl.store(out_ptr + 8 + parts[1], parts[1])

    x, out = np.arange(8, dtype=np.int32), np.zeros(12, np.int32)
    launch(kernel, (1,), x, out, 2)
    assert out.tolist() == [*range(8), *range(4)]


def test_a_tile_is_no_condition():
    @jit
    def kernel(out_ptr):
        if tl.arange(0, 4) > 2:
            tl.store(out_ptr, 1)

    with pytest.raises(TypeRuleError, match="a tile cannot be a condition, got i1"):
        launch(kernel, (1,), np.zeros(1, np.int32))


def test_errors_of_rules_show_the_users_line():
    @jit
    def kernel(out_ptr):
        x = tl.arange(0, 4)
        tl.store(out_ptr + x, tl.exp(x))

    with pytest.raises(CompileError) as error:
        launch(kernel, (1,), np.zeros(4, np.float32))
    text = str(error.value)
    assert "needs fp32 or fp64, got i32[4]" in text
    assert "tl.store(out_ptr + x, tl.exp(x))" in text and "test_kernels.py" in text


def test_the_source_may_be_replaced():
    @jit
    def kernel(out_ptr):
        tl.store(out_ptr, 1)

    kernel._unsafe_update_src("def kernel(out_ptr):\n    tl.store(out_ptr, 2)\n")
    out = np.zeros(1, np.int32)
    launch(kernel, (1,), out)
    assert out[0] == 2


def test_kernels_without_source_run():
    names = {"tl": tl}
    exec("def kernel(out_ptr):\n    tl.store(out_ptr, 3)\n", names)
    out = np.zeros(1, np.int32)
    launch(jit(names["kernel"]), (1,), out)
    assert out[0] == 3


def test_numpy_and_repr_inside_a_kernel():
    seen = []

    @jit
    def kernel(x_ptr, note: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, 4))
        note(x.numpy())
        note(repr(x))
        note(repr(tl.sum(x)))

    launch(kernel, (1,), np.arange(4, dtype=np.float32), seen.append)
    assert seen[0].tolist() == [0, 1, 2, 3]
    assert seen[1:] == ["tensor(f32[4], [0. 1. 2. 3.])", "tensor(f32, 6.0)"]


def test_dot_in_two_loops_is_a_matrix_product():
    @jit
    def kernel(a_ptr, b_ptr, c_ptr, K: tl.constexpr, BLOCK: tl.constexpr):
        m, n = tl.arange(0, 16), tl.arange(0, 16)
        acc = tl.zeros((16, 16), tl.float32)
        for k in range(0, K, BLOCK):
            ks = k + tl.arange(0, BLOCK)
            a = tl.load(a_ptr + m[:, None] * K + ks[None, :])
            b = tl.load(b_ptr + ks[:, None] * 16 + n[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + m[:, None] * 16 + n[None, :], acc)

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 64)), rng.standard_normal((64, 16))
    a, b, c = a.astype(np.float16), b.astype(np.float16), np.zeros((16, 16), np.float32)
    launch(kernel, (1,), a, b, c, 64, 32)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-6)
