"""The matrix microkernel and its packing, against NumPy on every dtype and many shapes."""

from __future__ import annotations

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest

from tilewright.codegen.llvm import (
    LEVELS,
    Library,
    Machine,
    compile_object,
    emit_assembly,
    host_machine,
)
from tilewright.errors import InternalError
from tilewright.ir import types as ty
from tilewright.targets.cpu.gemm import Gemm, Left, Live, Panel, gemm_function
from tilewright.targets.cpu.gemm_pack import (
    pack_function,
    pack_rows_function,
    pack_transposed_function,
)

NUMPY = {
    ty.bfloat16: np.dtype(ml_dtypes.bfloat16),
    ty.float16: np.dtype(np.float16),
    ty.float32: np.dtype(np.float32),
    ty.float64: np.dtype(np.float64),
    ty.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    ty.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    ty.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    ty.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
} | {d: np.dtype(d.name) for d in (ty.int8, ty.int16, ty.int32, ty.uint8)}
ACC = {d: ty.int32 if d.is_integer else ty.float32 for d in NUMPY} | {ty.float64: ty.float64}
SHAPES = [
    (1, 1, 1), (1, 16, 16), (16, 1, 16), (2, 4, 8), (16, 16, 1), (4, 2, 2), (8, 8, 4),
    (16, 16, 16), (32, 8, 64), (16, 128, 32), (64, 64, 32), (128, 256, 32), (32, 32, 128),
]  # fmt: skip
HOST = host_machine()
FEATURE = {"sse": "sse4.2", "avx2": "avx2", "avx512": "avx512bw", "neon": "neon"}
LESSER = [name for name in LEVELS.get(HOST.arch, {}) if HOST.has(FEATURE[name])]
on_x86 = pytest.mark.skipif(HOST.arch != "x86_64", reason="x86 instructions")
ARM = Machine("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")


def module(function, exported: bool = False) -> str:
    """The text of a module with one function, which `run` calls if `exported`, else is."""
    text = "\n".join([*function.needs, function.definition])
    if not exported:
        return text.replace(f"define void @{function.name}(", "define void @run(")
    head = function.definition.splitlines()[0]
    parameters = head[head.index("(") : head.index(")") + 1]
    call = f" call void @{function.name}{parameters}\n ret void\n}}"
    return f"{text}\ndefine void @run{parameters} {{\n{call}"


class Native:
    """A compiled function; arrays are passed by address."""

    def __init__(self, function, machine: Machine = HOST):
        text = module(function, exported=True)
        self.library = Library.load(compile_object(text, machine).bytes, ["run"])

    def __call__(self, *args) -> None:
        kinds = [ctypes.c_int64 if isinstance(x, int) else ctypes.c_void_p for x in args]
        run = ctypes.CFUNCTYPE(None, *kinds)(self.library.address("run"))
        run(*(x.ctypes.data if isinstance(x, np.ndarray) else x for x in args))


