"""Values of the wrong type or shape, and run-time values where constants are needed."""

import numpy as np
from rejections import rejects

import tilewright.language as tl

OUT = np.zeros(8, np.float32)


@rejects(out=OUT, n=3)
def shapes_do_not_broadcast(out, n):
    x = tl.arange(0, 8) + tl.arange(0, 16)
    tl.store(out, x)


@rejects(out=OUT)
def arange_of_no_power_of_two(out):
    i = tl.arange(0, 100)
    tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def arange_of_run_time_length(out, n):
    i = tl.arange(0, n)
    tl.store(out + i, 1.0)


@rejects(out=OUT, n=3)
def load_of_a_number(out, n):
    x = tl.load(n)
    tl.store(out, x)


@rejects(out=OUT)
def store_of_the_wrong_shape(out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.zeros([16], dtype=tl.float32))


@rejects(out=OUT)
def moves_a_pointer_by_a_float(out):
    i = tl.arange(0, 8) * 0.5
    tl.store(out + i, 1.0)


@rejects(out=OUT)
def exp_of_integers(out):
    tl.store(out, tl.exp(tl.arange(0, 8)))


@rejects(out=OUT)
def divides_by_zero(out, N: tl.constexpr = 0):
    tl.store(out, 8 // N)


@rejects(out=OUT)
def power_of_a_tile(out):
    x = tl.arange(0, 8) ** 2
    tl.store(out, x)


@rejects(out=OUT)
def matmul_operator_with_none(out, bias=None):
    tl.store(out, 1 + bias)


@rejects(out=OUT, n=3)
def tile_plus_none(out, n, bias=None):
    x = n + bias
    tl.store(out, x)


@rejects(out=OUT, n=3)
def tile_with_a_string(out, n):
    tl.store(out, n + "1")


@rejects(out=OUT)
def iterates_over_a_tile(out):
    for x in tl.arange(0, 8):
        tl.store(out, x)


@rejects(out=OUT)
def unpacks_a_tile(out):
    a, b = tl.arange(0, 2)
    tl.store(out, a + b)


@rejects(out=OUT)
def unpacks_too_many(out):
    a, b = (1, 2, 3)
    tl.store(out, a + b)


@rejects(out=OUT, n=3)
def tuple_index_at_run_time(out, n):
    sizes = (4, 5, 6)
    tl.store(out, sizes[n])


@rejects(out=OUT, n=3)
def tile_index_at_run_time(out, n):
    x = tl.arange(0, 8)
    tl.store(out, x[n])


@rejects(out=OUT)
def tuple_index_out_of_range(out):
    tl.store(out, (1, 2)[2])


@rejects(out=OUT)
def tile_index_that_is_a_float(out):
    x = tl.arange(0, 8)
    tl.store(out, x[0.5])


@rejects(out=OUT, n=3)
def python_int_of_a_run_time_value(out, n):
    tl.store(out, int(n))


@rejects(out=OUT)
def length_of_a_tile(out):
    tl.store(out, len(tl.arange(0, 8)))


@rejects(out=OUT, n=3)
def formats_a_run_time_value(out, n):
    tl.static_print(f"n is {n}")


@rejects(out=OUT, n=3)
def membership_at_run_time(out, n):
    tl.store(out, n in (1, 2))


@rejects(out=OUT)
def assertion_that_does_not_hold(out, N: tl.constexpr = 6):
    assert N % 4 == 0, f"N must be a multiple of 4, got {N}"


@rejects(out=OUT)
def static_assert_that_does_not_hold(out, N: tl.constexpr = 6):
    tl.static_assert(N % 4 == 0, "N must be a multiple of 4")


@rejects(out=OUT, n=3)
def ands_without_parentheses(out, n):
    i = tl.arange(0, 8)
    fine = 0 <= (i & 3) < n
    tl.store(out + i, 1.0, mask=fine & (i < n))
    tl.store(out + i, 1.0, mask=i < n & i < 4)


@rejects(out=OUT)
def axis_that_is_a_tile(out):
    i = tl.arange(0, 8)
    tl.store(out + i, tl.max(i, i))


@rejects(out=OUT)
def function_of_numpy(out):
    tl.store(out, np.exp(tl.load(out)))


@rejects(out=OUT)
def dtype_of_numpy(out):
    tl.store(out, tl.load(out).to(np.float16))


@rejects(out=OUT)
def cast_of_numpy(out):
    tl.store(out, np.float16(tl.load(out)))


@rejects(out=OUT)
def combines_into_two(out):
    i = tl.arange(0, 8)
    tl.store(out, tl.reduce(i, 0, lambda a, b: (a, b)))


@rejects(out=OUT)
def bytes_summed_in_16_bits(out):
    x = tl.zeros([16, 16], tl.int8)
    y = tl.dot(x, x, tl.zeros([16, 16], tl.int16))
    tl.store(out, tl.sum(y))


@rejects(out=OUT)
def wide_floats_summed_in_32_bits(out):
    x = tl.zeros([16, 16], tl.float64)
    y = tl.dot(x, x, tl.zeros([16, 16], tl.float32))
    tl.store(out, tl.sum(y))
