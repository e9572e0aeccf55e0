"""Names of the language beyond the usual ones: inline PTX, maps over elements, type names."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError, UnsupportedError
from tilewright.language import target_info

AT = np.arange(8)


@pytest.fixture(params=["eager", pytest.param("cpu", marks=pytest.mark.cpu)])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@tilewright.jit
def asm_kernel(out, x, ASM: tl.constexpr, DTYPE: tl.constexpr, CONSTRAINTS: tl.constexpr):
    at = tl.arange(0, 8)
    tile = tl.load(x + at)
    result = tl.inline_asm_elementwise(ASM, CONSTRAINTS, [tile], DTYPE, is_pure=True, pack=1)
    tl.store(out + at, result)


INTS = np.array([0, 1, -1, 5, 0x12345678, -77, 1 << 30, 8], np.int32)
FLOATS = np.array([0.5, -0.5, 2, -3, 1e-3, 10, 0.1, 7], np.float32)
PREDICATE = """{ // the larger of x and 1
    .reg .pred p;
    setp.gt.f32 p, $1, 0f3F800000;
    mov.f32 $0, 1.0;
    @p mov.f32 $0, $1;
}"""


def rotated(x, by):
    u = x.view(np.uint32).astype(np.uint64)
    return ((u << by | u >> (32 - by)) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize(
    "asm, x, expected",
    [
        ("tanh.approx.f32 $0, $1;", FLOATS, np.tanh(FLOATS)),
        ("ex2.approx.ftz.f32 $0, $1;", FLOATS, np.exp2(FLOATS)),
        ("rcp.approx.f32 $0, $1;", FLOATS, 1 / FLOATS),
        ("fma.rn.f32 $0, $1, $1, 0f40000000;", FLOATS, FLOATS * FLOATS + 2),
        (PREDICATE, FLOATS, np.maximum(FLOATS, 1)),
        ("add.s32 $0, $1, -3;", INTS, INTS - 3),
        ("shl.b32 $0, $1, 4;", INTS, INTS << 4),
        ("shl.b32 $0, $1, 40;", INTS, INTS * 0),
        ("shr.s32 $0, $1, 40;", INTS, INTS >> 31),
        ("shf.l.wrap.b32 $0, $1, $1, 7;", INTS, rotated(INTS, 7)),
        ("lop3.b32 $0, $1, 12, 10, 0x96;", INTS, INTS ^ 12 ^ 10),
        ("lop3.b32 $0, $1, 12, 10, 0xEA;", INTS, (INTS & 12) | 10),
        ("prmt.b32 $0, $1, $1, 0x0123;", INTS, INTS.byteswap()),
        ("{ .reg .u32 t; mul.lo.u32 t, $1, 3; not.b32 $0, t; }", INTS, ~(INTS * 3)),
        ("fns.b32 $0, $1, 3, 2;", INTS, np.array([-1, -1, 4, -1, 4, 5, -1, -1], np.int32)),
        ("fns.b32 $0, $1, 3, -1;", INTS, np.array([-1, 0, 3, 2, 3, 1, -1, 3], np.int32)),
        ("fns.b32 $0, $1, 2, 0;", INTS, np.array([-1, -1, 2, 2, -1, -1, -1, -1], np.int32)),
        ("popc.b32 $0, $1;", INTS, np.array([bin(int(i) & 0xFFFFFFFF).count("1") for i in INTS])),
        ("mul.hi.s32 $0, $1, 1000;", INTS, (INTS.astype(np.int64) * 1000 >> 32).astype(np.int32)),
        ("cvt.rzi.s32.f32 $0, $1;", FLOATS, FLOATS.astype(np.int32)),
        ("{ cvt.rna.tf32.f32 $0, $1; }", FLOATS[:8] * 0 + 1, np.full(8, 1, np.float32)),
    ],
)  # fmt: skip
def test_ptx(target, asm, x, expected):
    out = np.zeros(8, np.float32 if expected.dtype.kind == "f" else np.int32)
    dtype = tl.float32 if expected.dtype.kind == "f" else tl.int32
    asm_kernel[(1,)](out, x, asm, dtype, "=r,r")
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "asm, constraints, reason",
    [
        ("mov.u32 $0, %laneid;", "=r,r", "`%laneid` is not known"),
        ("vadd4.u32.u32.u32 $0, $1, $1, $1;", "=r,r", "not among the instructions"),
        ("mov.b32 $0, $1;", "=r,=r,r", "writes 2 registers for 1 results"),
        ("add.s32 $1, $1, 1;", "=r,r", "nothing writes \\$0"),
    ],
)
def test_ptx_that_is_not_known(target, asm, constraints, reason):
    with pytest.raises(UnsupportedError, match=reason):
        asm_kernel[(1,)](np.zeros(8, np.int32), INTS, asm, tl.int32, constraints)


@tilewright.jit
def packed_kernel(out, x, ASM: tl.constexpr, DTYPE: tl.constexpr, CONSTRAINTS: tl.constexpr,
                  PACK: tl.constexpr, M: tl.constexpr):  # fmt: skip
    at = tl.arange(0, M)[:, None] * 8 + tl.arange(0, 8)[None, :]
    result = tl.inline_asm_elementwise(
        ASM, CONSTRAINTS, [tl.load(x + at)], DTYPE, is_pure=True, pack=PACK
    )
    tl.store(out + at, result)


BYTES = np.arange(16, dtype=np.uint8).reshape(2, 8) * 15
HALVES = np.linspace(-4, 4, 16).astype(np.float16).reshape(2, 8)
SINGLES = HALVES.astype(np.float32)
UNPACK = """{
    .reg .b8 part<4>;
    mov.b32 {part0, part1, part2, part3}, $4;
    cvt.u32.u8 $0, part3; // in the opposite order
    cvt.u32.u8 $1, part2;
    cvt.u32.u8 $2, part1;
    cvt.u32.u8 $3, part0;
}"""


@pytest.mark.parametrize(
    "asm, constraints, pack, x, dtype, expected",
    [
        ("and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;", "=r,r", 4, BYTES, tl.uint8, BYTES << 3),
        (UNPACK, "=r,=r,=r,=r,r", 4, BYTES, tl.int32,
         BYTES.reshape(-1, 4)[:, ::-1].reshape(2, 8).astype(np.int32)),
        ("mul.rn.f16x2 $0, $1, $1;", "=r,r", 2, HALVES, tl.float16, HALVES * HALVES),
        ("cvt.rn.f16x2.f32 $0, $2, $1;", "=r,r,r", 2, SINGLES, tl.float16, HALVES),
        ("add.s32 $0, $2, 1; add.s32 $1, $3, 2;", "=r,=r,r,r", 2, BYTES.astype(np.int32), tl.int32,
         BYTES.astype(np.int32) + np.array([1, 2] * 4)),
    ],
)  # fmt: skip
def test_packed_ptx(target, asm, constraints, pack, x, dtype, expected):
    out = np.zeros_like(expected)
    packed_kernel[(1,)](out, x, asm, dtype, constraints, pack, 2)
    np.testing.assert_array_equal(out, expected)


def test_packed_ptx_must_fit(target):
    with pytest.raises(UnsupportedError, match="4 elements at once take 1 registers, not 2"):
        packed_kernel[(1,)](BYTES, BYTES, "mov.b32 $0, $2;", tl.uint8, "=r,=r,r", 4, 2)
    with pytest.raises(CompileError, match="pack must be a power of two"):
        packed_kernel[(1,)](BYTES, BYTES, "mov.b32 $0, $1;", tl.uint8, "=r,r", 3, 2)


@tilewright.jit
def two_outputs_kernel(out, x):
    at = tl.arange(0, 8)
    asm: tl.constexpr = "{ add.s32 $0, $2, $3; sub.s32 $1, $2, $3; }"
    a, b = tl.inline_asm_elementwise(
        asm, "=r,=r,r,r", [tl.load(x + at), 5], (tl.int32, tl.int32), True, 1
    )
    tl.store(out + at, a * b)


def test_ptx_with_two_results(target):
    out = np.zeros(8, np.int32)
    two_outputs_kernel[(1,)](out, INTS)
    np.testing.assert_array_equal(out, (INTS + 5) * (INTS - 5))


@tilewright.jit
def selu(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)


@tilewright.jit
def sign_and_size(x):
    sign = 0
    if x > 0:
        sign = 1
    elif x < 0:
        sign = -1
    size = x if x > 0 else -x
    return sign, size


@tilewright.jit
def map_kernel(out, x):
    at = tl.arange(0, 8)
    tile = tl.load(x + at)
    sign, size = tl.map_elementwise(sign_and_size, tile)
    tl.store(out + at, tl.map_elementwise(selu, tile, 1.5))
    tl.store(out + 8 + at, sign * size)


def test_map_of_functions_that_branch(target):
    out = np.zeros(16, np.float32)
    map_kernel[(1,)](out, FLOATS)
    expected = np.where(FLOATS > 0, FLOATS, 1.5 * (np.exp(FLOATS) - 1))
    np.testing.assert_allclose(out, [*expected, *FLOATS], rtol=1e-5)


@tl.core.extern
def my_exp(x, _semantic=None):
    return tl.core.extern_elementwise(
        "",
        "",
        [x],
        {
            (tl.float32,): ("__nv_expf", tl.float32),
            (tl.float64,): ("__nv_exp", tl.float64),
            (tl.int32,): ("__my_own", tl.int32),
        },
        is_pure=True,
        _semantic=_semantic,
    )


@tilewright.jit
def extern_kernel(out, x):
    at = tl.arange(0, 8)
    tl.store(out + at, my_exp(tl.load(x + at)))


def test_external_functions(target):
    out = np.zeros(8, np.float32)
    extern_kernel[(1,)](out, FLOATS)
    np.testing.assert_allclose(out, np.exp(FLOATS), rtol=1e-6)
    with pytest.raises(UnsupportedError, match="the external function `__my_own`"):
        extern_kernel[(1,)](np.zeros(8, np.int32), INTS)
    with pytest.raises(CompileError, match="no function for \\(fp16\\)"):
        extern_kernel[(1,)](out, FLOATS.astype(np.float16))


@tl.core._aggregate
class Range:
    start: tl.tensor
    size: tl.constexpr

    def __init__(self, start, size):
        self.start = start
        self.size = size


@tilewright.jit
def small_kernel(out, x):
    at = tl.arange(0, 8)
    tile = tl.load(x + at)
    tl.static_assert(tl.unsqueeze(tile, 0).shape[0] == 1)
    tile = tl.squeeze(tl.unsqueeze(tile, 0), 0)
    least = tl.topk(tile, 2, descending=False)
    moved = tl.aggregate_replace(Range(at, 8), start=at + 1)
    turns = 0
    while tl.condition(turns < 3, disable_licm=True):
        turns += 1
    if tl.target_info.is_cuda():
        turns += 100
    tl.store(out + at, tl.fma(x=tile, y=2.0, z=1.0) + moved.start + turns + moved.size)
    tl.store(out + 8 + tl.arange(0, 2), least)


def test_small_functions(target):
    out = np.zeros(10, np.float32)
    small_kernel[(1,)](out, FLOATS)
    expected = FLOATS * 2 + 1 + AT + 1 + 3 + 8
    np.testing.assert_allclose(out, [*expected, -3, -0.5], rtol=1e-6)


def test_targets():
    assert target_info.current_target().backend == "cpu"
    assert not target_info.is_hip() and not target_info.cuda_capability_geq(8)


def test_types_by_name():
    assert tl.str_to_ty("*fp16") == tl.pointer_type(tl.float16)
    assert tl.str_to_ty("i32") is tl.int32 and tl.str_to_ty("u1") is tl.int1
    assert isinstance(tl.float32, tl.core.base_type)
    assert isinstance(tl.constexpr(3), tl.core.base_value)
    assert tl.tuple_type((tl.int32,)) == tl.tuple_type((tl.int32,))
    with pytest.raises(UnsupportedError, match="async_task is not supported"):
        tl.async_task([0])