def empty(size: int, dtype: np.dtype) -> np.ndarray:
    """A 64-byte aligned array, filled with ones in every bit."""
    raw = np.full(size * dtype.itemsize + 64, 255, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


def random_tile(rows: int, columns: int, dtype, seed: int, gap: int = 0) -> np.ndarray:
    """A tile that is part of a wider array."""
    random = np.random.default_rng(seed)
    kind = NUMPY[dtype]
    if dtype.is_integer:
        info = np.iinfo(kind)
        low, high = max(info.min, -(1 << 12)), min(info.max, 1 << 12)
        whole = random.integers(low, high, (rows, columns + gap), endpoint=True).astype(kind)
    else:
        whole = random.standard_normal((rows, columns + gap)).astype(kind)
    return whole[:, :columns]


def stride(tile: np.ndarray) -> int:
    return tile.strides[0] // tile.itemsize


def pack_reference(b: np.ndarray, panel: Panel, dtype) -> np.ndarray:
    k_size, n_size = b.shape
    out = np.empty(b.size, NUMPY[dtype])
    for k, n in itertools.product(range(k_size), range(n_size)):
        out[panel.offset(k, n, k_size)] = b[k, n].astype(NUMPY[dtype])
    return out


def multiply(
    gemm: Gemm, machine: Machine, a, b, c, following=(None, 0, None, 0, None, 0), extents=None
) -> np.ndarray:
    """c + a @ b by the function, on operands that NumPy converts and packs."""
    packed = empty(b.size, NUMPY[gemm.operand])
    packed[:] = pack_reference(b, gemm.panel, gemm.operand)
    a = a if a.dtype == NUMPY[gemm.operand] else a.astype(NUMPY[gemm.operand])
    a = a + NUMPY[gemm.operand].type(gemm.bias) if gemm.bias else a
    wide = np.zeros((gemm.m, gemm.n + 3), NUMPY[gemm.acc])
    wide[:, : gemm.n] = c
    given = a
    if gemm.left is Left.TABLE:
        given = np.array([row.ctypes.data for row in a])
    if gemm.left is Left.TURNED:
        given = pack_reference(a.T, gemm.left_panel, gemm.operand)
    ahead = [ctypes.c_void_p(x) if i % 2 == 0 else x for i, x in enumerate(following)]
    Native(gemm, machine)(
        given, stride(a), packed, wide, gemm.n + 3, *ahead, *(extents or (gemm.m, gemm.n, gemm.k))
    )
    assert not wide[:, gemm.n :].any()
    return wide[:, : gemm.n]


def check(dtype, shape, machine=HOST, gap=0, **options) -> Gemm:
    """One product against NumPy in f64: exact for integers, else within the bound of any order."""
    (m, n, k), acc = shape, ACC[dtype]
    gemm = gemm_function(m, n, k, dtype, acc, machine, **options)
    assert (gemm.m, gemm.n, gemm.k, gemm.acc) == (m, n, k, acc)
    a = random_tile(m, k, dtype, 1, gap)
    b = random_tile(k, n, dtype, 2)
    c = random_tile(m, n, acc, 3)
    got = multiply(gemm, machine, a, b, c).astype(np.float64)
    a, b, c = (x.astype(np.float64) for x in (a, b, c))
    want = c + a @ b
    if acc is ty.int32:
        np.testing.assert_array_equal(got, want)
    else:
        epsilon = np.finfo(NUMPY[acc]).eps
        assert np.all(np.abs(got - want) <= (k + 1) * epsilon * (np.abs(a) @ np.abs(b) + abs(c)))
    return gemm


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
@pytest.mark.parametrize("shape", [(1, 16, 16), (16, 4, 2), (8, 8, 1), (32, 64, 32)], ids=str)
def test_every_dtype(dtype, shape):
    check(dtype, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [ty.float32, ty.int8], ids=str)
def test_shapes(dtype, shape):
    gemm = check(dtype, shape)
    assert shape[1] % gemm.panel.width == 0


@pytest.mark.parametrize("depth", [0, 8, 32])
@pytest.mark.parametrize("dtype", [ty.float32, ty.bfloat16, ty.int8], ids=str)
def test_sums_that_begin(dtype, depth):
    """What the result held does not matter, also where there are no steps."""
    (m, n, k), acc = (16, 128, 32), ACC[dtype]
    options = {"native_bf16": True, "live": Live(depth=True), "fresh": True}
    gemm = gemm_function(m, n, k, dtype, acc, HOST, **options)
    a, b = random_tile(m, k, dtype, 1), random_tile(k, n, dtype, 2)
    c = np.full((m, n), np.nan if dtype.is_float else 7, NUMPY[acc])
    got = multiply(gemm, HOST, a, b, c, extents=(m, n, depth))
    a, b = (x.astype(np.float64) for x in (a[:, :depth], b[:depth]))
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", LESSER)
@pytest.mark.parametrize("dtype", [ty.float32, ty.float64, ty.bfloat16, ty.uint8], ids=str)
@pytest.mark.parametrize("shape", [(1, 16, 16), (16, 4, 8), (32, 64, 32)], ids=str)
def test_lesser_machines(level, dtype, shape):
    check(dtype, shape, host_machine(level))


@pytest.mark.parametrize("level", ["", *LESSER])
@pytest.mark.parametrize("left", Left)
@pytest.mark.parametrize("dtype", [ty.float32, ty.bfloat16, ty.int8], ids=str)
@pytest.mark.parametrize("extents", [(1, 1, 4), (5, 17, 12), (16, 100, 32), (7, 64, 8)], ids=str)
def test_part_of_a_tile(level, left, dtype, extents):
    (m, n, k), acc, machine = (16, 128, 32), ACC[dtype], host_machine(level)
    options = {"left": left, "native_bf16": True, "live": Live(True, True, True)}
    gemm = gemm_function(m, n, k, dtype, acc, machine, **options)
    a, b, c = (random_tile(*x, 1) for x in ((m, k, dtype), (k, n, dtype), (m, n, acc)))
    rows, columns, depth = extents
    if dtype.is_float:
        a[:, depth:] = b[depth:] = np.nan
        a[rows:] = np.nan
    got = multiply(gemm, machine, a, b, c, extents=extents)[:rows, :columns]
    a, b, c = (x.astype(np.float64) for x in (a[:rows, :depth], b[:depth, :columns], c))
    np.testing.assert_allclose(got, c[:rows, :columns] + a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [ty.float32, ty.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 64, 32), (16, 16, 16), (64, 64, 32)], ids=str)
