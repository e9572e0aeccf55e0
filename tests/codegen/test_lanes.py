"""Every instruction of the lane builder against NumPy, Python integers and ml_dtypes."""

from __future__ import annotations

import math
import operator

import ml_dtypes
import numpy as np
import pytest
from lane_harness import NUMPY, Runner, host_levels, host_widths, lanes_for, loop_text

from tilewright.codegen.literals import Lane, encode, literal
from tilewright.codegen.llvm import Machine, emit_assembly, host_machine
from tilewright.errors import InternalError
from tilewright.ir import types as ty

# Converting random bits meets signalling NaN.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")

INTS = [d for d in ty.SCALARS if d.is_integer and d is not ty.int1]
NARROW = [d for d in ty.SCALARS if d.is_float and d.bits < 32]
SMALL = [d for d in NARROW if d is not ty.float8e4b15]
FLOATS = [*SMALL, ty.float32, ty.float64]
RNG = np.random.default_rng(7)
WIDTHS = host_widths()
GROUPS = [(1, ""), *((WIDTHS[1], level) for level in host_levels())]


def samples(dtype, count=400):
    """Edge values first, then random bits."""
    kind = NUMPY[dtype]
    bits = RNG.integers(0, 256, count * kind.itemsize, dtype=np.uint8).view(kind)
    if dtype.is_integer:
        info = np.iinfo(kind)
        edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, dtype.bits]
        edges += [-1, -2] if dtype.is_signed else []
        small = RNG.integers(0, 20, 40).astype(kind)
        return np.concatenate([np.array(edges, kind), small, bits])
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, math.inf, -math.inf, math.nan]
    with np.errstate(all="ignore"):
        near = RNG.normal(size=200).astype(kind)
        return np.concatenate([np.array(edges).astype(kind), near, bits])


def pairs(dtype):
    """Two arrays that meet every edge with every other, and random values."""
    x = samples(dtype)
    edges = x[:14]
    return (
        np.concatenate([np.repeat(edges, 14), x]),
        np.concatenate([np.tile(edges, 14), RNG.permutation(x)]),
    )


def same(found, expected):
    """Equal to the bit, where any NaN is as good as another."""
    expected = np.asarray(expected).astype(found.dtype)
    bits = np.dtype(f"u{found.dtype.itemsize}")
    equal = found.view(bits) == expected.view(bits)
    if found.dtype.kind not in "iub":
        wide = np.float64 if found.dtype == np.float64 else np.float32
        equal |= np.isnan(found.astype(wide)) & np.isnan(expected.astype(wide))
    assert equal.all(), np.flatnonzero(~equal)[:5]


def wrap(values, dtype):
    """Python integers, as the dtype holds them."""
    half = (1 << dtype.bits) >> 1
    low = half if dtype.is_signed else 0
    return np.array([(v + low) % (2 * half) - low for v in values], NUMPY[dtype])


def c_divide(x, y):
    return 0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


