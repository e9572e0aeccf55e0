"""Kernels that compile, and compute what their Python text says: values, names, calls."""

from __future__ import annotations

import dataclasses
import linecache
import math
import types
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from interpreted import compile_for, jit, ops_of, results, run

import tilewright.language as tl
from tilewright.lang.constexpr import constexpr_function
from tilewright.lang.frontend import build_kernel
from tilewright.lang.jit import JITCallable

WIDTH = tl.constexpr(8)
PLAIN = 3
PAIR = (2, tl.float32)


class Pair(NamedTuple):
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class State:
    total: object
    count: object


# --- straight-line kernels


@jit
def add_rows(out, x, y, n, BLOCK: tl.constexpr):
    """A docstring does nothing."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < n
    tl.store(out + rows, tl.load(x + rows, mask) + tl.load(y + rows, mask), mask)


def test_straight_line_kernel():
    x, y = np.arange(16, dtype=np.float32), np.ones(16, np.float32)
    out = np.zeros(16, np.float32)
    run(add_rows, program=1, out=out, x=x, y=y, n=13, BLOCK=8)
    assert out.tolist() == [0] * 8 + [9, 10, 11, 12, 13, 0, 0, 0]


def test_parameters_carry_their_facts():
    kernel = compile_for(add_rows, out=np.zeros(8, np.float32), x=np.zeros(8, np.float32),
                         y=np.zeros(8, np.float32), n=8, BLOCK=8)  # fmt: skip
    assert [q.name for q in kernel.params] == ["out", "x", "y", "n"]
    assert [q.divisible for q in kernel.params] == [1] * 4
    types_of = {q.name: q.type for q in kernel.params}
    again = build_kernel(add_rows, types_of, {"BLOCK": 8}, {"n": 16, "x": 16})
    assert [q.divisible for q in again.params] == [1, 16, 1, 16]
    assert types_of["x"].dtype == tl.pointer_type(tl.float32)


def test_locations_are_the_users():
    types_of = {q.name: q.type for q in compile_small().params}
    kernel = build_kernel(add_rows, types_of, {"BLOCK": 8})
    first = add_rows.fn.__code__.co_firstlineno
    assert kernel.loc.line == first + 1 and kernel.loc.file == __file__
    loads = [i.loc for i in kernel.walk() if i.op.name == "load"]
    assert [(loc.line - first, loc.text) for loc in loads] == [
        (5, "tl.load(x + rows, mask)"),
        (5, "tl.load(y + rows, mask)"),
    ]
    assert {loc.function for loc in loads} == {"add_rows"}


def compile_small():
    x = np.zeros(8, np.float32)
    return compile_for(add_rows, out=x, x=x, y=x, n=8, BLOCK=8)


# --- values known at compile time


@jit
def folded(out, N: tl.constexpr):
    a = N * 2 + 1
    b = a // 2 - -N % 3
    c: tl.constexpr = 2**b if b < 6 else 0
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, N.value + (~N) + (N << 1))
    tl.store(out + 4, (N == 4) + 2 * (N != 4 or N is None) + 4 * (not N))
    tl.store(out + 5, 1 < N <= 4)
    tl.store(out + 6, float(N) / 8)
    tl.store(out + 7, len(f"{N:03d}") if f"{N!r}" == "4" else -1)


def test_constants_fold_as_in_python():
    kernel = compile_for(folded, out=np.zeros(8, np.float32), N=4)
    assert set(ops_of(kernel)) == {"constant", "offset", "store"} or "cast" in ops_of(kernel)
    assert results(folded, N=4) == [9, 2, 4, 4 - 5 + 8, 1, 1, 0.5, 3]


@jit
def outside(out):
    width: tl.constexpr = WIDTH
    tl.store(out, width + PLAIN)
    tl.store(out + 1, PAIR[0])
    tl.store(out + 2, math.pi)
    tl.store(out + 3, math.sqrt(width * 2))
    tl.store(out + 4, PAIR[1].primitive_bitwidth)
    tl.store(out + 5, types.SimpleNamespace is None)


def test_globals_are_captured():
    kernel = compile_for(outside, out=np.zeros(8, np.float32))
    names = {k.split(".", 1)[1] if k.startswith("math") else k.rsplit(".", 1)[1]: v
             for k, v in kernel.meta["globals"].items()}  # fmt: skip
    assert names == {"WIDTH": 8, "PLAIN": 3, "PAIR": PAIR, "pi": math.pi}
    assert results(outside) == [11, 2, np.float32(math.pi), 4, 32, 0, 0, 0]


def test_closures_are_captured():
    step = 5

    @jit
    def kernel(out):
        tl.store(out, step)

    assert results(kernel, size=1) == [5]
    (key,) = compile_for(kernel, out=np.zeros(1, np.float32)).meta["globals"]
    assert key.endswith("test_closures_are_captured.<locals>.kernel.step")


def test_what_triton_would_refuse_is_told():
    step, fixed = 5, tl.constexpr(3)

    @jit
    def kernel(out):
        tl.store(out, step + fixed)

    with pytest.warns(
        UserWarning, match=r"Triton refuses `step`.*`step = tl.constexpr\(5\)`"
    ) as told:
        assert results(kernel, size=1) == [8]
    assert all("fixed" not in str(w.message) for w in told)
    assert told[0].filename == __file__


@jit
def displays(out):
    a, (b, *c), d = 1, [2, 3, 4], {"k": 5, **{"l": 6}}  # noqa: PIE800
    e = [i * 10 + j for i in (1, 2) for j in range(3) if i != j]
    x = y = (*c, b)
    tl.store(out, a + b + c[0] + c[-1])
    tl.store(out + 1, d["k"] + d["l"])
    tl.store(out + 2, e[1])
    tl.store(out + 3, len(e) + sum(e[:2]))
    tl.store(out + 4, x[0] + len(y))
    tl.store(out + 5, 3 in c and 9 not in c)
    tl.store(out + 6, max(a, b, *c) - min(c) + abs(-7))
    tl.store(out + 7, (z := 4) + z)


def test_displays_and_unpacking():
    assert results(displays) == [10, 11, 12, 26, 6, 1, 8, 8]


# --- operators on run-time values


@jit
def logic(out, a, b, c):
    tl.store(out, a < b and b < c)
    tl.store(out + 1, a < b < c)
    tl.store(out + 2, not a)
    tl.store(out + 3, a or b > 100)
    tl.store(out + 4, True and a > 5)
    tl.store(out + 5, False or c == 3)
    tl.store(out + 6, a is None or b is not None)
    tl.store(out + 7, min(a, b, 2) + max(a, c))


def test_logic_of_scalars():
    assert results(logic, a=1, b=2, c=3) == [1, 1, 0, 1, 0, 1, 1, 4]
    assert results(logic, a=0, b=9, c=4) == [0, 0, 1, 0, 0, 0, 1, 4]


@jit
def logic_of_tiles(out, n):
    i = tl.arange(0, 8)
    tl.store(out + i, (i > 1 and i < n) or i == 7)


def test_logic_of_tiles_is_elementwise():
    assert results(logic_of_tiles, n=4) == [0, 0, 1, 1, 0, 0, 0, 1]


@jit
def augmented(out, n):
    n += 1
    n *= 2
    n -= 3
    n //= 2
    n <<= 3
    n |= 1
    tl.store(out, n)
    k = 5
    k %= 3
    k **= 3
    tl.store(out + 1, k)
    tl.store(out + 2, -n)
    tl.store(out + 3, ~n & 15)


def test_augmented_assignment():
    assert results(augmented, n=4)[:4] == [25, 8, -25, 6]


# --- attributes and methods


@jit
def attributes(out, x):
    tile = tl.load(x + tl.arange(0, 4)[None, :])
    tl.store(out, tile.shape[1] + tile.numel.value)
    tl.store(out + 1, tile.dtype == tl.float32)
    tl.store(out + 2, x.dtype.element_ty.primitive_bitwidth)
    tl.store(out + 3, x.dtype.is_ptr() and not x.type.element_ty.is_fp16())
    tl.store(out + tl.arange(0, 4)[:, None] + 4, tile.T.to(tl.int32))


def test_attributes_and_methods():
    x = np.array([1.5, 2.5, 3.5, 4.5], np.float32)
    assert results(attributes, x=x) == [8, 1, 32, 1, 1, 2, 3, 4]


@jit
def instances(out, x, N: tl.constexpr):
    tl.store(out, isinstance(N, tl.constexpr) and isinstance(N, int))
    tl.store(out + 1, isinstance(x, tl.tensor) and not isinstance(x, tl.constexpr))
    tl.store(out + 2, hasattr(x, "dtype") and getattr(x, "dtype") is tl.int32)  # noqa: B009
    tl.store(out + 3, type(N) is int and x.type == tl.int32)


def test_isinstance():
    assert results(instances, x=3, N=4)[:4] == [1, 1, 1, 1]


# --- helpers


@jit
def affine(x, scale=2, *rest, shift: tl.constexpr = 1, **named):
    total = x * scale + shift
    for value in rest:
        total += value
    if "bonus" in named:
        total += named["bonus"]
    return total


@jit
def calls_affine(out, x):
    tl.store(out, affine(x))
    tl.store(out + 1, affine(x, 3))
    tl.store(out + 2, affine(scale=3, x=x, shift=0))
    tl.store(out + 3, affine(x, 1, 10, 20))
    tl.store(out + 4, affine(*(x, 1), **{"bonus": 5}))  # noqa: PIE804
    nothing = returns_nothing(x)
    tl.store(out + 5, nothing is None)
    a, b = swapped((x, 7))
    tl.store(out + 6, a - b)


@jit
def returns_nothing(x):
    x + 1


@jit
def swapped(pair):
    return pair[1], pair[0]


def test_calls_bind_as_in_python():
    assert results(calls_affine, x=3) == [7, 10, 9, 34, 9, 1, 4, 0]


def test_inlined_instructions_know_their_callers():
    kernel = compile_for(calls_affine, out=np.zeros(8, np.float32), x=3)
    first = next(i for i in kernel.walk() if i.op.name == "mul")
    assert first.loc.function == "affine" and first.loc.text == "x * scale"
    assert first.loc.caller.function == "calls_affine"
    assert first.loc.caller.text == "affine(x)"


def test_sources_of_all_functions_are_kept():
    kernel = compile_for(calls_affine, out=np.zeros(8, np.float32), x=3)
    names = [name.rsplit(".", 1)[1] for name in kernel.meta["sources"]]
    assert names == ["calls_affine", "affine", "returns_nothing", "swapped"]
    assert kernel.meta["sources"][f"{__name__}.swapped"].startswith("@jit\ndef swapped(pair):")


@jit
def applies(out, x, f, N: tl.constexpr):
    def local(v, k=N):
        return f(v) + k + x

    again = lambda v: local(v) * 2  # noqa: E731
    tl.store(out, local(1))
    tl.store(out + 1, again(1))
    tl.store(out + 2, partial(affine, shift=100)(x))
    tl.store(out + 3, half(N) + math.floor(2.5) + "ab".index("b"))


@jit
def square(x):
    return x * x


@constexpr_function
def half(n):
    return n // 2


def test_functions_are_values():
    assert results(applies, x=3, f=square, N=10)[:4] == [14, 28, 106, 8]


def test_a_lambda_can_be_a_kernel_function():
    twice = jit(lambda x: x * 2)

    @jit
    def kernel(out, x):
        tl.store(out, twice(x))

    assert results(kernel, size=1, x=4) == [8]


@jit
def factorial(n: tl.constexpr):
    if n <= 1:
        return 1
    else:
        return n * factorial(n - 1)


@jit
def recursive(out):
    tl.store(out, factorial(10))


def test_recursion_on_constants():
    assert results(recursive, size=1) == [math.factorial(10)]


@jit
def deep(n: tl.constexpr, x):
    if n == 0:
        return x
    return deep(n - 1, x + 1)


@jit
def runs_deep(out, x):
    tl.store(out, deep(90, x))


def test_deep_inlining():
    assert results(runs_deep, size=1, x=1) == [91]


@jit
def records(out, p, x):
    q = Pair(x, second=p.second * 2)
    s = State(q.first, 1)
    for i in range(3):
        s = State(s.total + q.second, count=s.count + i)
        q = Pair(q.second, q.first)
    tl.store(out, s.total)
    tl.store(out + 1, s.count)
    tl.store(out + 2, q.first)
    tl.store(out + 3, p[0] + len(p))


def test_named_tuples_and_dataclasses():
    assert results(records, p=Pair(1, 5), x=3)[:4] == [26, 4, 10, 3]


@jit
def tuple_arguments(out, sizes, fns):
    tl.store(out, sizes[0] + 10 * sizes[1])
    tl.store(out + 1, fns[0](sizes[1]))


def test_tuples_as_arguments():
    kernel = compile_for(tuple_arguments, out=np.zeros(2, np.float32), sizes=(1, 2), fns=[square])
    assert [p.name for p in kernel.params] == ["out", "sizes.0", "sizes.1"]
    assert results(tuple_arguments, size=2, sizes=(1, 2), fns=[square]) == [21, 4]


# --- where source comes from


def test_indented_functions_keep_their_columns():
    if True:

        @jit
        def kernel(out):
            text = """
  less indented
