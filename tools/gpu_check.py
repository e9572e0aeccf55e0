"""Check the CUDA target on a GPU: every op in every dtype, kernels, examples.

    PYTHONPATH=src python tools/gpu_check.py [--ops] [--cases] [--products] [--examples] [--public]

Without a choice all checks run, in a few minutes. Needs torch in an environment with a GPU, and
nothing else of the tests' dependencies. `benchmarks/gpu/run.py` times kernels.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/ops"), str(ROOT / "tests/targets/cuda")]

import tilewright as tw  # noqa: E402
from tilewright.codegen import mathlib  # noqa: E402
from tilewright.errors import OutOfBoundsError  # noqa: E402
from tilewright.ir import types as t  # noqa: E402
from tilewright.ir.inst import Block, Builder, Kernel, Param  # noqa: E402
from tilewright.ir.types import Type  # noqa: E402
from tilewright.ops import math, memory, program, shape  # noqa: E402
from tilewright.runtime.compile import compile_kernel  # noqa: E402
from tilewright.runtime.observers import Launch, LaunchObserver, observing  # noqa: E402
from tilewright.runtime.settings import current  # noqa: E402
from tilewright.runtime.signature import inspect_arguments  # noqa: E402
from tilewright.targets.cuda.launch import check_all  # noqa: E402
from tilewright.targets.cuda.target import CUDA  # noqa: E402

WIDTH = 64  # elements of the tiles in which ops are tried
BATCH = 12  # ops in one kernel
LEAST_NORMAL = 2.0**-126
SHOWN = 3  # differing values of a failure


class Tally:
    """Counts what passed and keeps what failed."""

    def __init__(self, title: str):
        self.title = title
        self.passed = 0
        self.failures: list[str] = []
        self.start = time.perf_counter()

    def run(self, name: str, check: Callable[[], str | None]) -> None:
        """Count one check: it gives what is wrong, or raises."""
        try:
            wrong = check()
        except Exception as error:
            lines = traceback.format_exception_only(type(error), error)
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong = f"{''.join(lines)[:400].strip()} ({Path(place.filename).name}:{place.lineno})"
        if wrong:
            self.failures.append(f"{name}: {wrong}")
        else:
            self.passed += 1

    def show(self) -> bool:
        seconds = time.perf_counter() - self.start
        total = self.passed + len(self.failures)
        print(f"{self.title}: {self.passed} of {total} passed in {seconds:.0f} s", flush=True)
        for line in self.failures[:60]:
            print("  FAIL", line.replace("\n", "\n       "))
        return not self.failures


# --- memory


class Mirror:
    """Copies of host memory on the GPU, for one launch."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], torch.Tensor] = {}

    def slots(self, address: int, low: int, high: int) -> list[int]:
        """Address and bounds of the copy of an array whose storage is [low, high)."""
        key = low, high
        if key not in self.held:
            data = ctypes.string_at(low, high - low)
            self.held[key] = torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8).cuda()
        start = self.held[key].data_ptr()
        return [start + address - low, start, start + high - low]

    def copy_back(self) -> None:
        for (low, high), tensor in self.held.items():
            data = tensor.cpu().numpy()
            if high > low:
                ctypes.memmove(low, data.ctypes.data, high - low)


def launch(binary: Any, grid: tuple[int, ...], slots: list[Any], types: list[Type]) -> None:
    """Launch on copies of the host arrays that the slots of pointers tell of."""
    mirror, out, rest = Mirror(), [], iter(slots)
    for kind in types:
        if kind.dtype.is_pointer:
            out += mirror.slots(next(rest), next(rest), next(rest))
        else:
            out.append(next(rest))
    binary.launch((*grid, 1, 1)[:3], out)
    torch.cuda.synchronize()
    binary.check()
    mirror.copy_back()


# --- ops


def op_kernel(cases: list[tuple]) -> Kernel:
    """Loads operands, does each op, stores its results."""
    body = Block()
    b = Builder(body)
    params: list[Param] = []

    def place(dtype: t.DType) -> Any:
        params.append(Param(f"p{len(params)}", Type(t.pointer_to(dtype))))
        base = body.add_param(params[-1].type)
        pid = b.emit(program.program_id, axis=0)
        size = b.emit(shape.constant, value=WIDTH, type="i32")
        first = b.emit(memory.offset, base, b.emit(math.mul, pid, size), bytes=dtype.bytes)
        line = b.emit(shape.arange, start=0, end=WIDTH)
        pointers = b.emit(shape.splat, first, shape=(WIDTH,))
        return b.emit(memory.offset, pointers, line, bytes=dtype.bytes)

    for op, dtypes, attrs in cases:
        xs = [b.emit(memory.load, place(dtype)) for dtype in dtypes]
        out = b.emit(op, *xs, **attrs)
        b.emit(memory.store, place(out.type.dtype), out)
    return Kernel("ops", params, body)


