"""The machine, versions and environment of a measurement."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilewright.codegen import llvm

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "llvmlite", "torch", "numba")
# These make OpenBLAS take the kernels of another processor.
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_COUNTS = (
    "TILEWRIGHT_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)  # fmt: skip
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def cores() -> int:
    return len(os.sched_getaffinity(0))


def environment(threads: int) -> dict[str, str]:
    """This process's environment with the same thread count for everybody."""
    kept = {name: text for name, text in os.environ.items() if name not in DROPPED}
    kept.update(dict.fromkeys(THREAD_COUNTS, str(threads)))
    kept["TILEWRIGHT_CACHE"] = "0"  # so that a first call is a compilation
    return kept


def restart(threads: int) -> None:
    """Start this script again in that environment, which libraries read when they are loaded."""
    wanted = environment(threads)
    if dict(os.environ) != wanted and "TILEWRIGHT_BENCH" not in os.environ:
        wanted["TILEWRIGHT_BENCH"] = "1"
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def keep_memory_mapped() -> None:
    """Let freed memory stay with the process: results that a peer allocates cost no page faults."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def describe() -> dict[str, Any]:
    """What a result must say about where it comes from."""
    return {
        "kind": "machine",
        "cpu": cpu_name(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := installed(name))},
        "commit": commit(),
    }


def cpu_name() -> str:
    return llvm.host_machine().cpu


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The commit measured, with a plus when files differ from it; empty outside a checkout."""
    try:
        head = git("rev-parse", "--short", "HEAD")
        return head + ("+" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def git(*args: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()
