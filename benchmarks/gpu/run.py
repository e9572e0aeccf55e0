"""Time kernels on an NVIDIA GPU beside Triton and torch: `python benchmarks/gpu/run.py [names]`.

Each source is compiled by Tilewright, with bounds checks as users get them, and by the Triton
that is installed; results are compared with torch's, or with Triton's, before anything is timed.
Times are medians of CUDA events over repeats in turn, with the L2 cache flushed before each.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

import torch  # noqa: E402
from attention_forms import attention_forms  # noqa: E402
from cases import Case, Run, all_cases  # noqa: E402
from forms import row_forms  # noqa: E402
from memory_forms import memory_forms  # noqa: E402
from product_forms import product_forms  # noqa: E402
from public_forms import public_forms  # noqa: E402

import tilewright as tw  # noqa: E402
from tilewright import compat  # noqa: E402

SOURCES = (
    "elementwise", "rows", "moves", "products", "linear", "attention", "scans", "layers", "lists",
    "public_products", "public_attention",
)  # fmt: skip
ENDINGS = ("_kernel", "TensorDescriptor")  # of the names that launches use
FLUSHED = 512 << 20  # long enough to write that launches are queued before it is over
COMPILED = ("softmax 16384", "layer norm 8192", "rms norm 8192")  # torch.compile is slow to begin


def kernels(who: str) -> SimpleNamespace:
    """All kernels of the sources, for the `triton` that can be imported now."""
    found = SimpleNamespace()
    for name in SOURCES:
        spec = importlib.util.spec_from_file_location(f"{who}_{name}", HERE / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        named = {k: v for k, v in vars(module).items() if k.endswith(ENDINGS)}
        found.__dict__.update(named)
    return found


def ours() -> SimpleNamespace:
    """The kernels with Tilewright for triton; the name means the real one again afterwards."""
    held = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "triton"}
    for name in held:
        del sys.modules[name]
    compat.install()
    try:
        return kernels("ours")
    finally:
        compat.uninstall()
        sys.modules.update(held)


def theirs() -> SimpleNamespace | None:
    """The kernels with the real Triton, if there is one."""
    with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
        import triton

        # where Triton keeps descriptors that kernels make
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
        return kernels("theirs")
    return None


def timed(calls: dict[str, Callable], before: Callable | None, repeats: int) -> dict[str, float]:
    """Milliseconds of each call: the median over repeats, in which all take turns."""
    flush = torch.empty(FLUSHED, dtype=torch.uint8, device="cuda")
    events = {
        name: [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        for name in calls
    }
    for k in range(repeats):
        for name, call in calls.items():
            if before is not None:
                before()
            flush.zero_()
            start, end = events[name][k]
            start.record()
            call()
            end.record()
    torch.cuda.synchronize()
    medians = {}
    for name, pairs in events.items():
        times = sorted(start.elapsed_time(end) for start, end in pairs)
        medians[name] = times[len(times) // 2]
    return medians


def results(run: Run, call: Callable) -> list[torch.Tensor]:
    if run.restore is not None:
        run.restore()
    call()
    return [x.clone() for x in run.outputs]


def wrong(found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float) -> str:
    """What differs, or nothing."""
    for x, y in zip(found, expected):
        far = (x.double() - y.double().reshape(x.shape)).abs()
        far = far / (1 + y.double().reshape(x.shape).abs())
        most = far.nan_to_num(1e30).max().item()
        if most > tolerance:
            return f"WRONG by {most:.3g}"
    return ""


def measure(case: Case, contenders: dict[str, Any], repeats: int) -> dict[str, Any]:
    run = case.make()
    calls: dict[str, Callable] = {}
    row: dict[str, Any] = {"name": case.name, "notes": {}, "first": {}}
    outputs: dict[str, list] = {}
    for name, module in contenders.items():

        def call(module: Any = module) -> Any:
            return run.launch(module)

        try:
            begin = time.perf_counter()
            outputs[name] = results(run, call)
            torch.cuda.synchronize()
            row["first"][name] = time.perf_counter() - begin
            calls[name] = call
        except Exception as error:
            row["notes"][name] = f"failed ({type(error).__name__}: {str(error)[:150]})"
    expected = outputs.get("triton")
    if run.torch is not None:
        calls["torch"] = run.torch
        expected = [run.torch()]
        if "compile" in contenders or any(case.name.startswith(c) for c in COMPILED):
            calls["compile"] = torch.compile(run.torch, dynamic=False)
    if expected is not None:
        for name, found in outputs.items():
            said = wrong(found, expected, run.tolerance)
            if said:
                row["notes"][name] = said
    del outputs, expected
    for name, call in list(calls.items()):
        try:
            for _ in range(3):
                call()
        except Exception as error:
            row["notes"][name] = f"failed ({type(error).__name__})"
            del calls[name]
    row["ms"] = timed(calls, run.restore, repeats)
    return row


def every_case() -> list[Case]:
    forms = (row_forms, memory_forms, product_forms, attention_forms, public_forms)
    return [*all_cases(), *(case for form in forms for case in form())]


def line(case: Case, row: dict[str, Any]) -> str:
    cells = []
    for name in ("ours", "ours unchecked", "triton", "torch", "compile"):
        if name in row["ms"]:
            ms = row["ms"][name]
            rate = case.work / ms / 1e9
            cells.append(f"{name} {ms * 1e3:8.1f} us {rate:6.2f}")
        if name in row["notes"]:
            cells.append(f"{name} {row['notes'][name]}")
    ms = row["ms"]
    ratio = f"{ms['triton'] / ms['ours']:5.2f} x triton" if {"ours", "triton"} <= {*ms} else ""
    return f"{case.name:44s} {ratio:14s} {case.unit:8s}" + " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all without")
    parser.add_argument("--unchecked", action="store_true", help="also without bounds checks")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write one JSON object a line here")
    options = parser.parse_args()
    if options.no_compile:
        globals()["COMPILED"] = ()
    triton = theirs()  # before our stand-in takes the name
    contenders: dict[str, Any] = {"ours": ours()}
    if options.unchecked:
        contenders["ours unchecked"] = Unchecked(contenders["ours"])
    if triton is not None:
        contenders["triton"] = triton
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    out = options.json.open("w") if options.json else None
    for case in every_case():
        if options.names and not any(name in case.name for name in options.names):
            continue
        row = measure(case, contenders, options.repeats)
        print(line(case, row), flush=True)
        if out is not None:
            work = {"work": case.work, "unit": case.unit}
            out.write(json.dumps({**row, **work}) + "\n")
            out.flush()
        torch.cuda.empty_cache()


class Unchecked:
    """The kernels of a namespace, launched without bounds checks."""

    def __init__(self, found: SimpleNamespace):
        self.found = found

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self.found, name)

        class At:
            def __getitem__(self, grid: Any) -> Callable:
                def launch(*args: Any, **named: Any) -> Any:
                    with tw.options(bounds=False):
                        return kernel[grid](*args, **named)

                return launch

        return At()


if __name__ == "__main__":
    main()
