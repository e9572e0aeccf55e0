"""Prints, assertions, breakpoints: what a user sees who steps through a kernel."""

from __future__ import annotations

import pdb
import sys

import pytest

import tilewright.language as tl
from tilewright import debug
from tilewright.errors import CompileTimeAssertionFailure, DeviceAssertError

from .launch import jit, launch


def test_device_print(capsys):
    @jit
    def kernel(n):
        at = tl.arange(0, 4)
        tl.device_print("at", at, n)
        tl.device_print("bits", at.to(tl.int8), hex=True)
        tl.device_print("done")

    launch(kernel, (2,), 7, only=(1,))
    assert capsys.readouterr().out.splitlines() == [
        "pid (1, 0, 0) at [0 1 2 3] 7",
        "pid (1, 0, 0) bits [0x00 0x01 0x02 0x03]",
        "pid (1, 0, 0) done",
    ]


@jit
def checked_kernel(n):
    at = tl.arange(0, 4)
    tl.device_assert(at < n, "too far", mask=at != 3)


def test_device_assert_only_checks_when_debugging():
    launch(checked_kernel, (1,), 0)
    launch(checked_kernel, (1,), 3, debug=True)
    with pytest.raises(DeviceAssertError) as error:
        launch(checked_kernel, (1,), 2, debug=True)
    text = str(error.value)
    assert text.startswith(
        "checked_kernel: device-side assert failed: program (0, 0, 0), element (2,): too far\n"
    )
    assert 'tl.device_assert(at < n, "too far", mask=at != 3)' in text


def test_assert_statements():
    @jit
    def kernel(n, BLOCK: tl.constexpr):
        assert BLOCK == 4
        assert tl.arange(0, BLOCK) < n, "not below"

    launch(kernel, (1,), 1, 4)
    with pytest.raises(DeviceAssertError, match="not below"):
        launch(kernel, (1,), 1, 4, debug=True)
    with pytest.raises(AssertionError):
        launch(kernel, (1,), 1, 8)


def test_static_assert_and_print(capsys):
    @jit
    def kernel(BLOCK: tl.constexpr):
        tl.static_print("block", BLOCK)
        tl.static_assert(BLOCK == 4, f"got {BLOCK}")

    launch(kernel, (1,), 4)
    assert capsys.readouterr().out == "block 4\n"
    with pytest.raises(CompileTimeAssertionFailure, match="got 8"):
        launch(kernel, (1,), 8)


def test_print_if(capsys):
    @jit
    def kernel():
        at = tl.arange(0, 4) + tl.program_id(0)
        debug.print_if(at > 4, at)
        debug.print_if(True, 1, pid_0=0, prefix="first")

    launch(kernel, (3,))
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) first 1",
        "pid (2, 0, 0) [2 3 4 5]",
    ]


def test_breakpoint_if_stops_at_the_kernels_line(monkeypatch):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.setattr(
        pdb.Pdb, "set_trace", lambda self, frame: stops.append((frame, dict(frame.f_locals)))
    )

    @jit
    def kernel(n):
        at = tl.arange(0, 4)
        debug.breakpoint_if(at >= n)
        debug.breakpoint_if(True, pid_0=1)

    launch(kernel, (2,), 3)
    first = kernel.fn.__code__.co_firstlineno
    assert [frame.f_code is kernel.fn.__code__ for frame, _ in stops] == [True] * 3
    assert stops[0][1].keys() == {"n", "at"}
    assert first > 1


def test_breakpoint_runs_in_the_kernel(monkeypatch):
    places = []

    def hook():
        frame = sys._getframe(1)
        places.append((frame.f_code.co_name, frame.f_lineno, int(frame.f_locals["pid"])))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @jit
    def kernel():
        pid = tl.program_id(0)
        if pid == 1:
            breakpoint()

    launch(kernel, (3,))
    assert places == [("kernel", kernel.fn.__code__.co_firstlineno + 4, 1)]


def test_lines_survive_rewriting(monkeypatch):
    lines = []

    def hook():
        lines.append(sys._getframe(1).f_lineno)

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @jit
    def kernel(n):
        total = 0
        for i in range(n):
            total += i
            if total > 1 and i < n:
                breakpoint()

    launch(kernel, (1,), 3)
    assert lines == [kernel.fn.__code__.co_firstlineno + 6]
