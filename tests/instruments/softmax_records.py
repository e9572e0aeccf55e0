"""Records of a fused softmax, made by hand for the tests of what consumes them."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.instruments.traffic import ArgumentInfo, KernelRun, Site

M, N = 4096, 1024
FILE = "/somewhere/softmax.py"


@dataclass(frozen=True)
class Timed:
    """A measured time."""

    median: float = 2e-3
    repeats: int = 20


def site(kind="load", rows=M, cols=N, **changes):
    """A site at which each element is touched once."""
    values = {
        "kernel": "softmax_kernel",
        "file": FILE,
        "line": 12 if kind == "load" else 17,
        "col": 8,
        "expression": "tl.load(x_ptr + offsets, mask=mask)"
        if kind == "load"
        else "tl.store(y_ptr + offsets, y, mask=mask)",
        "kind": kind,
        "argument": "x_ptr" if kind == "load" else "y_ptr",
        "dtype": "fp32",
        "elements": rows * cols,
        "bytes": rows * cols * 4,
        "unique_bytes": rows * cols * 4,
        "masked": 0,
    }
    return Site(**{**values, **changes})


def softmax_run(rows=M, cols=N, **changes):
    """One launch of a softmax that reads and writes each element once."""
    size = rows * cols * 4
    values = {
        "name": "softmax_kernel",
        "file": FILE,
        "line": 8,
        "grid": (rows,),
        "programs": rows,
        "arguments": [
            ArgumentInfo("y_ptr", "pointer", "fp32", (rows, cols), (cols, 1)),
            ArgumentInfo("x_ptr", "pointer", "fp32", (rows, cols), (cols, 1)),
            ArgumentInfo("n_cols", "scalar", "i32", value=cols),
        ],
        "meta": {"BLOCK": cols, "num_warps": 4},
        "compile_s": {"frontend": 0.003, "passes": 0.001, "llvm": 0.012},
        "from_cache": False,
        "timing": Timed(),
        "target": "cpu",
        "sites": [site("load", rows, cols), site("store", rows, cols)],
        "flops": 5 * rows * cols,
        "minimum_bytes": {"x_ptr": (size, 0), "y_ptr": (0, size)},
    }
    return KernelRun(**{**values, **changes})


def naive_softmax(np, x):
    """Softmax of the rows in five array operators."""
    m = x.max(axis=1, keepdims=True)
    z = x - m
    e = np.exp(z)
    s = e.sum(axis=1, keepdims=True)
    return e / s