INT_OPS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "idiv": c_divide,
    "irem": lambda x, y: x - y * c_divide(x, y) if y else x,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "minimum": min,
    "maximum": max,
}
RELATIONS = ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", INT_OPS)
def test_integer_binary(name, dtype):
    x, y = pairs(dtype)
    expected = wrap([INT_OPS[name](int(p), int(q)) for p, q in zip(x, y, strict=True)], dtype)
    for width in WIDTHS:
        run = Runner(lambda b, p, q: getattr(b, name)(p, q), dtype, dtype, width=width)
        same(run(x, y), expected)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_division_by_a_literal(dtype):
    x = samples(dtype)
    for divisor in (0, 1, 3, 8, 100) + ((-1, -7) if dtype.is_signed else ()):
        for name in ("idiv", "irem"):
            expected = wrap([INT_OPS[name](int(p), divisor) for p in x], dtype)
            run = Runner(
                lambda b, p, name=name, d=divisor: getattr(b, name)(p, b.const(d, p.dtype)),
                dtype,
                width=WIDTHS[1],
            )
            same(run(x), expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts_of_any_amount(dtype, width):
    x, y = pairs(dtype)
    bits = dtype.bits
    amounts = [int(q) % (1 << bits) for q in y]
    left = [int(p) << q if q < bits else 0 for p, q in zip(x, amounts, strict=True)]
    right = [int(p) >> min(q, bits) for p, q in zip(x, amounts, strict=True)]
    same(Runner(lambda b, p, q: b.shl(p, q), dtype, dtype, width=width)(x, y), wrap(left, dtype))
    same(Runner(lambda b, p, q: b.shr(p, q), dtype, dtype, width=width)(x, y), wrap(right, dtype))
    for amount in (0, 1, bits - 1, bits, bits + 3):
        run = Runner(lambda b, p, a=amount: b.shr(p, b.const(a, p.dtype)), dtype, width=width)
        same(run(x), wrap([int(p) >> min(amount, bits) for p in x], dtype))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_unary_and_high_product(dtype, width):
    x, y = pairs(dtype)
    same(Runner(lambda b, p: b.neg(p), dtype, width=width)(x), wrap([-int(p) for p in x], dtype))
    same(Runner(lambda b, p: b.abs(p), dtype, width=width)(x), wrap(map(abs, map(int, x)), dtype))
    same(Runner(lambda b, p: b.bit_not(p), dtype, width=width)(x), ~x)
    mask = (1 << dtype.bits) - 1
    high = [(int(p) & mask) * (int(q) & mask) >> dtype.bits for p, q in zip(x, y, strict=True)]
    run = Runner(lambda b, p, q: b.umulhi(p, q), dtype, dtype, width=width)
    same(run(x, y), wrap(high, dtype))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=str)
def test_relations_and_select(dtype):
    x, y = pairs(dtype)
    wide = (lambda a: a) if dtype.is_integer else (lambda a: a.astype(np.float64))
    for name in RELATIONS:
        run = Runner(lambda b, p, q, n=name: getattr(b, n)(p, q), dtype, dtype, width=WIDTHS[1])
        assert (run(x, y) == getattr(operator, name)(wide(x), wide(y))).all(), name
    for width in WIDTHS:
        pick = Runner(lambda b, p, q: b.select(b.lt(p, q), q, p), dtype, dtype, width=width)
        same(pick(x, y), np.where(wide(x) < wide(y), y, x))


FLOAT_OPS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fmod": np.fmod,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_binary(name, dtype):
    x, y = pairs(dtype)
    wide = np.float64 if dtype is ty.float64 else np.float32
    with np.errstate(all="ignore"):
        expected = FLOAT_OPS[name](x.astype(wide), y.astype(wide))
    for width, level in GROUPS:
        run = Runner(lambda b, p, q: getattr(b, name)(p, q), dtype, dtype, width=width, level=level)
        same(run(x, y), narrow(expected, dtype))


