"""How long kernels take to compile: stage by stage, first in a process and warm, and from disk.

Every figure is CPU time of the process in ms, the median of a few processes of their own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np

from tilewright import compat
from tilewright.runtime import kernel
from tilewright.runtime.call import Call

# One small launch of each: the example's module, the name of its kernel's wrapper, arguments.
KERNELS = {
    "vector add": ("vector_add", "example", (64, np.float32)),
    "softmax": ("softmax", "example", ("softmax", 64, 1000)),
    "layer norm": ("layer_norm", "example_forward", (64, 1000, np.float32, 0, 1024)),
    "matmul": ("matmul", "example", (64, 64, 64, np.float32)),
    "attention": ("attention", "example", ((1, 1, 64, 64), np.float32, True)),
}
PROCESSES = 3
REPEATS = 7  # compilations in a warm process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(KERNELS)}")
    parser.add_argument("--worker", choices=("first", "warm"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(KERNELS)
    if options.worker:
        print(json.dumps(work(options.worker, names[0])))
        return
    print(
        f"{'kernel':12} {'first':>7} {'warm':>7} {'disk, first':>11} {'disk, warm':>10}"
        "   stages, warm"
    )
    for name in names:
        print(line(name), flush=True)


def line(name: str) -> str:
    """One kernel: every process of the first group starts with an empty cache of its own."""
    fresh, disk_first, disk_warm = [], [], []
    for _ in range(PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            fresh.append(in_process("first", name, folder))
            disk_first.append(in_process("first", name, folder))
            in_process("warm", name, folder)
            disk_warm.append(in_process("warm", name, folder))
    middle = statistics.median
    stages = {k: middle(r["stages"][k] for r in fresh) for k in fresh[0]["stages"]}
    shown = "  ".join(f"{k} {v:.1f}" for k, v in stages.items() if v >= 0.1)
    return (
        f"{name:12} {middle(r['launch'] for r in fresh):7.1f} "
        f"{middle(r['compile'] for r in fresh):7.1f} "
        f"{middle(r['launch'] for r in disk_first):11.1f} "
        f"{middle(r['launch'] for r in disk_warm):10.1f}   {shown}"
    )


def in_process(kind: str, name: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", kind, name]
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": folder, "TILEWRIGHT_CACHE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def work(kind: str, name: str) -> dict[str, Any]:
    """CPU ms of the first launch, which compiles or reads the disk, and of warm compilations.

    A process of the kind `warm` has launched another kernel before.
    """
    compat.install()
    case = importlib.import_module("case")
    modules = {n: case.example(module) for n, (module, _, _) in KERNELS.items()}
    if kind == "warm":
        launch(modules, "softmax" if name == "vector add" else "vector add")
    calls: list[Call] = []
    kernel.launch_observers.append(Timed())
    kernel.compile_observers.append(lambda jit, call, handle: handle and calls.append(call))
    launch(modules, name)
    timed = kernel.launch_observers.pop()
    compiled = [warm_compilation(calls[0]) for _ in range(REPEATS)]
    middle = statistics.median
    stages = {k: middle(times[k] for _, times in compiled) for k in compiled[0][1]}
    return {"launch": timed.ms, "compile": middle(ms for ms, _ in compiled), "stages": stages}


class Timed:
    """Takes the CPU time of the launch itself, without the example's own arithmetic."""

    ms = 0.0

    def define(self, jit: kernel.JITFunction) -> None:
        """Nothing to note of new kernels."""

    def launch(
        self, jit: kernel.JITFunction, grid: Any, arguments: Any, options: Any, run: Callable
    ) -> Any:
        begin = process_time()
        result = run()
        self.ms += (process_time() - begin) * 1e3
        return result


def launch(modules: dict[str, ModuleType], name: str) -> None:
    module, function, values = KERNELS[name]
    found = modules[name]
    values = [getattr(found, v) if isinstance(v, str) else v for v in values]
    getattr(found, function)(*values)


def warm_compilation(call: Call) -> tuple[float, dict[str, float]]:
    """CPU ms of one compilation that no cache serves, and the ms of its stages."""
    begin = process_time()
    compiled = call.compile(use_cache=False)
    total = (process_time() - begin) * 1e3
    return total, {name: seconds * 1e3 for name, seconds in compiled.times.items()}


if __name__ == "__main__":
    main()
