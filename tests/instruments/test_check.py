"""Planted faults are found at their line, argument and program; correct twins are not."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.debug import checking


def line_of(kernel, text):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


def found(findings):
    return [(f.kind, f.argument, f.program, f.loc.line) for f in findings]


def numbers(n=100):
    return np.random.default_rng(0).standard_normal(n).astype(np.float32)


@tilewright.jit
def add_up(x, out, n, ATOMIC: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    part = tl.sum(tl.load(x + i, i < n, 0.0))
    if ATOMIC:
        tl.atomic_add(out, part)
    else:
        before = tl.load(out)
        tl.store(out, before + part)


def test_sum_without_atomics():
    with checking() as findings:
        add_up[(4,)](numbers(), np.zeros(1, np.float32), 100, True, 32)
    assert not findings
    with checking() as findings:
        add_up[(4,)](numbers(), np.zeros(1, np.float32), 100, False, 32)
    read, write = line_of(add_up, "before = tl.load"), line_of(add_up, "before + part")
    assert found(findings) == [
        ("race", "out", (1, 0, 0), read),
        ("race", "out", (1, 0, 0), write),
    ]
    assert "by program (1, 0, 0) and store by program (0, 0, 0) at " in str(list(findings)[0])


@tilewright.jit
def locked(x, out, lock, n, LOCK: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.arange(0, B)
    if LOCK:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    tl.store(out + j, tl.load(out + j) + tl.load(x + i, i < n, 0.0))
    if LOCK:
        tl.atomic_xchg(lock, 0)


@tilewright.jit
def last_adds_up(x, parts, out, count, n, P, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    tl.store(parts + p, tl.sum(tl.load(x + i, i < n, 0.0)))
    if tl.atomic_add(count, 1) == P - 1:
        j = tl.arange(0, B)
        tl.store(out, tl.sum(tl.load(parts + j, j < P, 0.0)))


def test_locks_and_counters_order_programs():
    x, out, word = numbers(), np.zeros(32, np.float32), np.zeros(1, np.int32)
    with checking() as findings:
        locked[(4,)](x, out, word, 100, True, 32)
        last_adds_up[(4,)](x, np.zeros(4, np.float32), out, word, 100, 4, 32)
    assert not findings
    with checking() as findings:
        locked[(4,)](x, out, word, 100, False, 32)
    assert {f.kind for f in findings} == {"race"}


@tilewright.jit
def neighbours(x, n, INTO: tl.constexpr, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, (i > 0) & (i < n), 0.0)
    tl.store((x if INTO else out) + i, left, i < n)


def test_stencil_in_place():
    x = numbers()
    with checking() as findings:
        neighbours[(4,)](x, 100, False, np.zeros_like(x), 32)
    assert not findings
    with checking() as findings:
        neighbours[(4,)](x, 100, True, x, 32)
    assert found(findings) == [("race", "x", (1, 0, 0), line_of(neighbours, "left = "))]


@tilewright.jit
def fill(out, n, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), 3.0, tl.arange(0, B) < n)


def test_the_same_stored_twice_is_no_race():
    with checking() as findings:
        fill[(5,)](np.zeros(8, np.float32), 8, 8)
    assert not findings


@tilewright.jit
def copy(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_memory_that_nobody_wrote(dtype):
    with checking() as findings:
        x = np.empty(100, dtype)
        x[:96] = 1
        copy[(3,)](x, np.empty(100, dtype), 96, 32)
    assert not findings
    with checking() as findings:
        x = np.empty(100, dtype)
        x[:96] = 1
        copy[(4,)](x, np.empty(100, dtype), 97, 32)
    assert found(findings) == [("undefined", "x", (3, 0, 0), line_of(copy, "tl.load"))]
    assert "element 96 of x" in str(list(findings)[0])


def test_torch_tensors_that_nobody_wrote():
    torch = pytest.importorskip("torch")
    with checking() as findings:
        x = torch.empty(100)
        copy[(4,)](torch.zeros(100), x, 100, 32)
        copy[(4,)](x, torch.empty_like(x), 100, 32)
    assert not findings
    with checking() as findings:
        copy[(4,)](x.new_empty(100), x, 100, 32)
    assert found(findings) == [("undefined", "x", (0, 0, 0), line_of(copy, "tl.load"))]


def test_beyond_a_view():
    x = numbers()
    view, out = x[10:50], np.zeros(64, np.float32)
    with checking() as findings:
        copy[(2,)](view, out, 40, 32)
    assert not findings
    with checking() as findings:
        copy[(2,)](x[::2], out, 50, 32)  # a step that the kernel does not know
    assert found(findings) == [("view", "x", (0, 0, 0), line_of(copy, "tl.load"))]
    assert "load of element 1 by program" in str(list(findings)[0])
    with checking() as findings:
        copy[(2,)](view, out, 41, 32)
    assert found(findings) == [("view", "x", (1, 0, 0), line_of(copy, "tl.load"))]


@tilewright.jit
def far(x, out, step, n, WIDE: tl.constexpr):
    p = tl.program_id(0)
    at = p.to(tl.int64) if WIDE else p
    offset = at * step
    wrapped = (p * 1103515245 + 12345) & 63  # on purpose
    inside = (offset >= 0) & (offset < n)
    tl.store(out + p, tl.load(x + offset, inside, 0.0) + tl.load(x + wrapped))


def test_offsets_that_run_over():
    x, out = numbers(), np.zeros(5, np.float32)
    with checking() as findings:
        far[(5,)](x, out, 1 << 30, 100, True)
    assert not findings
    with checking() as findings:
        far[(5,)](x, out, 1 << 30, 100, False)  # the last program comes to 0 again
    assert found(findings) == [("overflow", "x", (4, 0, 0), line_of(far, "offset = at"))]


@tilewright.jit
def root(x, out, n, SAFE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n, -1.0)
    if SAFE:
        v = tl.where(i < n, tl.maximum(v, 0.0), v)
    w = tl.sqrt(v)
    tl.store(out + i, w + 1, i < n)


def test_where_a_nan_comes_from():
    x = numbers()
    with checking() as findings:
        root[(1,)](x, np.zeros(128, np.float32), 100, True, 128)
        root[(1,)](np.full(100, np.nan, np.float32), np.zeros(128, np.float32), 100, False, 128)
    assert not findings
    with checking() as findings:
        root[(1,)](x, np.zeros(128, np.float32), 100, False, 128)
    assert found(findings) == [("nan", "out", (0, 0, 0), line_of(root, "tl.sqrt"))]
    assert f"stored at {__file__}:{line_of(root, 'w + 1')}" in str(list(findings)[0])


@pytest.mark.cuda
def test_arrays_on_a_gpu():
    torch = pytest.importorskip("torch")
    x, out = torch.ones(100, device="cuda"), torch.zeros(1, device="cuda")
    with checking() as findings:
        add_up[(4,)](x, out, 100, True, 32)
    assert out.item() == 100
    assert not findings
    with checking() as findings:
        add_up[(4,)](torch.empty_like(x), out, 100, False, 32)
    assert {f.kind for f in findings} == {"race", "undefined"}


SCRIPT = """\
import numpy as np, triton, triton.language as tl