FLOAT_UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_UNARY)
def test_float_unary(name, dtype):
    x = samples(dtype)
    wide = np.float64 if dtype is ty.float64 else np.float32
    with np.errstate(all="ignore"):
        expected = FLOAT_UNARY[name](x.astype(wide))
    for width in WIDTHS:
        run = Runner(lambda b, p: getattr(b, name)(p), dtype, width=width)
        same(run(x), narrow(expected, dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_minimum_and_maximum_with_nan(dtype):
    x, y = pairs(dtype)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    either = np.isnan(wide_x) | np.isnan(wide_y)
    for name, better in (("minimum", np.less), ("maximum", np.greater)):
        best = np.where(better(wide_x, wide_y), x, y)
        quiet = np.where(np.isnan(wide_y), x, best)
        loud = np.where(either, np.full_like(x, math.nan), best)
        for expected, nan_wins in ((quiet, False), (loud, True)):
            for width in WIDTHS:
                run = Runner(
                    lambda b, p, q, n=name, w=nan_wins: getattr(b, n)(p, q, propagate_nan=w),
                    dtype,
                    dtype,
                    width=width,
                )
                same(run(x, y), expected)


def test_fma_rounds_once():
    x = np.float32([1 + 2**-12, 3.0])
    y = np.float32([1 - 2**-12, 5.0])
    run = Runner(lambda b, p, q: b.fma(p, q, b.const(-1.0, p.dtype)), *[ty.float32] * 2)
    assert run(x, y).tolist() == [-(2.0**-24), 14.0]


def test_is_nan_of_every_format():
    for dtype in FLOATS:
        x = samples(dtype)
        run = Runner(lambda b, p: b.is_nan(p), dtype, width=WIDTHS[1])
        assert (run(x) == np.isnan(x.astype(np.float64))).all()


# Conversions.


def narrow(values, dtype):
    """`values` in a format, rounded once: by `encode`, which its own test checks."""
    if dtype.bits >= 32:
        return np.asarray(values).astype(NUMPY[dtype])
    codes = [encode(float(v), dtype) for v in np.asarray(values)]
    return np.array(codes, f"u{dtype.bytes}").view(NUMPY[dtype])


def boundaries(dtype):
    """As f64: every value of a format, the middle to its neighbour, and what is next to those."""
    codes = np.arange(1 << (dtype.bits - 1), dtype=f"u{dtype.bytes}")
    values = decode(codes, dtype)
    values = np.unique(values[np.isfinite(values)])
    values = np.append(values, 2 * values[-1] - values[-2])
    middle = (values[1:] + values[:-1]) / 2
    middle = np.concatenate([middle, values, [values[-1] * 1.5, 1e30, 1e300, 5e-324, 1e-40, 1e-46]])
    near = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    near = np.concatenate([near, near.astype(np.float32), [np.inf, np.nan]])
    return np.concatenate([near, -near])


def decode(codes, dtype):
    """Codes of a format as f64."""
    if dtype is not ty.float8e4b15:
        return codes.view(NUMPY[dtype]).astype(np.float64)
    exponent, units = (codes >> 3) & 15, (codes & 7).astype(np.float64)
    size = np.where(exponent == 0, units, units + 8) * 2.0 ** (np.maximum(exponent, 1) - 18.0)
    return np.where(codes & 128, -size, size)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_encode_rounds_as_ml_dtypes(dtype):
    # Through f32, since ml_dtypes rounds f64 twice; saturation is ours.
    with np.errstate(all="ignore"):
        x = boundaries(dtype)[:: 1 if dtype.bits == 8 else 17].astype(np.float32)
        expected = x.astype(NUMPY[dtype])
    if dtype in (ty.float8e4nv, ty.float8e4b8):
        finite = float(ml_dtypes.finfo(NUMPY[dtype]).max)
        beyond = np.isnan(expected.astype(np.float32)) & ~np.isnan(x)
        assert (np.abs(x[beyond]) > finite).all()
        expected = np.where(beyond, np.copysign(finite, x).astype(NUMPY[dtype]), expected)
    same(narrow(x, dtype), expected)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_formats_widen(dtype):
    codes = np.arange(1 << dtype.bits, dtype=f"u{dtype.bytes}")
    for wide in (ty.float32, ty.float64):
        for width, level in GROUPS:
            run = Runner(lambda b, p, d=wide: b.cast(p, d), dtype, width=width, level=level)
            same(run(codes.view(NUMPY[dtype])), decode(codes, dtype))


NARROWING = [
    (source, dtype)
    for source in (ty.float16, ty.bfloat16, ty.float32, ty.float64)
    for dtype in (*NARROW, ty.float32)
    if source is not dtype
]


@pytest.mark.parametrize(("source", "dtype"), NARROWING, ids=str)
def test_floats_narrow_with_one_rounding(source, dtype):
    with np.errstate(all="ignore"):
        steps = boundaries(dtype if dtype.bits < 32 else ty.bfloat16)
        steps = steps[:: 1 if dtype.bits == 8 else 13]
        x = np.concatenate([steps.astype(NUMPY[source]), samples(source, 2000)])
        expected = narrow(x.astype(np.float64), dtype)
    for width, level in GROUPS:
        run = Runner(lambda b, p: b.cast(p, dtype), source, width=width, level=level)
        same(run(x), expected)


@pytest.mark.parametrize("dtype", [ty.float16, ty.bfloat16, ty.float32, ty.float64], ids=str)
@pytest.mark.parametrize("source", INTS, ids=str)
def test_integers_to_floats(source, dtype):
    x = samples(source)
    if source.bits == 64:
        hard = [(2**k + 2 ** (k - 8)) + d for k in range(20, 63) for d in (-1, 0, 1)]
        x = np.concatenate([x, np.array(hard, NUMPY[source])])
    if dtype.bits >= 32:
        expected = x.astype(NUMPY[dtype])
    else:
        expected = np.array([nearest(int(v), dtype) for v in x], np.uint16).view(NUMPY[dtype])
    for width in WIDTHS:
        same(Runner(lambda b, p: b.cast(p, dtype), source, width=width)(x), expected)


def nearest(value, dtype):
    """An integer rounded once, with Python's exact integers."""
    size = abs(value)
    drop = max(0, size.bit_length() - dtype.mantissa - 1)
    units = size >> drop
    rest, half = size - (units << drop), (1 << drop) >> 1
    units += drop > 0 and (rest > half or (rest == half and units & 1))
    return encode(math.copysign(float(units << drop), value), dtype)


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("source", [ty.bfloat16, ty.float16, ty.float32, ty.float64], ids=str)
def test_floats_to_integers_saturate(source, dtype):
    info = np.iinfo(NUMPY[dtype])
    edges = [info.max, info.min, info.max + 1.0, info.min - 1.0, 1e9, -1e9, 2.9, -2.9, 300.7, -0.5]
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(edges).astype(NUMPY[source]), samples(source)])
    expected = np.array([saturated(float(v), info) for v in x], NUMPY[dtype])
    for width, level in GROUPS:
        run = Runner(lambda b, p: b.cast(p, dtype), source, width=width, level=level)
        same(run(x), expected)