def try_ops(cases: list[tuple]) -> list[str | None]:
    """What is wrong with each op, all of them in one kernel."""
    import inputs

    arrays_, results = [], []
    chosen = [inputs.operands(dtypes, 3000) for _, dtypes, _ in cases]
    count = -(-max(len(xs[0]) for xs in chosen) // WIDTH)
    for (op, dtypes, attrs), xs in zip(cases, chosen, strict=True):
        given = [np.ascontiguousarray(np.resize(x, count * WIDTH)) for x in xs]
        with np.errstate(all="ignore"):
            want = np.asarray(op.eager(*given, **attrs))
        got = np.zeros_like(want)
        arrays_ += [*given, got]
        results.append((op, dtypes, attrs, given, got, want))
    kernel = op_kernel(cases)
    code = CUDA.lower(kernel, bounds=True, counters=False)
    binary = CUDA.load(CUDA.assemble(code), code.metadata)
    slots = []
    for array in arrays_:
        start = array.ctypes.data
        slots += [start, start, start + array.nbytes]
    launch(binary, (count,), slots, [p.type for p in kernel.params])
    return [difference(*r) for r in results]


def difference(op: Any, dtypes: tuple, attrs: dict, given: list, got: Any, want: Any) -> str | None:
    """Bits decide, apart from which NaN it is and the sign of a zero that is an extreme."""
    bits = np.dtype(f"u{want.dtype.itemsize}")
    same = got.view(bits) == want.view(bits)
    if attrs.get("to") == "f8e4b15" and dtypes[0].is_float:
        same |= np.isnan(given[0].astype(np.float64)) & ((got.view(bits) ^ want.view(bits)) == 128)
    dtype = op.rule(*[Type(d, ()) for d in dtypes], **attrs).dtype
    if dtype.is_float and dtype is not t.float8e4b15:
        with np.errstate(invalid="ignore"):
            x, y = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(x) & np.isnan(y)
        if op.name in ("max", "min"):
            same |= (x == 0) & (y == 0)
        allowed = mathlib.accuracy(op.name, dtype.name, "nvptx")
        if allowed is not None:
            same |= distance(got, want) <= allowed + 1
        if op.name == "exp2":
            same |= (x == 0) & (y < LEAST_NORMAL)
    wrong = np.flatnonzero(~same)
    if not len(wrong):
        return None
    shown = [f"{[x[i] for x in given]} gives {got[i]} not {want[i]}" for i in wrong[:SHOWN]]
    return f"{len(wrong)} of {len(same)} differ: {'; '.join(shown)}"


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many floats lie between."""
    signed = np.dtype(f"i{x.dtype.itemsize}")
    top = np.iinfo(signed).min

    def rank(v: np.ndarray) -> np.ndarray:
        held = v.view(signed)
        return np.where(held < 0, top - held, held).astype(np.float64)

    return np.where(np.isfinite(x) & np.isfinite(y), np.abs(rank(x) - rank(y)), np.inf)


def check_ops() -> bool:
    import inputs

    tally = Tally("ops")
    cases = [
        (op, dtypes, attrs)
        for op in inputs.ELEMENTWISE
        for dtypes, attrs in inputs.uses(op)
        if op.name != "offset"
    ]
    cases.sort(key=lambda c: c[1][-1].name)

    def name(case: tuple) -> str:
        op, dtypes, attrs = case
        return "-".join([op.name, *[d.short for d in dtypes], *map(str, attrs.values())])

    for k in range(0, len(cases), BATCH):
        batch = cases[k : k + BATCH]
        try:
            found = try_ops(batch)
        except Exception:  # one of them cannot be compiled: find it
            for case in batch:
                tally.run(name(case), lambda case=case: try_ops([case])[0])
            continue
        for case, wrong in zip(batch, found, strict=True):
            tally.run(name(case), lambda wrong=wrong: wrong)
    return tally.show()


# --- kernels


class OnGpu(LaunchObserver):
    """Takes launches with NumPy arguments over: they run on the GPU on copies."""

    def launch(self, seen: Launch) -> Any:
        jit, arguments = seen.jit, seen.arguments
        call = jit.prepare(arguments, seen.options, current().on("cpu"))
        call.target = CUDA
        call.trees = inspect_arguments(jit.parameters, arguments, CUDA.facts, "cpu")
        compilation = compile_kernel(call.request())
        sizes = call.grid(seen.grid)
        if 0 in sizes:
            return None
        types = [leaf.type for leaf in call.leaves if leaf.type is not None]
        launch(compilation.binary, sizes, list(call.slots), types)
        return None


def check_cases() -> bool:
    import cases

    return run_cases("cases", cases.all_cases())


def check_products() -> bool:
    import product_loops
    import warpgroup_cases

    return run_cases("products", [*product_loops.cases(), *warpgroup_cases.cases()])


def run_cases(title: str, chosen: Iterable[Any]) -> bool:
    """Launches whose results eager mode says."""
    import launch_case

    tally = Tally(title)
    for case in chosen:

        def check(case: Any = case) -> str | None:
            with tw.options(target="eager"):
                want = case.run()
            with observing(OnGpu()):
                got = case.run()
            try:
                launch_case.compare(case, got, want)
            except AssertionError as error:
                return str(error).strip()[:500]
            return None

        tally.run(case.name, check)
    return tally.show()


def example_cases() -> Iterator[tuple[str, Callable]]:
    from tilewright import compat

    compat.install()
    for path in sorted((ROOT / "examples").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        for name, run in module.cases():
            yield f"{path.stem}: {name}", run


def check_examples() -> bool:
    tally = Tally("examples")
    for name, run in example_cases():

        def check(run: Callable = run) -> str | None:
            with observing(OnGpu()):
                result, reference, tolerance = run()
            result = np.asarray(result)
            if tolerance == 0:
                close = result == reference
            else:
                wide = result.astype(np.float64)
                close = np.isclose(wide, reference, rtol=tolerance, atol=tolerance)
            wrong = np.argwhere(~close)
            if not len(wrong):
                return None
            places = [tuple(map(int, w)) for w in wrong[:SHOWN]]
            shown = [f"{p}: {result[p]} not {np.asarray(reference)[p]}" for p in places]
            return f"{len(wrong)} of {result.size} differ: {'; '.join(shown)}"

        tally.run(name, check)
    return tally.show()


# --- the public way, with torch tensors


def load_kernels() -> SimpleNamespace:
    """Kernels of the benchmarks, with Tilewright for triton."""
    from tilewright import compat

    compat.install()
    found = SimpleNamespace()
    for name in ("elementwise", "rows"):
        path = ROOT / f"benchmarks/gpu/{name}.py"
        spec = importlib.util.spec_from_file_location(f"gpu_{name}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found.__dict__.update(vars(module))
    return found


def close(x: torch.Tensor, y: torch.Tensor, tolerance: float) -> str | None:
    wrong = (x.double() - y.double()).abs().max().item()
    return None if wrong <= tolerance else f"differs by up to {wrong:.3g}"


def check_public() -> bool:
    kernels, tally = load_kernels(), Tally("torch tensors")

    def vector_add() -> str | None:
        x, y = torch.randn(100_003, device="cuda"), torch.randn(100_003, device="cuda")
        out = torch.empty_like(x)
        kernels.add_kernel[(98 * 1,)](x, y, out, x.numel(), BLOCK=1024)
        return close(out, x + y, 0)

    def softmax() -> str | None:
        x = torch.randn(183, 781, device="cuda")
        out = torch.empty_like(x)
        kernels.softmax_kernel[(183,)](out, x, 781, 781, 781, BLOCK=1024)
        return close(out, torch.softmax(x, 1), 1e-6)

    def warps() -> str | None:
        x = torch.randn(16, 4096, device="cuda")
        out = torch.empty_like(x)
        handle = kernels.softmax_kernel[(16,)](out, x, 4096, 4096, 4096, BLOCK=4096, num_warps=8)
        found = handle.compilation.metadata["num_warps"]
        return close(out, torch.softmax(x, 1), 1e-6) or (
            None if found == 8 else f"num_warps=8 was asked for, the code has {found}"
        )

    def streams() -> str | None:
        stream = torch.cuda.Stream()
        x = torch.randn(1 << 20, device="cuda")
        out = torch.empty_like(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            x.mul_(2)
            kernels.add_kernel[(1024,)](x, x, out, x.numel(), BLOCK=1024)
        torch.cuda.synchronize()
        return close(out, x + x, 0)

    def graph() -> str | None:
        x = torch.randn(1 << 16, device="cuda")
        out = torch.empty_like(x)
        kernels.add_kernel[(64,)](x, x, out, x.numel(), BLOCK=1024)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            kernels.add_kernel[(64,)](x, x, out, x.numel(), BLOCK=1024)
        x.fill_(3.0)
        captured.replay()
        torch.cuda.synchronize()
        return close(out, x + x, 0)

    def out_of_bounds() -> str | None:
        x = torch.zeros(1000, device="cuda")
        guard = torch.empty_like(x)
        try:
            for _ in range(2):
                kernels.add_kernel[(1,)](x, x, guard, 5000, BLOCK=8192)
                check_all()
        except OutOfBoundsError as error:
            return None if "past the end" in str(error) else str(error)
        return "an access outside was not reported"

    def launch_time() -> str | None:
        x = torch.zeros(16, device="cuda")
        launch_ = kernels.add_kernel[(1,)]
        for _ in range(100):
            launch_(x, x, x, 16, BLOCK=16)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(1000):
            launch_(x, x, x, 16, BLOCK=16)
        spent = (time.perf_counter() - begin) * 1e3
        torch.cuda.synchronize()
        print(f"a launch takes {spent:.2f} us on the host")
        return None

    for check in (vector_add, softmax, warps, streams, graph, out_of_bounds, launch_time):
        tally.run(check.__name__, check)
    return tally.show()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    checks = {
        "ops": check_ops, "cases": check_cases, "products": check_products,
        "examples": check_examples, "public": check_public,
    }  # fmt: skip
    for name in checks:
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    print(f"{torch.cuda.get_device_name()}, {CUDA.identity()}", flush=True)
    wanted = [n for n in checks if getattr(chosen, n)]
    results = [checks[name]() for name in wanted or checks]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