def test_a_read_in_place(dtype, shape):
    gemm = check(dtype, shape, gap=5)
    assert gemm.operand is dtype


def test_f32_is_summed_in_order_by_fma():
    gemm = gemm_function(8, 16, 4, ty.float32, ty.float32, HOST)
    ones, zero = np.ones((4, 16), np.float32), np.zeros((8, 16), np.float32)
    a = np.tile(np.array([2.0**24, 1, -(2.0**24), 1], np.float32), (8, 1))
    assert np.all(multiply(gemm, HOST, a, ones, zero) == 1)
    x = np.float32(1 + 2.0**-12)
    a, b = np.zeros((8, 4), np.float32), np.zeros((4, 16), np.float32)
    a[:, 1], b[1] = x, x
    assert np.all(multiply(gemm, HOST, a, b, zero - np.float32(1 + 2.0**-11)) == 2.0**-24)


def test_f32_results_do_not_depend_on_the_blocking():
    m, n, k = 16, 64, 32
    a, b = random_tile(m, k, ty.float32, 1), random_tile(k, n, ty.float32, 2)
    zero = np.zeros((m, n), np.float32)
    machines = [HOST] + [host_machine(name) for name in LESSER if name != "sse"]
    results = []
    for machine in machines:
        gemm = gemm_function(m, n, k, ty.float32, ty.float32, machine)
        results.append(multiply(gemm, machine, a, b, zero))
    half = gemm_function(m, n, k // 2, ty.float32, ty.float32, HOST)
    first = multiply(half, HOST, a[:, : k // 2], b[: k // 2], zero)
    results.append(multiply(half, HOST, a[:, k // 2 :], b[k // 2 :], first))
    one = gemm_function(1, 1, k, ty.float32, ty.float32, HOST)
    corner = multiply(one, HOST, a[5:6], np.ascontiguousarray(b[:, 7:8]), zero[:1, :1])
    assert corner[0, 0] == results[0][5, 7]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("dtype", [ty.int8, ty.uint8], ids=str)
def test_extreme_bytes_do_not_saturate(dtype):
    info, k = np.iinfo(NUMPY[dtype]), 128
    gemm = gemm_function(16, 32, k, dtype, ty.int32, HOST)
    for x, y in itertools.product((info.min, info.max), repeat=2):
        a, b = np.full((16, k), x, NUMPY[dtype]), np.full((k, 32), y, NUMPY[dtype])
        got = multiply(gemm, HOST, a, b, np.zeros((16, 32), np.int32))
        assert np.all(got == k * int(x) * int(y))


def test_int32_wraps():
    a, b = np.full((4, 4), 1 << 30, np.int32), np.full((4, 4), 3, np.int32)
    gemm = gemm_function(4, 4, 4, ty.int32, ty.int32, HOST)
    got = multiply(gemm, HOST, a, b, np.zeros((4, 4), np.int32))
    assert np.all(got == 0)


def test_bf16_keeps_denormals_unless_native_products_are_allowed():
    a = np.full((8, 8), 2.0**-130, NUMPY[ty.bfloat16])
    b = np.eye(8, dtype=NUMPY[ty.bfloat16])
    gemm = gemm_function(8, 8, 8, ty.bfloat16, ty.float32, HOST)
    assert gemm.operand is ty.float32
    got = multiply(gemm, HOST, a, b, np.zeros((8, 8), np.float32))
    np.testing.assert_array_equal(got, a.astype(np.float32))


@pytest.mark.skipif(not HOST.has("avx512bf16"), reason="no bf16 products")
@pytest.mark.parametrize("shape", [(1, 16, 16), (16, 4, 2), (64, 64, 32), (16, 8, 64)], ids=str)
@pytest.mark.parametrize("left", Left)
def test_native_bf16(shape, left):
    gemm = check(ty.bfloat16, shape, gap=5, native_bf16=True, left=left)
    assert gemm.operand is ty.bfloat16
    assert gemm.panel.k_group == 2
    assert "vdpbf16ps" in emit_assembly(module(gemm), HOST)


@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 16, 16), (64, 64, 32), (32, 512, 16)], ids=str)
@pytest.mark.parametrize("b_transposed", [False, True])
def test_prefetching_never_faults_and_changes_nothing(shape, b_transposed):
    m, n, k = shape
    gemm = gemm_function(m, n, k, ty.float32, ty.float32, HOST, b_transposed=b_transposed)
    a, b = random_tile(m, k, ty.float32, 1), random_tile(k, n, ty.float32, 2)
    zero = np.zeros((m, n), np.float32)
    nothing = multiply(gemm, HOST, a, b, zero)
    nowhere = multiply(gemm, HOST, a, b, zero, (64, 1 << 40, 128, 1 << 20, 192, 1 << 30))
    np.testing.assert_array_equal(nothing, nowhere)


def addresses_prefetched(gemm: Gemm) -> list[int]:
    """Byte offsets that a call asks for: prefetches made stores of a count into a shadow."""
    text = module(gemm, exported=True).replace("@llvm.prefetch.p0(", "@note(")
    text = text.replace("declare void @note(ptr, i32, i32, i32)", "")
    text += """
define internal void @note(ptr %p, i32, i32, i32) {
  %old = load i8, ptr %p
  %new = add i8 %old, 1
  store i8 %new, ptr %p
  ret void
}
"""
    library = Library.load(compile_object(text, HOST).bytes, ["run"])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = [pointer, number, pointer, *[pointer, number] * 4, *[number] * 3]
    run = ctypes.CFUNCTYPE(None, *kinds)(library.address("run"))
    a, b, c = (empty(1 << 16, np.dtype(np.float64)) for _ in range(3))
    for x in (a, b, c):
        x[:] = 0
    shadow = np.zeros((3, 1 << 22), np.uint8)
    bases = [row.ctypes.data for row in shadow]
    run(
        a.ctypes.data,
        gemm.k,
        b.ctypes.data,
        c.ctypes.data,
        gemm.n,
        bases[0],
        1000,
        bases[1],
        2000,
        bases[2],
        3000,
        gemm.m,
        gemm.n,
        gemm.k,
    )
    return [np.repeat(np.nonzero(row)[0], row[row > 0]).tolist() for row in shadow]


@pytest.mark.parametrize("shape", [(16, 16, 16), (64, 64, 32), (128, 32, 64), (32, 512, 16)])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("dtype", [ty.float32, ty.float16, ty.int8], ids=str)
def test_every_cache_line_of_the_next_tiles_is_prefetched(shape, b_transposed, dtype):
    """Lines that a row begins in once, and that of its last element, wherever lines begin."""
    m, n, k = shape
    options = {"b_transposed": b_transposed, "stored": dtype}
    gemm = gemm_function(m, n, k, dtype, ACC[dtype], HOST, **options)
    tiles = (m, k, 1000), (*((n, k) if b_transposed else (k, n)), 2000), (m, n, 3000)
    for found, (rows, columns, stride) in zip(addresses_prefetched(gemm), tiles, strict=True):
        size, row = dtype.bytes, range(0, columns * dtype.bytes, 64)
        starts = [i * stride * size + byte for i in range(rows) for byte in row]
        ends = {(i * stride + columns - 1) * size for i in range(rows)}
        assert [at for at in found if at in set(starts)] == starts
        assert ends <= set(found)


@pytest.mark.parametrize("dtype", [ty.float32, ty.float64, ty.int8], ids=str)
def test_code_for_aarch64(dtype):
    for live in (Live(), Live(True, True, True)):
        gemm = gemm_function(64, 64, 32, dtype, ACC[dtype], ARM, live=live)
        assembly = emit_assembly(module(gemm), ARM)
        assert ("mla\tv" if dtype is ty.int8 else "fmla\tv") in assembly
    for pack, part in itertools.product((pack_rows_function, pack_transposed_function), (0, 1)):
        made = pack(32, 64, dtype, gemm.operand, gemm.panel, ARM, live=bool(part))
        assert emit_assembly(module(made), ARM)


@on_x86
def test_no_library_calls_without_fma():
    machine = host_machine("sse")
    gemm = gemm_function(16, 16, 16, ty.float32, ty.float32, machine)
    assert "fmaf" not in emit_assembly(module(gemm), machine)


@pytest.mark.skipif(not HOST.has("avx512vnni"), reason="no VNNI")
def test_signed_bytes_use_one_instruction_for_four():
    gemm = gemm_function(64, 64, 32, ty.int8, ty.int32, HOST)
    assembly = emit_assembly(module(gemm), HOST)
    assert "vpdpbusd" in assembly
    assert "vpdpwssd" not in assembly


@pytest.mark.skipif(not HOST.has("avx512vnni"), reason="no VNNI")
def test_unsigned_bytes_use_one_instruction_for_pairs():
    gemm = gemm_function(64, 64, 32, ty.uint8, ty.int32, HOST)
    assembly = emit_assembly(module(gemm), HOST)
    assert "vpdpwssd" in assembly
    assert "vpmaddwd" not in assembly


def test_accumulators_stay_in_registers():
    gemm = gemm_function(64, 64, 32, ty.float32, ty.float32, HOST)
    assembly = emit_assembly(module(gemm), HOST)
    spills = [s for s in assembly.splitlines() if "(%rsp)" in s and ("zmm" in s or "ymm" in s)]
    assert not spills


def test_products_that_do_not_exist():
    with pytest.raises(InternalError, match="no matrix product of fp64 in fp32"):
        gemm_function(16, 16, 16, ty.float64, ty.float32, HOST)
    with pytest.raises(InternalError, match="no matrix product of int8 in fp32"):
        gemm_function(16, 16, 16, ty.int8, ty.float32, HOST)


def test_names_tell_functions_apart():
    texts = {}
    for dtype, left, native, transposed in itertools.product(
        (ty.float32, ty.bfloat16, ty.int8), Left, *[(False, True)] * 2
    ):
        options = {"left": left, "native_bf16": native, "b_transposed": transposed}
        gemm = gemm_function(16, 32, 8, dtype, ACC[dtype], HOST, **options)
        assert texts.setdefault(gemm.name, gemm.definition) == gemm.definition
    assert len(texts) >= 12


PACKS = [
    (ty.float32, ty.float32, 1), (ty.float64, ty.float64, 1), (ty.bfloat16, ty.bfloat16, 2),
    (ty.bfloat16, ty.float32, 1), (ty.float16, ty.float32, 1), (ty.float8e4nv, ty.float32, 1),
    (ty.int8, ty.int16, 2), (ty.uint8, ty.int16, 2), (ty.int8, ty.int32, 1),
    (ty.int8, ty.int8, 4),
]  # fmt: skip


@pytest.mark.parametrize("source, operand, group", PACKS, ids=str)
@pytest.mark.parametrize(
    "k, n, width", [(32, 64, 64), (2, 8, 4), (16, 256, 64), (64, 16, 16), (8, 1, 1), (4, 32, 32)]
)
@pytest.mark.parametrize("transposed", [False, True])
def test_panels(source, operand, group, k, n, width, transposed):
    panel = Panel(width, group)
    pack = pack_transposed_function if transposed else pack_rows_function
    if (group > 1 and width < 4) or k < group:
        pytest.skip("there are no such panels")
    shape = (n, k) if transposed else (k, n)
    tile = random_tile(*shape, source, 4, gap=7)
    out = empty(k * n + 64, NUMPY[operand])
    untouched = out[k * n :].tobytes()
    Native(pack(k, n, source, operand, panel, HOST))(out, tile, stride(tile))
    want = pack_reference(tile.T if transposed else tile, panel, operand)
    np.testing.assert_array_equal(out[: k * n].astype(np.float64), want.astype(np.float64))
    assert out[k * n :].tobytes() == untouched


@pytest.mark.parametrize("level", LESSER)
@pytest.mark.parametrize("source, operand, group", PACKS, ids=str)
def test_panels_on_lesser_machines(level, source, operand, group):
    if source is ty.float16 and level == "sse":
        pytest.skip("halves need the F16C instructions")
    panel, tile = Panel(16, group), random_tile(32, 32, source, 5, gap=1)
    want = pack_reference(tile, panel, operand).astype(np.float64)
    for pack, given in ((pack_rows_function, tile), (pack_transposed_function, tile.T)):
        given = given if pack is pack_rows_function else np.ascontiguousarray(given)
        out, machine = empty(1024, NUMPY[operand]), host_machine(level)
        Native(pack(32, 32, source, operand, panel, machine), machine)(out, given, stride(given))
        np.testing.assert_array_equal(out.astype(np.float64), want)


@pytest.mark.parametrize("source, operand, group", PACKS, ids=str)
@pytest.mark.parametrize("m, k", [(1, 16), (16, 1), (64, 32), (8, 256)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_in_rows(source, operand, group, m, k, transposed):
    tile = random_tile(*((k, m) if transposed else (m, k)), source, 6, gap=3)
    out = empty(m * k, NUMPY[operand])
    pack = pack_transposed_function if transposed else pack_rows_function
    Native(pack(m, k, source, operand, Panel(k), HOST))(out, tile, stride(tile))
    want = (tile.T if transposed else tile).astype(NUMPY[operand])
    np.testing.assert_array_equal(out.reshape(m, k).astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("along_rows", [False, True])
@pytest.mark.parametrize("left", [Left.ROWS, Left.TURNED])
@pytest.mark.parametrize("dtype", [ty.float32, ty.bfloat16, ty.int8], ids=str)
def test_pack_and_multiply_together(dtype, left, along_rows):
    m, n, k = 32, 128, 64
    gemm = gemm_function(m, n, k, dtype, ACC[dtype], HOST, native_bf16=True, left=left)
    a, bt = random_tile(m, k, dtype, 7, gap=3), random_tile(n, k, dtype, 8, gap=5)
    kind = NUMPY[gemm.operand]
    packed_a, packed_b = empty(m * k, kind), empty(n * k, kind)
    c = empty(m * n, NUMPY[ACC[dtype]])
    c[:] = 0
    held = a if along_rows else np.ascontiguousarray(a.T)
    pack = pack_function(gemm, 0, dtype, HOST, along_rows=along_rows)
    Native(pack)(packed_a, held, stride(held))
    pack = pack_function(gemm, 1, dtype, HOST, along_rows=False)
    Native(pack)(packed_b, bt, stride(bt))
    null = ctypes.c_void_p(None)
    Native(gemm)(packed_a, k, packed_b, c, n, null, 0, null, 0, null, 0, m, n, k)
    want = a.astype(np.float64) @ bt.astype(np.float64).T
    np.testing.assert_allclose(c.reshape(m, n), want, rtol=1e-5, atol=1e-4)
