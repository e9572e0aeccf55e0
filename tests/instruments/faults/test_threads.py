"""Planted faults in what the threads of one program hand to each other through memory."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(13)
BARRIER = "    tl.debug_barrier()\n"
FORGOTTEN = change(BARRIER, "")


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def family(name, source, run, at, argument):
    fault = Fault("no barrier", "race", FORGOTTEN, at=at, argument=argument, says="debug_barrier")
    return Family(name, source, run, (fault,))


EXCHANGE = """
@triton.jit
def turned(x_ptr, scratch_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(scratch_ptr + at, x)
    tl.debug_barrier()
    tl.store(y_ptr + at, x + tl.load(scratch_ptr + BLOCK - 1 - at))
"""
exchange = family(
    "exchange", EXCHANGE,
    lambda k: k.turned[(1,)](array(256), np.empty(256), np.empty(256), 256, BLOCK=256),
    "tl.load(scratch_ptr", "scratch_ptr",
)  # fmt: skip
# A reduction makes threads wait for each other too.
reduced = Family(
    "exchange around a sum",
    EXCHANGE.replace("    tl.debug_barrier()", "    x -= tl.sum(x, axis=0)"), exchange.run, (),
)  # fmt: skip

IN_PLACE = """
@triton.jit
def turn(x_ptr, n, BLOCK: tl.constexpr):
    row = x_ptr + tl.program_id(0) * BLOCK
    at = tl.arange(0, BLOCK)
    x = tl.load(row + BLOCK - 1 - at)
    tl.debug_barrier()
    tl.store(row + at, x)
"""
in_place = family(
    "in place", IN_PLACE, lambda k: k.turn[(3,)](array(3, 256), 256, BLOCK=256), "tl.store(row",
    "x_ptr",
)  # fmt: skip
# Threads of one warp load before they store.
one_warp = Family(
    "in place, one warp", IN_PLACE.replace(BARRIER, ""),
    lambda k: k.turn[(3,)](array(3, 256), 256, BLOCK=256, num_warps=1), (),
)  # fmt: skip
PAIRS = """
@triton.jit
def turn(x_ptr, n, BLOCK: tl.constexpr):
    row = x_ptr + tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    low = tl.load(row + at)
    high = tl.load(row + n - BLOCK + at)
    tl.store(row + at, high - low)
    tl.store(row + n - BLOCK + at, high + low)
"""
pairs = Family(
    "pairs in place", PAIRS, lambda k: k.turn[(3,)](array(3, 512), 512, BLOCK=256),
    (
        Fault("pairs that overlap", "race", at="tl.store(row + ",
              run=lambda k: k.turn[(3,)](array(3, 450), 450, BLOCK=256), argument="x_ptr"),
    ),
)  # fmt: skip

STENCIL = """
@triton.jit
def steps(a_ptr, b_ptr, n, turns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(turns):
        left = tl.load(a_ptr + at - 1, mask=(at > 0) & (at < n), other=0.0)
        right = tl.load(a_ptr + at + 1, mask=at + 1 < n, other=0.0)
        tl.store(b_ptr + at, 0.5 * (left + right), mask=at < n)
        tl.debug_barrier()
        before = a_ptr
        a_ptr = b_ptr
        b_ptr = before
"""
stencil = Family(
    "stencil", STENCIL,
    lambda k: k.steps[(1,)](array(200), np.zeros(200, np.float32), 200, 4, BLOCK=256),
    (
        Fault("no barrier", "race", change("    " + BARRIER, ""), at="left = tl.load",
              program=(0, 0, 0)),
    ),
)  # fmt: skip

SCALARS = """
@triton.jit
def total(x_ptr, scratch_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(scratch_ptr + at, 2 * tl.load(x_ptr + at))
    tl.debug_barrier()
    total = 0.0
    for i in range(n):
        total += tl.load(scratch_ptr + i)
    tl.store(y_ptr, total)
"""
scalars = family(
    "tile and scalars", SCALARS,
    lambda k: k.total[(1,)](array(256), np.empty(256), np.empty(1), 20, BLOCK=256),
    "total += tl.load", "scratch_ptr",
)  # fmt: skip

SAME_LANES = """
@triton.jit
def twice(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        tl.store(y_ptr + row + at, 2 * tl.load(x_ptr + row + at, mask=at < n), mask=at < n)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        tl.store(y_ptr + row + at, 1 + tl.load(y_ptr + row + at, mask=at < n), mask=at < n)
    before = 0.0
    for i in range(5):
        before += tl.load(x_ptr + row + i)
        tl.store(x_ptr + row + i, before)
"""
same_lanes = Family(
    "each lane its own", SAME_LANES,
    lambda k: k.twice[(3,)](array(3, 300), np.empty((3, 300), np.float32), 300, BLOCK=128), (),
)  # fmt: skip

BUTTERFLIES = """
@triton.jit
def butterflies(x_ptr, LOG: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for k in range(LOG):
        x = tl.load(x_ptr + at)
        y = tl.load(x_ptr + (at ^ (1 << k)))
        tl.debug_barrier()
        tl.store(x_ptr + at, tl.where(((at >> k) & 1) == 1, y - x, x + y))
        tl.debug_barrier()  # for the next turn
"""
# Which turn goes wrong depends on the layout.
butterflies = Family(
    "butterflies", BUTTERFLIES, lambda k: k.butterflies[(1,)](array(512), 9, BLOCK=512),
    (
        Fault("no barrier before the store", "race",
              change(BARRIER + "        tl.store", "    tl.store"), at="tl.store(x_ptr"),
        Fault("no barrier after it", "race",
              change("        tl.debug_barrier()  # for the next turn\n", ""), at="= tl.load("),
    ),
)  # fmt: skip

HAND_ON = """
@triton.jit
def total(x_ptr, sum_ptr, count_ptr, y_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + at)
    tl.store(sum_ptr + pid * BLOCK + at, x * x)
    tl.debug_barrier()
    done = tl.atomic_add(count_ptr, 1)
    if done == tl.num_programs(0) - 1:
        total = tl.zeros((BLOCK,), tl.float32)
        for i in range(n):
            total += tl.load(sum_ptr + i * BLOCK + at)
        tl.store(y_ptr + at, total)
"""


def hand_on(k, block=512):
    count, sums = np.zeros(1, np.int32), np.empty((4, block), np.float32)
    k.total[(4,)](array(4, block), sums, count, np.empty(block, np.float32), 4, BLOCK=block)


handed_on = Family(
    "handed on", HAND_ON, hand_on,
    (
        Fault("no barrier before the signal", "race", FORGOTTEN, at="tl.atomic_add(count_ptr",
              argument="count_ptr", program=(0, 0, 0), says="debug_barrier"),
    ),
)  # fmt: skip
# A tile that one warp may hold as a whole.
few_handed_on = Family("few handed on", HAND_ON.replace(BARRIER, ""), lambda k: hand_on(k, 32), ())

test_twin, test_fault = cases(
    exchange,
    reduced,
    in_place,
    one_warp,
    pairs,
    butterflies,
    handed_on,
    few_handed_on,
    stencil,
    scalars,
    same_lanes,
)
