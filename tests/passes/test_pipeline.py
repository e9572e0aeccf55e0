"""The pipeline runs passes in order, tells about them, and stops at one that breaks the kernel."""

from __future__ import annotations

import pytest

import tilewright.ops  # noqa: F401  (defines the ops)
from tilewright.errors import InternalError
from tilewright.ir.rewrite import rebuild
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.passes import pipeline
from tilewright.passes.fold import fold
from tilewright.passes.licm import licm

TEXT = """
kernel k(%0 p: *i32, %1 n: i32) [
  %2 = constant {value=0, type='i32'} : i32
  %3 = add %1, %2 : i32
  store %0, %3
]
"""


def test_dump_and_record_see_each_pass_in_order():
    dumped, recorded = [], []
    kernel = pipeline.run(
        parse_kernel(TEXT),
        [rebuild, fold],
        dump=lambda name, kernel: dumped.append((name, len(kernel.body.insts))),
        record=lambda name, seconds: recorded.append((name, seconds >= 0)),
    )
    assert dumped == [("rebuild", 3), ("fold", 2)]
    assert recorded == [("rebuild", True), ("fold", True)]
    assert "store %0, %1" in print_kernel(kernel)


def break_it(kernel):
    kernel.body.insts.pop(0)
    return kernel


def test_verify_names_the_pass_that_broke_the_kernel():
    with pytest.raises(InternalError, match="after break_it: .*not defined before"):
        pipeline.run(parse_kernel(TEXT), [break_it], verify=True)
    pipeline.run(parse_kernel(TEXT), [break_it])


def test_an_error_inside_a_pass_is_internal():
    def refused(kernel):
        return rebuild(kernel, lambda b, inst, operands: b.emit(inst.op, *operands, wrong=1))

    with pytest.raises(InternalError, match="pass refused on k: constant"):
        pipeline.run(parse_kernel(TEXT), [refused])


def test_passes_leave_the_kernel_that_they_are_given():
    kernel = parse_kernel(TEXT)
    pipeline.run(kernel, pipeline.STANDARD)
    assert print_kernel(kernel) == print_kernel(parse_kernel(TEXT))


def test_a_loop_may_keep_its_invariants():
    text = """
kernel k(%0 p: *i32, %1 n: i32) [
  for %1, %1, %1 {disable_licm=True} (%2: i32) [
    %3 = mul %1, %1 : i32
    store %0, %3
    yield
  ]
]
"""
    kernel = parse_kernel(text)
    assert [i.op.name for i in licm(kernel).body.insts] == ["for"]
    text = text.replace(" {disable_licm=True}", "")
    assert [i.op.name for i in licm(parse_kernel(text)).body.insts] == ["mul", "for"]
