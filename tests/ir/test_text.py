"""IR text: every op can be written, and what is printed reads back as it was."""

from __future__ import annotations

import math

import pytest

import tilewright.ops  # noqa: F401  (defines the ops)
from tilewright.errors import InternalError, Loc
from tilewright.ir.inst import Block, Builder, Kernel, Param
from tilewright.ir.op import OPS
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.ir.types import Type, int32, parse_type
from tilewright.ir.verify import verify
from tilewright.ops import debug, shape

HEAD = (
    "kernel k(%0 p: *f32, %1 q: *i32[8], %2 n: i32, %3 b: i1, %4 x: f32[8], %5 i: i32[8], "
    "%6 c: i1[8], %7 m: f32[16,16], %8 u: f32, %9 j: i64) [\n"
)

# One line (or region) for each op; unary and binary elementwise ops are added below.
LINES = {
    "constant": "%20 = constant {type='f32[8]', value=-inf} : f32[8]",
    "arange": "%20 = arange {end=16, start=8} : i32[8]",
    "splat": "%20 = splat %0 {shape=(8,)} : *f32[8]",
    "broadcast": "%20 = broadcast %7 {shape=(16, 16)} : f32[16,16]",
    "reshape": "%20 = reshape %4 {shape=(2, 4)} : f32[2,4]",
    "permute": "%20 = permute %7 {order=(1, 0)} : f32[16,16]",
    "join": "%20 = join %4, %4 : f32[8,2]",
    "split": "%19 = join %4, %4 : f32[8,2]\n%20, %21 = split %19 : f32[8], f32[8]",
    "cat": "%20 = cat %4, %4 : f32[16]",
    "flip": "%20 = flip %4 {axis=0} : f32[8]",
    "gather": "%20 = gather %4, %5 {axis=0} : f32[8]",
    "offset": "%20 = offset %1, %5 {bytes=4} : *i32[8]",
    "load": "%20 = load %1, %6, %5 {cache='.cg', volatile=True} : i32[8]",
    "store": "store %1, %5, %6",
    "atomic_rmw": "%20 = atomic_rmw %1, %5, %6 {kind='add', sem='relaxed'} : i32[8]",
    "atomic_cas": "%20 = atomic_cas %1, %5, %5 : i32[8]",
    "program_id": "%20 = program_id {axis=0} : i32",
    "processor": "%20 = processor : i32",
    "clock": "%20 = clock : i64",
    "num_programs": "%20 = num_programs {axis=2} : i32",
    "dot": "%20 = dot %7, %7, %7 {precision='tf32'} : f32[16,16]",
    "reduce": "%20 = reduce %4 {axis=0} : f32 (%21: f32, %22: f32) [\n"
    "%23 = add %21, %22 : f32\nyield %23\n]",
    "scan": "%20 = scan %4 {axis=0, combine='add', reverse=True} : f32[8]",
    "sort": "%20 = sort %4 {axis=0, descending=True} : f32[8]",
    "histogram": "%20 = histogram %5, %6 {bins=16} : i32[16]",
    "device_print": "device_print %4, %2 {prefix='a } : b, (it\\'s)  ; line 3 '}",
    "device_assert": "device_assert %6 {message='no'}",
    "barrier": "barrier",
    "hint": "%20 = hint %5 {contiguous=(8,), multiple=(16,)} : i32[8]",
    "cast": "%20 = cast %5 {rounding='rtz', to='f16'} : f16[8]",
    "bitcast": "%20 = bitcast %5 {to='f32'} : f32[8]",
    "select": "%20 = select %6, %4, %4 : f32[8]",
    "fma": "%20 = fma %8, %8, %8 : f32",
    "max": "%20 = max %4, %4 {propagate_nan=True} : f32[8]",
    "for": "%20 = for %2, %2, %2, %4 {num_stages=3} : f32[8] (%21: i32, %22: f32[8]) [\n"
    "%23 = add %22, %4 : f32[8]\nyield %23\n]",
    "while": "%20 = while %2 : i32 (%21: i32) [\n%22 = lt %21, %2 : i1\nyield %22\n] "
    "(%23: i32) [\nyield %23\n]",
    "if": "%20, %21 = if %3 {types=('f32[8]', 'i32')} : f32[8], i32 () [\nyield %4, %2\n] () [\n"
    "barrier\nyield %4, %2\n]",
    "yield": "if %3 () [\nyield\n] () [\n]",
}
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
INTEGERS = {"idiv", "irem", "umulhi", "bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr"}


