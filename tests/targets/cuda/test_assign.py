"""Layouts given to the values of whole kernels: coalesced, consistent, with few conversions."""

from __future__ import annotations

import kernels as fuzz
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tilewright.language as tl
from tilewright.eager.machine import Scalar
from tilewright.eager.run import run_ir
from tilewright.ir.rewrite import drop_dead
from tilewright.ir.types import Type, float16, float32, int32, pointer_to
from tilewright.ir.verify import verify
from tilewright.lang.frontend import build_kernel
from tilewright.lang.jit import JITCallable as jit
from tilewright.ops import control, dot, reduce
from tilewright.passes import loops, pipeline
from tilewright.targets.cuda.arch import ARCHES
from tilewright.targets.cuda.assign import Assignment, assign
from tilewright.targets.cuda.convert import plan
from tilewright.targets.cuda.operands import DotLayouts, mma_a, mma_accumulator, mma_b
from tilewright.targets.cuda.relations import operand_layout

F32, F16, I32 = Type(pointer_to(float32)), Type(pointer_to(float16)), Type(int32)


def on_tensor_cores(inst, arch, num_warps):
    x, y, result = (v.type for v in (*inst.operands[:2], inst.result))
    bits = x.dtype.bits
    if bits > 16:
        return None
    return DotLayouts(
        mma_a(x.shape, bits, num_warps),
        mma_b(y.shape, bits, num_warps),
        mma_accumulator(result.shape, num_warps),
    )


def assigned(function, types, constants, divisible=(), num_warps=4) -> Assignment:
    facts = dict.fromkeys(divisible, 16)
    kernel = pipeline.run(build_kernel(function, types, constants, facts), verify=True)
    found = assign(drop_dead(kernel), ARCHES["sm_80"], num_warps, on_tensor_cores)
    check(found)
    return found


def check(found: Assignment) -> None:
    """Everything that emission relies on."""
    verify(found.kernel)
    for inst in found.kernel.walk():
        for value in inst.results:
            layout = found.layout(value)
            assert layout.shape == value.type.shape and layout.num_warps == found.num_warps
            assert layout.is_surjective
        for k, x in enumerate(inst.operands):
            assert found.wanted(inst, k).shape == x.type.shape
        check_inst(found, inst)


def check_inst(found: Assignment, inst) -> None:
    tiles = [k for k, x in enumerate(inst.operands) if x.type.shape]
    if inst.op in loops.LOOPS:
        for block in inst.blocks:
            params = loops.carried_params(inst, block)
            ends = range(len(params)) if block is loops.body(inst) else ()
            for k, (param, result) in enumerate(zip(params, inst.results, strict=True)):
                assert found.layout(param) == found.layout(result)
                assert found.wanted(inst, loops.bounds(inst) + k) == found.layout(param)
                assert k not in ends or found.wanted(block.terminator, k) == found.layout(param)
    elif inst.op is control.if_:
        for block in inst.blocks:
            for k, result in enumerate(inst.results):
                assert found.wanted(block.terminator, k) == found.layout(result)
    elif inst.op.access:
        assert {found.wanted(inst, k) for k in tiles} <= {found.site_layout(inst)}
        assert not inst.results or found.layout(inst.result) == found.site_layout(inst)
        registers = [r for vector in found.vectors(inst) for r in vector]
        assert sorted(registers) == list(range(found.site_layout(inst).registers))
    elif inst.op is reduce.reduce:
        (layout,) = {found.wanted(inst, k) for k in tiles}
        for result in inst.results:
            assert found.layout(result) == layout.reduced(inst.attrs["axis"]).compact()
    elif inst.results and inst.op is not dot.dot and len(inst.results) == 1:
        for k in tiles:
            wish = operand_layout(inst, k, found.layout(inst.result))
            assert wish is None or found.wanted(inst, k) == wish


def sites(found: Assignment, kind: str) -> list:
    return [i for i in found.kernel.walk() if i.op.access and i.op.access.kind == kind]