@triton.jit
def count(out, STEP: tl.constexpr):
    {body}

out = np.zeros(1, np.int32)
count[(4,)](out, 1)
"""


@pytest.mark.parametrize(
    ("body", "status"),
    [("tl.atomic_add(out, STEP)", 0), ("tl.store(out, tl.load(out) + STEP)", 1)],
)
def test_the_command(tmp_path, body, status):
    path = tmp_path / "count.py"
    path.write_text(SCRIPT.format(body=body))
    command = [sys.executable, "-m", "tilewright", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout.endswith("2 found\n" if status else "nothing found\n"), done.stdout
    assert done.stdout.startswith(f"race: count at {path}:5: " if status else "nothing")


def test_the_command_for_machines(tmp_path):
    path = tmp_path / "count.py"
    path.write_text(SCRIPT.format(body="tl.store(out, tl.load(out) + STEP)") + "print(out)\n")
    command = [sys.executable, "-m", "tilewright", "check", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "[4]\n"
    report = json.loads(done.stdout)
    assert report["schema"] == 1
    load, store = report["findings"]
    assert load["kind"] == store["kind"] == "race"
    assert load["expression"] == "tl.load(out)"
    assert (load["file"], load["line"], load["col"]) == (str(path), 5, 18)
    assert load["program"] == [1, 0, 0]
    assert (load["argument"], load["element"], load["count"]) == ("out", 0, 3)
    assert (load["other_program"], load["other_line"]) == ([0, 0, 0], 5)


def test_the_text_of_a_finding(tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(ROWS)
    command = [sys.executable, "-m", "tilewright", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == WANTED.format(path=path)


ROWS = """\
import numpy as np, triton, triton.language as tl

@triton.jit
def top(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.max(v, axis=0))

top[(3,)](np.full((3, 5), -1.0, np.float32), np.zeros(3, np.float32), 5, B=8)
"""

WANTED = """\
masked: top at {path}:6: other=0 of the load of x, where it is masked off, changes the maximum at \
{path}:7; give other=-inf or the least number, or tl.where before it; in program (0, 0, 0) it is \
stored at {path}:7 to out
  {path}:6:9 in top
        v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  found 3 times
1 found
"""
