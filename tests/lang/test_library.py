"""The functions of the language, run in eager mode: promotion, shapes, reductions, memory."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import tilewright.language as tl
from tilewright.errors import TypeRuleError
from tilewright.lang.tensor import tensor

from ..eager.launch import jit, launch

libdevice = tl.extra.libdevice


def evaluate(expression: str, **names):
    """What an expression in a kernel gives, as tensors' dtypes, shapes and arrays."""
    given = {"tl": tl, "libdevice": libdevice, "np": np, "out": []}
    arrays = {n: v for n, v in names.items() if isinstance(v, np.ndarray)}
    loads = [
        f"    {n} = tl.load({n}_ptr + tl.arange(0, {v.size}))"
        + ("" if v.ndim == 1 else f".reshape({list(v.shape)})")
        for n, v in arrays.items()
    ]
    others = {n: v for n, v in names.items() if n not in arrays}
    parameters = ", ".join([*[f"{n}_ptr" for n in arrays], *others])
    source = "\n".join([f"def kernel({parameters}):", *loads, f"    out.append({expression})"])
    exec(source, given)
    kernel = jit(given["kernel"])
    captured = []
    given["out"] = Collector(captured)
    launch(kernel, (1,), *arrays.values(), *others.values())
    (result,) = captured
    return result


class Collector:
    def __init__(self, into):
        self.into = into

    def append(self, value):
        self.into.append(taken(value))


def taken(value):
    if isinstance(value, tensor):
        return value.dtype, value.shape, np.asarray(value.numpy())
    return tuple(map(taken, value)) if isinstance(value, tuple) else value


I8, I32 = np.array([3, -2], np.int8), np.array([3, -2], np.int32)
U8, U32 = np.array([200, 2], np.uint8), np.array([7, 2], np.uint32)
I64 = np.array([1 << 40, 5], np.int64)
F16, F32 = np.array([1.5, -2], np.float16), np.array([1.5, -2], np.float32)
F64, BF16 = np.array([1.5, -2], np.float64), np.array([1.5, -2], ml_dtypes.bfloat16)
B = np.array([True, False])