def bytes_moved(found: Assignment) -> list[int]:
    """Bytes of the tiles that conversions move between threads."""
    out = []
    for inst, k in found.conversions():
        x = inst.operands[k]
        kind = plan(found.layout(x), found.wanted(inst, k), x.type.dtype.bits).kind
        if kind in ("shuffles", "shared"):
            out.append(x.type.size * x.type.dtype.bytes)
    return sorted(out)


@jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n)
    b = tl.load(y + at, mask=at < n)
    tl.store(out + at, a + b.to(tl.float32), mask=at < n)


ADD = {"x": F32, "y": F32, "out": F32, "n": I32}


@pytest.mark.parametrize(
    "divisible, block, width",
    [
        (("x", "y", "out", "n"), 1024, 4),
        (("x", "y", "out"), 1024, 1),  # a mask may end anywhere
        (("n",), 1024, 1),  # pointers may be odd
        (("x", "y", "out", "n"), 256, 2),  # rather narrow than idle
    ],
)
def test_widths_are_proven(divisible, block, width):
    found = assigned(add, ADD, {"BLOCK": block}, divisible)
    assert [row["vec"] for row in found.report()] == [width] * 3
    assert all(row["sectors"] == row["least"] == 4 * width for row in found.report())
    assert found.conversions() == []


def test_types_of_different_size_agree_on_a_width():
    types = {**ADD, "y": F16}
    found = assigned(add, types, {"BLOCK": 1024}, types)
    assert [row["vec"] for row in found.report()] == [4, 4, 4]
    assert found.conversions() == []


@jit
def softmax(x, out, stride, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    values = tl.load(x + row * stride + at)
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + at, values / tl.sum(values, 0))


def test_rows_need_no_conversion():
    types = {"x": F32, "out": F32, "stride": I32}
    found = assigned(softmax, types, {"COLUMNS": 2048}, types)
    assert found.conversions() == []
    assert [row["vec"] for row in found.report()] == [4, 4]


@jit
def transpose(x, out, n, m, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + rows[:, None] * m + columns[None, :])
    tl.store(out + columns[None, :] * n + rows[:, None], values)


def test_a_transpose_converts_once_and_coalesces_twice():
    types = {"x": F32, "out": F32, "n": I32, "m": I32}
    found = assigned(transpose, types, {"BLOCK": 64}, types)
    assert bytes_moved(found) == [64 * 64 * 4]
    assert all(row["vec"] == 4 and row["sectors"] == row["least"] for row in found.report())


@jit
def matmul(a, b, bias, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = (tl.program_id(0) * M + tl.arange(0, M)) % m
    columns = (tl.program_id(1) * N + tl.arange(0, N)) % n
    inner = tl.arange(0, K)
    a += rows[:, None] * k + inner[None, :]
    b += inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.cdiv(k, K)):
        x = tl.load(a, mask=inner[None, :] < k - start * K, other=0.0)
        y = tl.load(b, mask=inner[:, None] < k - start * K, other=0.0)
        total = tl.dot(x, y, total)
        a += K
        b += K * n
    total += tl.load(bias + columns)[None, :]
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask)


@pytest.mark.parametrize("out", [F16, F32])
def test_matmul(out):
    types = {"a": F16, "b": F16, "bias": F32, "c": out, "m": I32, "n": I32, "k": I32}
    found = assigned(matmul, types, {"M": 128, "N": 128, "K": 32}, types)
    (product,) = [i for i in found.kernel.walk() if i.op is dot.dot]
    accumulator = mma_accumulator((128, 128), 4)
    assert found.layout(product.result) == accumulator
    assert found.layout(product.operands[2]) == accumulator
    a, b, _ = (found.sites[i] for i in sites(found, "load"))
    assert (a.vec, b.vec) == (8, 8)
    moved = bytes_moved(found)
    operands = 2 * 128 * 32 * 2
    if out is F32:  # eight bytes of each of four lanes are a whole sector
        assert sum(moved) <= operands + 128 * 4
    else:
        assert sum(moved) <= operands + 128 * 4 + 128 * 128 * 2
    (store,) = sites(found, "store")
    touched, least = found.sites[store].sectors(found.site_layout(store))
    assert touched == least
    value = store.operands[1]
    way = plan(found.layout(value), found.site_layout(store), value.type.dtype.bits)
    assert out is F32 or way.steps[-1].in_warp  # no barrier in the epilogue


