"""Facts hold: what analyses say of each value is compared with the values of a run, and shown."""

from __future__ import annotations

import kernels as fuzz
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tilewright.eager.kernel import programs
from tilewright.eager.machine import Eager, Scalar
from tilewright.eager.run import Runner
from tilewright.ir import types as t
from tilewright.ir.op import running
from tilewright.ir.text import parse_kernel
from tilewright.ir.verify import verify
from tilewright.passes import facts, pipeline

HEAD = "kernel k(%0 x: *f32 divisible 16, %1 y: *f16, %2 n: i32 divisible 16, %3 s: i32) [\n"


def last(lines: str, fact):
    """The fact of the last value of a kernel of these lines."""
    kernel = verify(parse_kernel(HEAD + lines + "\n]"))
    return fact(kernel)(kernel.body.insts[-1].results[-1])


ROWS = """
%10 = arange {start=0, end=8} : i32[8]
%11 = reshape %10 {shape=(8, 1)} : i32[8,1]
%12 = broadcast %11 {shape=(8, 4)} : i32[8,4]
%13 = arange {start=0, end=4} : i32[4]
%14 = reshape %13 {shape=(1, 4)} : i32[1,4]
%15 = broadcast %14 {shape=(8, 4)} : i32[8,4]
%16 = constant {value=64, type='i32[8,4]'} : i32[8,4]
%17 = mul %12, %16 : i32[8,4]
%18 = add %17, %15 : i32[8,4]
%19 = splat %0 {shape=(8, 4)} : *f32[8,4]
%20 = offset %19, %18 {bytes=4} : *f32[8,4]
"""


@pytest.mark.parametrize(
    "lines, expected",
    [
        (ROWS, (256, 4)),
        (ROWS + "%21 = permute %20 {order=(1, 0)} : *f32[4,8]", (4, 256)),
        (ROWS + "%21 = reshape %15 {shape=(32,)} : i32[32]", (None,)),
        (ROWS + "%21 = cast %18 {to='i64'} : i64[8,4]", (64, 1)),
        (ROWS + "%21 = lt %12, %16 : i1[8,4]", (None, 0)),
        (ROWS + "%21 = load %19 : f32[8,4]", (0, 0)),
        (ROWS + "%21 = splat %2 {shape=(8, 4)} : i32[8,4]\n%22 = mul %12, %21 : i32[8,4]",
         (None, 0)),
        ("%10 = arange {start=0, end=8} : i32[8]\n%11 = reshape %10 {shape=(2, 4)} : i32[2,4]",
         (4, 1)),
        ("%10 = arange {start=0, end=8} : i32[8]\n%11 = reshape %10 {shape=(2, 4)} : i32[2,4]\n"
         "%12 = reshape %11 {shape=(4, 1, 2)} : i32[4,1,2]", (2, 0, 1)),
    ],
)  # fmt: skip
def test_strides(lines, expected):
    assert last(lines, facts.strides) == expected


LOOP = """
%10 = arange {start=0, end=8} : i32[8]
%11 = constant {value=0, type='i32'} : i32
%12 = constant {value=4, type='i32'} : i32
%13 = constant {value=1, type='i32'} : i32
%14 = splat %3 {shape=(8,)} : i32[8]
"""


def test_strides_of_carried_tiles():
    kept = LOOP + (
        "%20 = for %11, %2, %12, %10 : i32[8] (%30: i32, %31: i32[8]) [\n"
        "%32 = add %31, %14 : i32[8]\nyield %32\n]"
    )
    lost = LOOP + (
        "%20 = for %11, %2, %12, %10 : i32[8] (%30: i32, %31: i32[8]) [\n"
        "%32 = add %31, %31 : i32[8]\nyield %32\n]"
    )
    assert last(kept, facts.strides) == (1,)
    assert last(lost, facts.strides) == (None,)


@pytest.mark.parametrize(
    "lines, expected",
    [
        ("%10 = program_id {axis=0} : i32\n%11 = mul %10, %2 : i32", 16),
        ("%10 = constant {value=24, type='i32'} : i32\n%11 = add %10, %2 : i32", 8),
        ("%10 = constant {value=24, type='i32'} : i32\n%11 = irem %2, %10 : i32", 8),
        ("%10 = offset %0, %3 {bytes=4} : *f32", 4),
        ("%10 = offset %0, %2 {bytes=4} : *f32", 16),
        ("%10 = constant {value=4, type='i32'} : i32\n%11 = idiv %2, %10 : i32", 4),
        ("%10 = constant {value=3, type='i32'} : i32\n%11 = idiv %2, %10 : i32", 1),
        ("%10 = hint %3 {multiple=(24,)} : i32", 8),
        ("%10 = arange {start=32, end=64} : i32[32]", 32),
    ],
)
def test_divisor(lines, expected):
    assert last(lines, facts.divisor) == expected


PID = "%10 = program_id {axis=0} : i32\n%11 = constant {value=100, type='i32'} : i32\n"


