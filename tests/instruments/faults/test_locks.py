"""Planted faults in the order in which programs take locks."""

import numpy as np
from planted import Family, Fault, cases, change

TWO = """
@triton.jit
def acquire(lock):
    got = tl.atomic_cas(lock, 0, 1)
    while got != 0:
        got = tl.atomic_cas(lock, 0, 1)


@triton.jit
def move(locks, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) % n
    j = (i + 1) % n
    at = tl.arange(0, BLOCK)
    first = tl.minimum(i, j)
    second = tl.maximum(i, j)
    while TAKE(locks + first):
        pass
    while TAKE(locks + second):
        pass
    x = tl.load(sums + i * BLOCK + at)
    y = tl.load(sums + j * BLOCK + at)
    tl.store(sums + i * BLOCK + at, x + 1)
    tl.store(sums + j * BLOCK + at, y + x)
    tl.debug_barrier()
    tl.atomic_xchg(locks + second, 0)
    tl.atomic_xchg(locks + first, 0)
"""
CAS = TWO.replace("TAKE(locks + first)", "tl.atomic_cas(locks + first, 0, 1) == 1").replace(
    "TAKE(locks + second)", "tl.atomic_cas(locks + second, 0, 1) == 1"
)
SWAP = TWO.replace("TAKE(locks + first)", "tl.atomic_xchg(locks + first, 1) != 0").replace(
    "TAKE(locks + second)", "tl.atomic_xchg(locks + second, 1) != 0"
)
GUARDED = CAS.replace(
    "    while tl.atomic_cas(locks + first",
    "    while tl.atomic_cas(locks + n, 0, 1) == 1:\n        pass\n"
    "    while tl.atomic_cas(locks + first",
) + "    tl.atomic_xchg(locks + n, 0)\n"  # fmt: skip
OWN_FIRST = change(
    "first = tl.minimum(i, j)", "first = i", "second = tl.maximum(i, j)", "second = j"
)


def move(k):
    k.move[(6,)](np.zeros(4, np.int32), np.zeros((3, 16), np.float32), 3, BLOCK=16)


def own_first(name):
    return Fault(
        "its own first", "deadlock", OWN_FIRST, at=f"while tl.{name}(locks + second",
        argument="locks", program=(2, 0, 0), says="take locks in one order",
    )  # fmt: skip


by_cas = Family("compare and swap", CAS, move, (own_first("atomic_cas"),))
by_swap = Family("exchange", SWAP, move, (own_first("atomic_xchg"),))
any_order = GUARDED
for old, new in OWN_FIRST:
    any_order = any_order.replace(old, new)
guarded = Family("any order under one more lock", any_order, move, ())

ONE = """
@triton.jit
def add(lock, sums, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * BLOCK + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    before = tl.load(sums + at)
    tl.store(sums + at, before + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
"""
TAKE = "    while tl.atomic_cas(lock, 0, 1) == 1:\n        pass\n"


def in_two(name, poll, take):
    text = f"    while {poll} == 1:\n        pass\n    {take}\n"
    return Fault(name, "race", change(TAKE, text), at=f"    {take}", argument="lock",
                 program=(1, 0, 0), says="tl.atomic_cas")  # fmt: skip


def add(k):
    k.add[(5,)](np.zeros(1, np.int32), np.zeros(16, np.float32), np.ones((5, 16), np.float32), 16)


one = Family(
    "one lock", ONE, add,
    (
        in_two("loaded, then stored", "tl.load(lock)", "tl.store(lock, 1)"),
        Fault("loop the wrong way round", "race", change("0, 1) == 1:", "0, 1) == 0:"),
              argument="lock", program=(0, 0, 0), says="compare with the other value",
              also=("race",)),
        in_two("read, then exchanged", "tl.atomic_add(lock, 0)", "tl.atomic_xchg(lock, 1)"),
    ),
)  # fmt: skip

TURNS = ONE.replace(
    TAKE,
    """    while tl.atomic_add(lock, 0) != tl.program_id(0):
        pass
""",
).replace("tl.atomic_xchg(lock, 0)", "tl.atomic_xchg(lock, tl.program_id(0) + 1)")
turns = Family("one after the other", TURNS, add, ())

MEET = """
@triton.jit
def meet(x_ptr, part_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + at), axis=0))
    tl.debug_barrier()
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < n:
        pass
    total = 0.0
    for i in range(n):
        total += tl.load(part_ptr + i)
    tl.store(y_ptr + at, tl.load(x_ptr + at) / total)
"""


def meeting(k, count=4):
    x, y = np.ones(64, np.float32), np.empty(64, np.float32)
    k.meet[(4,)](x, np.empty(4, np.float32), y, np.zeros(1, np.int32), count, BLOCK=16)
    assert (y == 1 / 64).all()


meet = Family(
    "all meet", MEET, meeting,
    (Fault("one more than there are", "deadlock", at="while tl.atomic_add",
           run=lambda k: meeting(k, 5), argument=""),),
)  # fmt: skip

test_twin, test_fault = cases(by_cas, by_swap, guarded, one, turns, meet)