"""
            tl.store(out, len(text))

    kernel_ir = compile_for(kernel, out=np.zeros(1, np.float32))
    store = next(i for i in kernel_ir.walk() if i.op.name == "store")
    assert store.loc.text == "tl.store(out, len(text))" and store.loc.col == 12
    assert results(kernel, size=1) == [17]


@jit
def beyond_ascii(out, größe):
    tl.store(out, größe * 2, "ü" == "u")


def test_columns_count_characters():
    kernel = compile_for(beyond_ascii, out=np.zeros(1, np.float32), größe=4)
    assert next(i.loc.text for i in kernel.walk() if i.op.name == "mul") == "größe * 2"


def test_source_can_be_given():
    kernel = JITCallable(outside.fn)
    kernel._unsafe_update_src("def outside(out):\n    tl.store(out, 77)\n")
    assert results(kernel, size=1) == [77]
    assert kernel.src == "def outside(out):\n    tl.store(out, 77)\n"
    assert outside.src.startswith("def outside(out):\n    width")


def test_source_in_linecache_is_found():
    text = "def made(out):\n    tl.store(out, 5)\n"
    linecache.cache["<made>"] = (len(text), None, text.splitlines(True), "<made>")
    space = {"tl": tl}
    exec(compile(text, "<made>", "exec"), space)
    assert results(JITCallable(space["made"]), size=1) == [5]


def test_a_method_takes_its_instance():
    class Scale(NamedTuple):
        factor: int

        @jit
        def apply(self, x):
            return x * self.factor

    @jit
    def kernel(out, x, s):
        tl.store(out, s.apply(x))

    assert results(kernel, size=1, x=4, s=Scale(3)) == [12]


# --- printing and checking


@jit
def talks(x):
    print("x is", x, "of", 2)
    assert x > 0, "positive"
    assert 1 + 1 == 2


def test_print_and_assert():
    memory = run(talks, x=3)
    assert memory.printed == [("x is", 3), ("of 2",)]
    with pytest.raises(AssertionError, match="positive"):
        run(talks, x=-3)


@jit
def deletes(out, x):
    y = x + 1
    del x
    tl.store(out, y)


def test_delete():
    assert results(deletes, size=1, x=3) == [4]


@tl.core._aggregate
class Counter:
    value: tl.tensor
    step: tl.constexpr

    def __init__(self, value, step):
        self.value = value
        self.step = tl.constexpr(step)

    @jit
    def more(self, n):
        return Counter(self.value + n * self.step, self.step)


@jit
def aggregates(out, n):
    counter = Counter(n, 3)
    for i in range(n):
        counter = counter.more(i)
    if n > 2:
        counter = counter.more(1)
    tl.store(out, counter.value + tl.arange(0, counter.step + 1).shape[0])


def test_aggregates():
    assert results(aggregates, size=1, n=4) == [4 + 18 + 3 + 4]


@jit
def numbers_as_tiles(out, x):
    one = 1.0
    tl.store(out, one.to(tl.int32) + x)
    tl.store(out + 1, one.dtype == tl.float32)
    tl.store(out + 2, tl.float16(2.5) + tl.int32(x))
    descriptor = tl.make_tensor_descriptor(out, (8,), (1,), (4,))
    descriptor.store([4], tl.arange(0, 4).to(tl.float32))


def test_numbers_have_the_methods_of_tiles():
    assert results(numbers_as_tiles, x=3) == [4, 1, 5.5, 0, 0, 1, 2, 3]


class Sizes:
    ROWS = 4


@jit
def reads_classes(out):
    tl.store(out, Sizes.ROWS + math.log2(8))


def test_class_attributes_are_captured():
    kernel = compile_for(reads_classes, out=np.zeros(1, np.float32))
    assert kernel.meta["globals"] == {f"{__name__}.Sizes.ROWS": 4}
    assert results(reads_classes, size=1) == [7]
