"""The builder numbers values; kernels are rebuilt, inlined and rid of dead code."""

from __future__ import annotations

import math as python_math

import pytest

from tilewright.errors import Loc, TypeRuleError
from tilewright.ir.inst import Block, Builder, Kernel, walk
from tilewright.ir.rewrite import count_uses, drop_dead, free_values, inline, rebuild
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.ir.types import Type, int32, parse_type
from tilewright.ir.verify import verify
from tilewright.ops import debug, math, memory, program, shape


def test_equal_pure_instructions_are_one_value():
    b = Builder()
    x = b.block.add_param(Type(int32))
    assert b.emit(math.add, x, x) is b.emit(math.add, x, x)
    assert b.emit(program.program_id, axis=0) is b.emit(program.program_id, axis=0)
    assert b.emit(program.program_id, axis=0) is not b.emit(program.program_id, axis=1)
    assert len(b.block.insts) == 3


@pytest.mark.parametrize(
    "first, second, same",
    [(0.0, -0.0, False), (python_math.nan, python_math.nan, True), (1.0, 1, False)],
)
def test_constants_are_told_apart(first, second, same):
    b = Builder()
    x, y = (b.emit(shape.constant, value=v, type="f32") for v in (first, second))
    assert (x is y) == same


def test_loads_are_not_shared():
    b = Builder()
    p = b.block.add_param(parse_type("*f32"))
    assert b.emit(memory.load, p) is not b.emit(memory.load, p)


def test_a_region_knows_the_outside_but_not_its_neighbour():
    b = Builder()
    x = b.block.add_param(Type(int32))
    outer = b.emit(math.add, x, x)
    with b.inside(Block()):
        assert b.emit(math.add, x, x) is outer
        inner = b.emit(math.mul, x, x)
    with b.inside(Block()):
        assert b.emit(math.mul, x, x) is not inner


def test_what_a_rule_refuses_has_the_location():
    b = Builder()
    b.loc = Loc("file.py", 3)
    x = b.block.add_param(Type(int32))
    with pytest.raises(TypeRuleError) as caught:
        b.emit(math.sqrt, x)
    assert caught.value.loc == b.loc
    with pytest.raises(TypeRuleError, match="add"):
        b.emit(math.add, x)


TEXT = """
kernel k(%0 p: *i32, %1 n: i32) [
  %2 = add %1, %1 : i32
  %3 = add %1, %1 : i32
  %4, %5 = for %1, %2, %3, %2, %3 : i32, i32 (%6: i32, %7: i32, %8: i32) [
    %9 = add %1, %1 : i32
    %10 = mul %9, %7 : i32
    %11 = load %0 : i32
    %12 = add %8, %11 : i32
    yield %10, %12
  ]
  %13 = mul %4, %5 : i32
  store %0, %4
]
"""


def test_rebuild_shares_and_keeps_the_rest():
    new = verify(rebuild(parse_kernel(TEXT)))
    names = [inst.op.name for inst in new.walk()]
    assert names == ["add", "for", "mul", "load", "add", "yield", "mul", "store"]
    assert print_kernel(rebuild(new)) == print_kernel(new)


def test_rebuild_leaves_the_old_kernel_alone():
    old = parse_kernel(TEXT)
    before = print_kernel(old)
    new = rebuild(old, lambda b, inst, operands: operands[0] if inst.op is math.add else None)
    assert print_kernel(old) == before
    assert not {id(i) for i in old.walk()} & {id(i) for i in new.walk()}
    assert all(inst.op is not math.add for inst in new.walk())


def test_rebuild_keeps_locations_and_facts():
    b = Builder()
    b.loc = Loc("file.py", 7)
    b.emit(debug.barrier)
    new = rebuild(Kernel("k", [], b.block, Loc("file.py", 1), {"key": 1}))
    assert new.body.insts[0].loc.line == 7
    assert (new.name, new.loc.line, new.meta) == ("k", 1, {"key": 1})


def test_a_rule_sees_regions_that_are_rebuilt():
    seen = []

    def rule(b, inst, operands):
        if inst.blocks:
            seen.append([i.op.name for i in inst.blocks[0].insts])
        return operands[0] if inst.op is math.add else None

    rebuild(parse_kernel(TEXT), rule)
    assert seen == [["mul", "load", "yield"]]


def test_inline_gives_what_the_block_yields():
    kernel = rebuild(parse_kernel(TEXT))
    loop = next(i for i in kernel.walk() if i.blocks)
    b = Builder(kernel.body)
    values = inline(loop.blocks[0], b, dict(zip(loop.blocks[0].params, loop.operands[2:])))
    assert [v.inst.op.name for v in values] == ["mul", "add"]
    verify(kernel)


def test_uses_and_free_values():
    kernel = rebuild(parse_kernel(TEXT))
    loop = next(i for i in kernel.walk() if i.blocks)
    twice = kernel.body.insts[0].result
    assert count_uses(kernel)[twice] == 5
    assert free_values(loop.blocks[0]) == {twice, kernel.body.params[0]}


def test_drop_dead():
    text = """
kernel k(%0 p: *i32, %1 n: i32, %2 c: i1) [
  %3 = mul %1, %1 : i32
  %4 = load %0 : i32
  %5 = load %0 {volatile=True} : i32
  %6 = atomic_rmw %0, %1 : i32
  %7 = for %1, %1, %1, %1 : i32 (%8: i32, %9: i32) [
    %10 = add %9, %8 : i32
    yield %10
  ]
  if %2 () [
    %11 = add %1, %7 : i32
    store %0, %1
  ] () [
  ]
  if %2 () [
    %12 = add %1, %1 : i32
  ] () [
  ]
  while () [
    yield %2
  ] () [
  ]
  device_print %1 {prefix=''}
]
"""
    kernel = verify(drop_dead(parse_kernel(text)))
    names = [inst.op.name for inst in walk(kernel.body)]
    assert names == [
        "load", "atomic_rmw", "if", "store", "while", "yield", "device_print"
    ]  # fmt: skip
