"""Accesses outside arguments: reported to the element, never made, and no false alarms.

The arrays lie between forbidden pages, so an access that slips through ends the process.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import guarded

import tilewright
import tilewright.language as tl
from tilewright.errors import OutOfBoundsError
from tilewright.targets.cpu.launch import first_outside


@tilewright.jit
def line(x, out, at, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + at + i))


@tilewright.jit
def line_store(x, out, at, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + at + i, tl.load(out + i))


@tilewright.jit
def masked(x, out, at, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + at + i, mask=i < B - 3, other=0))


@tilewright.jit
def every_third(x, out, at, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + at + i, mask=i % 3 == 1, other=0))


@tilewright.jit
def gather(x, out, index, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + tl.load(index + i)))


@tilewright.jit
def scatter(x, out, index, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + tl.load(index + i), tl.load(out + i))


@tilewright.jit
def backwards(x, out, at, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + at - i))


@tilewright.jit
def stepped(x, out, at, step, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + at + i * step))


@tilewright.jit
def far_steps(x, out, step, B: tl.constexpr):
    i = tl.arange(0, B).to(tl.int64)
    tl.store(out + i, tl.load(x + i * step))


@tilewright.jit
def scalar(x, out, at):
    tl.store(out, tl.load(x + at))


@tilewright.jit
def scalar_store(x, out, at):
    tl.store(x + at, 3.0)


@tilewright.jit
def atomics(x, out, at, B: tl.constexpr):
    tl.atomic_add(x + at + tl.arange(0, B), 1.0)


@tilewright.jit
def swap(x, out, at):
    tl.atomic_xchg(x + at, 1.0)


@tilewright.jit
def square(x, out, at, sm, sn, M: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    tl.store(out + i * M + j, tl.load(x + at + i * sm + j * sn))


@tilewright.jit
def block(x, out, at, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (at,), (B,), (0,))
    tl.store(out + tl.arange(0, B), tl.load(p))


@tilewright.jit
def checked_block(x, out, at, n, B: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (at,), (B,), (0,))
    tl.store(out + tl.arange(0, B), tl.load(p, boundary_check=(0,)))


@tilewright.jit
def descriptor(x, out, at, n, B: tl.constexpr):
    d = tl.make_tensor_descriptor(x, (n,), (1,), (B,))
    tl.store(out + tl.arange(0, B), d.load([at]))


@tilewright.jit
def broadcast(x, out, at, M: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    tl.store(out + i * M + j, tl.load(x + at + i) + tl.zeros([M, M], tl.float32))


@tilewright.jit
def looped(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for k in range(n):
        total += tl.load(x + k * B + i)
    tl.store(out + i, total)


@tilewright.jit
def programs(x, out, at, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + at + i))


@tilewright.jit
def product(x, out, at, w, K: tl.constexpr, M: tl.constexpr, PACK: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, M)
    total = tl.zeros([M, M], tl.float32)
    for start in range(0, K, M):
        a = tl.load(w + i[:, None] * K + start + k[None, :])
        b = tl.load(x + at + (start + k[:, None]) * M + i[None, :])
        if PACK:
            b = b + 1
        total = tl.dot(a, b, total)
    tl.store(out + i[:, None] * M + i[None, :], total)


def index(*values):
    found = np.zeros(16, np.int32)
    found[3 : 3 + len(values)] = values
    return found


SQUARE, BLOCK, LINE, SHORT = {"M": 8}, {"B": 64}, {"B": 64}, {"B": 16}
FEW = {"K": 64, "M": 16, "PACK": False}
PACKED = {"K": 64, "M": 16, "PACK": True}
WEIGHTS = np.ones((16, 64), np.float32)
PAST, BEFORE = "past the end", "before the start"

# Kernel, size of x, what comes after `out`, constants, first element outside and how many.
OUTSIDE = [
    (line, 64, (1,), LINE, 64, 1),
    (line, 64, (5,), LINE, 64, 5),
    (line, 64, (100,), LINE, 100, 100),
    (line, 64, (-3,), LINE, -3, 3),
    (line, 64, (10**7,), LINE, 10**7, 10**7),
    (line, 64, (-(10**7),), LINE, -(10**7), 10**7),
    (line_store, 64, (1,), LINE, 64, 1),
    (line_store, 64, (-1,), LINE, -1, 1),
    (masked, 64, (4,), LINE, 64, 1),
    (masked, 64, (-1,), LINE, -1, 1),
    (every_third, 64, (3,), LINE, 64, 1),
    (every_third, 64, (-2,), LINE, -1, 1),
    (gather, 64, (index(64),), SHORT, 64, 1),
    (gather, 64, (index(3, 70),), SHORT, 70, 7),
    (gather, 64, (index(-1, 99),), SHORT, -1, 1),
    (gather, 64, (index(99, -1),), SHORT, 99, 36),
    (gather, 64, (index(-(1 << 30)),), SHORT, -(1 << 30), 1 << 30),
    (scatter, 64, (index(64),), SHORT, 64, 1),
    (scatter, 64, (index(-5),), SHORT, -5, 5),
    (backwards, 64, (64,), LINE, 64, 1),
    (backwards, 64, (62,), LINE, -1, 1),
    (backwards, 64, (200,), LINE, 200, 137),
    (stepped, 64, (0, 5), SHORT, 65, 12),
    (stepped, 64, (0, -1), SHORT, -1, 15),
    (stepped, 64, (59, -4), SHORT, -1, 1),
    (stepped, 64, (4, 4), SHORT, 64, 1),
    (scalar, 64, (64,), {}, 64, 1),
    (scalar, 64, (-1,), {}, -1, 1),
    (scalar_store, 64, (64,), {}, 64, 1),
    (scalar_store, 64, (-2,), {}, -2, 2),
    (atomics, 64, (1,), LINE, 64, 1),
    (atomics, 64, (-1,), LINE, -1, 1),
    (swap, 64, (64,), {}, 64, 1),
    (square, 64, (1, 8, 1), SQUARE, 64, 1),
    (square, 64, (0, 9, 1), SQUARE, 64, 7),
    (square, 64, (-1, 8, 1), SQUARE, -1, 1),
    (square, 64, (0, 1, 9), SQUARE, 64, 7),
    (square, 64, (62, -8, -1), SQUARE, -1, 1),
    (block, 64, (60, 64), BLOCK, 64, 60),
    (block, 64, (-1, 64), BLOCK, -1, 1),
    (checked_block, 64, (1, 70), BLOCK, 64, 1),
    (descriptor, 64, (1, 70), BLOCK, 64, 1),
    (broadcast, 8, (1,), SQUARE, 8, 1),
    (broadcast, 8, (-1,), SQUARE, -1, 1),
    (looped, 64, (5,), SHORT, 64, 16),
    (product, 1024, (1, WEIGHTS), FEW, 1024, 1),
    (product, 1024, (-1, WEIGHTS), FEW, -1, 1),
    (product, 1024, (1, WEIGHTS), PACKED, 1024, 1),
    (product, 1024, (-16, WEIGHTS), PACKED, -16, 16),
]

# The same for accesses that are all inside.
INSIDE = [
    (line, 64, (0,), LINE),
    (line_store, 64, (0,), LINE),
    (masked, 64, (3,), LINE),
    (every_third, 64, (2,), LINE),
    (every_third, 64, (-1,), LINE),
    (gather, 64, (index(63, 0),), SHORT),
    (scatter, 64, (index(63, 1),), SHORT),
    (backwards, 64, (63,), LINE),
    (stepped, 64, (3, 4), SHORT),
    (stepped, 64, (60, -4), SHORT),
    (scalar, 64, (63,), {}),
    (scalar_store, 64, (63,), {}),
    (atomics, 64, (0,), LINE),
    (swap, 64, (63,), {}),
    (square, 64, (0, 8, 1), SQUARE),
    (square, 64, (0, 1, 8), SQUARE),
    (square, 64, (63, -8, -1), SQUARE),
    (block, 64, (0, 64), BLOCK),
    (checked_block, 64, (60, 64), BLOCK),
    (checked_block, 64, (-3, 64), BLOCK),
    (descriptor, 64, (60, 64), BLOCK),
    (broadcast, 8, (0,), SQUARE),
    (looped, 64, (4,), SHORT),
    (product, 1024, (0, WEIGHTS), FEW),
    (product, 1024, (0, WEIGHTS), PACKED),
]


def arguments(size, rest, at_start):
    x, out = np.arange(size, dtype=np.float32), np.zeros(256, np.float32)
    given = (x, out, *rest)
    return [guarded(a, at_start) if isinstance(a, np.ndarray) else a for a in given]


def line_of(kernel, text):
    """The first line of a kernel that has the text."""
    lines = kernel.source.text.splitlines()
    return kernel.fn.__code__.co_firstlineno + [text in row for row in lines].index(True)


@pytest.mark.parametrize("at_start", [False, True], ids=["end", "start"])
@pytest.mark.parametrize("target", ["eager", "cpu"])
@pytest.mark.parametrize("case", OUTSIDE, ids=lambda c: f"{c[0].__name__}-{c[4]}")
def test_an_access_outside(case, target, at_start):
    kernel, size, rest, constants, element, count = case
    given = arguments(size, rest, at_start)
    text = "x + tl.load" if kernel is scatter else "x + "
    if kernel in (block, checked_block):
        text = "tl.load(p"
    if kernel is descriptor:
        text = "d.load("
    kind = {line_store: "store", scatter: "store", scalar_store: "store"}.get(kernel, "load")
    kind = "atomic" if kernel in (atomics, swap) else kind
    side = PAST if element >= 0 else BEFORE
    for _ in range(2):
        with tilewright.options(target=target), pytest.raises(OutOfBoundsError) as error:
            kernel[(1,)](*given, **constants)
        plural = "" if count == 1 else "s"
        assert str(error.value).splitlines()[0] == (
            f"{kernel.__name__}: {kind} outside x at {__file__}:{line_of(kernel, text)}: "
            f"program (0, 0, 0) touches element {element} of {size}, "
            f"{count} element{plural} {side}"
        )


@pytest.mark.parametrize("at_start", [False, True], ids=["end", "start"])
@pytest.mark.parametrize("case", INSIDE, ids=lambda c: c[0].__name__)
def test_accesses_inside_are_as_without_checks(case, at_start):
    kernel, size, rest, constants = case
    results = []
    for options in ({"target": "eager"}, {"target": "cpu"}, {"target": "cpu", "bounds": False}):
        given = arguments(size, rest, at_start)
        with tilewright.options(**options):
            kernel[(1,)](*given, **constants)
        results.append([a for a in given if isinstance(a, np.ndarray)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("at", "program", "element"), [(1, 29, 480), (-1, 0, -1)])
def test_the_program_is_named(at, program, element, threads):
    given = arguments(480, (at,), at > 0)
    given[1] = np.zeros(480, np.float32)
    with tilewright.options(target="cpu", threads=threads):
        with pytest.raises(OutOfBoundsError) as error:
            programs[(5, 6)](*given, B=16) if at > 100 else programs[(30,)](*given, B=16)
        assert f"program ({program}, 0, 0) touches element {element} of 480, 1" in str(error.value)
        given[2] = 0
        programs[(30,)](*given, B=16)
    np.testing.assert_array_equal(given[1], np.arange(480))


@tilewright.jit
def corner(x, at):
    x_id, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if (x_id == 2) & (y == 1) & (z == 3):
        tl.store(x + at, 1.0)


def test_the_program_is_named_by_all_its_axes():
    x = guarded(np.zeros(4, np.float32))
    found = pytest.raises(OutOfBoundsError, match=r"program \(2, 1, 3\) touches element 4 of 4")
    with tilewright.options(target="cpu", threads=3), found:
        corner[(3, 2, 5)](x, 4)


@pytest.mark.parametrize("step", [1 << 62, 1 << 61, 1 << 60, 1 << 58, (1 << 58) + 1, 1 << 44])
@pytest.mark.parametrize("sign", [1, -1])
def test_steps_that_run_around_the_address_space(step, sign):
    given = arguments(64, (sign * step,), False)
    with tilewright.options(target="cpu"):
        if step == 1 << 62:  # a multiple of 2**64 bytes: every element is the first
            far_steps[(1,)](*given, B=16)
            return
        with pytest.raises(OutOfBoundsError, match="far_steps: load outside x"):
            far_steps[(1,)](*given, B=16)


@pytest.mark.parametrize("target", ["eager", "cpu"])
def test_views_may_touch_all_of_their_storage(target):
    torch = pytest.importorskip("torch")
    whole = guarded(np.arange(100, dtype=np.float32))
    for view in (whole[20:30], torch.from_numpy(whole.copy())[20:30]):
        out = np.zeros(256, np.float32)
        with tilewright.options(target=target):
            line[(1,)](view, out, -20, B=64)
            np.testing.assert_array_equal(out[:64], np.arange(64))
            line[(1,)](view, out, 16, B=64)
            np.testing.assert_array_equal(out[:64], np.arange(36, 100))
            with pytest.raises(OutOfBoundsError, match="element 80 of 80, 1 element past the end"):
                line[(1,)](view, out, 17, B=64)
            with pytest.raises(OutOfBoundsError, match="element -21 of 80, 1 element before"):
                line[(1,)](view, out, -21, B=64)


@tilewright.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@tilewright.jit
def rows(x, out, m, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    on = (i < m) & (j < n)
    tl.store(out + i * n + j, tl.load(x + i * n + j, mask=on), mask=on)


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_is_touched_where_masks_are_off(threads):
    with tilewright.options(target="cpu", threads=threads):
        for n in (0, 1, 15, 16, 17, 1000):
            x, out = guarded(np.arange(n, dtype=np.int8)), guarded(np.zeros(n, np.int8))
            copy[(7,)](x, out, n, B=256)
            np.testing.assert_array_equal(out, x)
        for m, n in ((0, 0), (0, 5), (3, 0), (3, 5), (16, 31), (16, 32)):
            x, out = guarded(np.ones((m, n), np.float32)), guarded(np.zeros((m, n), np.float32))
            rows[(1,)](x, out, m, n, M=16, N=32)
            np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_storage_smaller_than_an_element(size):
    small = guarded(np.zeros(size, np.uint8))
    x = np.ndarray((0,), np.float64, small)
    found = pytest.raises(OutOfBoundsError, match="element 0 of 0, 1 element past the end")
    with tilewright.options(target="cpu"), found:
        scalar_store[(1,)](x, x, 0)


@pytest.mark.parametrize("stride", [-12, -5, -4, 0, 4, 5, 12])
def test_the_first_element_outside_a_row(stride):
    low, high, size = 100, 140, 4
    for address in range(88, 160, 2):
        for count in range(1, 12):
            row = [address + stride * k for k in range(count)]
            out = [a for a in row if not low <= a <= high - size]
            if not out:
                continue
            found, reach = first_outside(address, stride, count, size, low, high)
            if out[0] < low:
                assert (found, reach) == (out[0], -(-(low - min(row)) // size))
            else:
                assert (found, reach) == (max(out[0], high), -(-(max(row) + size - high) // size))
