"""Branches, loops and returns of kernels compute what their Python text says."""

from __future__ import annotations

import numpy as np
import pytest
from interpreted import compile_for, jit, ops_of, results, run

import tilewright.language as tl


def control_ops(kernel) -> list[str]:
    return [name for name in ops_of(kernel) if name in ("if", "for", "while", "select")]


# --- if


@jit
def branches(out, n, FLAG: tl.constexpr):
    a = 1
    if n > 2:
        a = n * 2
        b = n + 0.5
        local = n * 100
        b += local * 0
    elif n == 2:
        b = 7.0
    else:
        a, b = -1, 0.25
    if FLAG:
        c = 1
    else:
        c = n.no_such_attribute
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, a * 1.0 if n > 0 else b)
    tl.store(out + 4, 5 if n else 6)


@pytest.mark.parametrize(
    ("n", "expected"), [(3, [6, 3.5, 1, 6, 5]), (2, [1, 7, 1, 1, 5]), (0, [-1, 0.25, 1, 0.25, 6])]
)
def test_if(n, expected):
    assert results(branches, size=5, n=n, FLAG=True) == expected


def test_an_if_without_instructions_is_a_select():
    kernel = compile_for(branches, out=np.zeros(8, np.float32), n=3, FLAG=True)
    assert control_ops(kernel)[-1] == "select"


@jit
def keeps_constants(out, n):
    width = 4
    if n > 1:
        width = 4
        tl.store(out, n)
    tl.store(out + tl.arange(0, width), n)


def test_equal_constants_stay_constants():
    assert results(keeps_constants, size=5, n=2) == [2, 2, 2, 2, 0]


@jit
def branches_on_tuples(out, n):
    state = (n, (1, n * 2), "same")
    if n > 3:
        state = (n + 1, (2.5, n), "same")
    tl.store(out, state[0])
    tl.store(out + 1, state[1][0])
    tl.store(out + 2, state[1][1])
    tl.store(out + 3, len(state[2]))


def test_if_on_tuples():
    assert results(branches_on_tuples, size=4, n=5) == [6, 2.5, 5, 4]
    assert results(branches_on_tuples, size=4, n=2) == [2, 1, 4, 4]


@jit
def truth_of(out, x, p):
    tl.store(out, 1 if x else 2)
    if p:
        tl.store(out + 1, 1)
    if not x:
        tl.store(out + 2, 1)


def test_conditions_that_are_no_booleans():
    p = np.zeros(1, np.int32)
    assert results(truth_of, size=3, x=0.5, p=p) == [1, 1, 0]
    assert results(truth_of, size=3, x=0.0, p=p) == [2, 1, 1]


# --- returns


@jit
def sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


@jit
def classify(x, LIMIT: tl.constexpr):
    if x > 10:
        if x > LIMIT:
            y = x * 2
            return y, 1.0
        x = x + 1
    elif x == 5:
        return x, 2.0
    x = x * 10
    return x, 3.0


@jit
def calls_classify(out, x):
    tl.store(out, sign(x))
    a, b = classify(x, 100)
    tl.store(out + 1, a)
    tl.store(out + 2, b)


@pytest.mark.parametrize(
    ("x", "expected"),
    [(0, [0, 0, 3]), (-4, [-1, -40, 3]), (5, [1, 5, 2]), (11, [1, 120, 3]), (200, [1, 400, 1])],
)
def test_returns_under_run_time_conditions(x, expected):
    assert results(calls_classify, size=3, x=x) == expected


@jit
def leaves_early(out, n, DOIT: tl.constexpr):
    if not DOIT:
        return
    if n == 0:
        return
    tl.store(out, 1)
    if n == 1:
        tl.store(out + 1, 1)
        return
    else:
        tl.store(out + 2, 1)
    for i in range(n):
        tl.store(out + 3 + i, i)


def test_early_return_of_kernels():
    assert results(leaves_early, n=0, DOIT=True) == [0] * 8
    assert results(leaves_early, n=1, DOIT=True) == [1, 1] + [0] * 6
    assert results(leaves_early, n=3, DOIT=True) == [1, 0, 1, 0, 1, 2, 0, 0]
    kernel = compile_for(leaves_early, out=np.zeros(8, np.float32), n=2, DOIT=False)
    assert ops_of(kernel) == []


@jit
def finds(x, LIMIT: tl.constexpr):
    for i in tl.static_range(LIMIT):
        if x == i * i:
            return i
    return -1


