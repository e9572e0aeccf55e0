"""Kernels that native code once got wrong, each as small as it could be made."""

from __future__ import annotations

import ml_dtypes
import native
import numpy as np
import pytest

from tilewright.codegen import llvm
from tilewright.ir.text import parse_kernel

LEVELS = ["", *llvm.LEVELS.get(llvm.host_machine().arch, {})]


def check(text: str, *values, grid=(1,), features=""):
    """The kernel gives natively what it gives in eager mode."""
    kernel = parse_kernel(text)
    copies = [[v.copy() if isinstance(v, np.ndarray) else v for v in values] for _ in range(2)]
    native.run_eager(kernel, grid, copies[0])
    fault = native.run_native(kernel, grid, copies[1], features)
    assert fault[0] == 0
    for param, x, y in zip(kernel.params, *copies, strict=True):
        if isinstance(x, np.ndarray):
            assert x.tobytes() == y.tobytes(), f"{param.name}: {y} instead of {x}"


def test_masked_atomic_gives_zero_beyond_its_mask():
    """The row ended with the mask, so the old values of masked elements were never written."""
    check(
        """kernel k(%0 p: *i32, %1 out: *i32, %2 n: i32) [
          %3 = arange {end=64, start=0} : i32[64]
          %4 = splat %2 {shape=(64,)} : i32[64]
          %5 = lt %3, %4 : i1[64]
          %6 = splat %0 {shape=(64,)} : *i32[64]
          %7 = offset %6, %3 {bytes=4} : *i32[64]
          %8 = atomic_rmw %7, %3, %5 {kind='add'} : i32[64]
          %9 = splat %1 {shape=(64,)} : *i32[64]
          %10 = offset %9, %3 {bytes=4} : *i32[64]
          store %10, %8
        ]""",
        np.arange(64, dtype=np.int32),
        np.full(64, 7, np.int32),
        5,
    )


def test_other_varies_where_pointer_and_mask_do_not():
    """One number was loaded for the row, with 0 for `other`."""
    check(
        """kernel k(%0 p: *i32, %1 out: *i32, %2 on: i1) [
          %3 = arange {end=16, start=0} : i32[16]
          %4 = splat %0 {shape=(16,)} : *i32[16]
          %5 = splat %2 {shape=(16,)} : i1[16]
          %6 = load %4, %5, %3 : i32[16]
          %7 = splat %1 {shape=(16,)} : *i32[16]
          %8 = offset %7, %3 {bytes=4} : *i32[16]
          store %8, %6
        ]""",
        np.array([5], np.int32),
        np.zeros(16, np.int32),
        False,
    )


def test_a_store_does_not_overtake_the_loads_of_its_own_value():
    """Elements were loaded after the chunk before had been stored over them."""
    check(
        """kernel shift(%0 p: *f32) [
          %1 = arange {end=64, start=0} : i32[64]
          %2 = splat %0 {shape=(64,)} : *f32[64]
          %3 = offset %2, %1 {bytes=4} : *f32[64]
          %4 = load %3 : f32[64]
          %5 = constant {type='i32[64]', value=1} : i32[64]
          %6 = offset %3, %5 {bytes=4} : *f32[64]
          store %6, %4
        ]""",
        np.arange(65, dtype=np.float32),
    )


def test_transposing_in_place():
    """The pointers are equal, but elements are read at other positions than they are written."""
    check(
        """kernel transpose(%0 p: *f32) [
          %1 = arange {end=256, start=0} : i32[256]
          %2 = reshape %1 {shape=(16, 16)} : i32[16,16]
          %3 = splat %0 {shape=(16, 16)} : *f32[16,16]
          %4 = offset %3, %2 {bytes=4} : *f32[16,16]
          %5 = load %4 : f32[16,16]
          %6 = permute %5 {order=(1, 0)} : f32[16,16]
          store %4, %6
        ]""",
        np.arange(256, dtype=np.float32),
    )


def test_loads_come_first_where_pointers_repeat():
    """Every element is the old one plus 1, however often it is named."""
    check(
        """kernel k(%0 p: *i32, %1 places: *i32) [
          %2 = arange {end=64, start=0} : i32[64]
          %3 = splat %1 {shape=(64,)} : *i32[64]
          %4 = offset %3, %2 {bytes=4} : *i32[64]
          %5 = load %4 : i32[64]
          %6 = splat %0 {shape=(64,)} : *i32[64]
          %7 = offset %6, %5 {bytes=4} : *i32[64]
          %8 = load %7 : i32[64]
          %9 = constant {type='i32[64]', value=1} : i32[64]
          %10 = add %8, %9 : i32[64]
          store %7, %10
        ]""",
        np.zeros(8, np.int32),
        np.arange(64, dtype=np.int32) % 8,
    )


