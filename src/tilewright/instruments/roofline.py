"""The roofline: predicted times of bytes and arithmetic on described hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .hardware import Hardware
from .traffic import KernelRun, Region


@dataclass(frozen=True, slots=True)
class Prediction:
    """The shortest time that the hardware's limits allow for some bytes and arithmetic.

    `compute_seconds` is None without arithmetic or a peak for it; `peak_dtype` is the dtype whose
    peak was taken; `bound` says which of the two limits the time.
    """

    bytes: int
    flops: int
    memory_seconds: float
    compute_seconds: float | None
    peak_dtype: str | None
    seconds: float
    bound: Literal["memory", "compute"]


def predict(bytes: int, flops: int, dtype: str, hardware: Hardware) -> Prediction:
    """Predict the time of moving `bytes` once while doing `flops` at the peak of `dtype`."""
    memory = bytes / hardware.bandwidth
    peak = hardware.peak(dtype) if flops else None
    if peak is None:
        return Prediction(bytes, flops, memory, None, None, memory, "memory")
    compute = flops / peak[1]
    bound = "compute" if compute > memory else "memory"
    return Prediction(bytes, flops, memory, compute, peak[0], max(memory, compute), bound)


def predict_kernel(run: KernelRun, hardware: Hardware) -> Prediction:
    """A launch, when every byte that it asks for comes from memory (no cache helps)."""
    return predict(run.total_bytes, run.flops, run.compute_dtype, hardware)


def predict_least(run: KernelRun, hardware: Hardware) -> Prediction:
    """A launch, when each byte comes from memory only once (the caches do all the rest)."""
    return predict(run.least_bytes, run.flops, run.compute_dtype, hardware)


def predict_region(region: Region, hardware: Hardware) -> Prediction:
    """Steps one after the other, each against its own limits."""
    steps = [predict(s.total_bytes, s.flops, s.dtype or "fp32", hardware) for s in region.steps]
    seconds = sum(s.seconds for s in steps)
    in_compute = sum(s.seconds for s in steps if s.bound == "compute")
    computing = [s for s in steps if s.compute_seconds is not None]
    return Prediction(
        region.total_bytes,
        region.flops,
        region.total_bytes / hardware.bandwidth,
        sum(s.compute_seconds for s in computing) if computing else None,
        computing[0].peak_dtype if computing else None,
        seconds,
        "compute" if in_compute > seconds / 2 else "memory",
    )


def predicted_speedup(unfused: Prediction, fused: Prediction) -> float | None:
    """How much faster the fused form is predicted to be."""
    return unfused.seconds / fused.seconds if fused.seconds else None