@pytest.mark.parametrize(
    "expression, dtype, values",
    [
        ("i8 + i32", "int32", [6, -4]),
        ("i8 + u8", "uint8", [203, 0]),
        ("u8 + i32", "int32", [203, 0]),
        ("i32 + u32", "uint32", [10, 0]),
        ("u8 + 1", "uint8", [201, 3]),
        ("u8 + 100", "uint8", [44, 102]),
        ("i8 + 1.5", "fp32", [4.5, -0.5]),
        ("f16 + 1", "fp16", [2.5, -1]),
        ("f16 * 2.5", "fp16", [3.75, -5]),
        ("f16 + f32", "fp32", [3, -4]),
        ("f16 + bf16", "fp16", [3, -4]),
        ("bf16 + bf16", "bf16", [3, -4]),
        ("f32 + f64", "fp64", [3, -4]),
        ("f16 / 2", "fp32", [0.75, -1]),
        ("f16 / f16", "fp32", [1, 1]),
        ("bf16 / bf16", "fp32", [1, 1]),
        ("i32 / 2", "fp32", [1.5, -1]),
        ("i64 / i64", "fp32", [1, 1]),
        ("i32 // 2", "int32", [1, -1]),
        ("(i32 - 2) // 3", "int32", [0, -1]),
        ("i32 % 2", "int32", [1, 0]),
        ("(i32 - 3) % 3", "int32", [0, -2]),
        ("f32 % 1.0", "fp32", [0.5, 0]),
        ("7 // i32", "int32", [2, -3]),
        ("1 / f32", "fp32", [np.float32(1) / np.float32(1.5), -0.5]),
        ("i32 << 1", "int32", [6, -4]),
        ("i32 >> 1", "int32", [1, -1]),
        ("u32 >> 1", "uint32", [3, 1]),
        ("i32 & 1", "int32", [1, 0]),
        ("~i32", "int32", [-4, 1]),
        ("-u8", "uint8", [56, 254]),
        ("b + b", "int1", [False, False]),
        ("b & (i32 > 0)", "int1", [True, False]),
        ("f16 < 0.1", "int1", [False, True]),
        ("i8 < 300", "int1", [True, True]),
        ("i32 + 5000000000", None, None),
        ("u8 + -1", None, None),
        ("f32 & f32", None, None),
        ("u32 / i32", None, None),
        ("tl.maximum(f16, 0.0)", "fp32", [1.5, 0]),
        ("tl.maximum(bf16, bf16)", "fp32", [1.5, -2]),
        ("tl.minimum(i8, 0)", "int32", [0, -2]),
        ("tl.where(b, f16, 0.0)", "fp16", [1.5, 0]),
        ("tl.where(i32, 1, 2)", "int32", [1, 1]),
        ("tl.clamp(f32, -1.0, 1.0)", "fp32", [1, -1]),
        ("tl.clamp(i32, 0, 1)", None, None),
        ("tl.abs(i8)", "int8", [3, 2]),
        ("tl.fma(f32, f32, f32)", "fp32", [3.75, 2]),
        ("tl.cdiv(i32 + 4, 3)", "int32", [3, 1]),
        ("tl.umulhi(u32, 0x80000000)", "uint32", [3, 1]),
        ("tl.exp(f16)", None, None),
        ("f32.to(tl.int32, bitcast=True)", "int32", [0x3FC00000, -0x40000000]),
        ("f32.to(tl.float16, fp_downcast_rounding='rtz')", "fp16", [1.5, -2]),
        ("i32.to(tl.float16, fp_downcast_rounding='rtz')", None, None),
        ("f32.to(tl.int8, bitcast=True)", None, None),
        ("i32.to(tl.int1)", "int1", [True, True]),
        ("tl.sum(i8, 0)", "int32", 1),
        ("tl.sum(u8, 0)", "uint32", 202),
        ("tl.sum(b, 0)", "uint32", 1),
        ("tl.sum(f16, 0)", "fp16", -0.5),
        ("tl.sum(f16, 0, dtype=tl.float32)", "fp32", -0.5),
        ("tl.max(f16, 0)", "fp32", 1.5),
        ("tl.max(u8, 0)", "int32", 200),
        ("tl.max(i64, 0)", "int64", 1 << 40),
        ("tl.cumsum(i8, 0)", "int32", [3, 1]),
        ("tl.cumsum(bf16, 0)", "fp32", [1.5, -0.5]),
        ("tl.cumsum(i32, 0, reverse=True)", "int32", [1, -2]),
        ("tl.xor_sum(i32, 0)", "int32", 3 ^ -2),
        ("tl.reduce_or(i32, 0)", "int32", 3 | -2),
    ],
)
def test_promotion(expression, dtype, values):
    names = {"i8": I8, "i32": I32, "u8": U8, "u32": U32, "i64": I64, "f16": F16, "f32": F32,
             "f64": F64, "bf16": BF16, "b": B}  # fmt: skip
    used = {n: v for n, v in names.items() if n in expression}
    if dtype is None:
        with pytest.raises(TypeRuleError):
            evaluate(expression, **used)
        return
    found, _, array = evaluate(expression, **used)
    assert found.name == dtype
    np.testing.assert_array_equal(array.astype(np.float64), np.array(values, np.float64))


