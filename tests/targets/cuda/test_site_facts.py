"""What is known of accesses before anything runs: sectors, widths and banks of all examples."""

from __future__ import annotations

import pytest
import test_ptx

import tilewright as tw
from tilewright import language as tl
from tilewright.ir import types as t
from tilewright.ir.types import Type, pointer_to
from tilewright.lang.frontend import build_kernel
from tilewright.passes import pipeline
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.lower import lower
from tilewright.targets.cuda.target import CudaTarget

# (example, kernel, what the access begins with): more sectors than need be where strides are known.
APART = {("prefix_sum", "running_sum_kernel", "tl.load")}
# (example, kernel, operation): words of one bank that are asked for at once.
CONFLICTS = {
    ("attention", "attention_kernel", "dot"): 8,
    ("layer_norm", "add_slots_kernel", "reduce"): 4,
    ("matmul", "matmul_kernel", "dot"): 4,
}


def sites_of(path, arch):
    """The records of an example's sites, by kernel."""
    for name, kernel in test_ptx.kernels_of(path).items():
        code = CudaTarget(arch).lower(kernel, bounds=True, counters=False)
        for site in code.metadata["sites"]:
            yield name, site


@pytest.mark.parametrize("arch", test_ptx.ARCHES)
def test_examples(arch):
    """Each access coalesces, each exchange avoids bank conflicts, but for what is listed."""
    apart, conflicts = set(), {}
    for path in test_ptx.EXAMPLES:
        for name, site in sites_of(path, arch):
            key = (path.stem, name)
            if site["kind"] == "shared":
                ways = max(use["ways"] for use in site["uses"])
                if ways > 1:
                    place = (*key, site["op"])
                    conflicts[place] = max(ways, conflicts.get(place, 1))
            elif site.get("known") and site["sectors"] > site["least_sectors"]:
                apart.add((*key, site["expression"][:7]))
    assert apart <= APART
    assert all(ways <= CONFLICTS.get(place, 1) for place, ways in conflicts.items()), conflicts


@tw.jit
def copy_kernel(x, y, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * step, mask=i < n))


@pytest.mark.parametrize(
    ("facts", "load", "store"),
    [
        ({"x": 16, "y": 16, "n": 16}, (16, "", 4), (16, "", 4)),
        ({"x": 16, "y": 16}, (4, "mask", 4), (16, "", 4)),
        ({"y": 16, "n": 16}, (4, "aligned", 4), (16, "", 4)),
        ({"x": 16, "n": 16}, (16, "", 4), (4, "aligned", 4)),
    ],
)
def test_what_limits_a_vector(facts, load, store):
    """Bytes of a lane, what keeps it from more, and the bytes of neighbouring elements."""
    sites = facts_of_copy({"step": 1}, facts)
    assert [(s["vector"], s["limit"]) for s in sites] == [load[:2], store[:2]]


def test_a_step_that_is_known_and_one_that_is_not():
    load, _ = facts_of_copy({"step": 8}, {"x": 16, "n": 16})
    assert (load["limit"], load["gap"] % 32, load["known"]) == ("apart", 0, True)
    assert load["sectors"] == 32 and load["least_sectors"] == 4
    load, _ = facts_of_copy({}, {"x": 16, "n": 16})
    assert (load["limit"], load["gap"], load["known"]) == ("apart", None, False)


def facts_of_copy(constants, facts):
    types = {"x": Type(pointer_to(t.float32)), "y": Type(pointer_to(t.float32)), "n": Type(t.int32)}
    if not constants:
        types["step"] = Type(t.int32)
    kernel = build_kernel(copy_kernel, types, {"BLOCK": 1024, **constants}, facts)
    return lower(pipeline.run(kernel), find("sm_80")).sites
