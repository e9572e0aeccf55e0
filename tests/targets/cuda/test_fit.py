"""The version of a kernel that is rarely run does not decide how many programs run at a time."""

from __future__ import annotations

import re

import pytest

import tilewright as tw
from tilewright import language as tl
from tilewright.errors import InternalError
from tilewright.ir import types as t
from tilewright.ir.types import Type, pointer_to
from tilewright.lang.frontend import build_kernel
from tilewright.passes import pipeline
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.fit import Built, fitted, streams
from tilewright.targets.cuda.lower import lower
from tilewright.targets.cuda.target import CudaTarget

ARCH = find("sm_90a")


@tw.jit
def rows_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
        tl.store(out + row * cols + i, value / tl.sum(value), mask=i < cols)


def text_of(kernel=rows_kernel, **options) -> str:
    pointer = Type(pointer_to(t.float32))
    types = {"x": pointer, "out": pointer, "rows": Type(t.int32), "cols": Type(t.int32)}
    made = pipeline.run(build_kernel(kernel, types, {"BLOCK": 512}, {}))
    return f"; arch sm_90a shared 0\n{lower(made, ARCH, num_warps=8, **options).text}"


def limits(usual: int, whole: int, shared: int = 0, **options) -> list[str]:
    """The registers that code was limited to, as it was built, if a thread takes so many."""
    built = []

    def build(text: str) -> Built:
        built.append(text)
        return Built(text.encode(), whole if len(built) == 1 else usual)

    fitted(text_of(**options), ARCH, shared, build)
    return [re.findall(r'maxnreg"="(\d+)', text) for text in built]


@pytest.mark.parametrize(
    ("usual", "whole", "expected"),
    [
        (55, 69, [[], [], ["64"]]),  # 4 programs of 8 warps, as without the rare version
        (41, 48, [[], []]),  # the same number of programs
        (20, 30, [[]]),  # as many as there can be
        (120, 140, [[], [], ["128"]]),
    ],
)
def test_registers_are_limited_where_programs_would_be_lost(usual, whole, expected):
    assert limits(usual, whole) == expected


def test_shared_memory_may_leave_no_room_for_more():
    assert limits(55, 69, 100 << 10) == [[]]


def test_what_is_far_off_is_not_tried():
    """The usual version is not built; the whole is, with fewer registers."""
    assert limits(128, 250) == [[], ["128"]]


def test_what_the_user_says_stays():
    assert limits(55, 69, max_registers=72) == [["72"]]


def test_a_kernel_without_checks_has_one_version():
    assert limits(20, 30, bounds=False) == [[]]


@pytest.mark.parametrize(("spilled", "taken"), [(0, True), (16, True), (24, False)])
def test_what_the_assembler_takes_for_code_that_it_loads(spilled, taken):
    """Linked code takes more; a kernel without a rare version is looked at as well."""
    built, probed = [], []

    def build(text: str) -> Built:
        built.append(re.findall(r'maxnreg"="(\d+)', text))
        return Built(text.encode(), 72 if len(built[-1]) == 0 else 40, spilled if built[-1] else 0)

    def probe(text: str) -> Built:
        probed.append(text)
        return Built(b"", 40)

    for bounds in (True, False):
        image = fitted(text_of(bounds=bounds), ARCH, 0, build, probe)
        assert (b'maxnreg"="40"' in image) == taken
        assert built[:2] == [[], ["40"]]
        built.clear()
    assert len(probed) == 2


@tw.jit
def sums_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * cols + i)
    tl.store(out + i, total)


def test_loops_in_which_nobody_waits_stay_as_they_are():
    assert streams(text_of(kernel=sums_kernel))
    assert not streams(text_of())


@pytest.mark.parametrize(
    ("whole", "squeezed", "products", "taken"),
    [
        (Built(b"", 150), Built(b"", 128), False, True),
        (Built(b"", 150), Built(b"", 128, local=200), False, False),
        (Built(b"", 150), Built(b"", 128, local=200), True, True),  # two for one
        (Built(b"", 150), Built(b"", 128, is_serial=True), True, False),
        (Built(b"", 84), Built(b"", 80, local=16), False, True),
        (Built(b"", 84), Built(b"", 80), True, True),
        (Built(b"", 84), Built(b"", 80, local=200), True, False),  # three for two
        (Built(b"", 36), Built(b"", 32), False, False),  # enough run at a time
    ],
)
def test_registers_give_way_to_programs(whole, squeezed, products, taken):
    text, built = text_of(bounds=False), []
    text += "; wgmma.mma_async" if products else ""

    def build(version: str) -> Built:
        built.append(version)
        of = whole if len(built) == 1 else squeezed
        return Built(version.encode(), of.registers, of.local, of.is_serial)

    assert ("maxnreg" in fitted(text, ARCH, 0, build).decode()) == taken


@pytest.mark.parametrize("usual", [150, 60])
def test_the_assembler_may_need_more(usual):
    def build(version: str) -> Built:
        if "maxnreg" in version:
            raise InternalError("insufficient registers")
        return Built(version.encode(), 70 if "!prof !0" in version else usual)

    text = text_of()
    assert fitted(text, ARCH, 0, build) == text.encode()


def test_the_usual_version_is_without_reports():
    target, seen = CudaTarget("sm_90a"), []

    def build(text: str) -> Built:
        seen.append(target.assembly(text))
        return Built(seen[-1].encode(), 100 if len(seen) == 1 else 40)

    fitted(text_of(), ARCH, 0, build)
    reports = [text.count("ld.volatile") for text in seen]
    assert reports[0] > 0 and reports[1] == 0 and reports[2] == reports[0]
    assert ".maxnreg" in seen[2] and ".maxnreg" not in seen[0]
