"""Branches, loops and statements that cannot be compiled."""

import numpy as np
from interpreted import jit
from rejections import rejects

import tilewright.language as tl

OUT = np.zeros(8, np.float32)


@rejects(out=OUT)
def tile_in_if(out):
    i = tl.arange(0, 8)
    if i < 4:
        tl.store(out + i, 1.0)


@rejects(out=OUT)
def tile_in_conditional_expression(out):
    i = tl.arange(0, 8)
    tl.store(out + i, 1.0 if i < 4 else 2.0)


@rejects(out=OUT)
def tile_in_while(out):
    i = tl.arange(0, 8)
    while i < 4:
        i += 1


@rejects(out=OUT, n=3)
def branches_disagree(out, n):
    x = tl.zeros([8], dtype=tl.float32)
    if n > 2:
        x = tl.zeros([4], dtype=tl.float32)
    else:
        n = n + 1
    tl.store(out, x)
    tl.store(out, n)


@rejects(out=OUT, n=3)
def branches_disagree_on_a_new_name(out, n):
    if n > 2:
        x = n
    else:
        x = n * 0.5
    tl.store(out, x)


@rejects(out=OUT, n=3)
def sides_disagree(out, n):
    tl.store(out, n if n > 2 else 0.5)


@rejects(out=OUT, n=3)
def none_in_one_branch(out, n):
    mask = None
    if n > 2:
        mask = n < 4
    tl.store(out, 1.0, mask)


@jit
def returns_two_types(x):
    if x > 2:
        return x
    return x * 0.5


@rejects(out=OUT, n=3)
def returns_disagree(out, n):
    tl.store(out, returns_two_types(n))


@jit
def returns_sometimes(x):
    if x > 2:
        return x


@rejects(out=OUT, n=3)
def returns_nothing_in_one_case(out, n):
    tl.store(out, returns_sometimes(n))


@rejects(out=OUT)
def kernel_with_a_result(out):
    return tl.load(out)


@rejects(out=OUT, n=3)
def accumulator_starts_as_a_number(out, n):
    acc = 0
    for i in range(n):
        acc += tl.arange(0, 8) + i
    tl.store(out + tl.arange(0, 8), acc)


@rejects(out=OUT, n=3)
def accumulator_changes_its_dtype(out, n):
    acc = tl.zeros([8], dtype=tl.float16)
    for i in range(n):
        acc = acc + tl.load(out + i)
    tl.store(out + tl.arange(0, 8), acc)


@rejects(out=OUT, n=3)
def carried_value_changes_its_shape(out, n):
    x = tl.zeros([4], dtype=tl.float32)
    for _i in range(n):
        x = tl.join(x, x)
    tl.store(out, x)


@rejects(out=OUT, n=3)
def carried_tuple_grows(out, n):
    xs = ()
    for i in range(n):
        xs = (*xs, i)
    tl.store(out, xs[0])


@rejects(out=OUT, n=3)
def carried_none(out, n):
    best = None
    for i in range(n):
        best = i if best is None else best + i
    tl.store(out, best)


@rejects(out=OUT, n=3)
def while_changes_a_type(out, n):
    while n > 1:
        n = n / 2
    tl.store(out, n)


@rejects(out=OUT, n=3)
def return_in_a_loop(out, n):
    for i in range(n):
        if i == 2:
            return
        tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def break_in_a_loop(out, n):
    for i in range(n):
        if i == 2:
            break
        tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def continue_in_a_loop(out, n):
    for i in range(n):
        if i == 2:
            continue
        tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def break_at_run_time_in_an_unrolled_loop(out, n):
    for i in tl.static_range(4):
        if i == n:
            break
        tl.store(out + i, 1.0)


@rejects(out=OUT)
def bounds_that_are_floats(out):
    for i in range(2.5):
        tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def static_range_of_a_run_time_value(out, n):
    for i in tl.static_range(n):
        tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def comprehension_over_a_run_time_range(out, n):
    tl.store(out, sum([i for i in range(n)]))  # noqa: C416


@rejects(out=OUT)
def loop_without_end(out, N: tl.constexpr = 4):
    while N > 0:
        tl.store(out, 1.0)


@rejects(out=OUT)
def loop_over_range_with_two_names(out):
    for i, j in range(4):
        tl.store(out + i, j)


@rejects(out=OUT)
def try_except(out):
    try:  # noqa: SIM105
        tl.store(out, 1.0)
    except ValueError:
        pass


@rejects(out=OUT)
def class_definition(out):
    class Local:
        pass

    tl.store(out, 1.0)


@rejects(out=OUT)
def import_statement(out):
    import math

    tl.store(out, math.pi)


@rejects(out=OUT)
def with_statement(out):
    with open("file"):
        tl.store(out, 1.0)


@rejects(out=OUT)
def global_statement(out):
    global OUT
    OUT = out


@rejects(out=OUT)
def tile_assigned_in_place(out):
    x = tl.arange(0, 8)
    x[0] = 1
    tl.store(out, x)


@rejects(out=OUT)
def attribute_assigned(out):
    x = tl.arange(0, 8)
    x.shape = (2, 4)


@rejects(out=OUT)
def generator(out):
    yield out


@rejects(out=OUT)
def raises(out, N: tl.constexpr = 3):
    if N % 2:
        raise ValueError(f"N must be even, got {N}")


@rejects(out=OUT, n=3)
def raises_at_run_time(out, n):
    if n % 2:
        raise ValueError("n must be even")


@rejects(out=OUT, n=3)
def list_of_accumulators(out, n):
    sums = [0.0, 0.0]
    for k in tl.static_range(2):
        sums[k] += tl.load(out + k)
    tl.store(out, sums[0])