@jit
def calls_finds(out, x):
    tl.store(out, finds(x, 5))


@pytest.mark.parametrize(("x", "expected"), [(9, 3), (16, 4), (8, -1), (0, 0)])
def test_return_from_an_unrolled_loop(x, expected):
    assert results(calls_finds, size=1, x=x) == [expected]


# --- for


@jit
def counts(out, n, start, step):
    a = b = c = d = 0
    for i in range(n):
        a += i
    for i in range(start, n, 2):
        b = b * 10 + i
    for i in range(n, -1, -3):
        c = c * 10 + i
    for i in range(start, n, step):
        d += i
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, d)


@pytest.mark.parametrize("n", [0, 1, 6, 7])
def test_for(n):
    def digits(numbers):
        return int("".join(map(str, numbers)) or "0")

    expected = [
        sum(range(n)),
        digits(range(1, n, 2)),
        digits(range(n, -1, -3)),
        sum(range(1, n, 3)),
    ]
    assert results(counts, size=4, n=n, start=1, step=3) == expected


@jit
def accumulates(out, x, n):
    total = 0
    best = -1.0
    rows = tl.zeros([4], dtype=tl.float32)
    i = 100
    for k in tl.range(0, n, num_stages=3, loop_unroll_factor=2):
        value = tl.load(x + k)
        total += value
        best = max(best, value)
        rows += value
    tl.store(out, total)
    tl.store(out + 1, best)
    tl.store(out + 2 + tl.arange(0, 4), rows)
    tl.store(out + 6, i)


def test_carried_numbers_take_the_type_they_get():
    x = np.array([1.5, 3.0, 2.0], np.float32)
    assert results(accumulates, size=7, x=x, n=3) == [6.5, 3, 6.5, 6.5, 6.5, 6.5, 100]
    assert results(accumulates, size=7, x=x, n=0) == [0, -1, 0, 0, 0, 0, 100]


def test_hints_become_attributes():
    kernel = compile_for(accumulates, out=np.zeros(8, np.float32), x=np.zeros(8, np.float32), n=3)
    loop = next(i for i in kernel.walk() if i.op.name == "for")
    assert loop.attrs == {"num_stages": 3, "loop_unroll_factor": 2}
    assert [str(r.type) for r in loop.results] == ["f32", "f32", "f32[4]"]


@jit
def wide(out, n):
    k = 0
    for i in range(n):
        k += i
    tl.store(out, k)
    tl.store(out + 1, k.dtype.primitive_bitwidth)


def test_bounds_decide_the_type():
    assert results(wide, size=2, n=np.int64(5)) == [10, 64]
    assert results(wide, size=2, n=5) == [10, 32]


@jit
def leaves_alone(out, n, FLAG: tl.constexpr):
    width = 4
    tile = tl.zeros([4], tl.float32) + n
    spare = tile * 2
    for i in range(n):
        if FLAG:
            width = 8
        spare = spare + 0 if FLAG else spare
        tl.store(out + tl.arange(0, width), tile + i)
    tl.store(out + 4, tl.arange(0, width).shape[0])
    tl.store(out + 5, tl.sum(spare, 0))


def test_what_no_turn_changes_is_not_carried():
    kernel = compile_for(leaves_alone, out=np.zeros(8, np.float32), n=3, FLAG=False)
    assert [i.results for i in kernel.walk() if i.op.name == "for"] == [()]
    assert results(leaves_alone, size=6, n=3, FLAG=False) == [5, 5, 5, 5, 4, 24]


@jit
def swaps(out, n):
    a, b = 1, 2
    old = a
    for _i in range(n):
        old = a
        a, b = b, a + b
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, old)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_carried_values_change_places(n):
    a, b, old = 1, 2, 1
    for _ in range(n):
        old = a
        a, b = b, a + b
    assert results(swaps, size=3, n=n) == [a, b, old]


@jit
def nests(out, n):
    total = 0
    for i in range(n):
        row = 0
        for j in range(i):
            if j % 2 == 0:
                row += j
            else:
                row -= 1
        total += row * i
        k = i
        while k > 0:
            k -= 2
            total += k
    tl.store(out, total)


@pytest.mark.parametrize("n", [0, 1, 6])
def test_nested_loops(n):
    total = 0
    for i in range(n):
        row = 0
        for j in range(i):
            row = row + j if j % 2 == 0 else row - 1
        total += row * i
        k = i
        while k > 0:
            k -= 2
            total += k
    assert results(nests, size=1, n=n) == [total]


