"""Corners of the language that Triton's own tests visit, compiled and stepped alike."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError, LaunchError

pytestmark = pytest.mark.parametrize(
    "target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
)


@pytest.fixture(autouse=True)
def in_target(target):
    with tilewright.options(target=target):
        yield


@tilewright.jit
def shapes_equal_lists(N: tl.constexpr):
    x = tl.arange(0, N)
    tl.static_assert(x.shape == [N])
    tl.static_assert(x[None, :].shape == [1, N])
    tl.static_assert(x.shape != [N, 1])


def test_a_shape_equals_a_list():
    shapes_equal_lists[(1,)](8)


@tilewright.jit
def new_dimensions_of_a_scalar(out):
    pointer = out[None, None, :]
    tl.static_assert(pointer.shape == [1, 1])
    tl.store(pointer, tl.full([1, 1], 3, tl.int32))


def test_a_scalar_has_no_dimension_to_keep():
    out = np.zeros(1, np.int32)
    new_dimensions_of_a_scalar[(1,)](out)
    assert out[0] == 3


@tilewright.jit
def one_element_as_condition(x, N: tl.constexpr, EXPLICIT: tl.constexpr):
    condition = tl.load(x + tl.arange(0, N)) > 42
    if EXPLICIT:
        condition = condition.item()
    if condition:
        tl.store(x, 0)


@pytest.mark.parametrize("explicit", [False, True])
def test_a_tile_of_one_element_is_a_condition(explicit):
    for value in (41, 43):
        x = np.array([value], np.int32)
        one_element_as_condition[(1,)](x, 1, explicit)
        assert x[0] == (value if value <= 42 else 0)


def test_a_larger_tile_is_none():
    with pytest.raises(CompileError):
        one_element_as_condition[(1,)](np.zeros(2, np.int32), 2, False)


@tilewright.jit
def quotients_and_remainders(a0, a1, b0, b1):
    return a0 // b0, a1 // b1, a0 % b0, a1 % b1


@tilewright.jit
def sums_by_four(a, b, c, d):
    return a, a + b, a + b + c, a + b + c + d


@tilewright.jit
def map_packed(out, rest, sums, x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    q, r = tl.map_elementwise(quotients_and_remainders, tl.load(x + i), tl.load(y + i), pack=2)
    tl.store(out + i, q)
    tl.store(rest + i, r)
    tl.store(sums + i, tl.map_elementwise(sums_by_four, tl.load(x + i), pack=4))


def test_map_elementwise_of_packs():
    x, y = np.arange(32, dtype=np.int32) * 7, np.arange(1, 33, dtype=np.int32)
    out, rest, sums = (np.zeros(32, np.int32) for _ in range(3))
    map_packed[(1,)](out, rest, sums, x, y, 32)
    np.testing.assert_array_equal(out, x // y)
    np.testing.assert_array_equal(rest, x % y)
    np.testing.assert_array_equal(sums, np.cumsum(x.reshape(8, 4), axis=1).ravel())


@tilewright.jit
def constants_of_e4b15(out):
    tl.store(out + tl.arange(0, 4), tl.full((4,), 1.25, tl.float8e4b15).to(tl.float32))
    tl.store(out + 4, tl.full((), -0.0, tl.float8e4b15).to(tl.float32))


def test_constants_of_fp8e4b15():
    out = np.zeros(5, np.float32)
    constants_of_e4b15[(1,)](out)
    assert out.tolist() == [1.25] * 4 + [0]
    assert np.signbit(out[4])


@tl.core._aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    def at(self, position: tl.constexpr, _semantic=None):
        return self.first if position == 0 else self.second

    @staticmethod
    def twice(x):
        return Pair(x, x)


@tilewright.jit
def functions_of_an_aggregate(out):
    pair = Pair.twice(tl.load(out))
    tl.store(out + 1, pair.at(0) + pair.at(1))


def test_python_functions_of_an_aggregate():
    out = np.array([4, 0], np.int32)
    functions_of_an_aggregate[(1,)](out)
    assert out[1] == 8


def named_for_its_types(specialization: SimpleNamespace) -> str:
    return f"kernel_{specialization.signature['n']}_{specialization.constants['N']}"


@tilewright.jit(repr=named_for_its_types)
def named(out, n, N: tl.constexpr):
    tl.store(out, n)


@pytest.mark.parametrize("n", [1 << 64, -(1 << 63) - 1])
def test_an_int_that_fits_nowhere_overflows(n):
    with pytest.raises(OverflowError, match="fits neither") as raised:
        named[(1,)](np.zeros(1, np.float32), n, 8)
    assert isinstance(raised.value, LaunchError)


def test_the_name_of_a_handle(target):
    handle = named[(1,)](np.zeros(1, np.float32), 3, 8)
    if target == "cpu":
        assert handle.name == "kernel_i32_8"


MISTAKES = {
    "x / u": "Cannot use int32 with uint32 because they have different signedness",
    "x | f": r"invalid operands of type f32\[8\], integers are needed",
    "x[1:]": "unsupported tensor index",
    "tl.expand_dims(x, -3)": "invalid axis -3",
    "tl.expand_dims(x, (0, 0))": r"duplicate axes, normalized axes = \[0, 0\]",
    "tl.program_id(20)": "program_id axis must be 0, 1, or 2 but got 20",
    "tl.dot(e, e, max_num_imprecise_acc=64)": r"max_num_imprecise_acc \(64\) must be <= K \(16\)",
    "tl.make_tensor_descriptor(p, [8, 8], [8, 1], [8, 2])": "Descriptor block shape must have at",
}


@tilewright.jit
def mistaken(p):
    x = tl.arange(0, 8)
    u = x.to(tl.uint32)  # noqa: F841
    f = x.to(tl.float32)  # noqa: F841
    e = tl.zeros([16, 16], tl.float8e5)  # noqa: F841
    MISTAKE  # noqa: B018, F821


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_called_what_triton_calls_them(mistake):
    kernel = tilewright.JITFunction(mistaken.fn)
    kernel._unsafe_update_src(kernel.src.replace("MISTAKE", mistake))
    with pytest.raises(CompileError, match=MISTAKES[mistake]) as raised:
        kernel[(1,)](np.zeros(64, np.float32))
    assert raised.value.error_message == raised.value.message


def test_names_of_dtypes_in_groups(target):
    names = tl.dtype.SINT_TYPES + tl.dtype.UINT_TYPES + tl.dtype.FP_TYPES
    assert [tl.dtype(name).name for name in names] == names
