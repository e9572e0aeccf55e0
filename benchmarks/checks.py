"""What checks cost: `python benchmarks/checks.py [names]`.

Kernels of `examples/` plain, under `tilewright.debug.checking()`, and stepped through in Python;
of the last a few programs are run, from which the whole is scaled up. One thread, CPU time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from time import process_time
from typing import Any

os.environ["TILEWRIGHT_THREADS"] = "1"

import numpy as np
from case import example, normal

from tilewright import compat
from tilewright.debug import checking
from tilewright.eager.kernel import programs
from tilewright.instruments.findings import Findings
from tilewright.instruments.steps import Steps
from tilewright.runtime.settings import current

compat.install()
REPEATS = 7
PART = 8  # programs that are stepped through


@dataclass(frozen=True)
class Launch:
    """A launch of an example's kernel."""

    module: str
    kernel: str
    grid: tuple[int, ...]
    arguments: Callable[[], tuple[list[Any], dict[str, Any]]]


def add() -> tuple[list[Any], dict[str, Any]]:
    n = 2**24
    return [normal(n), normal(n), np.zeros(n, np.float32), n], {"BLOCK": 1024}


def softmax() -> tuple[list[Any], dict[str, Any]]:
    x = normal(4096, 1024)
    return [x, np.zeros_like(x), 1024, 1024, 1024], {"BLOCK": 1024}


def layer_norm() -> tuple[list[Any], dict[str, Any]]:
    x, statistics = normal(4096, 1024), np.zeros((2, 4096), np.float32)
    means, scales = (np.zeros_like(statistics[0]) for _ in range(2))
    return [
        x, normal(1024), normal(1024), np.zeros_like(x), means, scales, 1024, 1e-5
    ], {"BLOCK": 1024}  # fmt: skip


def matmul() -> tuple[list[Any], dict[str, Any]]:
    n = 1024
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "BAND": 4}
    sizes = [n, n, n, n, 1, n, 1, n, 1]
    return [normal(n, n), normal(n, n), np.zeros((n, n), np.float32), *sizes], {
        "ACTIVATION": None, **blocks
    }  # fmt: skip


def histogram() -> tuple[list[Any], dict[str, Any]]:
    x = example("histogram").inputs(2**20, 256)
    return [x, np.zeros(256, np.int32), x.size], {"BLOCK": 1024}


def attention() -> tuple[list[Any], dict[str, Any]]:
    q, k, v = (normal(1, 8, 1024, 64, seed=s) for s in range(3))
    options = {"DIM": 64, "BLOCK_M": 64, "BLOCK_N": 32, "CAUSAL": True}
    return [q, k, v, np.zeros_like(q), 1024, 0.18], options


LAUNCHES = {
    "vector add 2^24": Launch("vector_add", "add_kernel", (2**14,), add),
    "softmax 4096x1024": Launch("softmax", "softmax_kernel", (4096,), softmax),
    "layer norm 4096x1024": Launch("layer_norm", "forward_kernel", (4096,), layer_norm),
    "matmul fp32 1024^3": Launch("matmul", "matmul_kernel", (256,), matmul),
    "histogram 2^20, atomics": Launch("histogram", "scatter_kernel", (1024,), histogram),
    "attention 8x1024x64": Launch("attention", "attention_kernel", (16, 8), attention),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all if none")
    names = parser.parse_args().names
    print(f"{'kernel':24} {'plain ms':>9} {'checked ms':>11} {'x':>6} {'stepped ms':>11} {'x':>7}")
    for name, launch in LAUNCHES.items():
        if not names or any(word in name for word in names):
            plain, checked, stepped = measure(launch)
            print(
                f"{name:24} {plain * 1e3:9.2f} {checked * 1e3:11.1f} {checked / plain:6.1f} "
                f"{stepped * 1e3:11.0f} {stepped / checked:7.0f}",
                flush=True,
            )


def measure(launch: Launch) -> tuple[float, float, float]:
    """CPU seconds: plain, checked, stepped; the first two by turns, and the best of each."""
    kernel = getattr(example(launch.module), launch.kernel)
    values, options = launch.arguments()

    def plain() -> None:
        kernel[launch.grid](*values, **options)

    def checked() -> None:
        with checking() as findings:
            plain()
        assert not findings, findings.text()
        assert not findings.remarks, findings.text()

    times: dict[Callable, list[float]] = {plain: [], checked: []}
    for _ in range(REPEATS):
        for call, found in times.items():
            found.append(seconds(call))
    return min(times[plain]), min(times[checked]), stepped(kernel, launch, values, options)


def stepped(kernel: Any, launch: Launch, values: list[Any], options: dict[str, Any]) -> float:
    arguments, rest = kernel.parameters.bind(values, options)
    call = kernel.prepare(arguments, rest, current().on("eager"))
    grid = call.grid(launch.grid)
    steps = Steps(call, grid, Findings())
    total = grid[0] * grid[1] * grid[2]
    spent = seconds(lambda: steps.run(islice(programs(grid, 0, None), PART)))
    return spent * total / PART


def seconds(call: Callable[[], Any]) -> float:
    begin = process_time()
    call()
    return process_time() - begin


if __name__ == "__main__":
    main()