@jit
def branch_feeds_next_turn(out, n):
    previous = 0
    for i in range(n):
        if previous > 2:
            previous = 0
        else:
            previous = previous + i
        tl.store(out + i, previous)


def test_a_name_local_to_a_branch_lives_through_the_loop():
    assert results(branch_feeds_next_turn, n=6) == [0, 1, 3, 0, 4, 0, 0, 0]


@jit
def reuses_names(out, x, n):
    for i in range(n):
        a = tl.load(x + i)
        tl.store(out + i, a)
    for i in range(n):
        a = i * 2
        tl.store(out + 4 + i, a)


def test_loops_may_use_the_same_names():
    x = np.array([1.5, 2.5], np.float32)
    assert results(reuses_names, x=x, n=2) == [1.5, 2.5, 0, 0, 0, 2, 0, 0]


# --- while


@jit
def collatz(out, n):
    steps = 0
    while n != 1 and steps < 1000:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    else:
        tl.store(out + 1, 1)
    while False:
        tl.store(out, 99)
    tl.store(out, steps)


@pytest.mark.parametrize(("n", "steps"), [(1, 0), (6, 8), (27, 111)])
def test_while(n, steps):
    assert results(collatz, size=2, n=n) == [steps, 1]


@jit
def bisects(out, x):
    low, high = 0.0, x
    turn = 0
    while turn < 30:
        middle = (low + high) / 2
        if middle * middle > x:
            high = middle
        else:
            low = middle
        turn += 1
    tl.store(out, low)


def test_while_with_branches():
    assert results(bisects, size=1, x=9.0)[0] == pytest.approx(3)


# --- loops written out


@jit
def unrolls(out, n):
    position = 0
    for i in tl.static_range(3):
        width: tl.constexpr = 2**i
        tl.store(out + position + tl.arange(0, width), i + 1)
        position += width
    for name, value in (("a", 1), ("b", n)):
        if name == "b":
            tl.store(out + position, value)
    for i, x in enumerate((n, 2)):
        if i == 1:
            continue
        n += x
    else:
        n += 100
    for k, (a, b) in zip((1, 2, 3), ((4, 5), (6, 7), (8, 9))):
        if k == 2:
            break
        n += a * b
    else:
        n += 1000
    tl.store(out + 8, n)


def test_static_loops():
    assert results(unrolls, size=9, n=5) == [1, 2, 2, 3, 3, 3, 3, 5, 130]


@jit
def unrolls_in_a_loop(out, n):
    total = 0
    for i in range(n):
        for j in tl.static_range(2):
            if i > j:
                total += j + 1
    tl.store(out, total)


def test_static_loop_in_a_loop():
    assert results(unrolls_in_a_loop, size=1, n=4) == [1 + 3 + 3]


@jit
def adds(a, b):
    return a + b


@jit
def first_of_larger(av, ai, bv, bi):
    if av > bv:
        return av, ai
    return bv, bi


@jit
def reduces(out):
    x = tl.arange(0, 8) * 3 % 8
    tl.store(out, tl.reduce(x, 0, adds))
    value, index = tl.reduce((x, tl.arange(0, 8)), 0, first_of_larger)
    tl.store(out + 1, value)
    tl.store(out + 2, index)


def test_functions_as_regions():
    assert results(reduces, size=3) == [28, 7, 5]


@jit
def prints_in_a_loop(n):
    for i in range(n):
        print("turn", i)


def test_effects_in_loops():
    assert run(prints_in_a_loop, n=2).printed == [("turn", 0), ("turn", 1)]


@jit
def walks_blocks(out, x, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    state = (0, "name", 1)
    for i in range(n // 4):
        tile = tl.load(block)
        tl.store(out + i, tl.sum(tile, 0))
        block = tl.advance(block, (4,))
        state = (state[0] + i, state[1], state[2])
    tl.store(out + 6, state[0])
    tl.store(out + 7 + tl.arange(0, state[2]), 1)


def test_parts_of_carried_values_stay_known():
    x = np.arange(16, dtype=np.float32)
    assert results(walks_blocks, x=x, n=16) == [6, 22, 38, 54, 0, 0, 6, 1]
    kernel = compile_for(walks_blocks, out=np.zeros(8, np.float32), x=x, n=16)
    loop = next(i for i in kernel.walk() if i.op.name == "for")
    assert [str(r.type) for r in loop.results] == ["i32", "i32"]
