"""Checked native code sees at least what stepping does, and the same is told of it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.debug import checking
from tilewright.instruments import screen


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
    return [str(f) for f in findings], out.tobytes(), findings.remarks


@pytest.fixture
def all_native(monkeypatch):
    """Launches are looked at natively, however short they are."""
    monkeypatch.setattr(screen, "SECONDS", 0)


@pytest.mark.parametrize("seed", range(40))
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
