"""Memory in eager mode: bounds, masks, pointers as numbers, atomics, booleans, order of writes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tilewright.language as tl
from tilewright.eager import run_kernel
from tilewright.errors import DeadlockError, LaunchError, OutOfBoundsError

from .launch import buffer, jit, launch


@jit
def copy_kernel(x_ptr, y_ptr, n, SHIFT: tl.constexpr):
    at = tl.arange(0, 16)
    x = tl.load(x_ptr + at + SHIFT, mask=at < n)
    tl.store(y_ptr + at, x, mask=at < n)


def line_of(kernel, text):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_load_past_the_end_is_reported_whole():
    x, y = np.ones(10, np.float32), np.zeros(16, np.float32)
    with pytest.raises(OutOfBoundsError) as error:
        launch(copy_kernel, (1,), x, y, 16, 0)
    line = line_of(copy_kernel, "x = tl.load")
    assert str(error.value).splitlines() == [
        f"copy_kernel: load outside x_ptr at {__file__}:{line}: program (0, 0, 0) touches element "
        "10 of 10, 6 elements past the end",
        f"  {__file__}:{line}:9 in copy_kernel",
        "        x = tl.load(x_ptr + at + SHIFT, mask=at < n)",
        "            " + "^" * len("tl.load(x_ptr + at + SHIFT, mask=at < n)"),
    ]


def test_a_store_outside_writes_nothing():
    x, y = np.ones(16, np.float32), np.zeros(10, np.float32)
    with pytest.raises(OutOfBoundsError, match="store outside y_ptr .* 1 element past the end"):
        launch(copy_kernel, (1,), x, y, 11, 0)
    assert not y.any()


def test_before_the_start():
    with pytest.raises(OutOfBoundsError, match="touches element -2 of 16, 2 elements before the"):
        launch(copy_kernel, (1,), np.ones(16, np.float32), np.zeros(16, np.float32), 16, -2)


def test_masked_lanes_may_point_anywhere():
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    launch(copy_kernel, (1,), x, y, 10, 0)
    np.testing.assert_array_equal(y, x)


def test_helpers_are_in_the_chain_of_callers():
    @jit
    def read(p):
        return tl.load(p + 100)

    @jit
    def kernel(x_ptr):
        tl.store(x_ptr, read(x_ptr))

    with pytest.raises(OutOfBoundsError) as error:
        launch(kernel, (1,), np.ones(4, np.float32))
    text = str(error.value)
    assert "return tl.load(p + 100)" in text
    assert text.index("in read") < text.index("called from") < text.index("in kernel")


def test_a_view_may_reach_its_storage():
    @jit
    def kernel(x_ptr, out_ptr):
        tl.store(out_ptr, tl.load(x_ptr - 2) + tl.load(x_ptr + 3))

    storage, out = np.arange(10, dtype=np.int32), np.zeros(1, np.int32)
    start = storage.ctypes.data
    view = buffer("x_ptr", storage[4:6], low=start, high=start + storage.nbytes)
    run_kernel(kernel, (1,), {"x_ptr": view, "out_ptr": buffer("out_ptr", out)}, {})
    assert out[0] == 2 + 7


def test_arrays_of_unknown_size_are_not_checked():
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    names = {"x_ptr": buffer("x_ptr", x, low=0, high=(1 << 63) - 1), "y_ptr": buffer("y_ptr", y)}
    run_kernel(copy_kernel, (1,), names | {"n": 12}, {"SHIFT": 2})
    assert y.tolist() == [*range(2, 14), 0, 0, 0, 0]


def test_read_only_arrays_are_not_written():
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    names = {"x_ptr": buffer("x_ptr", x), "y_ptr": buffer("y_ptr", y, writable=False)}
    with pytest.raises(LaunchError, match="store to y_ptr, which is read-only"):
        run_kernel(copy_kernel, (1,), names | {"n": x.size}, {"SHIFT": 0})


def test_pointers_are_addresses_when_cast():
    @jit
    def kernel(x_ptr, table_ptr, out_ptr):
        address = x_ptr.to(tl.int64)
        tl.store(table_ptr, address)
        again = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
        tl.store(out_ptr, tl.load(again + 1))
        tl.store(out_ptr + 1, (x_ptr + 3 == again + 3).to(tl.int32))
        tl.store(out_ptr + 2, (x_ptr < x_ptr + 1).to(tl.int32))
        low = x_ptr.to(tl.pointer_type(tl.int16))
        tl.store(out_ptr + 3, tl.load(low + 2 + tl.arange(0, 2)).to(tl.int32).sum())

    x, table, out = np.array([7, 9, 11, 13], np.int32), np.zeros(1, np.int64), np.zeros(4, np.int32)
    launch(kernel, (1,), x, table, out)
    assert table[0] == x.ctypes.data
    assert out.tolist() == [9, 1, 1, 9]


def test_of_several_writes_to_one_place_the_last_stays():
    @jit
    def kernel(x_ptr):
        at = tl.arange(0, 8)
        tl.store(x_ptr + at // 4, at)

    x = np.zeros(2, np.int32)
    launch(kernel, (1,), x)
    assert x.tolist() == [3, 7]


def test_misaligned_accesses():
    @jit
    def kernel(x_ptr, out_ptr):
        odd = (x_ptr.to(tl.int64) + tl.arange(0, 2) * 3).to(tl.pointer_type(tl.int16))
        tl.store(out_ptr + tl.arange(0, 2), tl.load(odd))

    x, out = np.arange(8, dtype=np.uint8), np.zeros(2, np.int16)
    launch(kernel, (1,), x, out)
    assert out.tolist() == [0x0100, 0x0403]


def test_booleans_take_a_byte():
    @jit
    def kernel(x_ptr, y_ptr):
        at = tl.arange(0, 4)
        x = tl.load(x_ptr + at)
        tl.static_assert(x.dtype == tl.int1)
        tl.store(y_ptr + at, ~x)

    x, y = np.array([True, False, True, True]), np.zeros(4, bool)
    x.view(np.uint8)[0] = 2
    launch(kernel, (1,), x, y)
    assert y.view(np.uint8).tolist() == [0, 1, 0, 0]


def test_atomics_give_old_values_in_order():
    @jit
    def kernel(x_ptr, old_ptr):
        at = tl.arange(0, 8)
        old = tl.atomic_add(x_ptr + at // 4, at, mask=at != 1)
        tl.store(old_ptr + at, old)

    x, old = np.array([10, 20], np.int32), np.zeros(8, np.int32)
    launch(kernel, (1,), x, old)
    assert old.tolist() == [10, 0, 10, 12, 20, 24, 29, 35]
    assert x.tolist() == [15, 42]


@pytest.mark.parametrize(
    "name, start, value, end",
    [
        ("max", 3, 5, 5), ("max", 3, -5, 3), ("min", 3, -5, -5), ("and", 6, 3, 2), ("or", 6, 3, 7),
        ("xor", 6, 3, 5), ("xchg", 6, 3, 3), ("max", 1.5, 2.5, 2.5), ("max", -1.5, -2.5, -1.5),
        ("min", -1.5, -2.5, -2.5), ("min", 1.5, -0.5, -0.5), ("add", 0.5, 0.25, 0.75),
    ],
)  # fmt: skip
def test_every_atomic(name, start, value, end):
    function = getattr(tl, f"atomic_{name}")

    @jit
    def kernel(x_ptr, v, old_ptr):
        tl.store(old_ptr, function(x_ptr, v, sem="relaxed", scope="gpu"))

    dtype = np.float32 if isinstance(end, float) else np.int32
    x, old = np.array([start], dtype), np.zeros(1, dtype)
    launch(kernel, (1,), x, value, old)
    assert (x[0], old[0]) == (end, start)


def test_compare_and_swap():
    @jit
    def kernel(x_ptr, old_ptr):
        at = tl.arange(0, 4)
        tl.store(old_ptr + at, tl.atomic_cas(x_ptr + at // 2, 1, at + 5))

    x, old = np.array([1, 2], np.int32), np.zeros(4, np.int32)
    launch(kernel, (1,), x, old)
    assert (x.tolist(), old.tolist()) == ([5, 2], [1, 5, 2, 2])


def test_a_lock_that_nobody_opens_is_a_deadlock(monkeypatch):
    monkeypatch.setattr("tilewright.eager.machine.Eager.most_polls", 50)

    @jit
    def kernel(lock_ptr):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass

    lock = np.zeros(1, np.int32)
    with pytest.raises(DeadlockError, match=r"program \(1, 0, 0\) waits for a value"):
        launch(kernel, (2,), lock)


def test_long_loops_that_end_are_no_deadlock(monkeypatch):
    monkeypatch.setattr("tilewright.eager.machine.Eager.most_rounds", 50)

    @jit
    def kernel(x_ptr):
        for i in range(200):
            if i < 0:
                tl.store(x_ptr, i)
        n = 0
        while n < 200:
            n += 1
            tl.store(x_ptr, n)
        tile = tl.zeros([2], tl.int32)
        while n < 400:
            n += 1
            tile += 1
        while tl.sum(tile) < 800:
            tile += 1
        tl.store(x_ptr, n)

    x = np.zeros(1, np.int32)
    launch(kernel, (1,), x)
    assert x[0] == 400


def test_observers_see_every_access():
    seen = []

    def observe(op, touch):
        buffers = [place.buffer.name for place in touch.places]
        lanes = sum(place.lanes.size for place in touch.places)
        seen.append((op.name, touch.kind, buffers, lanes, touch.loc.line))

    launch(copy_kernel, (1,), np.ones(9, np.int8), np.ones(9, np.int8), 9, 0, observers=[observe])
    assert seen == [
        ("load", "load", ["x_ptr"], 9, line_of(copy_kernel, "tl.load")),
        ("store", "store", ["y_ptr"], 9, line_of(copy_kernel, "tl.store")),
    ]


def test_a_tile_of_pointers_into_two_arrays():
    @jit
    def kernel(x_ptr, y_ptr, out_ptr):
        at = tl.arange(0, 4)
        tl.store(out_ptr + at, tl.load(tl.where(at % 2 == 0, x_ptr, y_ptr) + at))

    x, y, out = np.arange(4), 10 + np.arange(4), np.zeros(4, np.int64)
    launch(kernel, (1,), x, y, out)
    assert out.tolist() == [0, 11, 2, 13]
