"""NVIDIA's assembler takes what is made for every architecture, without spilling registers."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import cases
import numpy as np
import pytest
import test_op_table as table

import tilewright as tw
from tilewright import compat
from tilewright import language as tl
from tilewright.ir import types as t
from tilewright.ir.inst import Kernel
from tilewright.runtime.compile import make_ir
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import Launch, LaunchObserver, observing
from tilewright.runtime.settings import current
from tilewright.runtime.signature import inspect_arguments
from tilewright.targets.cuda.target import CudaTarget, ptx_for

PTXAS = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))
ALL = cases.all_cases()
TRIED = (t.int8, t.int32, t.bfloat16, t.float32)
X = np.zeros(512, np.float32)
needs_ptxas = pytest.mark.skipif(not Path(PTXAS).exists(), reason="ptxas is not installed")


def assemble(ptx: str, arch: str, folder: Path) -> str:
    """What ptxas says of a kernel."""
    file = folder / "kernel.ptx"
    file.write_text(ptx)
    command = [PTXAS, f"-arch={arch}", "-v", str(file), "-o", str(folder / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "C75" not in done.stderr, done.stderr
    return done.stderr


def facts_of(log: str) -> tuple[int, int]:
    """Registers of a thread, and bytes of local memory."""
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    return registers, int(re.search(r"(\d+) bytes stack frame", log)[1])


def kernel_ir(jit: JITFunction, arguments: dict[str, Any], options: dict[str, Any]) -> Kernel:
    """The kernel of a launch as the CUDA target would be given it."""
    call = jit.prepare(arguments, options, current())
    call.target = CudaTarget("sm_80")
    call.trees = inspect_arguments(jit.parameters, arguments, call.target.facts, "cpu")
    return make_ir(call.request(), {})[0]


def kernel_of(case: cases.Case) -> Kernel:
    arguments, options = case.kernel.parameters.bind(case.arguments, case.constants)
    return kernel_ir(case.kernel, arguments, options)


class Recorder(LaunchObserver):
    """Keeps the IR of the first launch of each kernel."""

    def __init__(self) -> None:
        self.kernels: dict[str, Kernel] = {}

    def launch(self, launch: Launch) -> Any:
        name = launch.jit.__name__
        if name not in self.kernels:
            self.kernels[name] = kernel_ir(launch.jit, launch.arguments, launch.options)
        return launch.run()


@cache
def kernels_of(path: Path) -> dict[str, Kernel]:
    """The kernels that an example launches, from running it on the CPU."""
    compat.install()
    spec = importlib.util.spec_from_file_location(f"ptx_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    recorder = Recorder()
    with observing(recorder), tw.options(target="cpu"):
        for _, run in module.cases():
            run()
    return recorder.kernels


@needs_ptxas
@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=[p.stem for p in EXAMPLES])
def test_examples(number, tmp_path):
    """Each kernel for one architecture; which one changes from example to example."""
    arch = ARCHES[number % len(ARCHES)]
    for name, kernel in kernels_of(EXAMPLES[number]).items():
        _, local = facts_of(assemble(ptx_for(kernel, arch), arch, tmp_path))
        assert local == 0, f"{name} on {arch} takes {local} bytes of local memory"


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHES)
def test_all_architectures(arch, tmp_path):
    for stem in ("vector_add", "softmax"):
        path = next(p for p in EXAMPLES if p.stem == stem)
        for kernel in kernels_of(path).values():
            assemble(ptx_for(kernel, arch), arch, tmp_path)


@needs_ptxas
@pytest.mark.parametrize("dtype", TRIED, ids=str)
def test_ops(dtype, tmp_path):
    """All ops of a dtype in one kernel, for the oldest and for a newer architecture in turn."""
    arch = ARCHES[TRIED.index(dtype) % 2]
    assemble(ptx_for(table.kernel_of(table.DTYPES[dtype], 64), arch, 1), arch, tmp_path)


@needs_ptxas
@pytest.mark.parametrize("number", range(0, len(ALL), 19), ids=lambda n: ALL[n].name)
def test_cases(number, tmp_path):
    arch = ARCHES[number % len(ARCHES)]
    _, local = facts_of(assemble(ptx_for(kernel_of(ALL[number]), arch), arch, tmp_path))
    assert local == 0


@tw.jit
def with_hints(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, cache_modifier=".cg") + tl.load(x + i, eviction_policy="evict_last")
    tl.store(out + i, v, eviction_policy="evict_first")
    tl.store(out + B + i, v, cache_modifier=".cs")


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHES)
def test_hints_for_caches(arch, tmp_path):
    kernel = kernel_ir(with_hints, {"x": X, "out": X, "B": 256}, {})
    ptx = ptx_for(kernel, arch)
    assert "evict_last" in ptx
    assemble(ptx, arch, tmp_path)


@needs_ptxas
def test_simple_kernels_take_few_registers(tmp_path):
    kernel = next(iter(kernels_of(EXAMPLES[-1]).values()))
    assert kernel.name == "add_kernel"
    registers, _ = facts_of(assemble(ptx_for(kernel, "sm_90a", bounds=False), "sm_90a", tmp_path))
    assert registers <= 40


def test_ptx_needs_no_gpu():
    kernel = table.kernel_of(table.DTYPES[t.float32][:2], 64)
    for arch in ARCHES:
        text = ptx_for(kernel, arch)
        assert f".target {arch}" in text
        assert ".visible .entry tw_entry" in text
        assert ".maxntid 128" in text
        assert ".maxntid 256" in ptx_for(kernel, arch, 8)


@tw.jit
def unlock(x, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) + 1)
    tl.atomic_xchg(lock, 0)
    tl.atomic_add(lock + 1, 1, sem="relaxed")


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHES)
def test_signals_come_after_what_was_stored(arch, tmp_path):
    """The assembly of updates has no order of its own."""
    lock = np.zeros(2, np.int32)
    ptx = ptx_for(kernel_ir(unlock, {"x": X, "lock": lock, "N": 256}, {}), arch, bounds=False)
    order = re.findall(r"st\.global|bar\S*sync|fence\.acq_rel\.gpu|atom\S*(?:exch|add)", ptx)
    kinds = [text.rpartition(".")[2] for text in order]
    assert kinds == ["global", "sync", "gpu", "exch", "sync", "add"], order
    assemble(ptx, arch, tmp_path)
