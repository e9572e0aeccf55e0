"""NVIDIA's assembler, where it is installed: what machine code takes, without a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tilewright.errors import InternalError

FOLDERS = ("CUDA_HOME", "CUDA_PATH")  # variables of the environment that name the toolkit
USUAL = "/usr/local/cuda"


@cache
def ptxas() -> str | None:
    """Where the assembler is."""
    found = shutil.which("ptxas")
    if found is not None:
        return found
    folders = [os.environ.get(name) for name in FOLDERS]
    places = [Path(folder) / "bin" / "ptxas" for folder in (*folders, USUAL) if folder]
    return next((str(place) for place in places if place.exists()), None)


def assembled_facts(ptx: str, arch: str) -> dict[str, int] | None:
    """Registers of a thread, and bytes of them that were spilled; None without an assembler.

    Raises:
        InternalError: when it does not take the code.
    """
    program = ptxas()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [program, f"-arch={arch}", "-v", str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InternalError(f"ptxas does not take the generated code:\n{done.stderr.strip()}")
    registers = re.search(r"Used (\d+) registers", done.stderr)
    stack = re.search(r"(\d+) bytes stack frame", done.stderr)
    return {
        "registers": int(registers[1]) if registers else 0,
        "spill_bytes": int(stack[1]) if stack else 0,
    }