def saturated(value, info):
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(int(value), info.min), info.max)


def test_casts_to_and_from_bool():
    for dtype in (*INTS, *FLOATS):
        x = samples(dtype)
        to_bool = Runner(lambda b, p: b.cast(p, ty.int1), dtype, width=WIDTHS[1])
        assert (to_bool(x) == (x.astype(np.float64) != 0)).all(), dtype
        back = Runner(lambda b, p, d=dtype: b.cast(p, d), ty.int1, width=WIDTHS[1])
        bits = np.arange(32) % 3 == 0
        assert (back(bits).astype(np.float64) == bits).all(), dtype


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_casts_wrap(dtype):
    for source in INTS:
        x = samples(source)
        run = Runner(lambda b, p: b.cast(p, dtype), source, width=WIDTHS[1])
        same(run(x), x.astype(NUMPY[dtype]))


def test_bitcast_keeps_bits():
    x = samples(ty.bfloat16)
    run = Runner(lambda b, p: b.bitcast(p, ty.int16), ty.bfloat16, width=WIDTHS[1])
    same(run(x), x.view(np.int16))
    run = Runner(lambda b, p: b.bitcast(p, ty.float64), ty.int64)
    y = samples(ty.int64)
    same(run(y), y.view(np.float64))


# Shapes of lanes.


def test_fold_combines_every_lane():
    def argmax(b, x):
        def larger(left, right):
            take = b.gt(right[0], left[0])
            return tuple(b.select(take, r, p) for p, r in zip(left, right, strict=True))

        return b.fold(larger, (x, b.iota(ty.int32, x.width)))[1]

    x = RNG.permutation(16).astype(np.float32)
    assert (Runner(argmax, ty.float32, width=16)(x) == np.argmax(x)).all()