def line_of(name: str) -> str:
    if name in LINES:
        return LINES[name]
    operand = "%5" if name in INTEGERS else "%4"
    result = "i1[8]" if name in COMPARISONS else "i32[8]" if name in INTEGERS else "f32[8]"
    count = OPS[name].rule.__code__.co_argcount
    if name in {"floor", "ceil", "trunc", "rint"}:
        count = 1
    return f"%20 = {name} {', '.join([operand] * count)} : {result}"


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_reads_and_prints(name):
    kernel = verify(parse_kernel(HEAD + line_of(name) + "\n]"))
    assert any(inst.op.name == name for inst in kernel.walk())
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert print_kernel(again) == text
    for inst, other in zip(kernel.walk(), again.walk(), strict=True):
        assert repr(sorted(inst.attrs.items())) == repr(sorted(other.attrs.items()))


def test_print_is_stable_and_numbered_in_order():
    text = (
        "kernel k(%7 n: i32 divisible 16) [\n"
        "  %3 = constant {value=1, type='i32'} : i32\n"
        "  ; a comment\n"
        "  %1 = for %3, %7, %3, %3 : i32 (%5: i32, %9: i32) [\n"
        "    %11 = add %9, %5 : i32  ; line 12\n"
        "    yield %11\n"
        "  ]\n"
        "  device_print %1 {prefix='n'}\n"
        "]\n"
    )
    assert print_kernel(parse_kernel(text)) == (
        "kernel k(%0 n: i32 divisible 16) [\n"
        "  %1 = constant {type='i32', value=1} : i32\n"
        "  %2 = for %1, %0, %1, %1 : i32 (%3: i32, %4: i32) [\n"
        "    %5 = add %4, %3 : i32\n"
        "    yield %5\n"
        "  ]\n"
        "  device_print %2 {prefix='n'}\n"
        "]\n"
    )


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-45, 0.1])
def test_floats_read_back(value):
    b = Builder()
    b.emit(shape.constant, value=value, type="f32")
    kernel = parse_kernel(print_kernel(Kernel("k", [], b.block)))
    found = kernel.body.insts[0].attrs["value"]
    assert repr(found) == repr(value)


def test_locations_are_shown_and_skipped():
    b = Builder(Block())
    b.loc = Loc("file.py", 12)
    b.emit(debug.barrier)
    kernel = Kernel("k", [], b.block)
    assert print_kernel(kernel, locations=True) == "kernel k() [\n  barrier  ; line 12\n]\n"
    assert print_kernel(parse_kernel(print_kernel(kernel, locations=True))) == print_kernel(kernel)


@pytest.mark.parametrize("text", ["i1", "u64", "bf16", "*kf32", "**i8", "*f8e4nv[16,2]", "f32[1]"])
def test_types_read_back(text):
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(
    "text, message",
    [
        ("kernel", "not a kernel"),
        ("kernel k() [\nfrobnicate\n]", "cannot read IR line 'frobnicate'"),
        ("kernel k() [\n%1 = neg %0 : i32\n]", "%0 not defined before"),
        ("kernel k() [\nbarrier", "ends inside a region"),
    ],
)
def test_bad_text(text, message):
    with pytest.raises(InternalError, match=message):
        parse_kernel(text)


def test_params_keep_their_facts():
    params = [Param("a", parse_type("*kf16"), 16), Param("n", Type(int32))]
    body = Block()
    for p in params:
        body.add_param(p.type)
    assert parse_kernel(print_kernel(Kernel("k", params, body))).params == params