X = np.arange(8, dtype=np.int32)
M = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("x[:, None]", X[:, None]),
        ("x[None]", X[None]),
        ("m[:, None, :]", M[:, None]),
        ("m[None, ...]", M[None]),
        ("m.T", M.T),
        ("tl.trans(m, (1, 0))", M.T),
        ("m.permute(1, 0)", M.T),
        ("tl.reshape(m, (2, 16))", M.reshape(2, 16)),
        ("m.reshape(8, 4)", M.reshape(8, 4)),
        ("tl.ravel(m)", M.ravel()),
        ("tl.view(x, [2, 4])", X.reshape(2, 4)),
        ("tl.expand_dims(x, (0, -1))", X[None, :, None]),
        ("tl.broadcast_to(x[None, :], 4, 8)", np.broadcast_to(X, (4, 8))),
        ("tl.broadcast(x[:, None], x[None, :])[1]", np.broadcast_to(X, (8, 8))),
        ("tl.join(x, x + 8)", np.stack([X, X + 8], -1)),
        ("tl.split(tl.reshape(m, (4, 4, 2)))[1]", M.reshape(4, 4, 2)[..., 1]),
        ("tl.interleave(x, x + 8)", np.stack([X, X + 8], -1).ravel()),
        ("tl.interleave(m, m)", np.repeat(M, 2, 1)),
        ("tl.cat(x, x + 8, can_reorder=True)", np.concatenate([X, X + 8])),
        ("tl.cat(m, m, dim=1)", np.concatenate([M, M], 1)),
        ("tl.flip(x, 0)", X[::-1]),
        ("tl.flip(m)", M[:, ::-1]),
        ("tl.gather(x, 7 - x, 0)", X[::-1]),
        ("tl.gather(m, (7 - x)[None, :].broadcast_to(4, 8), 1)", M[:, ::-1]),
        ("tl.full((2, 2), 3, tl.int8)", np.full((2, 2), 3, np.int8)),
        ("tl.full([4], -1, tl.uint8)", np.full(4, 255, np.uint8)),
        ("tl.full([4], 2.7, tl.int32)", np.full(4, 2, np.int32)),
        ("tl.full([2], tl.sum(x), tl.float32)", np.full(2, 28, np.float32)),
        ("tl.zeros((2,), tl.float16)", np.zeros(2, np.float16)),
        ("tl.zeros_like(m)", np.zeros_like(M)),
        ("tl.zeros([], tl.float32)", np.zeros((), np.float32)),
        ("tl.arange(4, 8)", np.arange(4, 8)),
        ("tl.sum(m, 0)", M.sum(0)),
        ("tl.sum(m, -1, keep_dims=True)", M.sum(1, keepdims=True)),
        ("tl.sum(m)", M.sum()),
        ("tl.sum(m, keep_dims=True)", M.sum(keepdims=True)),
        ("tl.max(m, 1)", M.max(1)),
        ("m.min(axis=0)", M.min(0)),
        ("tl.argmax(m % 5, 1)", np.argmax(M % 5, 1)),
        ("tl.argmin(m % 5, 1, keep_dims=True)", np.argmin(M % 5, 1, keepdims=True)),
        ("tl.argmax(m)", np.argmax(M)),
        ("tl.max(m, 1, return_indices=True)[0]", M.max(1)),
        ("tl.cumsum(m, 1)", M.cumsum(1)),
        ("tl.cumsum(m, 0, reverse=True)", M[::-1].cumsum(0)[::-1]),
        ("tl.cumprod(x + 1, 0)", (X + 1).cumprod()),
        ("tl.sort(x ^ 5)", X),
        ("tl.sort(x, descending=True)", X[::-1]),
        ("tl.topk(m, 2)", M[:, :-3:-1]),
        ("tl.histogram(x // 2, 4)", [2, 2, 2, 2]),
        ("tl.histogram(x, 8, mask=x < 3)", [1, 1, 1, 0, 0, 0, 0, 0]),
        ("tl.dot(m, m.T)", M @ M.T),
        ("tl.dot(m, m.T, tl.full((4, 4), 1.0, tl.float32))", M @ M.T + 1),
        ("m @ tl.trans(m)", M @ M.T),
        ("x.to(tl.int64).numel", 8),
        ("tl.max_contiguous(tl.multiple_of(x, 8), [8])", X),
        ("tl.map_elementwise(lambda v: v * 2, x)", X * 2),
    ],
)
def test_shapes_and_reductions(expression, expected):
    used = {n: v for n, v in {"x": X, "m": M}.items() if n in expression.replace("tl.max", "")}
    found = evaluate(expression, **used)
    array = found[2] if isinstance(found, tuple) else found.value
    np.testing.assert_array_equal(array, expected)
    assert np.shape(array) == np.shape(expected)