@pytest.mark.parametrize(
    "lines, expected",
    [
        (PID + "%12 = irem %10, %11 : i32", (0, 99)),
        (PID + "%12 = irem %3, %11 : i32", (-99, 99)),
        (PID + "%12 = min %10, %11 : i32", (0, 100)),
        (PID + "%12 = add %10, %11 : i32", (-(1 << 31), (1 << 31) - 1)),
        (PID + "%12 = cast %10 {to='i64'} : i64\n%13 = add %12, %12 : i64", (0, (1 << 32) - 4)),
        (PID + "%12 = bit_and %3, %11 : i32", (0, 100)),
        (PID + "%12 = irem %10, %11 : i32\n%13 = lt %12, %11 : i1", (1, 1)),
        (PID + "%12 = irem %10, %11 : i32\n%13 = gt %12, %11 : i1", (0, 0)),
        ("%10 = arange {start=0, end=64} : i32[64]\n"
         "%11 = reduce %10 {axis=0, combine='add'} : i32", (0, 63 * 64)),
        ("%10 = cast %0 {to='i64'} : i64", (-(1 << 63), (1 << 63) - 1)),
        ("%10 = load %0 : f32", None),
    ],
)  # fmt: skip
def test_interval(lines, expected):
    assert last(lines, facts.interval) == expected


def test_interval_of_counters_and_carried_values():
    loop = LOOP + (
        "%15 = constant {value=30, type='i32'} : i32\n"
        "%20, %21 = for %11, %15, %12, %11, %11 : i32, i32 (%30: i32, %31: i32, %32: i32) [\n"
        "%33 = add %31, %13 : i32\n%34 = min %30, %12 : i32\nyield %33, %34\n]"
    )
    kernel = verify(parse_kernel(HEAD + loop + "\n]"))
    found = facts.interval(kernel)
    inst = kernel.body.insts[-1]
    assert found(inst.blocks[0].params[0]) == (0, 28)
    assert found(inst.results[0]) == (-(1 << 31), (1 << 31) - 1)
    assert found(inst.results[1]) == (0, (1 << 31) - 1)


def test_roots_and_touched_parameters():
    lines = """
%10 = constant {value=0, type='i32'} : i32
%11 = lt %3, %10 : i1
%12 = if %11 {types=('*f32',)} : *f32 () [
yield %0
] () [
%13 = bitcast %1 {to='*f32'} : *f32
yield %13
]
%14 = load %12 : f32
%15 = offset %0, %3 {bytes=4} : *f32
store %15, %14
"""
    kernel = verify(parse_kernel(HEAD + lines + "\n]"))
    roots = facts.root_params(kernel)
    load, store = (i for i in kernel.body.insts if i.op.access)
    assert roots(load.operands[0]) == {0, 1}
    assert roots(store.operands[0]) == {0}
    assert facts.read_params(kernel) == {0, 1}
    assert facts.written_params(kernel) == {0}


def test_a_pointer_from_an_integer_may_be_anything():
    lines = (
        "%10 = cast %0 {to='i64'} : i64\n%11 = cast %10 {to='*f32'} : *f32\n"
        "%12 = constant {value=0.0, type='f32'} : f32\nstore %11, %12"
    )
    kernel = verify(parse_kernel(HEAD + lines + "\n]"))
    assert facts.root_params(kernel)(kernel.body.insts[1].result) is None
    assert facts.written_params(kernel) == {0, 1}


class Watching(Runner):
    """Asks every fact about every value that a run meets."""

    def __init__(self, machine, kernel):
        super().__init__(machine)
        self.strides = facts.strides(kernel)
        self.divisor = facts.divisor(kernel)
        self.interval = facts.interval(kernel)
        self.roots = facts.root_params(kernel)

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
        dtype = value.type.dtype
        is_number = (dtype.is_integer and dtype is not t.int1) or dtype.is_pointer
        for axis, step in enumerate(self.strides(value)):
            if step is None or value.type.shape[axis] == 1:
                continue
            if is_number:  # integers may wrap around in a narrow type: compare the lowest bits
                wide = data.astype(np.int64)
                assert not np.any((np.diff(wide, axis=axis) - step) & 255), (value, step)
            else:
                first = np.take(data, [0], axis)
                np.testing.assert_array_equal(data, np.broadcast_to(first, data.shape))
        if not is_number:
            return
        start = int(data.reshape(-1)[0])
        if dtype.is_pointer:
            assert set(data.reshape(-1) >> 48) <= {k + 1 for k in self.roots(value)}
            start &= (1 << 47) - 1
        else:
            low, high = self.interval(value)
            assert low <= data.min() and data.max() <= high, (value, low, high)
        assert start % self.divisor(value) == 0, (value, start)


@pytest.mark.parametrize("passes", [(), pipeline.STANDARD], ids=["before", "after"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(case=fuzz.kernels())
def test_facts_hold_in_random_kernels(passes, case):
    kernel = pipeline.run(case.kernel, passes)
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
