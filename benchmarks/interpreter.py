"""Compare with Triton's own interpreter: `python benchmarks/interpreter.py --python PYTHON`.

PYTHON is an interpreter with the real Triton and torch installed. It runs the same kernels with
TRITON_INTERPRET=1 on a part of the grid, from which the whole is scaled up; one thread, CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np
from case import example


@dataclass(frozen=True)
class Launch:
    """A launch of an example's kernel: its grid, how much of it the interpreter runs, arguments."""

    module: str
    kernel: str
    programs: int
    part: int
    arguments: Callable[[], tuple[list[Any], dict[str, Any]]]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def add() -> tuple[list[Any], dict[str, Any]]:
    n = 2**22
    return [*normal(2, n), np.zeros(n, np.float32), n], {"BLOCK": 1024}


def softmax() -> tuple[list[Any], dict[str, Any]]:
    x = normal(4096, 1024)
    return [x, np.zeros_like(x), 1024, 1024, 1024], {"BLOCK": 1024}


def layer_norm() -> tuple[list[Any], dict[str, Any]]:
    x, statistics = normal(4096, 1024), np.zeros((2, 4096), np.float32)
    return [x, *normal(2, 1024), np.zeros_like(x), *statistics, 1024, 1e-5], {"BLOCK": 1024}


def matmul() -> tuple[list[Any], dict[str, Any]]:
    a, b = normal(2, 512, 512)
    sizes = [512, 512, 512, 512, 1, 512, 1, 512, 1]
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "BAND": 4}
    return [a, b, np.zeros_like(a), *sizes], {"ACTIVATION": None, **blocks}


LAUNCHES = {
    "vector add 2^22": Launch("vector_add", "add_kernel", 4096, 256, add),
    "softmax 4096x1024": Launch("softmax", "softmax_kernel", 4096, 256, softmax),
    "layer norm 4096x1024": Launch("layer_norm", "forward_kernel", 4096, 64, layer_norm),
    "matmul float32 512^3": Launch("matmul", "matmul_kernel", 64, 16, matmul),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="an interpreter that has Triton and torch")
    parser.add_argument("--worker", choices=("theirs", "ours"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker == "ours")))
        return
    if not options.python:
        parser.error("--python says where Triton is installed")
    theirs = in_process(options.python, "theirs", {"TRITON_INTERPRET": "1"})
    ours = in_process(sys.executable, "ours", {"TILEWRIGHT_THREADS": "1"})
    print(f"{'kernel':24} {'tilewright ms':>13} {'interpreter ms':>14} {'x':>7}")
    for name in LAUNCHES:
        ratio = theirs[name] / ours[name]
        print(f"{name:24} {ours[name] * 1e3:13.3f} {theirs[name] * 1e3:14.0f} {ratio:7.0f}")


def in_process(python: str, side: str, extra: dict[str, str]) -> dict[str, float]:
    command = [python, __file__, "--worker", side]
    environment = {**os.environ, **extra, "OMP_NUM_THREADS": "1"}
    if side == "theirs":
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def work(ours: bool) -> dict[str, float]:
    """CPU seconds of every launch, the best of a few."""
    if ours:
        from tilewright import compat

        compat.install()
    else:
        # Examples import it for what they do beside launching kernels.
        sys.modules["tilewright"] = ModuleType("tilewright")
    return {name: seconds(launch, ours) for name, launch in LAUNCHES.items()}


def seconds(launch: Launch, ours: bool) -> float:
    kernel = getattr(example(launch.module), launch.kernel)
    values, options = launch.arguments()
    if not ours:
        import torch

        values = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]
    count = launch.programs if ours else launch.part
    times = []
    for _ in range(10 if ours else 3):
        begin = process_time()
        kernel[(count,)](*values, **options)
        times.append(process_time() - begin)
    return min(times) * launch.programs / count


if __name__ == "__main__":
    main()