@pytest.mark.parametrize(
    "expression, message",
    [
        ("tl.arange(0, 6)", "arange's range must be a power of two, got 6 elements"),
        ("tl.arange(0, tl.program_id(0))", "arange needs numbers known at compile time"),
        ("x[0]", r"only `:` and `None` may stand here, got i32\[8\] with \[0\]"),
        ("tl.broadcast_to(x, 4, 8)", "the numbers of dimensions differ"),
        ("x + tl.arange(0, 4)", r"shapes do not broadcast: \[8\] and \[4\]"),
        ("tl.load(x)", r"load needs pointers, got i32\[8\]"),
        ("tl.load(x_ptr, mask=x > 2)", "does not broadcast to the pointers"),
        ("tl.load(x_ptr + x, mask=x)", "the mask must be boolean"),
        ("tl.load(x_ptr, other=1)", "`other` needs a mask"),
        ("tl.load(x_ptr, boundary_check=(0,))", "belong to block pointers"),
        ("tl.load(x_ptr, cache_modifier='.xx')", "no cache_modifier '.xx'"),
        ("tl.store(x_ptr, x)", "the value i32\\[8\\] does not broadcast"),
        ("tl.dot(x, x)", "dot needs matrices"),
        ("tl.sum(x, 1)", "invalid axis 1: it must be a number from -1 to 0"),
        ("x_ptr + 1.5", "a pointer moves by integers"),
        ("tl.atomic_add(x_ptr.to(tl.pointer_type(tl.int8)), 1)", "does not work on int8"),
        ("tl.atomic_add(x_ptr, 1, sem='strong')", "no memory semantics 'strong'"),
        ("tl.inline_asm_elementwise('', '', [x], tl.int32, True, 1)", "is not supported"),
        ("libdevice.rcp64h(x)", "libdevice.rcp64h is not supported"),
        ("tl.reduce(x, 0, None)", "combine_fn must be a function"),
    ],
)
def test_messages(expression, message):
    with pytest.raises(Exception, match=message):
        evaluate(expression, x=X)


def test_tie_breaks_go_left():
    x = np.array([1, 3, 3, 0, 3, 0, 0, 2], np.float32)
    assert evaluate("tl.argmax(x, 0)", x=x)[2] == 1
    assert evaluate("tl.argmin(x, 0)", x=x)[2] == 3
    assert evaluate("tl.argmax(x, 0, tie_break_left=False)", x=x)[2] in (1, 2, 4)


def test_nan_in_extremes():
    x, y = (
        np.array([np.nan, 1, np.nan, 2], np.float32),
        np.array([0, np.nan, np.nan, 3], np.float32),
    )
    np.testing.assert_array_equal(evaluate("tl.maximum(x, y)", x=x, y=y)[2], [0, 1, np.nan, 3])
    all_of_them = "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)"
    np.testing.assert_array_equal(evaluate(all_of_them, x=x, y=y)[2], [np.nan, np.nan, np.nan, 3])


# --- random numbers: what Triton 3.4 gives for seed 0x123456789ABC and offsets 0 to 3

SEED = 0x123456789ABC


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("tl.randint4x(seed, i)[0]", [1163829020, 610213306, 4177697320, 3364165680]),
        ("tl.randint4x(seed, i)[1]", [4202825630, 1003008566, 1111485930, 3649880904]),
        ("tl.randint4x(seed, i)[2]", [457127563, 1163756261, 1215920880, 336525544]),
        ("tl.randint4x(seed, i)[3]", [1861652894, 164757746, 2240419966, 2801964386]),
        (
            "tl.randint(seed, i.to(tl.int64) + 1099511627781)",
            [4292677816, 2536089190, 2719247600, 3885411913],
        ),
        (
            "tl.rand(seed, i).to(tl.int32, bitcast=True)",
            [1057668413, 1049721974, 1029680314, 1054731166],
        ),
        (
            "tl.philox(seed, j, j * 0, j * 0, j * 0)[0].to(tl.int64, bitcast=True)",
            [
                -2172831582658450249, 2502222207959787881, -7575133911421508468,
                -7622187885759214284,
            ],
        ),
        (
            "tl.philox(seed, j, j * 0, j * 0, j * 0)[3].to(tl.int64, bitcast=True)",
            [920072636353549031, -3641081309080950409, -8343132542146021106, 2151862653215646093],
        ),
    ],
)  # fmt: skip
def test_random_numbers_are_tritons(expression, expected):
    text = expression.replace("i)", "tl.arange(0, 4))").replace("i.to", "tl.arange(0, 4).to")
    text = text.replace("j", "tl.arange(0, 4).to(tl.int64)")
    assert evaluate(text, seed=SEED)[2].tolist() == expected


def test_normal_numbers_are_tritons():
    expected = [1.0668903589248657, -1.5524935722351074, -2.3967721462249756, -0.4026041030883789]
    found = evaluate("tl.randn(seed, tl.arange(0, 4))", seed=SEED)[2]
    np.testing.assert_allclose(found, expected, rtol=2e-6)


# --- block pointers and descriptors


