"""`tilewright explain` and `index` on scripts, as a user runs them."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def tilewright(*args, status=0):
    run = subprocess.run(
        [sys.executable, "-m", "tilewright", *map(str, args)], capture_output=True, text=True
    )
    assert run.returncode == status, run.stderr
    return run


@pytest.fixture(scope="module")
def softmax():
    hardware = "fp32=20e12,bandwidth=1e12"
    run = tilewright("explain", "--json", "--hardware", hardware, EXAMPLES / "softmax.py")
    return json.loads(run.stdout)


def kernel(report, name):
    return next(k for k in report["kernels"] if k["name"] == name)


def test_the_fused_softmax_moves_exactly_two_elements_for_each(softmax):
    fused = kernel(softmax, "softmax_kernel")
    assert fused["grid"] == [4096, 1, 1]
    assert sum(site["bytes"] for site in fused["sites"]) == 33_554_432
    assert [site["kind"] for site in fused["sites"]] == ["load", "store"]
    for site in fused["sites"]:
        assert site["elements"] == 4096 * 1024
        assert site["unique_bytes"] == site["bytes"] == 16_777_216
        assert site["masked"] == 0
        assert site["file"].endswith("softmax.py")
        assert site["expression"].startswith(f"tl.{site['kind']}(")


def test_the_naive_softmax_is_counted_step_by_step(softmax):
    (region,) = softmax["regions"]
    names = [step["name"] for step in region["steps"]]
    assert names == ["max", "subtract", "exp", "sum", "divide"]
    m, n = 4096, 1024
    assert region["read_elements"] == 5 * m * n + 2 * m
    assert region["write_elements"] == 3 * m * n + 2 * m
    assert region["total_bytes"] == 134_283_264


def test_predictions_are_apart_and_use_the_hardware_given(softmax):
    text = json.dumps(softmax)
    assert "predict" in text
    run = tilewright("explain", "--hardware", "fp32=20e12,bandwidth=1e12", EXAMPLES / "softmax.py")
    assert "134.3 us" in run.stdout and "33.55 us" in run.stdout
    assert "4.002x" in run.stdout


def test_vector_add_moves_three_elements_for_each(tmp_path):
    report = json.loads(tilewright("explain", "--json", EXAMPLES / "vector_add.py").stdout)
    add = report["kernels"][0]
    n = next(a["value"] for a in add["arguments"] if a["name"] == "n")
    assert sum(site["elements"] for site in add["sites"]) == 3 * n


SCRIPT = """
    import numpy as np
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

    @triton.jit
    def idle(x):
        tl.store(x, 0.0)

    x = np.arange(100, dtype=np.float32)
    for _ in range(3):
        double[(2,)](x, 100, BLOCK=64)
    print(x[3])
    {end}
"""


def script(tmp_path, end=""):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT).format(end=end))
    return file


def test_launches_have_their_effect_once_and_idle_kernels_are_named(tmp_path):
    run = tilewright("explain", script(tmp_path))
    assert run.stdout.startswith("24.0\n")
    assert "idle" in run.stdout and "never launched" in run.stdout
    assert "launched 3 times" in run.stdout


def test_code_for_an_architecture_is_told_of(tmp_path):
    run = tilewright("explain", "--json", "--arch", "sm_90a", script(tmp_path))
    (double,) = json.loads(run.stdout)["kernels"]
    assert double["target"] == "cpu" and double["gpu"]["arch"] == "sm_90a"
    assert [a["kind"] for a in double["gpu"]["accesses"]] == ["load", "store"]
    run = tilewright("explain", "--arch", "sm_1", script(tmp_path), status=2)
    assert "sm_90a" in run.stderr


def test_a_script_that_raises_shows_its_traceback_and_the_report_so_far(tmp_path):
    run = tilewright("explain", script(tmp_path, 'raise KeyError("gone")'), status=1)
    assert "KeyError: 'gone'" in run.stderr
    assert "double" in run.stdout and "800" in run.stdout


def test_index_of_a_kernel_shows_its_last_program_masked(tmp_path):
    run = tilewright("index", f"{script(tmp_path)}::double")
    assert "grid (2, 1, 1), 2 programs" in run.stdout
    assert "36 of 64" in run.stdout
    assert "64 65 66 ... 97 98 99" in run.stdout
    assert run.stderr.startswith("24.0\n")  # stepping through it had no effect


def test_index_of_a_kernel_that_is_not_launched_says_what_is(tmp_path):
    run = tilewright("index", f"{script(tmp_path)}::idle", status=1)
    assert "launched no kernel 'idle'; it launched: double" in run.stderr


def test_index_of_one_dimension():
    run = tilewright("index", "--n", 10, "--block", 4)
    assert "cdiv(10, 4) = 3" in run.stdout


def test_unknown_hardware_is_refused():
    run = tilewright("explain", "--hardware", "H20O", EXAMPLES / "softmax.py", status=2)
    assert "H200" in run.stderr


def test_a_page_is_written_whole(tmp_path):
    file = tmp_path / "page.html"
    run = tilewright("explain", "--html", file, script(tmp_path))
    assert "double" in run.stdout
    text = file.read_text()
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert list(tmp_path.glob("*.part")) == []


def test_a_page_that_cannot_be_written_is_said(tmp_path):
    run = tilewright("explain", "--html", tmp_path / "no" / "page.html", script(tmp_path), status=1)
    assert "page.html" in run.stderr
