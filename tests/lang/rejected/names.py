"""Names that are unknown, have no value, or cannot be relied on."""

import numpy as np
from rejections import rejects

import tilewright.language as tl

OUT = np.zeros(8, np.float32)
TABLE = [1, 2, 3]
ARRAY = np.arange(4)


class Settings:
    size = 3


SETTINGS = Settings()


@rejects(out=OUT, n=3)
def unknown_name(out, n):
    offsets = n + 1
    tl.store(out + offsets, ofsets)  # noqa: F821


@rejects(out=OUT)
def unknown_function_of_tl(out):
    x = tl.laod(out)
    tl.store(out, x)


@rejects(out=OUT)
def unknown_method(out):
    x = tl.arange(0, 8).summ(0)
    tl.store(out, x)


@rejects(out=OUT)
def unknown_attribute_of_a_number(out, N: tl.constexpr = 4):
    tl.store(out, N.sise)


@rejects(out=OUT)
def reads_a_list(out):
    tl.store(out, TABLE[0])


@rejects(out=OUT)
def reads_an_array(out):
    tl.store(out, ARRAY)


@rejects(out=OUT)
def reads_an_object(out):
    tl.store(out, SETTINGS.size)


@rejects(out=OUT)
def a_builtin_without_meaning(out):
    tl.store(out, eval("1"))


@rejects(out=OUT, n=3)
def assigned_in_one_branch(out, n):
    if n > 2:
        x = 1
    tl.store(out, x)


@rejects(out=OUT, n=3)
def assigned_in_a_loop(out, n):
    for i in range(n):
        x = i
    tl.store(out, x)


@rejects(out=OUT, n=3)
def loop_variable_afterwards(out, n):
    for i in range(n):
        tl.store(out + i, 1)
    tl.store(out, i)


@rejects(out=OUT)
def deleted(out):
    x = 1
    del x
    tl.store(out, x)  # noqa: F821


@rejects(out=OUT)
def missing_argument_of_the_kernel(out, n):
    tl.store(out, n)


@rejects(out=OUT)
def function_without_tl(out):
    i = tl.arange(0, 8)
    store(out + i, 1.0)  # noqa: F821
