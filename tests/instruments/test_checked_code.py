"""Checked native code sees at least what stepping does, and the same is told of it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.debug import checking
from tilewright.errors import DeadlockError
from tilewright.instruments import native, screen


@tilewright.jit
def where_to(i, n, WAY: tl.constexpr):
    if WAY == "same":
        return i
    if WAY == "next":
        return (i + 1) % n
    if WAY == "half":
        return i // 2
    if WAY == "double":
        return (2 * i) % n
    if WAY == "back":
        return n - 1 - i
    if WAY == "mixed":
        return (i * 7 + 3) % n
    return i * 0


@tilewright.jit
def move(
    x, y, out, n, READ: tl.constexpr, READ_OUT: tl.constexpr, WRITE: tl.constexpr,
    HOW: tl.constexpr, AGAIN: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    inside = i < n
    v = tl.load(x + where_to(i, n, READ), inside, 0)
    if READ_OUT != "no":
        v += tl.load(out + where_to(i, n, READ_OUT), inside, 0)
    if AGAIN:
        v += tl.load(y + p) + tl.sum(tl.load(y + tl.arange(0, 8)))
    at = out + where_to(i, n, WRITE)
    if HOW == "store":
        tl.store(at, v, inside)
    elif HOW == "same":
        tl.store(at, v * 0, inside)
    elif HOW == "add":
        tl.atomic_add(at, v, inside)
    elif HOW == "max":
        tl.atomic_max(at, v, inside)
    elif HOW == "first":
        tl.store(out + p // 2, tl.sum(v))
    else:
        tl.atomic_add(out + p // 2, tl.sum(v))


WAYS = ("same", "next", "half", "double", "back", "mixed", "zero")
HOWS = ("store", "same", "add", "max", "first", "sum")


def case(seed):
    """Arguments of one launch: the arrays and the constants."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(rng.choice(["f4", "f8", "i4", "i8"]))
    how = str(rng.choice(HOWS))
    n = int(rng.integers(20, 100))
    x = rng.integers(-3, 4, n).astype(dtype)
    out = np.empty(n, dtype) if rng.random() < 0.3 else np.zeros(n, dtype)
    y = np.empty(16, dtype)
    y[: 8 + 8 * (rng.random() < 0.7)] = 1
    if dtype.kind == "f" and rng.random() < 0.2:
        x[rng.integers(n)] = np.nan
    if rng.random() < 0.1:
        out = x
    if rng.random() < 0.2:
        x = x[: n - 3]
    constants = {
        "READ": str(rng.choice(WAYS)),
        "READ_OUT": str(rng.choice(WAYS)) if rng.random() < 0.5 else "no",
        "WRITE": str(rng.choice(WAYS, p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])),
        "HOW": how,
        "AGAIN": bool(rng.random() < 0.4),
        "B": int(rng.choice([8, 16, 32])),
    }
    return x, y, out, n, constants


