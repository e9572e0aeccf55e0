"""Names of Triton's modules that programs borrow, and what they do here."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tilewright
import tilewright.compat
import tilewright.language as tl


@pytest.fixture(autouse=True)
def stand_in():
    if tilewright.compat.is_installed():
        yield
        return
    tilewright.compat.install()
    yield
    tilewright.compat.uninstall()


@tilewright.jit
def fill(x):
    tl.store(x, 1)


def test_times_are_summarized():
    from triton.testing import _quantile, _summarize_statistics, cuda_memcheck

    times = [4.0, 1.0, 3.0, 2.0]
    assert _quantile(times, [0, 0.5, 1]) == [1, 2.5, 4]
    assert [_summarize_statistics(times, None, m) for m in ("min", "max", "mean", "median")] == [
        1, 4, 2.5, 2.5,
    ]  # fmt: skip
    assert _summarize_statistics(times, [0.5], "mean") == 2.5
    assert _summarize_statistics(times, None, "all") == times
    assert cuda_memcheck(target_kwargs={})(test_times_are_summarized) is test_times_are_summarized


def test_what_is_told_of_functions_and_arguments():
    from triton.runtime.jit import KernelInterface, get_jit_fn_file_line, mangle_type

    file, line = get_jit_fn_file_line(fill)
    lines, first = inspect.getsourcelines(fill.fn)
    assert file == __file__ and lines[line - first].startswith("def fill")
    given = (True, 3, 2**40, 2**63, 0.5, np.zeros(1, np.float16))
    assert [*map(mangle_type, given)] == ["u1", "i32", "i64", "u64", "fp32", "*fp16"]
    assert not fill.is_gluon()

    class Other(KernelInterface):
        def run(self, *args, grid, warmup):
            return [getattr(a, "dtype", a) for a in args], grid, warmup

    assert Other().warmup(tl.float32, 3, grid=(1,)) == ([tl.float32, 3], (1,), True)


def test_types_by_their_spelling():
    from triton._utils import canonicalize_ptr_dtype, get_primitive_bitwidth, is_namedtuple

    assert canonicalize_ptr_dtype("torch.float32", True) == "*kfp32"
    assert [get_primitive_bitwidth(n) for n in ("fp16", "i32", "u8", "fp64")] == [16, 32, 8, 64]
    assert is_namedtuple(type("P", (tuple,), {"_fields": ()})) and not is_namedtuple((1,))


def test_modules_within_modules():
    from triton.backends import BaseBackend, DriverBase
    from triton.backends.driver import Benchmarker
    from triton.language.extra.cuda.gdc import gdc_wait
    from triton.language.extra.cuda.utils import globaltimer, num_warps
    from triton.runtime._allocation import Allocator, Buffer, NullAllocator, set_profile_allocator

    from tilewright.language.extra import cuda

    assert (gdc_wait, globaltimer, num_warps) == (cuda.gdc_wait, cuda.globaltimer, cuda.num_warps)
    from tilewright.runtime import driver

    assert isinstance(driver.active, DriverBase) and not isinstance(3, DriverBase)
    assert all((BaseBackend, DriverBase, Benchmarker, Allocator, Buffer, NullAllocator))
    set_profile_allocator(None)


def test_tools_and_profiles():
    import triton
    from triton import profiler

    tools = [triton.knobs.nvidia.ptxas.path, triton.knobs.nvidia.nvdisasm.path]
    assert all(t is None or isinstance(t, str) for t in tools)
    assert triton.knobs.redis.port == 6379 and triton.knobs.build.impl is None
    with pytest.raises(AttributeError):
        triton.knobs.nvidia.nothing  # noqa: B018

    @profiler.profile(name="here")
    def work():
        with profiler.state("inner"), profiler.cpu_timed_scope("timed"):
            return profiler.enter_scope("x"), profiler.exit_scope()

    assert work() == (0, 0)
