"""`tilewright tune`: what autotuning tried."""

import re
import subprocess
import sys
import textwrap

SCRIPT = """
    import numpy as np
    import triton
    import triton.language as tl

    configs = [triton.Config(dict(BLOCK=b)) for b in (256, 1024, 100)]

    @triton.autotune(configs=configs, key=["n"])
    @triton.jit
    def double(x, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

    x = np.arange(5000, dtype=np.float32)
    out = np.empty_like(x)
    for n in {sizes}:
        double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert (out == 2 * x).all()
"""


def tune(tmp_path, sizes):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT).format(sizes=sizes))
    command = [sys.executable, "-m", "tilewright", "tune", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_all_configurations_are_listed_the_fastest_first(tmp_path):
    status, out, err = tune(tmp_path, "(5000, 5000)")
    assert status == 0, err
    head, first, second, failed = out.splitlines()
    assert head.startswith("double (5000, float32, float32): 3 configurations in ")
    assert first.startswith("> BLOCK: ") and "1.00x" in first
    assert second.startswith("  BLOCK: ") and float(re.search(r"([\d.]+)x", second)[1]) >= 1
    assert failed.startswith("  BLOCK: 100") and "failed: " in failed and "power of" in failed


def test_a_script_without_autotuned_launches(tmp_path):
    status, out, err = tune(tmp_path, "()")
    assert status == 1 and "AssertionError" in err
    assert out.startswith("no kernel with @triton.autotune")
