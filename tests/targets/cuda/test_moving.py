"""What moves in a loop is told apart from what stays."""

from __future__ import annotations

import numpy as np
import pytest
from simulator import SimulatedTarget
from test_ptx import kernel_ir

import tilewright as tw
from tilewright import language as tl
from tilewright.ir import types as t
from tilewright.ops import control, math
from tilewright.targets import base
from tilewright.targets.cuda.moving import part


@tw.jit
def sums(x, out, rows, cols, first, M: tl.constexpr, N: tl.constexpr):
    """Sums of rows, whose blocks come down a descriptor, and of columns, by block pointers."""
    x_desc = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [M, N])
    at = tl.make_block_ptr(x, (rows, cols), (cols, 1), (0, 0), (M, N), (1, 0))
    down, along = tl.zeros((M, N), tl.float32), tl.zeros((M, N), tl.float32)
    for start in range(0, rows + M, M):
        down += x_desc.load([first + start, 0])
    for _ in range(0, cols, N):
        along += tl.load(at, boundary_check=(0, 1))
        at = tl.advance(at, (0, N))
    place = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + place, down)
    tl.store(out + M * N + place, along)


def arguments(rows: int, cols: int, first: int) -> dict:
    x = np.random.default_rng(0).standard_normal((rows, cols)).astype(np.float32)
    return {"x": x, "out": np.zeros((2, 16, 16), np.float32), "rows": rows, "cols": cols,
            "first": first, "M": 16, "N": 16}  # fmt: skip


@pytest.mark.parametrize(("rows", "cols"), [(48, 32), (40, 20), (5, 7)])
@pytest.mark.parametrize("first", [0, -3, 7])
def test_as_eager(rows, cols, first, monkeypatch):
    class Parted(SimulatedTarget):
        def lower(self, kernel, **named):
            return super().lower(part(kernel), **named)

    monkeypatch.setitem(base.TARGETS, "simulated", lambda: Parted("sm_90a", 1))
    found = []
    for target in ("eager", "simulated"):
        given = arguments(rows, cols, first)
        with tw.options(target=target, cache=False):
            sums[(1,)](*given.values())
        found.append(given["out"])
        sums.forget()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


def test_no_products_of_tiles_are_left_in_loops():
    kernel = kernel_ir(sums, arguments(48, 32, 0), {})

    def products(of) -> int:
        loops = [inst for inst in of.walk() if inst.op is control.for_]
        insts = [i for loop in loops for i in loop.blocks[0].insts]
        return sum(i.op is math.mul and i.result.type.dtype is t.int64 and bool(i.result.type.shape)
                   for i in insts)  # fmt: skip

    assert products(kernel) > products(part(kernel)) == 0
