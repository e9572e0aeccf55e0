"""NVIDIA's assembler as a program: which ones are used, and what they give."""

from __future__ import annotations

import numpy as np
import pytest
from test_ptx import kernel_ir, needs_ptxas

import tilewright as tw
from tilewright import language as tl
from tilewright.targets.cuda import assembler
from tilewright.targets.cuda.target import ptx_for

X = np.zeros(128, np.float32)


@tw.jit
def double(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * 2)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Programs of two releases; the older one takes nothing."""
    paths = []
    for name, release, does in (("old", "12.4", "exit 1"), ("new", "13.1", "echo code >$5")):
        path = tmp_path / name
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "release {release}, V1" || {does}\n'
        )
        path.chmod(0o755)
        paths.append(str(path))
    monkeypatch.setattr(assembler, "programs", lambda: tuple(paths))
    return paths


def test_none_is_newer_than_the_driver(installed):
    assert [assembler.release(p) for p in installed] == [12040, 13010]
    assert assembler.assembled("", "sm_80", 13000) is None
    assert assembler.assembled("", "sm_80", 13010)[0] == b"code\n"


def test_what_cannot_be_run_is_of_no_release(tmp_path):
    assert assembler.release(str(tmp_path / "none")) == 0


@needs_ptxas
def test_machine_code():
    ptx = ptx_for(kernel_ir(double, {"x": X, "N": 128}, {}), "sm_80")
    image, log = assembler.assembled(ptx, "sm_80", 1 << 30)
    assert image.startswith(b"\x7fELF")
    assert "registers" in log
    assert assembler.assembled("no assembly", "sm_80", 1 << 30) is None