@jit
def attention(q, k, v, out, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    dims = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + dims[None, :])
    highest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    mixed = tl.zeros((M, D), tl.float32)
    for start in range(0, length, N):
        keys = start + tl.arange(0, N)
        score = tl.dot(queries, tl.load(k + keys[None, :] * D + dims[:, None]))
        score = tl.where(rows[:, None] >= keys[None, :], score, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        shrink = tl.exp2(highest - higher)
        weight = tl.exp2(score - higher[:, None])
        total = total * shrink + tl.sum(weight, 1)
        values = tl.load(v + keys[:, None] * D + dims[None, :])
        mixed = tl.dot(weight.to(tl.float16), values, mixed * shrink[:, None])
        highest = higher
    tl.store(out + rows[:, None] * D + dims[None, :], (mixed / total[:, None]).to(tl.float16))


def test_attention_moves_only_what_it_loads_and_stores():
    """Scores, their rows' maxima and sums, and P as an operand stay where they are."""
    types = {"q": F16, "k": F16, "v": F16, "out": F16, "length": I32}
    found = assigned(attention, types, {"D": 64, "M": 64, "N": 32}, types)
    tile = 64 * 64 * 2
    assert bytes_moved(found) == [tile // 2, tile // 2, tile, tile]


@jit
def gathered(x, at, out, n, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(at + here)
    tl.store(out + here, tl.load(x + where))


def test_a_gather_follows_its_index():
    types = {"x": F32, "at": Type(pointer_to(int32)), "out": F32, "n": I32}
    found = assigned(gathered, types, {"BLOCK": 1024}, types)
    assert found.conversions() == []
    assert [row["vec"] for row in found.report()] == [4, 1, 4]


@jit
def outer(x, y, out, n, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    a = tl.load(x + rows)[:, None] * tl.load(y + columns)[None, :]
    tl.store(out + rows[:, None] * n + columns[None, :], a)


def test_small_loads_are_made_where_they_are_wanted():
    types = {"x": F32, "y": F32, "out": F32, "n": I32}
    found = assigned(outer, types, {"BLOCK": 64}, types)
    assert bytes_moved(found) == []


@jit
def shapes(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    low, high = tl.split(tl.reshape(values, (BLOCK // 2, 2)))
    both = tl.join(high, low)
    turned = tl.trans(tl.reshape(both, (BLOCK // 8, 8)))
    summed = tl.cumsum(tl.flip(tl.reshape(turned, (BLOCK,))), 0)
    best = tl.argmax(tl.sort(summed), 0)
    tl.store(out + at, tl.cat(low, high, can_reorder=True) + best + tl.sum(values * 2, 0))


@pytest.mark.parametrize("block", [8, 128, 2048])
def test_ops_on_shapes(block):
    assigned(shapes, {"x": F32, "out": F32}, {"BLOCK": block}, ("x", "out"))


def given_to(kernel, arguments: list) -> list:
    found = fuzz.buffers(kernel, arguments)
    return [Scalar(int32, x) if isinstance(x, int) else x for x in found]


@pytest.mark.parametrize("passes", [(), pipeline.STANDARD], ids=["before", "after"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(case=fuzz.kernels())
def test_random_kernels_are_consistent_and_mean_the_same(passes, case):
    kernel = pipeline.run(case.kernel, passes)
    found = assign(kernel, ARCHES["sm_80"], 2)
    check(found)
    results = []
    for one in (kernel, found.kernel):
        arguments = case.fresh()
        with np.errstate(all="ignore"):
            run_ir(one, fuzz.GRID, given_to(one, arguments))
        results.append(arguments)
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)
