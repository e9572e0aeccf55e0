"""From `import tilewright` to the first result: imports, compilation by stage, the disk cache.

Every figure is CPU time of the process in ms, the median of a few processes of their own. The
processes run copies of the package, one without Python's bytecode and one that has it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np

began = process_time()
import tilewright  # noqa: E402

IMPORT = (process_time() - began) * 1e3

from tilewright import compat  # noqa: E402
from tilewright.runtime.call import Call  # noqa: E402
from tilewright.runtime.observers import Launch, LaunchObserver, compile_observers, observing  # noqa: E402

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
    parser.add_argument("--worker", choices=("import", "first", "warm"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(KERNELS)
    if options.worker:
        print(json.dumps(work(options.worker, names[0])))
        return
    with tempfile.TemporaryDirectory() as folder, packages(Path(folder)) as (plain, compiled):
        for label, package in (("without bytecode", plain), ("with bytecode", compiled)):
            times = [in_process("import", names[0], package)["import"] for _ in range(PROCESSES)]
            print(f"import tilewright, after numpy, {label}: {statistics.median(times):.0f}")
        print(
            f"{'kernel':12} {'first':>7} {'with bytecode':>13} {'warm':>7} {'disk, first':>11} "
            f"{'with bytecode':>13} {'disk, warm':>10}   stages, warm"
        )
        for name in names:
            print(line(name, plain, compiled), flush=True)


@contextmanager
def packages(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Two places with a copy of the package: sources alone, and with their bytecode."""
    plain, compiled = folder / "plain", folder / "compiled"
    source = Path(tilewright.__file__).parent
    for place in (plain, compiled):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, place / "tilewright", ignore=ignored)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(compiled)], check=True)
    yield plain, compiled


def line(name: str, plain: Path, compiled: Path) -> str:
    """One kernel: every process of the first group starts with an empty cache of its own."""
    firsts: dict[Path, list] = {plain: [], compiled: []}
    disk_firsts: dict[Path, list] = {plain: [], compiled: []}
    disk_warm = []
    for _ in range(PROCESSES):
        for package in (plain, compiled):
            with tempfile.TemporaryDirectory() as folder:
                firsts[package].append(in_process("first", name, package, folder))
                disk_firsts[package].append(in_process("first", name, package, folder))
                if package is compiled:
                    in_process("warm", name, package, folder)
                    disk_warm.append(in_process("warm", name, package, folder))
    middle = statistics.median
    warm = firsts[compiled]
    stages = {k: middle(r["stages"][k] for r in warm) for k in warm[0]["stages"]}
    shown = "  ".join(f"{k} {v:.1f}" for k, v in stages.items() if v >= 0.1)
    first, first_compiled = (middle(r["launch"] for r in x) for x in firsts.values())
    disk, disk_compiled = (middle(r["launch"] for r in x) for x in disk_firsts.values())
    return (
        f"{name:12} {first:7.1f} {first_compiled:13.1f} {middle(r['compile'] for r in warm):7.1f} "
        f"{disk:11.1f} {disk_compiled:13.1f} {middle(r['launch'] for r in disk_warm):10.1f}   "
        f"{shown}"
    )


def in_process(kind: str, name: str, package: Path, folder: str = "") -> dict[str, Any]:
    """What a worker reports that imports the package at a place, with a cache folder."""
    command = [sys.executable, __file__, "--worker", kind, name]
    path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
        "TILEWRIGHT_CACHE_DIR": folder, "TILEWRIGHT_CACHE": "1",
        "OPENBLAS_NUM_THREADS": "1",  # whose threads count as CPU time while they start
    }  # fmt: skip
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def work(kind: str, name: str) -> dict[str, Any]:
    """CPU ms of the first launch, which compiles or reads the disk, and of warm compilations.

    A process of the kind `warm` has launched another kernel before; one of the kind `import` does
    nothing more than that.
    """
    if kind == "import":
        return {"import": IMPORT}
    compat.install()
    case = importlib.import_module("case")
    modules = {n: case.example(module) for n, (module, _, _) in KERNELS.items()}
    if kind == "warm":
        launch(modules, "softmax" if name == "vector add" else "vector add")
    calls: list[Call] = []
    compile_observers.append(lambda jit, call, handle: handle and calls.append(call))
    timed = Timed()
    with observing(timed):
        launch(modules, name)
    compiled = [warm_compilation(calls[0]) for _ in range(REPEATS)]
    middle = statistics.median
    stages = {k: middle(times[k] for _, times in compiled) for k in compiled[0][1]}
    return {"launch": timed.ms, "compile": middle(ms for ms, _ in compiled), "stages": stages}


class Timed(LaunchObserver):
    """Takes the CPU time of the launch itself, without the example's own arithmetic."""

    ms = 0.0

    def launch(self, launch: Launch) -> Any:
        begin = process_time()
        result = launch.run()
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
