"""What a launch costs: 3 arrays and 3 numbers, NumPy's and torch's, by the way it is written.

CPU time of one launch of an empty kernel in one program, the median of interleaved samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import machine
import measure
import numpy as np
from peers import tensor, torch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def empty_kernel(x_ptr, y_ptr, out_ptr, n, rows, scale, BLOCK: tl.constexpr):
    """Does nothing: what is measured is the way to it."""


def ways(x, y, out) -> dict[str, Callable[[], object]]:
    """The same launch as users write it."""
    fixed = empty_kernel[(1,)]
    cdiv = tw.cdiv
    return {
        "grid tuple": lambda: empty_kernel[(1,)](x, y, out, 1000, 7, 0.5, BLOCK=64),
        "grid function": lambda: empty_kernel[lambda meta: (cdiv(64, meta["BLOCK"]),)](
            x, y, out, 1000, 7, 0.5, BLOCK=64
        ),
        "all by keyword": lambda: empty_kernel[(1,)](
            x_ptr=x, y_ptr=y, out_ptr=out, n=1000, rows=7, scale=0.5, BLOCK=64
        ),
        "num_warps given": lambda: empty_kernel[(1,)](
            x, y, out, 1000, 7, 0.5, BLOCK=64, num_warps=4
        ),
        "kernel[grid] kept": lambda: fixed(x, y, out, 1000, 7, 0.5, BLOCK=64),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    machine.restart(1)
    arrays = [np.zeros(1024, np.float32) for _ in range(3)]
    calls = {f"numpy, {name}": call for name, call in ways(*arrays).items()}
    if torch is not None:
        tensors = [tensor(x) for x in arrays]
        calls |= {f"torch, {name}": call for name, call in ways(*tensors).items()}
        small = tensors[0][:16]
        calls["for scale: torch add_ of 16 elements"] = lambda: small.add_(small)
    a = arrays[0][:16]
    calls["for scale: numpy add of 16 elements"] = lambda: np.add(a, a, out=a)
    firsts = {name: measure.first_call(call)[0] for name, call in calls.items()}
    _, clock = measure.clock_for(1)
    for name, times in measure.interleaved(calls, firsts, clock).items():
        print(f"{name:38} {times.median * 1e6:7.2f} us  +- {times.spread:.0%}")


if __name__ == "__main__":
    main()