def test_a_kept_reshape_waits_for_the_reduction():
    """A reshape that is kept reads other positions than its own."""
    check(
        """kernel k(%0 p: *f32, %1 n: i32) [
          %2 = constant {type='i32', value=0} : i32
          %3 = constant {type='i32', value=1} : i32
          %4 = constant {type='f32[1,1,1]', value=1} : f32[1,1,1]
          %5 = reduce %4 {axis=1, combine='add'} : f32[1,1]
          %6 = reshape %5 {shape=(1, 1, 1)} : f32[1,1,1]
          %7 = for %2, %1, %3, %6 : f32[1,1,1] (%8: i32, %9: f32[1,1,1]) [
            yield %9
          ]
          %10 = splat %0 {shape=(1, 1, 1)} : *f32[1,1,1]
          store %10, %7
        ]""",
        np.zeros(1, np.float32),
        2,
    )


def test_a_tile_clipped_at_its_mask_is_whole_after_a_branch():
    """Its rest was filled in where it was first read: in a branch that may not be taken."""
    check(
        """kernel k(%0 p: *i64, %1 out: *i64, %2 taken: i1, %3 n: i32) [
          %4 = arange {end=64, start=0} : i32[64]
          %5 = splat %0 {shape=(64,)} : *i64[64]
          %6 = offset %5, %4 {bytes=8} : *i64[64]
          %7 = splat %3 {shape=(64,)} : i32[64]
          %8 = lt %4, %7 : i1[64]
          %9 = load %6, %8 : i64[64]
          %10 = splat %1 {shape=(64,)} : *i64[64]
          %11 = offset %10, %4 {bytes=8} : *i64[64]
          if %2 {types=()} () [
            %12 = constant {type='i64[64]', value=3} : i64[64]
            %13 = add %9, %12 : i64[64]
            store %11, %13
            yield
          ] () [
            yield
          ]
          store %11, %9
        ]""",
        np.arange(64, dtype=np.int64),
        np.full(64, 9, np.int64),
        False,
        5,
    )


@pytest.mark.parametrize("features", LEVELS)
def test_operands_of_products_wider_than_a_panel(features):
    """A chunk of bytes covers several panels of columns of the right operand."""
    check(
        """kernel k(%0 p: *i8, %1 out: *i32) [
          %2 = constant {type='i8[16,8]', value=2} : i8[16,8]
          %3 = arange {end=256, start=0} : i32[256]
          %4 = reshape %3 {shape=(8, 32)} : i32[8,32]
          %5 = splat %0 {shape=(8, 32)} : *i8[8,32]
          %6 = offset %5, %4 {bytes=1} : *i8[8,32]
          %7 = load %6 : i8[8,32]
          %8 = abs %7 : i8[8,32]
          %9 = constant {type='i32[16,32]', value=1} : i32[16,32]
          %10 = dot %2, %8, %9 {precision='ieee'} : i32[16,32]
          %11 = arange {end=512, start=0} : i32[512]
          %12 = reshape %11 {shape=(16, 32)} : i32[16,32]
          %13 = splat %1 {shape=(16, 32)} : *i32[16,32]
          %14 = offset %13, %12 {bytes=4} : *i32[16,32]
          store %14, %10
        ]""",
        np.arange(256).astype(np.int8),
        np.zeros(512, np.int32),
        features=features,
    )


def test_operands_of_products_with_vectors_across_matrices():
    """The right operand is contiguous in memory from one matrix of the batch to the next."""
    check(
        """kernel k(%0 p: *f32, %1 out: *f32) [
          %2 = arange {end=4, start=0} : i32[4]
          %3 = reshape %2 {shape=(4, 1, 1)} : i32[4,1,1]
          %4 = broadcast %3 {shape=(4, 8, 8)} : i32[4,8,8]
          %5 = splat %0 {shape=(4, 8, 8)} : *f32[4,8,8]
          %6 = offset %5, %4 {bytes=4} : *f32[4,8,8]
          %7 = load %6 : f32[4,8,8]
          %8 = abs %7 : f32[4,8,8]
          %9 = constant {type='f32[4,8,8]', value=0.0} : f32[4,8,8]
          %10 = dot %8, %8, %9 {precision='ieee'} : f32[4,8,8]
          %11 = arange {end=256, start=0} : i32[256]
          %12 = reshape %11 {shape=(4, 8, 8)} : i32[4,8,8]
          %13 = splat %1 {shape=(4, 8, 8)} : *f32[4,8,8]
          %14 = offset %13, %12 {bytes=4} : *f32[4,8,8]
          store %14, %10
        ]""",
        np.arange(4, dtype=np.float32),
        np.zeros(256, np.float32),
    )


