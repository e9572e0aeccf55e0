"""Launches that cannot be: clear errors that name the kernel, before memory is touched."""

from __future__ import annotations

import decimal
import re

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import ArgumentTypeError, CompileError, LaunchError, OutOfBoundsError

CPU = pytest.param("cpu", marks=pytest.mark.cpu)


@pytest.fixture(params=["eager", CPU])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@tilewright.jit
def scale(x, out, n, by, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * by, mask=i < n)


def read_only(n=64):
    out = np.ones(n, np.float32)
    out.flags.writeable = False
    return out


class NoInterface:
    __array_interface__ = {"version": 3}


class NoExport:
    def __dlpack__(self, **_):
        raise BufferError("in use")

    def __dlpack_device__(self):
        return (1, 0)


SIZES = "a grid is an int, one to three ints, or a function of the arguments that gives them"
IS = "it is scale(x, out, n, by, BLOCK)"
NOT_AN_ARGUMENT = "is no kernel argument; a kernel takes arrays"
NOT_A_DTYPE = "; a kernel takes bool, 8 to 64 bit integers, fp8, fp16, bf16, fp32 and fp64"

# Grid, changed arguments, error, how the message begins (after the kernel's name and a colon).
LAUNCHES = {
    "no sizes": ((), {}, LaunchError, f"the grid () has 0 sizes; {SIZES}"),
    "four sizes": ((1, 1, 1, 1), {}, LaunchError, f"the grid (1, 1, 1, 1) has 4 sizes; {SIZES}"),
    "negative": ((2, -1), {}, LaunchError, f"the grid (2, -1) has a negative size; {SIZES}"),
    "float": (
        (1.5,), {}, LaunchError,
        f"the grid (1.5,) holds 1.5, a float (write // or triton.cdiv, not /); {SIZES}",
    ),
    "whole float": ((2.0,), {}, LaunchError, "the grid (2.0,) holds 2.0, a float"),
    "nan": (float("nan"), {}, LaunchError, "the grid (nan,) holds nan, a float"),
    "bool": ((True,), {}, LaunchError, "the grid (True,) holds True, a bool"),
    "string": ("1", {}, LaunchError, "the grid ('1',) holds '1', a str"),
    "nothing": (None, {}, LaunchError, "the grid (None,) holds None, a NoneType"),
    "function": (lambda meta: None, {}, LaunchError, "the grid (None,) holds None, a NoneType"),
    "nested": (((1,),), {}, LaunchError, "the grid ((1,),) holds (1,), a tuple"),
    "too many": (
        (1 << 20, 1 << 20), {}, LaunchError,
        "the grid (1048576, 1048576) has 1099511627776 programs, at most 2147483647; "
        "give each program more work",
    ),
    "object array": (1, {"x": np.array([[], None], object)}, ArgumentTypeError,
                     "argument 'x': a NumPy array of dtype object" + NOT_A_DTYPE),
    "complex array": (1, {"x": np.ones(4, complex)}, ArgumentTypeError,
                      "argument 'x': a NumPy array of dtype complex128; there are no complex"),
    "text array": (1, {"x": np.array(["a"])}, ArgumentTypeError,
                   "argument 'x': a NumPy array of dtype <U1" + NOT_A_DTYPE),
    "record array": (1, {"x": np.zeros(4, [("a", "f4")])}, ArgumentTypeError,
                     "argument 'x': a NumPy array of dtype [('a', '<f4')]" + NOT_A_DTYPE),
    "byte order": (1, {"x": np.zeros(4, ">f4")}, ArgumentTypeError,
                   "argument 'x': a NumPy array of the other byte order (>f4)"),
    "masked array": (1, {"x": np.ma.array([1.0])}, ArgumentTypeError,
                     "argument 'x': a kernel cannot see the mask of a masked array"),
    "no interface": (1, {"x": NoInterface()}, ArgumentTypeError,
                     f"argument 'x': a {__name__}.NoInterface that fails to export its "
                     "memory: KeyError: 'typestr'"),
    "no export": (1, {"x": NoExport()}, ArgumentTypeError,
                  f"argument 'x': a {__name__}.NoExport that fails to export its memory: "
                  "BufferError: in use"),
    "list": (1, {"n": [64]}, ArgumentTypeError, f"argument 'n': a list {NOT_AN_ARGUMENT}"),
    "dict": (1, {"n": {}}, ArgumentTypeError, f"argument 'n': a dict {NOT_AN_ARGUMENT}"),
    "bytes": (1, {"x": b"abcd"}, ArgumentTypeError, f"argument 'x': a bytes {NOT_AN_ARGUMENT}"),
    "slice": (1, {"n": slice(3)}, ArgumentTypeError, f"argument 'n': a slice {NOT_AN_ARGUMENT}"),
    "complex": (1, {"by": 2j}, ArgumentTypeError, f"argument 'by': a complex {NOT_AN_ARGUMENT}"),
    "numpy complex": (1, {"by": np.complex64(2)}, ArgumentTypeError,
                      f"argument 'by': a numpy.complex64 {NOT_AN_ARGUMENT}"),
    "decimal": (1, {"by": decimal.Decimal(2)}, ArgumentTypeError,
                f"argument 'by': a decimal.Decimal {NOT_AN_ARGUMENT}"),
    "numpy dtype": (1, {"n": np.dtype("f4")}, ArgumentTypeError, "argument 'n': a numpy.dtype"),
    "too wide": (1, {"n": 1 << 64}, LaunchError,
                 "argument 'n': an int of 65 bits fits neither int64 nor uint64"),
    "too low": (1, {"n": -(1 << 63) - 1}, LaunchError,
                "argument 'n': an int of 64 bits fits neither int64 nor uint64"),
    "array as constexpr": (1, {"BLOCK": np.ones(3)}, ArgumentTypeError,
                           "argument 'BLOCK': is a tl.constexpr, got an array (numpy.ndarray)"),
    "no warps": (1, {"num_warps": 0}, LaunchError, "num_warps is an int of at least 1, got 0"),
    "three warps": (1, {"num_warps": 3}, LaunchError, "num_warps must be a power of 2, got 3"),
    "text warps": (1, {"num_warps": "4"}, LaunchError, "num_warps is an int of at least 1, got"),
    "stages": (1, {"num_stages": -1}, LaunchError, "num_stages is an int of at least 0, got -1"),
}  # fmt: skip


