"""Facts along dimensions hold: compared with the values of runs, and shown."""

from __future__ import annotations

import kernels as fuzz
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from tilewright.eager.kernel import programs
from tilewright.eager.machine import Eager, Scalar
from tilewright.eager.run import Runner
from tilewright.ir import types as t
from tilewright.ir.op import running
from tilewright.ir.text import parse_kernel
from tilewright.ir.verify import verify
from tilewright.targets.cuda.axes import axes

HEAD = "kernel k(%0 x: *f32 divisible 16, %1 y: *f16, %2 n: i32 divisible 16, %3 s: i32) [\n"
BLOCK = """
%10 = program_id {axis=0} : i32
%11 = constant {value=64, type='i32'} : i32
%12 = mul %10, %11 : i32
%13 = splat %12 {shape=(64,)} : i32[64]
%14 = arange {start=0, end=64} : i32[64]
%15 = add %13, %14 : i32[64]
%16 = splat %2 {shape=(64,)} : i32[64]
%17 = splat %3 {shape=(64,)} : i32[64]
%18 = splat %0 {shape=(64,)} : *f32[64]
"""
GRID = (
    BLOCK
    + """
%20 = reshape %15 {shape=(1, 64)} : i32[1,64]
%21 = broadcast %20 {shape=(8, 64)} : i32[8,64]
%22 = arange {start=0, end=8} : i32[8]
%23 = reshape %22 {shape=(8, 1)} : i32[8,1]
%24 = splat %2 {shape=(8, 1)} : i32[8,1]
%25 = mul %23, %24 : i32[8,1]
%26 = broadcast %25 {shape=(8, 64)} : i32[8,64]
%27 = add %26, %21 : i32[8,64]
%28 = splat %0 {shape=(8, 64)} : *f32[8,64]
"""
)


def last(lines: str):
    kernel = verify(parse_kernel(HEAD + lines + "\n]"))
    found = axes(kernel)(kernel.body.insts[-1].results[-1])
    return found.contiguous, found.divisor, found.constant


@pytest.mark.parametrize(
    "lines, expected",
    [
        (BLOCK + "%19 = add %15, %17 : i32[64]", ((64,), (1,), (1,))),
        (BLOCK + "%19 = irem %15, %16 : i32[64]", ((16,), (16,), (1,))),
        (BLOCK + "%19 = irem %15, %17 : i32[64]", ((1,), (1,), (1,))),
        (BLOCK + "%19 = idiv %15, %16 : i32[64]", ((1,), (1,), (16,))),
        (BLOCK + "%19 = lt %15, %16 : i1[64]", ((1,), (1,), (16,))),
        (BLOCK + "%19 = gt %16, %15 : i1[64]", ((1,), (1,), (16,))),
        (BLOCK + "%19 = le %15, %16 : i1[64]", ((1,), (1,), (1,))),
        (BLOCK + "%19 = lt %15, %17 : i1[64]", ((1,), (1,), (1,))),
        (BLOCK + "%19 = add %16, %14 : i32[64]\n%20 = irem %19, %16 : i32[64]", ((16,), (16,), (1,))),
        (BLOCK + "%19 = add %16, %14 : i32[64]\n%20 = idiv %19, %16 : i32[64]", ((1,), (1,), (1,))),
        (BLOCK + "%19 = offset %18, %15 {bytes=4} : *f32[64]", ((64,), (16,), (1,))),
        (BLOCK + "%19 = hint %17 {contiguous=(8,), multiple=(8,)} : i32[64]", ((8,), (8,), (64,))),
        (GRID + "%29 = offset %28, %27 {bytes=4} : *f32[8,64]", ((1, 64), (4, 16), (1, 1))),
        (GRID + "%29 = permute %27 {order=(1, 0)} : i32[64,8]", ((64, 1), (16, 1), (1, 1))),
    ],
)  # fmt: skip
def test_facts(lines, expected):
    assert last(lines) == expected


class Watching(Runner):
    """Asks for the facts of every value that a run meets."""

    def __init__(self, machine, kernel):
        super().__init__(machine)
        self.axes = axes(kernel)

    def block(self, block, values, env):
        for value, tile in zip(block.params, values, strict=True):
            self.check(value, tile.data)
        return super().block(block, values, env)

    def inst(self, inst, operands, env):
        results = super().inst(inst, operands, env)
        for value, tile in zip(inst.results, results, strict=True):
            self.check(value, tile.data)
        return results

    def check(self, value, data):
        found, dtype = self.axes(value), value.type.dtype
        data = np.asarray(data).reshape(value.type.shape or (1,))
        is_number = dtype.is_pointer or (dtype.is_integer and dtype is not t.int1)
        if is_number and not dtype.is_pointer and found.positive:
            assume(data.min() >= 0)  # facts are of numbers that do not wrap around
        step = dtype.element_ty.bytes if dtype.is_pointer else 1
        for d, n in enumerate(data.shape):
            for group, size in ((found.contiguous[d], step), (found.constant[d], 0)):
                rows = np.moveaxis(data, d, -1).reshape(-1, n // min(group, n), min(group, n))
                if size and not is_number:
                    continue
                if size:
                    wide = rows.astype(np.int64)
                    assert not np.any((np.diff(wide, axis=-1) - size) & 255), (value, found)
                    if not dtype.is_pointer:
                        assert not np.any(wide[..., 0] % min(found.divisor[d], 256)), (value, found)
                elif rows.size:
                    np.testing.assert_array_equal(rows, np.repeat(rows[..., :1], rows.shape[2], -1))


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(case=fuzz.kernels())
def test_facts_hold_in_random_kernels(case):
    kernel = case.kernel
    machine = Eager(kernel.name, fuzz.GRID, (), False)
    runner = Watching(machine, kernel)
    arguments = case.fresh()
    values = [
        Scalar(t.int32, x) if isinstance(x, int) else x for x in fuzz.buffers(kernel, arguments)
    ]
    with running(machine), np.errstate(all="ignore"):
        tiles = [machine.argument(v).handle for v in values]
        for program in programs(machine.grid, 0, None):
            machine.start(program)
            runner.block(kernel.body, tiles, {})