def test_chunks_of_two_widths_in_one_place():
    """A tile was read by two loops, one of them in wider vectors, at the same first element."""
    check(
        """kernel k(%0 p: *i8, %1 a: *i64, %2 b: *i8) [
          %3 = arange {end=32, start=0} : i32[32]
          %4 = splat %0 {shape=(32,)} : *i8[32]
          %5 = offset %4, %3 {bytes=1} : *i8[32]
          %6 = load %5 : i8[32]
          %7 = reduce %6 {axis=0, combine='max'} : i8
          %8 = splat %7 {shape=(32,)} : i8[32]
          %9 = sub %6, %8 : i8[32]
          %10 = splat %2 {shape=(32,)} : *i8[32]
          %11 = offset %10, %3 {bytes=1} : *i8[32]
          store %11, %9
          %12 = cast %9 {to='i64'} : i64[32]
          %13 = splat %1 {shape=(32,)} : *i64[32]
          %14 = offset %13, %3 {bytes=8} : *i64[32]
          store %14, %12
        ]""",
        np.arange(32, dtype=np.int8),
        np.zeros(32, np.int64),
        np.zeros(32, np.int8),
    )


def test_unsigned_progressions_wrap_around():
    """i - 5 below 10 holds nowhere before 5, where the difference is a large number."""
    check(
        """kernel k(%0 out: *i1, %1 wide: *u64) [
          %2 = arange {end=16, start=0} : i32[16]
          %3 = cast %2 {to='u32'} : u32[16]
          %4 = constant {type='u32[16]', value=5} : u32[16]
          %5 = sub %3, %4 : u32[16]
          %6 = constant {type='u32[16]', value=10} : u32[16]
          %7 = lt %5, %6 : i1[16]
          %8 = splat %0 {shape=(16,)} : *i1[16]
          %9 = offset %8, %2 {bytes=1} : *i1[16]
          store %9, %7
          %10 = cast %5 {to='u64'} : u64[16]
          %11 = splat %1 {shape=(16,)} : *u64[16]
          %12 = offset %11, %2 {bytes=8} : *u64[16]
          store %12, %10
        ]""",
        np.zeros(16, np.bool_),
        np.zeros(16, np.uint64),
    )


def test_a_row_of_nan_has_no_maximum():
    """Extremes pass NaN over, unless there is nothing else."""
    check(
        """kernel k(%0 p: *f32, %1 out: *f32) [
          %2 = arange {end=64, start=0} : i32[64]
          %3 = splat %0 {shape=(64,)} : *f32[64]
          %4 = offset %3, %2 {bytes=4} : *f32[64]
          %5 = load %4 : f32[64]
          %6 = reduce %5 {axis=0, combine='max'} : f32
          %7 = ne %6, %6 : i1
          %8 = cast %7 {to='f32'} : f32
          store %1, %8
        ]""",
        np.full(64, np.nan, np.float32),
        np.zeros(1, np.float32),
    )


SCALAR = """kernel k(%0 p: *{0}, %1 out: *{1}) [
  %2 = load %0 : {0}
  %3 = {2} %2 : {1}
  store %1, %3
]"""


@pytest.mark.parametrize("features", LEVELS)
@pytest.mark.parametrize("bits", [0x0001, 0x8003, 0x007F])
def test_denormals_of_bf16_survive_a_move(bits, features):
    """LLVM moves scalars of its own bf16 type through an instruction that flushes them."""
    value = np.array([bits], np.uint16).view(ml_dtypes.bfloat16)
    check(SCALAR.format("bf16", "bf16", "neg"), value, np.zeros_like(value), features=features)


@pytest.mark.parametrize("to", ["f16", "bf16", "f8e5"])
def test_casts_round_towards_zero_where_asked(to):
    held = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e5": ml_dtypes.float8_e5m2}[to]
    for value in (1.9999, -3.9999, 1e30, 1e-30, np.inf):
        check(
            SCALAR.format("f32", to, "cast").replace("%2 :", f"%2 {{rounding='rtz', to='{to}'}} :"),
            np.array([value], np.float32),
            np.zeros(1, held),
        )


def test_fma_of_bf16_rounds_once():
    """In fp32 the product and the tiny addend round to a tie, which then goes the wrong way."""
    check(
        """kernel k(%0 x: *bf16, %1 y: *bf16, %2 z: *bf16, %3 out: *bf16) [
          %4 = load %0 : bf16
          %5 = load %1 : bf16
          %6 = load %2 : bf16
          %7 = fma %4, %5, %6 : bf16
          store %3, %7
        ]""",
        *[np.array([v], ml_dtypes.bfloat16) for v in (-3.0, 1.0078125, 9.2e-41, 0.0)],
    )
