"""What is known at compile time: declared names, types of constants, aggregates, functions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import CompileError
from tilewright.language.core import _aggregate as aggregate
from tilewright.language.core import builtin, constexpr_type, tuple_type

pytestmark = pytest.mark.parametrize(
    "target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
)


@pytest.fixture(autouse=True)
def in_target(target):
    with tilewright.options(target=target):
        yield


@tilewright.jit
def declared_before():
    y: tl.constexpr
    x, y = 0, 0
    tl.static_assert(x.dtype == tl.int32)
    tl.static_assert(y.type == constexpr_type(0))
    z: tl.constexpr
    (x, (z, y)) = (1, (2, 3))
    tl.static_assert(z + y == 5)
    tl.static_assert(isinstance(z.type, constexpr_type))
    w: tl.constexpr
    if (w := 7) != 7:
        tl.static_assert(False)
    tl.static_assert(w.type == constexpr_type(7))


def test_names_declared_constexpr_before_they_are_assigned():
    declared_before[(1,)]()


@tilewright.jit
def pair_of(x):
    if x < 0:
        return 1, x
    else:
        return 0, x


@tilewright.jit
def types_of_values():
    pair: tl.constexpr = (1, -1)
    tl.static_assert(pair_of(-1).type == tuple_type([tl.int32, tl.int32]))
    tl.static_assert(pair.type == tuple_type([constexpr_type(1), constexpr_type(-1)]))


def test_types_of_tuples_and_constants():
    types_of_values[(1,)]()


@tilewright.jit
def extremes(a: tl.constexpr, b: tl.constexpr):
    tl.static_assert(max(a, b) == b)


@pytest.mark.parametrize("wrong", [float("nan"), -0.0])
def test_extremes_of_constants(wrong):
    extremes[(1,)](1.0, 2.0)
    with pytest.raises(CompileError, match="do not take"):
        extremes[(1,)](1.0, wrong)


@tilewright.jit
def writes_to_a_tuple():
    t = tl.tuple([5, 6, 7])
    t[0] = 0


def test_tuples_are_not_written_to():
    with pytest.raises(CompileError, match=r"cannot assign to `t\[0\]`"):
        writes_to_a_tuple[(1,)]()


@tilewright.jit
def chooses_by_numbers(out):
    tl.store(out, tl.where(tl.load(out), 2, 3))


def test_where_warns_of_numbers_as_conditions():
    out = np.ones(1, np.int32)
    with pytest.warns(UserWarning, match="a condition of int32"):
        chooses_by_numbers[(1,)](out)
    assert out[0] == 2


@aggregate
class Sizes:
    rows: tl.constexpr
    columns: tl.constexpr


@tilewright.jit
def size(sizes: tl.constexpr, out):
    tl.store(out, sizes.rows * sizes.columns)


def test_fields_of_aggregates_made_outside_are_constexprs():
    sizes = Sizes(3, columns=7)
    assert isinstance(sizes.rows, tl.constexpr)
    assert sizes.columns.value == 7


@builtin
def is_constant(x, _semantic=None):
    return isinstance(x, tl.constexpr)


@tilewright.jit
def strides_of(strides, n):
    tl.static_assert(is_constant(strides[1]))
    tl.static_assert(is_constant(n))
    tl.static_assert(not is_constant(strides[0]))


def test_arguments_that_are_1_are_constants_for_functions_of_programs():
    strides_of[(1,)]((8, 1), 1)
    with pytest.raises(CompileError):
        strides_of[(1,)]((8, 1), 2)


def half(n, *, _builder=None):
    assert isinstance(n, tl.constexpr)
    return tl.constexpr(n.value // 2)


def unless_none(mask, value, *, _semantic):
    is_none = isinstance(mask, tl.constexpr) and mask.value is None
    return tl.constexpr(None) if is_none else value


half.__triton_builtin__ = unless_none.__triton_builtin__ = True


@tilewright.jit
def calls_marked(x, N: tl.constexpr):
    H: tl.constexpr = half(N)
    i = tl.arange(0, H)
    mask = i < 3
    some = tl.load(x + i, mask, other=unless_none(mask, 7))
    every = tl.load(x + i, None, other=unless_none(None, 7))
    tl.store(x + H + i, some + every)


def test_functions_that_bear_the_mark_of_tritons_get_constexprs():
    x = np.arange(16, dtype=np.int32)
    calls_marked[(1,)](x, 16)
    assert x[8:].tolist() == [0, 2, 4, 10, 11, 12, 13, 14]


@tilewright.constexpr_function
def flag():
    return False


@tilewright.jit
def uses_flag(out):
    tl.store(out, flag())


def test_the_source_of_a_constant_function_may_be_replaced():
    before, text = uses_flag.cache_key, flag.src
    assert text.startswith("def flag():")
    flag._unsafe_update_src(text.replace("False", "True"))
    assert flag() is True
    assert uses_flag.cache_key != before
    flag._unsafe_update_src(text)
    assert uses_flag.cache_key == before


def test_a_source_that_is_replaced_by_itself_changes_no_key():
    before = pair_of.cache_key
    pair_of._unsafe_update_src(pair_of.src)
    assert pair_of.cache_key == before


def test_dtypes_print_as_triton_s():
    assert repr(tl.bfloat16) == "triton.language.bfloat16"
    assert eval(repr(tl.int8), {"triton": SimpleNamespace(language=tl)}) is tl.int8


@tilewright.jit
def writes_where_it_reads(x: tl.const):
    tl.store(x, tl.load(x))


def test_constant_pointers_are_not_written_to():
    with pytest.raises(CompileError, match="Cannot store to a constant pointer"):
        writes_where_it_reads[(1,)](np.zeros(1, np.float32))


@tilewright.jit
def shows(x, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, N))
    tl.static_print("type", tile)
    print("tile", tile)


def test_prints(target, capfd):
    shows[(1,)](np.arange(4, dtype=np.float32), 4)
    first, second = capfd.readouterr().out.splitlines()
    assert second == "pid (0, 0, 0) tile [0. 1. 2. 3.]"
    assert first == "type " + {
        "eager": "tensor(f32[4], [0. 1. 2. 3.])", "cpu": "fp32[constexpr[4]]",
    }[target]  # fmt: skip


@tilewright.jit
def ands(out, n, MISTAKE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if MISTAKE:
        tl.store(out + i, 1, mask=i < n & i < 4)
    else:
        tl.store(out + i, 1, mask=0 < (i & n) < 4)


def test_ands_of_comparisons_need_parentheses():
    out = np.zeros(8, np.int32)
    ands[(1,)](out, 3, False, 8)
    assert out.tolist() == [0, 1, 1, 1, 0, 1, 1, 1]
    with pytest.raises(CompileError, match="`&` binds tighter than comparisons"):
        ands[(1,)](out, 3, True, 8)
