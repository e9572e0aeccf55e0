"""Time kernels, compare results, and tabulate benchmarks, under the names of `triton.testing`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.arrays import is_torch
from tilewright.runtime.bench_report import Benchmark, Mark, perf_report
from tilewright.runtime.dtypes import NUMPY_DTYPES
from tilewright.runtime.timing import measure, measure_calls

__all__ = [
    "Benchmark", "Mark", "allclose", "assert_almost_equal", "assert_close", "do_bench",
    "do_bench_cudagraph", "get_dram_gbps", "get_max_simd_tflops", "get_max_tensorcore_tflops",
    "nvsmi", "perf_report", "set_gpu_clock",
]  # fmt: skip

SUMMARIES = {
    "min": min,
    "max": max,
    "mean": lambda times: sum(times) / len(times),
    "median": lambda times: float(np.median(times)),
    "all": list,
}
MIN_REPEATS = 3


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    n_warmup: int | None = None,
    n_repeat: int | None = None,
) -> float | list[float]:
    """Milliseconds a call of `fn` takes, after `warmup` ms of calls, over `rep` ms of calls.

    `n_warmup` and `n_repeat` are numbers of calls in place of the milliseconds.
    `grad_to_none` lists tensors whose gradient is dropped before each call. With `quantiles`
    the result is one value for each of them, a bare float when there is one; otherwise
    `return_mode` says which summary is returned. Caches stay warm between calls.

    >>> do_bench(lambda: sum(range(10)), rep=1) > 0
    True
    """
    if return_mode not in SUMMARIES:
        raise ValueError(f"return_mode is one of {', '.join(SUMMARIES)}; got {return_mode!r}")

    def call() -> None:
        fn()
        _wait_for_gpu()

    def drop_gradients() -> None:
        for tensor in grad_to_none:
            tensor.grad = None

    before = None if grad_to_none is None else drop_gradients
    if n_repeat is not None:
        timing = measure_calls(call, n_warmup or 0, n_repeat, before)
    else:
        timing = measure(
            call,
            warmup_s=warmup * 1e-3,
            repeat_s=rep * 1e-3,
            min_repeats=MIN_REPEATS,
            before=before,
        )
    if quantiles is not None:
        found = [timing.quantile(q) * 1e3 for q in quantiles]
        return found[0] if len(found) == 1 else found
    return SUMMARIES[return_mode]([seconds * 1e3 for seconds in timing.samples])


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """As `do_bench`; launches are so short here that no graph is recorded."""
    return do_bench(
        fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode
    )


def _wait_for_gpu() -> None:
    """Let work that torch queued on a GPU end, so that the clock sees it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def assert_close(
    x: Any,
    y: Any,
    atol: float | Callable[[Any], float] | None = None,
    rtol: float | Callable[[Any], float] | None = None,
    err_msg: str = "",
) -> None:
    """Raise unless |x - y| <= atol + rtol * |y| everywhere; equal NaNs and infinities are close.

    A tolerance may be a function of `x`'s dtype; the defaults are 1e-2 and 0.
    """
    dtype = getattr(x, "dtype", None)
    atol = 1e-2 if atol is None else atol(dtype) if callable(atol) else atol
    rtol = 0.0 if rtol is None else rtol(dtype) if callable(rtol) else rtol
    problem = _difference(_to_numpy(x), _to_numpy(y), atol, rtol)
    if problem is not None:
        raise AssertionError(f"{err_msg}\n{problem}" if err_msg else problem)


def assert_almost_equal(x: Any, y: Any, decimal: int = 2, err_msg: str = "") -> None:
    """Raise unless `x` and `y` agree to so many decimals."""
    assert_close(x, y, atol=1.5 * 10.0**-decimal, rtol=0.0, err_msg=err_msg)