def arguments(**changes):
    given = {"x": np.ones(64, np.float32), "out": np.full(64, 7, np.float32), "n": 64, "by": 2.0}
    return {**given, "BLOCK": 64, **changes}


@pytest.mark.parametrize("warm", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("case", LAUNCHES)
def test_a_launch_that_cannot_be(target, case, warm):
    grid, changes, error, begins = LAUNCHES[case]
    if warm:
        scale[(1,)](**arguments())
    given = arguments(**changes)
    with pytest.raises(error, match=re.escape(f"scale: {begins}")):
        scale[grid](**given)
    assert (given["out"] == 7).all()


@pytest.mark.parametrize("warm", [False, True], ids=["first", "again"])
def test_arguments_that_do_not_fit_the_parameters(target, warm):
    full = arguments()
    x, out = full["x"], full["out"]
    if warm:
        scale[(1,)](**arguments())
    with pytest.raises(LaunchError, match=re.escape(f"scale: missing argument 'by'; {IS}")):
        scale[(1,)](x, out, 64, BLOCK=64)
    with pytest.raises(LaunchError, match="scale: missing arguments 'out', 'n', 'by', 'BLOCK'; it"):
        scale[(1,)](x)
    with pytest.raises(LaunchError, match="scale takes 5 arguments, got 6; it is scale"):
        scale[(1,)](x, out, 64, 2.0, 64, 1)
    unknown = "scale has no parameter 'BLOK', and it is no launch option; did you mean 'BLOCK'?"
    with pytest.raises(LaunchError, match=re.escape(f"{unknown}\n{IS}")):
        scale[(1,)](x, out, 64, 2.0, BLOCK=64, BLOK=1)
    with pytest.raises(TypeError, match="multiple values for argument 'BLOCK'"):
        scale[(1,)](x, out, 64, 2.0, 64, BLOCK=64)
    with pytest.raises(LaunchError, match=re.escape("launch it as scale[grid](...)")):
        scale(**full)
    assert (out == 7).all()


def test_outputs_that_are_read_only(target):
    for _ in range(2):
        with pytest.raises(LaunchError, match="scale: .*out.* is read-only|store to out, which is"):
            scale[(1,)](**arguments(out=read_only()))
        given = arguments(x=read_only())
        scale[(1,)](**given)
        assert (given["out"] == 2).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"BLOCK": 63}, "arange's range must be a power of two, got 63 elements"),
        ({"BLOCK": 0}, "needs start < end, got arange(0, 0)"),
        ({"BLOCK": -4}, "needs start < end, got arange(0, -4)"),
        ({"BLOCK": 64.0}, "arange needs numbers known at compile time, got 64.0"),
        ({"BLOCK": 1 << 21}, "a tile holds at most 1048576 elements, (2097152,) has 2097152"),
        ({"BLOCK": "64"}, "'64'"),
        ({"BLOCK": None}, "None"),
        ({"BLOCK": [64]}, "a list"),
        ({"n": "64"}, "'64'"),
        ({"n": None}, "None"),
        ({"n": tl.float32}, "tl.float32"),
        ({"x": 7}, "load needs pointers, got i32[64]"),
        ({"out": 7}, "store needs pointers, got i32[64]"),
    ],
)
def test_values_that_the_kernel_cannot_use_are_errors_at_its_line(target, changes, message):
    given = arguments(**changes)
    with pytest.raises(CompileError) as error:
        scale[(1,)](**given)
    assert message in str(error.value)
    assert error.value.loc.file == __file__
    first = scale.fn.__code__.co_firstlineno
    assert first < error.value.loc.line <= first + 3


