"""NVIDIA's assembler as a program, where it is installed: machine code without a GPU.

The driver's own makes code that could still be linked with other code, which calls subroutines (of
64-bit quotients, say) as strangers, and for which products of warpgroups take turns.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tilewright.errors import InternalError

FOLDERS = ("CUDA_HOME", "CUDA_PATH")  # variables of the environment that name the toolkit
USUAL = "/usr/local/cuda"
PACKAGES = ("triton/backends/nvidia", "nvidia/cuda_nvcc", "nvidia/cu13", "nvidia/cu12")
SECONDS = 120  # that it may take


def places() -> Iterator[str | None]:
    """Where the assembler may be: the toolkit's, then those of Python packages."""
    yield shutil.which("ptxas")
    for folder in (*(os.environ.get(name) for name in FOLDERS), USUAL):
        if folder:
            yield str(Path(folder) / "bin" / "ptxas")
    for folder in sys.path:
        for package in PACKAGES:
            yield str(Path(folder or ".") / package / "bin" / "ptxas")


@cache
def programs() -> tuple[str, ...]:
    """All that are there."""
    return tuple(dict.fromkeys(p for p in places() if p and os.access(p, os.X_OK)))


@cache
def release(program: str) -> int:
    """Of which release of CUDA an assembler is, counted as drivers count; 0: it does not say."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return 1000 * int(found[1]) + 10 * int(found[2]) if found else 0


def run(program: str, ptx: str, arch: str) -> tuple[bytes, str]:
    """Machine code, and what the assembler says.

    Raises:
        InternalError: when it does not take the code.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
            source.write_text(ptx)
            command = [program, f"-arch={arch}", "-v", str(source), "-o", str(out)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=SECONDS
            )
            if not done.returncode:
                return out.read_bytes(), done.stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise InternalError(f"ptxas cannot be run: {error}") from None
    raise InternalError(f"ptxas does not take the generated code:\n{done.stderr.strip()}")


def assembled(ptx: str, arch: str, driver: int) -> tuple[bytes, str] | None:
    """Machine code that a driver can load, and what the assembler says; None: there is none.

    Args:
        driver: its version.
    """
    for program in programs():
        if 0 < release(program) <= driver:
            try:
                return run(program, ptx, arch)
            except InternalError:
                continue  # an older one may not know the architecture
    return None


def assembled_facts(ptx: str, arch: str) -> dict[str, int] | None:
    """Registers of a thread, and bytes of them that were spilled; None without an assembler.

    Raises:
        InternalError: when it does not take the code.
    """
    if not programs():
        return None
    _, log = run(programs()[0], ptx, arch)
    registers = re.search(r"Used (\d+) registers", log)
    stack = re.search(r"(\d+) bytes stack frame", log)
    return {
        "registers": int(registers[1]) if registers else 0,
        "spill_bytes": int(stack[1]) if stack else 0,
    }
