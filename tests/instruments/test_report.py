"""The report as text and JSON: its figures, its layout when piped, its documented keys."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from softmax_records import M, N, naive_softmax, site, softmax_run

from tilewright.instruments import report
from tilewright.instruments.hardware import parse_hardware
from tilewright.instruments.ledger import Ledger
from tilewright.instruments.watch import watch

HARDWARE = parse_hardware("fp32=20e12,bandwidth=1e12")
DOCUMENT = Path(__file__).parents[2] / "docs" / "json.md"


@pytest.fixture(scope="module")
def ledger():
    with Ledger() as made:
        naive_softmax(np, watch(np.zeros((M, N), np.float32)))
        made.add_kernel(softmax_run())
        made.add_kernel(softmax_run(sites=[]))
        made.define("forgotten_kernel", "/somewhere/softmax.py", 40)
    return made


def squeezed(text):
    return " ".join(text.split())


def test_text_has_every_figure(ledger):
    text = squeezed(report.text(ledger, HARDWARE))
    for part in (
        "softmax_kernel /somewhere/softmax.py:8",
        "(4096,): 4,096 program instances on cpu, launched 2 times",
        "y_ptr: fp32 [4096, 1024] strides [1024, 1]",
        "n_cols: i32 = 1024",
        "BLOCK=1024 num_warps=4",
        "16 ms, compiled now (frontend 3 ms, passes 1 ms, llvm 12 ms); not part of the run time",
        "2 ms, median of 20 runs on this machine; 16.8 GB/s effective",
        "33,554,432 asked for, 33,554,432 is the least possible = 1.000x",
        "20,971,520, 0.625 flop/byte",
        "4,194,304 16,777,216 16,777,216 1.00x 0",
        "4,198,400 4,194,304 33,570,816",
        "20,979,712 12,591,104 134,283,264",
        "4.00x",
        "forgotten_kernel /somewhere/softmax.py:40",
        "Predicted: softmax_kernel 4.002x as fast",
        "softmax_kernel moves exactly the least possible bytes (33.6 MB).",
        "moved 4.00x the bytes of softmax_kernel (134.3 MB against 33.6 MB)",
        "x its time on this machine (median of 1 call).",
        "forgotten_kernel (softmax.py:40) was never launched",
    ):
        assert part in text


def test_predictions_only_with_hardware(ledger):
    assert "redict" not in report.text(ledger)
    text = report.text(ledger, HARDWARE)
    assert "Prediction  computed from the counts above, measured nowhere" in text


def test_piped_text_is_plain_and_fits(ledger):
    text = report.text(ledger, HARDWARE, console_width=100)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_no_width_costs_a_digit(ledger, width):
    text = report.text(ledger, HARDWARE, console_width=width)
    for number in ("134,283,264", "20,979,712", "12,591,104", "16,777,216"):
        assert number in text


def test_show_prints_colours_on_a_terminal_only(ledger):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100, color_system="standard")
    report.show(ledger, None, terminal)
    assert "\x1b[1m" in terminal.file.getvalue()


def test_brackets_in_source_are_no_markup():
    with Ledger() as made:
        made.add_kernel(softmax_run(sites=[site(expression="a[red]x[/red]"), site("store")]))
    assert "a[red]x[/red]" in report.text(made)


def test_reloads_and_masks_are_named():
    wasteful = site(bytes=M * N * 32, elements=M * N * 8, masked=M * N * 8)
    with Ledger() as made:
        made.add_kernel(softmax_run(sites=[wasteful, site("store")]))
    text = squeezed(report.text(made))
    assert "softmax_kernel asks for 151.0 MB, 4.50x the least possible 33.6 MB." in text
    assert "each of its bytes is asked for 8.00 times" in text
    assert "50% of the lanes of tl.load(x_ptr + offsets, mask=mask)" in text


def test_an_empty_run_says_so():
    with Ledger() as made:
        pass
    assert "No kernel was run to its end" in report.text(made)
    assert report.as_json(made)["kernels"] == []


def test_a_kernel_without_counts_or_time():
    with Ledger() as made:
        made.add_kernel(softmax_run(sites=[], timing=None, minimum_bytes={}, compile_s={}))
    text = squeezed(report.text(made, HARDWARE))
    assert "run not timed" in text
    assert "its memory accesses were not counted" in text
    assert report.as_json(made, HARDWARE)["kernels"][0]["traffic"] is None


def test_json_figures(ledger):
    data = json.loads(json.dumps(report.as_json(ledger, HARDWARE), allow_nan=False))
    assert data["schema"] == 1
    (kernel,), (region,) = data["kernels"], data["regions"]
    assert kernel["traffic"]["total_bytes"] == kernel["traffic"]["least_bytes"] == 33_554_432
    assert kernel["launches"] == 2
    assert kernel["run"] == {"median_seconds": 2e-3, "repeats": 20}
    assert kernel["compile"]["seconds"] == pytest.approx(0.016)
    assert (region["total_bytes"], region["elements"]) == (134_283_264, 8 * M * N + 4 * M)
    assert data["order"] == [{"region": 0}, {"kernel": 0}]
    assert data["comparisons"][0]["bytes_ratio"] == pytest.approx(4.002, abs=5e-4)
    assert data["prediction"]["speedups"][0]["speedup"] == pytest.approx(4.002, abs=5e-4)
    assert data["never_launched"] == [
        {"name": "forgotten_kernel", "file": "/somewhere/softmax.py", "line": 40}
    ]
    assert report.as_json(ledger)["prediction"] is None


def test_json_holds_any_value():
    with Ledger() as made:
        made.add_kernel(softmax_run(meta={"DTYPE": np.float32, "EPS": float("inf"), "ON": True}))
    meta = report.as_json(made)["kernels"][0]["meta"]
    json.dumps(meta, allow_nan=False)
    assert meta["EPS"] == "inf"
    assert meta["ON"] is True


def keys(value, open_maps=("meta", "stages", "minimum_bytes", "peaks", "uncounted")):
    """Every key in a JSON value but for those that the program chooses."""
    if isinstance(value, list):
        return {k for item in value for k in keys(item)}
    if not isinstance(value, dict):
        return set()
    inner = {k for name, item in value.items() if name not in open_maps for k in keys(item)}
    return set(value) | inner


def test_every_key_is_documented(ledger):
    text = DOCUMENT.read_text()
    found = keys(report.as_json(ledger, HARDWARE))
    assert [k for k in sorted(found) if f"`{k}`" not in text] == []