def test_block_pointers():
    @jit
    def kernel(x_ptr, y_ptr, rows, columns):
        block = tl.make_block_ptr(
            x_ptr, (rows, columns), (columns, 1), (0, 0), block_shape=(2, 4), order=(1, 0)
        )
        out = tl.make_block_ptr(
            base=y_ptr, shape=(rows, columns), strides=(columns, 1), offsets=(0, 0),
            block_shape=(2, 4), order=(1, 0),
        )  # fmt: skip
        for _ in range(2):
            x = tl.load(block, boundary_check=(0, 1), padding_option="nan")
            tl.store(out, tl.where(x == x, x, 0.0) * 2, boundary_check=(0, 1))
            block = tl.advance(block, (0, 4))
            out = out.advance((0, 4))

    x, y = np.arange(18, dtype=np.float32).reshape(3, 6), np.zeros((3, 6), np.float32)
    launch(kernel, (1,), x, y, 3, 6)
    np.testing.assert_array_equal(y[:2], 2 * x[:2])
    assert not y[2].any()


def test_tensor_descriptors():
    @jit
    def kernel(x_ptr, y_ptr, rows, columns):
        x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [2, 4])
        y = tl.make_tensor_descriptor(y_ptr, shape=[rows, columns], strides=[columns, 1],
                                      block_shape=[2, 4])  # fmt: skip
        tile = x.load([2, 4])
        y.store([2, 4], tile + 1)
        y.atomic_add([0, 0], tile)

    x, y = np.arange(18, dtype=np.float32).reshape(3, 6), np.zeros((3, 6), np.float32)
    launch(kernel, (1,), x, y, 3, 6)
    expected = np.zeros((3, 6))
    expected[2, 4:] = x[2, 4:] + 1
    expected[0, :2] = x[2, 4:]
    np.testing.assert_array_equal(y, expected)


def test_descriptor_gather_and_scatter():
    @jit
    def kernel(x_ptr, y_ptr, index_ptr):
        x = tl.make_tensor_descriptor(x_ptr, [16, 8], [8, 1], [1, 4])
        y = tl.make_tensor_descriptor(y_ptr, [16, 8], [8, 1], [1, 4])
        rows = tl.load(index_ptr + tl.arange(0, 8))
        y.scatter(x.gather(rows, 2), 15 - rows, 4)

    x, y = np.arange(128, dtype=np.int32).reshape(16, 8), np.zeros((16, 8), np.int32)
    rows = np.array([3, 1, 0, 15, 7, 8, 9, 2], np.int32)
    launch(kernel, (1,), x, y, rows)
    expected = np.zeros((16, 8))
    expected[15 - rows, 4:] = x[rows, 2:6]
    np.testing.assert_array_equal(y, expected)


def test_scaled_products():
    @jit
    def kernel(x_ptr, s_ptr, y_ptr, t_ptr, out_ptr):
        i, k = tl.arange(0, 4), tl.arange(0, 32)
        x = tl.load(x_ptr + i[:, None] * 32 + k[None, :])
        y = tl.load(y_ptr + k[:, None] * 4 + i[None, :])
        s = tl.load(s_ptr + i[:, None] * 2 + tl.arange(0, 2)[None, :])
        t = tl.load(t_ptr + i[:, None] * 2 + tl.arange(0, 2)[None, :])
        out = tl.dot_scaled(x, s, "e2m1", y, t, "e2m1")
        tl.store(out_ptr + i[:, None] * 4 + i[None, :], out)

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (4, 32), np.uint8), rng.integers(0, 256, (32, 4), np.uint8)
    s, t = rng.integers(125, 130, (4, 2), np.uint8), rng.integers(125, 130, (4, 2), np.uint8)
    out = np.zeros((4, 4), np.float32)
    launch(kernel, (1,), x, s, y, t, out)
    codes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.concatenate([codes, -codes])

    def decode(packed, scale):
        whole = codes[np.stack([packed & 15, packed >> 4], -1).reshape(4, 64)]
        return whole * np.repeat(2.0 ** (scale.astype(float) - 127), 32, 1)

    np.testing.assert_allclose(out, decode(x, s) @ decode(y.T, t).T, rtol=1e-6)


# --- libdevice

FLOATS = np.array([0.3, -0.7, 1.5, 2.5, -2.5, 7.25, 0.0, -0.999], np.float64)


