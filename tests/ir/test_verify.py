"""The verifier finds each kind of damage."""

from __future__ import annotations

import re

import pytest

import tilewright.ops  # noqa: F401  (defines the ops)
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.inst import Value
from tilewright.ir.text import parse_kernel
from tilewright.ir.types import Type, int32, int64
from tilewright.ir.verify import verify

TEXT = """
kernel k(%0 p: *i32, %1 n: i32, %2 t: i32[8]) [
  %3 = add %1, %1 : i32
  %4 = for %1, %3, %3, %1 : i32 (%5: i32, %6: i32) [
    %7 = mul %5, %6 : i32
    yield %7
  ]
  %8 = lt %4, %1 : i1
  %9 = if %8 {types=('i32',)} : i32 () [
    yield %4
  ] () [
    yield %1
  ]
  %10 = while %9 : i32 (%11: i32) [
    %12 = lt %11, %1 : i1
    yield %12
  ] (%13: i32) [
    yield %13
  ]
  %14 = reduce %2 {axis=0} : i32 (%15: i32, %16: i32) [
    %17 = add %15, %16 : i32
    yield %17
  ]
  store %0, %14
]
"""


def kernel():
    return verify(parse_kernel(TEXT))


def find(kernel, name):
    return next(inst for inst in kernel.walk() if inst.op.name == name)


def check(kernel, message):
    with pytest.raises(InternalError, match=re.escape(message)):
        verify(kernel)


def test_gives_the_kernel_back():
    k = parse_kernel(TEXT)
    assert verify(k) is k


def test_use_before_definition():
    k = kernel()
    k.body.insts[0], k.body.insts[1] = k.body.insts[1], k.body.insts[0]
    check(k, "not defined before it")


def test_use_of_a_value_of_another_region():
    k = kernel()
    find(k, "lt").operands = (find(k, "mul").result, k.body.params[1])
    check(k, "not defined before it")


def test_parameters_that_differ():
    k = kernel()
    k.body.params[1].type = Type(int64)
    check(k, "parameters and their values differ")


def test_rule_refuses_the_operands():
    k = kernel()
    find(k, "add").operands = (k.body.params[0], k.body.params[1])
    with pytest.raises(TilewrightError, match="needs numbers"):
        verify(k)


def test_result_of_another_type():
    k = kernel()
    find(k, "mul").results[0].type = Type(int64)
    check(k, "the rule says")


def test_number_of_results():
    k = kernel()
    inst = find(k, "add")
    inst.results = (*inst.results, Value(Type(int32), inst=inst))
    check(k, "the rule says")


def test_yield_in_the_middle():
    k = kernel()
    body = find(k, "for").blocks[0]
    body.insts.reverse()
    check(k, "uses a value")
    body.insts[0].operands = (body.params[1],)
    check(k, "is not the last of its block")


@pytest.mark.parametrize("name", ["for", "if", "while", "reduce"])
def test_what_a_region_yields(name):
    k = kernel()
    block = find(k, name).blocks[-1]
    block.insts[-1].operands = (k.body.params[2],)
    check(k, f"a region of <inst {name} at None> yields")
    block.insts.pop()
    check(k, f"a region of <inst {name} at None> yields")


@pytest.mark.parametrize("name", ["for", "if", "while", "reduce"])
def test_what_a_region_takes(name):
    k = kernel()
    find(k, name).blocks[0].add_param(Type(int32))
    check(k, f"a region of <inst {name} at None> takes")


@pytest.mark.parametrize("name", ["for", "if", "while"])
def test_regions_missing(name):
    k = kernel()
    find(k, name).blocks = ()
    check(k, "has no region")


def test_one_region_of_two():
    k = kernel()
    inst = find(k, "if")
    inst.blocks = inst.blocks[:1]
    check(k, "takes")


def test_the_condition_of_a_while():
    k = kernel()
    inst = find(k, "while")
    inst.blocks[0].insts[-1].operands = (k.body.params[1],)
    check(k, "yields ['i32', 'i32'], it should be ['i1', 'i32']")


def test_attributes_are_part_of_the_rule():
    k = kernel()
    find(k, "reduce").attrs["axis"] = 3
    with pytest.raises(TilewrightError, match="axis 3 is out of range"):
        verify(k)
