"""`tilewright doctor`: versions, the machine, the cache, and a kernel that is really run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

import click
import numpy as np

import tilewright
import tilewright.language as tl
from tilewright import compat
from tilewright.codegen import llvm
from tilewright.runtime.cache import default_cache
from tilewright.targets.cpu import threads

PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "torch", "triton")
WORTH_NAMING = (
    "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bf16", "avx512fp16", "amx-bf16", "neon",
    "bf16", "sve",
)  # fmt: skip


@tilewright.jit
def probe_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp2(tl.load(x + i, mask=i < n)), mask=i < n)


@click.command()
def doctor() -> None:
    """Show what Tilewright runs on, and check that a kernel compiles and computes."""
    for name, value in facts():
        click.echo(f"{name:<12} {value}")
    try:
        click.echo(f"{'kernel':<12} {probe()}")
    except Exception as error:  # whatever it is, the report above belongs with it
        raise click.ClickException(
            f"a test kernel failed: {type(error).__name__}: {error}"
        ) from None


def facts() -> Iterator[tuple[str, str]]:
    """What the report is made of, line by line."""
    yield "tilewright", f"{tilewright.version} (the language of Triton {tilewright.__version__})"
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for package in PACKAGES:
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        yield package, found
    machine = llvm.host_machine()
    named = [f for f in WORTH_NAMING if machine.has(f)]
    yield "LLVM", llvm.llvm_version()
    yield "cpu", f"{machine.cpu} ({machine.arch}), vectors of {machine.vector_bytes * 8} bits"
    yield "features", " ".join(named) or "none of note"
    yield "threads", f"{threads.default_threads()} of {os.cpu_count()} cores"
    stats = default_cache().stats()
    yield "cache", f"{stats.folder or 'off'} ({stats.entries} entries)"
    yield "stand-in", "installed" if compat.is_installed() else "off (tilewright run turns it on)"


def probe() -> str:
    """Compile and run a kernel; what came of it.

    Raises:
        ArithmeticError: when it computes something wrong.
    """
    x = np.arange(100, dtype=np.float32)
    y = np.zeros_like(x)
    with tilewright.options(target="cpu"):
        handle = probe_kernel[(4,)](x, y, 100, BLOCK=32)
    if not np.array_equal(y, np.exp2(x)):
        raise ArithmeticError("exp2 of 0..99 is not what it should be")
    how = "from the cache" if handle.compilation.from_cache else "compiled"
    return f"works ({how} in {sum(handle.times.values()) * 1e3:.1f} ms)"