@pytest.mark.parametrize(
    "name, reference",
    [
        ("exp10", lambda x: 10**x),
        ("log10", lambda x: math.log10(abs(x) + 1)),
        ("sinpi", lambda x: math.sin(math.pi * x)),
        ("cospi", lambda x: math.cos(math.pi * x)),
        ("normcdf", lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
        ("erfinv", None),
        ("lgamma", lambda x: math.lgamma(x) if x else math.inf),
        ("tgamma", lambda x: math.gamma(x) if x else math.inf),
        ("round", lambda x: math.copysign(math.floor(abs(x) + 0.5), x)),
        ("llrint", lambda x: round(x)),
        ("trunc", math.trunc),
        ("signbit", lambda x: math.copysign(1, x) < 0),
        ("logb", lambda x: math.frexp(x)[1] - 1 if x else -math.inf),
        ("rcp_rn", lambda x: 1 / x if x else math.inf),
        ("tanh", math.tanh),
    ],
)
def test_libdevice_of_one(name, reference):
    if name == "erfinv":
        x = FLOATS / 8
        found = evaluate("libdevice.erfinv(x)", x=x)[2]
        np.testing.assert_allclose([math.erf(v) for v in found], x, rtol=1e-13, atol=1e-300)
        return
    text = "tl.abs(x) + 1" if name == "log10" else "x"
    found = evaluate(f"libdevice.{name}({text})", x=FLOATS)[2]
    expected = [float(reference(v)) for v in FLOATS.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-15)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("libdevice.pow(x, 2)", FLOATS**2),
        ("libdevice.copysign(x, -1.0)", -np.abs(FLOATS)),
        ("libdevice.hypot(x, 2.0)", np.hypot(FLOATS, 2)),
        ("libdevice.norm3d(x, x, 1e200)", np.full(8, 1e200)),
        ("libdevice.fdim(x, 1.0)", np.maximum(FLOATS - 1, 0)),
        ("libdevice.remainder(x, 2.0)", [math.remainder(v, 2) for v in FLOATS]),
        ("libdevice.ldexp(x, -1070)", np.ldexp(FLOATS, -1070)),
        ("libdevice.nextafter(x, 9.0)", np.nextafter(FLOATS, 9)),
        ("libdevice.isnan(x / 0.0)", FLOATS == 0),
        ("libdevice.isinf(x / 0.0)", FLOATS != 0),
        ("libdevice.float2int_rd(x.to(tl.float32))", np.floor(FLOATS)),
        ("libdevice.double2ll_rn(x)", np.rint(FLOATS)),
    ],
)
def test_libdevice_of_several(expression, expected):
    with np.errstate(all="ignore"):
        found = evaluate(expression, x=FLOATS)[2]
    np.testing.assert_array_equal(found.astype(np.float64), np.asarray(expected, np.float64))


@pytest.mark.parametrize(
    "name, reference",
    [
        ("popc", lambda n: bin(n & 0xFFFFFFFF).count("1")),
        ("clz", lambda n: 32 - (n & 0xFFFFFFFF).bit_length()),
        ("ffs", lambda n: (n & -n).bit_length()),
        ("brev", lambda n: signed(int(f"{n & 0xFFFFFFFF:032b}"[::-1], 2))),
    ],
)
def test_libdevice_of_bits(name, reference):
    x = np.array([0, 1, -1, 2**31 - 1, -(2**31), 0x1234567, 40, -40], np.int32)
    assert evaluate(f"libdevice.{name}(x)", x=x)[2].tolist() == [reference(int(n)) for n in x]


def signed(n):
    return n - (1 << 32) if n >> 31 else n


def test_libdevice_products_and_means():
    x = np.array([2**31 - 1, -(2**31), -3, 12345678], np.int32)
    y = np.array([2**31 - 1, 7, 2, -87654321], np.int32)
    wide = x.astype(np.int64) * y
    assert evaluate("libdevice.mulhi(x, y)", x=x, y=y)[2].tolist() == (wide >> 32).tolist()
    mean = (x.astype(np.int64) + y) >> 1
    assert evaluate("libdevice.hadd(x, y)", x=x, y=y)[2].tolist() == mean.tolist()
    above = -((-(x.astype(np.int64) + y)) >> 1)
    assert evaluate("libdevice.rhadd(x, y)", x=x, y=y)[2].tolist() == above.tolist()
    assert evaluate("libdevice.byte_perm(x, y, 0x7410)", x=x, y=y)[2].tolist() == [
        signed(int.from_bytes(bytes([a[0], a[1], b[0], b[3]]), "little"))
        for a, b in zip((v.tobytes() for v in x), (v.tobytes() for v in y), strict=True)
    ]