def told(engine, seed):
    """What is found in a launch, the memory after it, and remarks."""
    with checking(engine) as findings:
        x, y, out, n, constants = case(seed)
        grid = -(-n // constants["B"])
        move[(grid,)](x, y, out, n, **constants)
    return sorted(map(str, findings)), out.tobytes(), findings.remarks


@pytest.fixture
def all_native(monkeypatch):
    """Launches are looked at natively, however short they are."""
    monkeypatch.setattr(screen, "SECONDS", 0)
    screen._samples.clear()
    screen._usual.clear()


@pytest.mark.parametrize("seed", range(25))
def test_the_same_is_told(seed, all_native):
    findings, memory, remarks = told("native", seed)
    assert remarks == [] or case(seed)[-1]["HOW"] == "sum"  # which may be a lock
    assert (findings, memory) == told("stepped", seed)[:2]


@pytest.mark.parametrize("seed", range(3))
def test_few_programs_are_stepped_where_there_is_no_fault(seed, all_native, monkeypatch):
    stepped = []
    before = screen.chosen
    monkeypatch.setattr(screen, "chosen", lambda *a: stepped.extend(before(*a)) or before(*a))
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    read, again, write = [
        ("same", "no", "same"), ("mixed", "same", "same"), ("same", "no", "mixed")
    ][seed]  # fmt: skip
    how = ("store", "store", "add")[seed]
    with checking() as findings:
        move[(32,)](x, x, out, 1000, read, again, write, how, False, 32)
    assert not findings
    assert not findings.remarks
    assert stepped == [0, 31]


@tilewright.jit
def kinds(x, index, out, n, step, FAULT: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    inside = i < n
    at = tl.load(index + i, inside, 0)
    if FAULT == "overflow":
        at = tl.minimum(tl.maximum(at * step, 0), n - 1)
    if FAULT == "division":
        at = tl.minimum(at, at // (step - (1 << 24)) + n)
    v = tl.load(x + at, inside, 0.0)
    if FAULT == "nan":
        v = tl.sqrt(v - 2.0)
    if FAULT == "inf":
        v = tl.exp(v * 200.0)
    if FAULT == "masked":
        v += tl.max(tl.load(x + i, inside))
    if FAULT == "assert":
        tl.device_assert(v < 1.0, "small")
    if FAULT == "lanes":
        tl.store(out + p + at * 0, v + i)
    elif FAULT == "cast":
        tl.store(out + i, (v * 1e12).to(tl.int32).to(tl.float32), inside)
    else:
        tl.store(out + i, v, inside)


FAULTS = {
    "no": [], "overflow": ["overflow"], "division": ["arithmetic"], "nan": ["nan"], "inf": ["inf"],
    "masked": ["masked"], "assert": ["assert"], "lanes": ["race"], "cast": ["arithmetic"],
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_every_kind(fault, all_native):
    x, index = np.full(200, 1.5 if fault == "cast" else 1.0, np.float32), np.arange(200)
    index = index.astype(np.int32)

    def run(engine):
        with checking(engine) as findings:
            kinds[(7,)](x, index, np.zeros(224, np.float32), 200, 1 << 24, fault, 32)
        return findings

    found = run("native")
    wanted = set(FAULTS[fault])
    assert wanted <= {f.kind for f in found}
    assert wanted or not found
    assert [str(f) for f in found] == [str(f) for f in run("stepped")]


def test_nan_that_are_meant_are_looked_at_less_and_less(all_native, monkeypatch):
    stepped = []
    before = screen.Steps.run
    monkeypatch.setattr(screen.Steps, "run", lambda *a: stepped.append(1) or before(*a))
    x = np.ones(1000, np.float32)
    x[::7] = np.nan
    counts = []
    with checking() as findings:
        for _ in range(9):
            out = np.zeros(1000, np.float32)
            move[(32,)](x, x, out, 1000, "same", "no", "same", "store", False, 32)
            counts.append(len(stepped))
        assert not findings
        kinds[(32,)](x, np.arange(1000), np.zeros(1024, np.float32), 1000, 1, "nan", 32)
    assert counts == [1, 2, 3, 4, 4, 4, 4, 5, 5]
    assert [f.kind for f in findings] == ["nan"]


@tilewright.jit
def locked(x, sums, locks, LATE: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    at = tl.arange(0, B)
    v = tl.load(x + p * B + at)
    place = sums + (p % 4) * B + at
    while tl.atomic_cas(locks + p % 4, 0, 1) == 1:
        pass
    before = tl.load(place)
    if not LATE:
        tl.store(place, before + v)
    tl.debug_barrier()
    tl.atomic_xchg(locks + p % 4, 0)
    if LATE:
        tl.store(place, before + v)


@pytest.mark.parametrize("late", [False, True])
def test_locks_are_followed_in_a_few_programs(late, all_native, monkeypatch):
    asked = []
    before = screen.chosen
    monkeypatch.setattr(screen, "chosen", lambda *a: asked.append(before(*a)) or before(*a))
    x, sums = np.ones((200, 16), np.float32), np.zeros((4, 16), np.float32)
    with checking() as findings:
        locked[(200,)](x, sums, np.zeros(4, np.int32), late, 16)
    assert len(asked[0]) < 40
    assert {f.kind for f in findings} == ({"race"} if late else set())
    assert not findings.remarks
    assert (sums == 50).all()


@tilewright.jit
def rows(x, out, stride, n, COLS: tl.constexpr, B: tl.constexpr):
    j = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * stride + j, j < n, 0.0)
    tl.store(out + tl.program_id(0) * COLS + j, v, j < COLS)


@pytest.mark.parametrize(("n", "found"), [(10, []), (11, ["view"])])
def test_between_the_rows_of_a_view(n, found, all_native):
    x = np.ones((300, 16), np.float32)[:, :10]
    with checking() as findings:
        rows[(300,)](x, np.zeros((300, 10), np.float32), 16, n, 10, 16)
    assert [f.kind for f in findings] == found


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int64])
def test_memory_that_launches_left_out(dtype, all_native):
    with checking() as findings:
        x = np.empty((300, 10), dtype)
        rows[(300,)](np.full((300, 16), 0xA7, dtype), x, 16, 10, 10, 16)
        rows[(300,)](x, np.zeros((300, 10), dtype), 10, 10, 10, 16)
    assert not findings
    with checking() as findings:
        x = np.empty((301, 10), dtype)
        rows[(300,)](np.ones((300, 16), dtype), x, 16, 10, 10, 16)
        rows[(301,)](x, np.zeros((301, 10), dtype), 10, 10, 10, 16)
    assert [(f.kind, f.program) for f in findings] == [("undefined", (300, 0, 0))]


@tilewright.jit
def rising(out, n, step, B: tl.constexpr):
    at = tl.arange(0, B)
    for _ in range(n):
        tl.store(out + at % B, at.to(tl.float32))
        at += step


def test_offsets_that_a_loop_moves_are_proven(all_native):
    """A loop of so many turns cannot run over, so nothing of it is tested."""
    with checking() as findings:
        rising[(1,)](np.zeros(16, np.float32), 1000, 16, 16)
    assert not findings
    tests = [found for key, found in native._tested.items() if key[1][-2:] == (1000, 16)]
    assert tests == [()]


@tilewright.jit
def talks(out):
    tl.device_print("here")
    tl.store(out + tl.program_id(0), 1.0)


def test_what_is_stepped_through_is_said(all_native, capsys):
    with checking() as findings:
        talks[(2,)](np.zeros(2, np.float32))
    assert capsys.readouterr().out.count("here") == 2
    assert findings.remarks == ["talks was stepped through in Python: it prints"]


@tilewright.jit
def counts_up(out, n, step):
    i = 0
    while i != n:
        i += step
    tl.store(out, i)


def test_a_loop_that_does_not_end(all_native, monkeypatch):
    monkeypatch.setattr("tilewright.targets.cpu.checks.MOST_ROUNDS", 5000)
    with checking() as findings:
        counts_up[(1,)](np.zeros(1, np.int32), 3000, 3)
        with pytest.raises(DeadlockError, match="is in a loop that does not end"):
            counts_up[(1,)](np.zeros(1, np.int32), 1000, 3)
    assert [(f.kind, f.loc.text) for f in findings] == [("deadlock", "i != n")]


@tilewright.jit
def search(x, wanted, out, n):
    value = tl.load(wanted + tl.program_id(0))
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x + middle) < value:
            low = middle + 1
        else:
            high = middle
    tl.store(out + tl.program_id(0), low)


@tilewright.jit
def handed_on(flags, out):
    p = tl.program_id(0)
    seen = p == 0
    while not seen:
        if p > 0:
            seen = tl.load(flags + p - 1, volatile=True) != 0
    tl.store(out + p, p)
    tl.atomic_xchg(flags + p, 1)


def test_loops_over_memory_that_stays_wait_for_nobody(all_native):
    x = np.sort(np.random.default_rng(0).standard_normal(1000))
    out = np.empty(300, np.int64)
    with checking() as findings:
        search[(300,)](x, x[100:400].copy(), out, 1000)
    assert not findings
    assert not findings.remarks
    assert (out == np.arange(100, 400)).all()
    with checking() as findings:
        handed_on[(5,)](np.zeros(5, np.int32), np.zeros(5, np.int32))
    assert findings.remarks == [
        "handed_on was stepped through in Python: its programs wait for each other"
    ]
