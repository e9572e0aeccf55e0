"""Predictions: memory and compute time, the bound, and the speed-up of a fused kernel."""

import numpy as np
import pytest
from softmax_records import M, N, naive_softmax, site, softmax_run

from tilewright.instruments.hardware import parse_hardware
from tilewright.instruments.ledger import Ledger
from tilewright.instruments.roofline import (
    predict,
    predict_kernel,
    predict_least,
    predict_region,
    predicted_speedup,
)
from tilewright.instruments.traffic import Region, Step
from tilewright.instruments.watch import watch

HARDWARE = parse_hardware("fp32=20e12,bandwidth=1e12")


def test_softmax_fused_and_not():
    with Ledger() as ledger:
        naive_softmax(np, watch(np.zeros((M, N), np.float32)))
    steps = predict_region(ledger.regions[0], HARDWARE)
    fused = predict_kernel(softmax_run(), HARDWARE)
    assert fused.seconds == pytest.approx(33.554432e-6)
    assert steps.seconds == pytest.approx(134.283264e-6)
    assert predicted_speedup(steps, fused) == pytest.approx(4.002, abs=5e-4)
    assert (steps.bound, fused.bound) == ("memory", "memory")


def test_compute_bound():
    p = predict(1_000_000, 20_000_000_000, "fp32", HARDWARE)
    assert (p.memory_seconds, p.compute_seconds, p.seconds) == (1e-6, 1e-3, 1e-3)
    assert (p.bound, p.peak_dtype) == ("compute", "fp32")


def test_without_a_peak_only_memory_counts():
    p = predict(1_000_000, 10**12, "fp32", parse_hardware("bandwidth=1e12"))
    assert (p.compute_seconds, p.bound, p.seconds) == (None, "memory", 1e-6)


def test_least_is_with_perfect_caches():
    run = softmax_run(sites=[site(bytes=M * N * 32), site("store")])
    assert predict_least(run, HARDWARE).bytes == 33_554_432
    assert predict_kernel(run, HARDWARE).bytes == 150_994_944


def test_steps_add_up_each_with_its_own_bound():
    product = Step("mm", 10**6, 0, 0, 0, None, "a.py", 1, dtype="fp32", flops=20 * 10**9)
    copy = Step("copy", 10**6, 10**6, 0, 0, None, "a.py", 2)
    p = predict_region(Region("f", "a.py", 1, (product, copy)), HARDWARE)
    assert p.seconds == pytest.approx(1e-3 + 2e-6)
    assert p.bound == "compute"
