"""Tracebacks of mistakes in kernels: few frames, and none of the compiler."""

import traceback

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompileError, OutOfBoundsError


@tw.jit
def misspelt(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if BLOCK > 1:
        tl.store(x + at, nothing(at))  # noqa: F821


@tw.jit
def outside(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize("kernel, kind", [(misspelt, CompileError), (outside, OutOfBoundsError)])
@pytest.mark.parametrize("launches", [1, 2])
def test_a_traceback_is_short_and_its_frames_are_hidden(kernel, kind, launches):
    x = np.zeros(100, np.float32)
    with tw.options(target="cpu"):
        for _ in range(launches):
            with pytest.raises(kind) as caught:
                kernel[(1,)](x, BLOCK=128)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb)]
    assert len(frames) < 12
    first, *others = frames
    assert first.f_code.co_filename == __file__
    shown = [f.f_code.co_name for f in others if not f.f_locals.get("__tracebackhide__")]
    assert set(shown) <= {"launch", "run", "mend"}