def allclose(x: Any, y: Any, tol: float = 1e-2) -> bool:
    """Is the largest difference at most `tol` times the largest magnitude?

    Raises:
        TypeError: for arrays of different dtypes.
    """
    left, right = _to_numpy(x), _to_numpy(y)
    if left.dtype != right.dtype:
        raise TypeError(f"allclose compares arrays of one dtype, got {left.dtype}, {right.dtype}")
    if left.shape != right.shape:
        return False
    if not left.size:
        return True
    largest = max(np.abs(_widened(left)).max(), np.abs(_widened(right)).max())
    return bool(_gap(left, right).max() <= tol * largest)


def _to_numpy(x: Any) -> np.ndarray:
    """The values as a NumPy array of a dtype that NumPy computes with."""
    if is_torch(x):
        x = x.detach().resolve_conj().resolve_neg().cpu()
        if x.is_floating_point() and x.element_size() < 4:  # NumPy has no bf16 and no fp8
            x = x.float()
        return x.numpy()
    if hasattr(x, "__cuda_array_interface__") and hasattr(x, "get"):  # CuPy
        x = x.get()
    array = np.asarray(x)
    known = NUMPY_DTYPES.get(array.dtype)
    return array.astype(np.float32) if known is not None and array.dtype.kind == "V" else array


def _widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.result_type(x, np.float64))


def _gap(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x - y| in double precision: 0 where both are the same, infinite where it has no value."""
    with np.errstate(all="ignore"):
        if np.result_type(x, y).kind in "iub":  # in doubles, 2**60 and 2**60 + 1 are one
            above = np.maximum(x, y).astype(np.uint64)
            return (above - np.minimum(x, y).astype(np.uint64)).astype(np.float64)
        gap = np.abs(_widened(x) - _widened(y))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _difference(x: np.ndarray, y: np.ndarray, atol: float, rtol: float) -> str | None:
    """What is not close, in words, or None."""
    if x.shape != y.shape and x.size != 1 and y.size != 1:
        return f"shapes differ: {x.shape} and {y.shape}"
    x, y = np.broadcast_arrays(x, y)
    gap = _gap(x, y)
    with np.errstate(all="ignore"):
        allowed = atol + rtol * np.abs(_widened(y))
        bad = (gap != 0) & ~((gap <= allowed) & np.isfinite(gap))
        excess = np.where(bad, np.nan_to_num(gap - allowed, nan=np.inf), -np.inf)
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.unravel_index(np.argmax(excess), x.shape))
    return (
        f"{int(bad.sum())} of {x.size} elements differ (shape {x.shape}, atol={atol}, rtol={rtol})"
        f"\n  worst at {where}: {x[where]} is not close to {y[where]}, "
        f"they are {gap[where]:.6g} apart, {allowed[where]:.6g} is allowed"
    )


def nvsmi(attrs: Sequence[str]) -> NoReturn:
    """Attributes of an NVIDIA GPU as its tool prints them; there is no such tool here."""
    _needs_gpu("nvsmi", "it asks nvidia-smi for the state of a GPU")


def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> NoReturn:
    """Lock the clocks of an NVIDIA GPU; refused."""
    _needs_gpu("set_gpu_clock", "it changes the clocks of a GPU")


def get_dram_gbps(device: int | None = None) -> NoReturn:
    """Memory bandwidth of a GPU by its data sheet; refused."""
    _needs_gpu("get_dram_gbps", "it computes from the memory clock and bus width of a GPU")


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> NoReturn:
    """Peak of a GPU's tensor cores by its data sheet; refused."""
    _needs_gpu("get_max_tensorcore_tflops", "it computes from the tensor cores of a GPU")


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> NoReturn:
    """Peak of a GPU's ordinary lanes by its data sheet; refused."""
    _needs_gpu("get_max_simd_tflops", "it computes from the multiprocessors of a GPU")


def _needs_gpu(name: str, why: str) -> NoReturn:
    raise TilewrightError(
        f"{name} is not available: {why}, and Tilewright reports no figure that it did not "
        f"measure; `tilewright doctor` shows what this machine reaches"
    )
