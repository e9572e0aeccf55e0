"""The commands: scripts and modules run as python runs them; stages, the cache, the report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cpu

SCRIPT = """\
import sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

x = np.zeros(10, np.float32)
add_one[(1,)](x, 10, BLOCK=16)
print(__name__, sys.argv, sys.path[0], x.sum())
if "fault" in sys.argv:
    add_one[(1,)](x, 20, BLOCK=32)
if "error" in sys.argv:
    raise ValueError("mine")
if "stop" in sys.argv:
    raise KeyboardInterrupt
sys.exit(3)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def tilewright(*args, cwd=None, **env):
    return subprocess.run(
        [sys.executable, "-m", "tilewright", *map(str, args)],
        capture_output=True, text=True, timeout=120, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **env},
    )  # fmt: skip


def test_script(script):
    done = tilewright("run", script, "--flag", "-m", "x")
    assert done.returncode == 3
    expected = f"__main__ {[str(script), '--flag', '-m', 'x']} {script.parent} 10.0\n"
    assert done.stdout == expected
    assert done.stderr == ""


def test_module(script):
    done = tilewright("run", "-m", "script", "a", cwd=script.parent)
    assert done.returncode == 3
    assert done.stdout == f"__main__ {[str(script), 'a']} {script.parent} 10.0\n"


PARENT = """\
import multiprocessing, subprocess, sys

CHILD = "import triton, triton.language as tl; print(triton.__name__, tl.__name__)"

def child(queue):
    import triton
    queue.put(triton.__name__)

if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", CHILD], check=True)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    context.Process(target=child, args=(queue,)).start()
    print(queue.get())
"""


def test_children_inherit_the_stand_in(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    done = tilewright("run", tmp_path / "parent.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["tilewright tilewright.language", "tilewright"]


def test_children_inherit_the_pretence(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.hidden = True\n")
    child = "import sys, torch; print(sys.hidden, torch.cuda.is_available())"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    (tmp_path / "parent.py").write_text(parent)
    path = f"{ROOT / 'src'}:{tmp_path}"
    done = tilewright("run", "--pretend-cuda", tmp_path / "parent.py", PYTHONPATH=path)
    assert done.stdout == "True True\n", done.stderr


def test_workers_of_pytest_inherit_the_stand_in(tmp_path):
    pytest.importorskip("xdist")
    test = "import triton\n\ndef test_name():\n    assert triton.__name__ == 'tilewright'\n"
    (tmp_path / "test_name.py").write_text(test)
    done = tilewright("run", "-m", "pytest", "-q", "-n", "1", "test_name.py", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_traceback_is_the_script_s_own(script):
    done = tilewright("run", script, "error")
    assert done.returncode == 1
    first, place, *_, last = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place == f'  File "{script}", line 17, in <module>'
    assert last == "ValueError: mine"
    assert "tilewright" not in done.stderr


def test_fault_of_a_kernel(script):
    done = tilewright("run", script, "fault")
    assert done.returncode == 1
    assert f'  File "{script}", line 15, in <module>' in done.stderr
    assert "OutOfBoundsError: add_one: " in done.stderr
    assert "^^^^" in done.stderr
    assert str(ROOT / "src") not in done.stderr


def test_interrupt(script):
    done = tilewright("run", script, "stop")
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_missing_script():
    done = tilewright("run", "no_such_file.py")
    assert done.returncode == 2
    assert "File 'no_such_file.py' does not exist" in done.stderr


def test_dump(script):
    done = tilewright("dump", f"{script}::add_one")
    assert done.stdout.startswith("kernel add_one(%0 x: *f32, %1 n: i32) [")
    assert "__main__" in done.stderr
    assert "define" in tilewright("dump", "--stage", "llvm", f"{script}::add_one").stdout
    assert "tw_entry" in tilewright("dump", "--stage", "asm", f"{script}::add_one").stdout


def test_dump_of_an_unknown_kernel(script):
    done = tilewright("dump", f"{script}::nothing")
    assert done.returncode == 1
    assert "launched no kernel 'nothing'; it launched: add_one" in done.stderr
    assert "say which kernel" in tilewright("dump", script).stderr


def test_cache(tmp_path):
    folder = {"TILEWRIGHT_CACHE_DIR": str(tmp_path / "kernels")}
    assert "entries  0" in tilewright("cache", **folder).stdout
    assert tilewright("doctor", **folder).returncode == 0
    kept = len(list((tmp_path / "kernels").glob("*.tile")))
    assert kept >= 2  # the kernel and its launcher
    assert f"entries  {kept}" in tilewright("cache", **folder).stdout
    assert tilewright("cache", "--clear", **folder).stdout == f"removed {kept} entries\n"
    assert "nothing is kept" in tilewright("cache", TILEWRIGHT_CACHE="0").stdout


def test_doctor(tmp_path):
    done = tilewright("doctor", TILEWRIGHT_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0
    for part in ("tilewright   0.", "LLVM", "vectors of", "threads", f"cache        {tmp_path}"):
        assert part in done.stdout
    assert "kernel       works (compiled in " in done.stdout
