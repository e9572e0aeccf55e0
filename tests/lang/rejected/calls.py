"""Calls with wrong arguments, and of what cannot be called."""

import functools

import numpy as np
from interpreted import jit
from rejections import rejects

import tilewright.language as tl
from tilewright.lang.constexpr import constexpr_function

OUT = np.zeros(8, np.float32)


def plain(x):
    return x + 1


class Thing:
    def __init__(self, x):
        self.x = x


@jit
def scaled(x, factor, SHIFT: tl.constexpr = 0):
    return x * factor + SHIFT


@jit
def broken_inside(x):
    y = x + 1
    return y.foo


@jit
def outer(x):
    return broken_inside(x) * 2


@jit
def endless(x):
    return endless(x + 1)


@constexpr_function
def halved(n):
    return n // 2


@constexpr_function
def demanding(n):
    if n < 8:
        raise ValueError(f"n must be at least 8, got {n}")
    return n


@rejects(out=OUT)
def unknown_keyword(out):
    i = tl.arange(0, 8)
    x = tl.load(out + i, msk=i < 4)
    tl.store(out + i, x)


@rejects(out=OUT)
def missing_argument(out):
    tl.store(out)


@rejects(out=OUT)
def too_many_arguments(out):
    tl.store(out, tl.program_id(0, 1))


@rejects(out=OUT)
def wrong_method_call(out):
    x = tl.arange(0, 8).to()
    tl.store(out, x)


@rejects(out=OUT)
def plain_function(out):
    tl.store(out, plain(3))


@rejects(out=OUT)
def class_of_ones_own(out):
    tl.store(out, Thing(3).x)


@rejects(out=OUT, n=3)
def calls_a_number(out, n):
    tl.store(out, n(3))


@rejects(out=OUT, n=3)
def missing_argument_of_a_helper(out, n):
    tl.store(out, scaled(n))


@rejects(out=OUT, n=3)
def too_many_arguments_of_a_helper(out, n):
    tl.store(out, scaled(n, 1, 2, 3))


@rejects(out=OUT, n=3)
def unknown_argument_of_a_helper(out, n):
    tl.store(out, scaled(n, fctor=2))


@rejects(out=OUT, n=3)
def argument_given_twice(out, n):
    tl.store(out, scaled(n, 2, factor=2))


@rejects(out=OUT, n=3)
def mistake_in_a_helper(out, n):
    x = outer(n)
    tl.store(out, x)


@rejects(out=OUT, n=3)
def recursion_without_end(out, n):
    tl.store(out, endless(n))


@rejects(out=OUT, n=3)
def constexpr_function_at_run_time(out, n):
    tl.store(out, halved(n))


@rejects(out=OUT)
def constexpr_function_that_raises(out, N: tl.constexpr = 4):
    tl.store(out, demanding(N))


@rejects(out=OUT)
def list_that_changes(out):
    values = [1, 2]
    values.append(3)
    tl.store(out, values[2])


@rejects(out=OUT)
def string_method_on_a_tile(out):
    name = tl.arange(0, 8)
    tl.store(out, name.upper())


@rejects(out=OUT, n=3)
def print_with_sep(out, n):
    print("n", n, sep=": ")


@rejects(out=OUT, n=3)
def stops_in_compiled_code(out, n):
    breakpoint()


@rejects(out=OUT, n=3)
def module_function_at_run_time(out, n):
    tl.store(out, functools.reduce(max, (n, 2)))
