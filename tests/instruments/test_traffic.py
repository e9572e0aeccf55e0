"""Records of traffic: totals, least bytes, ratios and views."""

import pytest
from softmax_records import M, N, site, softmax_run

from tilewright.instruments.traffic import dtype_name, unique_elements


def test_fused_softmax_moves_the_least():
    run = softmax_run()
    assert run.total_bytes == run.least_bytes == 33_554_432
    assert run.read_elements == run.write_elements == M * N
    assert run.over_least == 1.0
    assert run.effective_gbps == pytest.approx(33_554_432 / 2e-3 / 1e9)
    assert run.flop_per_byte == pytest.approx(0.625)


def test_masked_share_counts_all_lanes():
    assert site(elements=3, masked=1).masked_share == 0.25
    assert site(elements=0, masked=0).masked_share == 0.0
    run = softmax_run(sites=[site(elements=3, masked=1), site("store", elements=4, masked=0)])
    assert run.masked_share == 0.125


def test_reload_and_excess():
    reloaded = site(bytes=M * N * 4 * 8, elements=M * N * 8)
    assert reloaded.reload == 8.0
    run = softmax_run(sites=[reloaded, site("store")])
    assert run.over_least == 4.5


def test_an_atomic_reads_and_writes():
    run = softmax_run(sites=[site("atomic", elements=10, bytes=40, unique_bytes=4)])
    assert (run.read_bytes, run.write_bytes, run.total_bytes) == (40, 40, 80)


def test_without_counts_or_time_there_are_no_ratios():
    run = softmax_run(sites=[], minimum_bytes={}, timing=None)
    assert run.over_least is None
    assert run.effective_gbps is None
    assert run.flop_per_byte is None


def test_compute_dtype_is_that_of_most_bytes():
    sites = [site(dtype="fp16", bytes=10), site(dtype="fp32", bytes=4), site(dtype="i64", bytes=99)]
    assert softmax_run(sites=sites).compute_dtype == "fp16"
    assert softmax_run(sites=[site(dtype="i32")]).compute_dtype == "fp32"


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [
        ((4, 8), (8, 1), 32),
        ((4, 8), (1, 0), 4),
        ((4, 8), (0, 0), 1),
        ((), (), 1),
        ((4, 8), (16, 0), 4),
        ((0, 8), (8, 1), 0),
        ((6, 3), (1, 1), 8),
        ((4, 8), (-16, 2), 32),
    ],
)
def test_unique_elements(shape, strides, elements):
    assert unique_elements(shape, strides) == elements


def test_dtype_names():
    assert [dtype_name(n) for n in ("float32", "bfloat16", "int64")] == ["fp32", "bf16", "int64"]
