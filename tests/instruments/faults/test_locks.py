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

test_twin, test_fault = cases(by_cas, by_swap, guarded)