def test_scalars_are_splatted():
    run = Runner(
        lambda b, p: b.add(p, b.mul(b.const(2.0, p.dtype), b.extract(p, 3))), ty.float32, width=8
    )
    x = np.arange(8, dtype=np.float32)
    assert (run(x) == x + 6).all()
    scaled = Runner(
        lambda b, p: b.mul(p, b.cast(b.iota(ty.int32, 8), p.dtype)), ty.float32, width=8
    )
    assert (scaled(x) == x * x).all()


def test_pointers_move_by_elements():
    def spread(b, index):
        ptr = b.const(0, ty.pointer_to(ty.float64))
        return b.cast(b.offset(ptr, index), ty.int64)

    for width in WIDTHS:
        run = Runner(spread, ty.uint32, width=width)
        assert run([0, 1, 2**32 - 1]).tolist() == [0, 8, 8 * (2**32 - 1)]


def test_mixed_dtypes_are_an_error_of_ours():
    b = lanes_for(host_machine(), lambda line: None, lambda: "%x", lambda text: None)
    with pytest.raises(InternalError, match="lanes of int32 and fp32 meet without a cast"):
        b.add(b.const(1, ty.int32), b.const(1, ty.float32))


def test_literals():
    assert literal(-1, ty.uint8) == "-1"
    assert literal(255, ty.uint8, 4) == "splat (i8 -1)"
    assert literal(3, ty.int1) == "true"
    assert literal(1.0, ty.float16) == "0xH3C00"
    assert literal(1.0, ty.bfloat16) == str(0x3F80)
    assert literal(0.1, ty.float32) == "0x3FB99999A0000000"
    assert literal(1e300, ty.float32) == "0x7FF0000000000000"
    assert literal(-0.0, ty.float64) != literal(0.0, ty.float64)
    assert literal(448.0, ty.float8e4nv) == "126"


@pytest.mark.parametrize("arch", ["aarch64-unknown-linux-gnu", "nvptx64-nvidia-cuda"])
def test_other_machines_take_the_code(arch):
    machine = Machine(arch, "sm_75" if "nvptx" in arch else "generic")
    width = 1 if "nvptx" in arch else 4
    for dtype in (ty.float32, ty.bfloat16, ty.float8e4nv):
        text, _ = loop_text(
            lambda b, p: b.fma(b.fmod(p, p), b.maximum(p, p), b.cast(b.cast(p, ty.int8), p.dtype)),
            (dtype,),
            width,
            machine,
        )
        assert "run" in emit_assembly(text, machine)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_known_integers_take_no_instructions(dtype):
    lines = []
    b = lanes_for(host_machine(), lines.append, lambda: "%t", lines.append)
    x = Lane("%x", dtype)
    info = np.iinfo(NUMPY[dtype])
    values = [info.min, info.max, 0, 1, 2, 3, info.max // 3]
    for name, own in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):
        make = getattr(b, name)
        for low in values:
            for high in values:
                expected = b.const(own(int(low), int(high)), dtype)
                assert make(b.const(low, dtype), b.const(high, dtype)) == expected
    assert b.add(x, b.const(0, dtype)) is b.add(b.const(0, dtype), x) is b.sub(x, b.const(0, dtype))
    assert b.mul(x, b.const(1, dtype)) is b.mul(b.const(1, dtype), x) is x
    assert b.mul(x, b.const(0, dtype)) == b.mul(b.const(0, dtype), x) == b.const(0, dtype)
    for other in INTS:
        for value in values:
            wrapped = np.array(value, NUMPY[dtype]).astype(NUMPY[other])
            assert b.cast(b.const(value, dtype), other) == b.const(int(wrapped), other)
    assert not lines
    b.sub(b.const(0, dtype), x)
    b.add(x, b.const(1, dtype))
    assert len(lines) == 2