def test_arrays_of_no_elements_have_nothing_to_touch(target):
    torch = pytest.importorskip("torch")
    for empty in (np.zeros(0, np.float32), torch.zeros(0)):
        scale[(1,)](**arguments(x=empty, out=empty, n=0))
        scale[(0,)](**arguments(x=empty, out=empty, n=5))
        with pytest.raises(OutOfBoundsError, match="touches element 0 of 0, 1 element past"):
            scale[(1,)](**arguments(x=empty, out=empty, n=1))


@pytest.mark.parametrize(
    "value", [np.int64(40), np.uint8(40), np.array(40), 40, np.int32(40)], ids=str
)
def test_numpy_numbers_and_views_are_fine(target, value):
    if getattr(value, "ndim", None) == 0 and isinstance(value, np.ndarray):
        value = int(value)
    x = np.arange(128, dtype=np.float32)
    given = arguments(x=x[::2], n=value, by=np.float16(2))
    scale[(1,)](**given)
    np.testing.assert_array_equal(given["out"], np.where(np.arange(64) < 40, x[:64] * 2, 7))


def test_torch_tensors_without_memory(target):
    torch = pytest.importorskip("torch")
    meta = torch.zeros(64, device="meta")
    for changes in ({"x": meta}, {"out": meta}):
        with pytest.raises(ArgumentTypeError, match="scale: argument '(x|out)': .* meta device"):
            scale[(1,)](**arguments(**changes))
    with pytest.raises(ArgumentTypeError, match="scale: argument 'x': .* pending negation"):
        scale[(1,)](**arguments(x=torch._neg_view(torch.ones(64))))
    with pytest.raises(ArgumentTypeError, match="scale: argument 'x': .* memory of its own"):
        scale[(1,)](**arguments(x=torch.ones(64).to_sparse()))
