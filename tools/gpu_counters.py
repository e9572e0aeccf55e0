"""Compare what `explain` says of kernels on a GPU with what Nsight Compute measures of them.

    PYTHONPATH=src python tools/gpu_counters.py [names] [--json FILE] [--small]
    PYTHONPATH=src python tools/gpu_counters.py --cases

Needs torch, ncu and a GPU whose counters may be read. Each kernel is explained in this process,
then launched once more in another one under ncu. A table compares the two; the exit status is 1
where they differ by more than 5 %.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import tilewright as tw  # noqa: E402
from tilewright import language as tl  # noqa: E402
from tilewright.instruments.explain import explaining  # noqa: E402
from tilewright.instruments.ledger import Ledger  # noqa: E402
from tilewright.instruments.report import text  # noqa: E402
from tilewright.instruments.traffic import KernelRun  # noqa: E402
from tilewright.runtime.compile import make_ir  # noqa: E402
from tilewright.runtime.settings import current  # noqa: E402
from tilewright.targets.counting import ELEMENTS, MASKED, SITE_WORDS  # noqa: E402
from tilewright.targets.cuda.target import CUDA  # noqa: E402

ENTRY = "tw_entry"
ALLOWED = 0.05
LSU = "l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
BANKS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"
# Loads are also copies to shared memory.
KINDS = {"load": ("ld", "ldgsts_cache_access"), "store": ("st",), "atomic": ("red", "atom")}
METRICS = [
    *(
        LSU.format(what=what, op=op)
        for what in ("requests", "sectors")
        for ops in KINDS.values()
        for op in ops
    ),
    *(BANKS.format(op=op) for op in ("ld", "st")),
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_dynamic",
    "sm__maximum_warps_per_active_cycle_pct",
]


# --- kernels


@tw.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@tw.jit
def strided_kernel(x, out, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * step, mask=i < n), mask=i < n)


@tw.jit
def shifted_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + 1 + i, mask=i < n), mask=i < n)


@tw.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < cols
    row = tl.load(x + at, mask=inside, other=-float("inf"))
    weight = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + at, weight / tl.sum(weight, axis=0), mask=inside)


@tw.jit
def layer_norm_kernel(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * cols + i, i < cols
    row = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, row - tl.sum(row, axis=0) / cols, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    scaled = centred * scale * tl.load(w + i, mask=inside) + tl.load(b + i, mask=inside)
    tl.store(out + at, scaled.to(tl.float16), mask=inside)


@tw.jit
def column_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    """Each program reads part of a column and writes it as part of a row."""
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(0)
    value = tl.load(x + i * cols + j, mask=i < rows)
    tl.store(out + j * rows + i, value, mask=i < rows)


@tw.jit
def row_kernel(x, out, cols, BLOCK: tl.constexpr):
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + j
    tl.store(out + at, tl.load(x + at, mask=j < cols) * 2.0, mask=j < cols)


@tw.jit
def transpose_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + i[:, None] * cols + j[None, :])
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile))


@tw.jit
def matmul_kernel(
    a, b, c, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_K):
        left = tl.load(a + i[:, None] * n + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * n + j[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.bfloat16))


@tw.jit
def gather_kernel(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n, other=0)
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@tw.jit
def histogram_kernel(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@tw.jit
def column_sum_kernel(x, out, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    j = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((COLS,), tl.float32)
    for start in range(0, rows, ROWS):
        i = start + tl.arange(0, ROWS)
        total += tl.sum(tl.load(x + i[:, None] * cols + j[None, :]), axis=0)
    tl.store(out + j, total)


# --- launches


def launches(small: bool) -> dict[str, Callable[[], Callable[[], Any]]]:
    """By name, what makes the arrays and gives the launch."""
    n = 1 << (20 if small else 26)
    rows, cols = (256, 4096) if small else (16384, 4096)
    side = 512 if small else 2048

    def rand(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
        torch.manual_seed(0)
        return torch.rand(*shape, device="cuda").to(dtype)

    def add(count: int, storage: int) -> Callable:
        x, y = rand(storage), rand(storage)
        out = torch.empty_like(x)
        return lambda: add_kernel[(-(-count // 1024),)](x, y, out, count, BLOCK=1024)

    def strided(step: int) -> Callable:
        x, out = rand(n), rand(n // step)
        return lambda: strided_kernel[(n // step // 1024,)](x, out, n // step, step, BLOCK=1024)

    def shifted() -> Callable:
        x, out = rand(n + 1), rand(n)
        return lambda: shifted_kernel[(n // 1024,)](x, out, n, BLOCK=1024)

    def softmax() -> Callable:
        x, out = rand(rows, cols), rand(rows, cols)
        return lambda: softmax_kernel[(rows,)](x, out, cols, BLOCK=cols, num_warps=8)

    def layer_norm() -> Callable:
        half = torch.float16
        x, out = rand(rows, cols, dtype=half), rand(rows, cols, dtype=half)
        w, b = rand(cols, dtype=half), rand(cols, dtype=half)
        return lambda: layer_norm_kernel[(rows,)](x, w, b, out, cols, 1e-5, BLOCK=cols, num_warps=8)

    def column() -> Callable:
        x, out = rand(rows, cols), rand(cols, rows)
        return lambda: column_kernel[(cols, rows // 256)](x, out, rows, cols, BLOCK=256)

    def row() -> Callable:
        x, out = rand(rows, cols), rand(rows, cols)
        return lambda: row_kernel[(rows, cols // 1024)](x, out, cols, BLOCK=1024)

    def transpose() -> Callable:
        x, out = rand(rows, cols), rand(cols, rows)
        return lambda: transpose_kernel[(rows // 64, cols // 64)](x, out, rows, cols, BLOCK=64)

    def matmul() -> Callable:
        a, b, c = (rand(side, side, dtype=torch.bfloat16) for _ in range(3))
        return lambda: matmul_kernel[(side // 128, side // 128)](
            a, b, c, side, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8
        )

    def gather() -> Callable:
        x, out = rand(n), rand(n)
        torch.manual_seed(1)
        index = torch.randint(n, (n,), device="cuda", dtype=torch.int32)
        return lambda: gather_kernel[(n // 1024,)](x, index, out, n, BLOCK=1024)

    def histogram() -> Callable:
        torch.manual_seed(1)
        x = torch.randint(4096, (n // 4,), device="cuda", dtype=torch.int32)
        bins = torch.zeros(4096, device="cuda", dtype=torch.int32)
        return lambda: histogram_kernel[(n // 4096,)](x, bins, n // 4, BLOCK=1024)

    def column_sum() -> Callable:
        x, out = rand(rows, cols), rand(cols)
        return lambda: column_sum_kernel[(cols // 32,)](x, out, rows, cols, ROWS=64, COLS=32)

    return {
        "vector add": lambda: add(n, n),
        "masked tail": lambda: add(n - 12345, n),
        "stride 2": lambda: strided(2),
        "stride 8": lambda: strided(8),
        "shifted by one": shifted,
        "softmax": softmax,
        "layer norm": layer_norm,
        "rows": row,
        "columns": column,
        "transpose": transpose,
        "matmul": matmul,
        "gather": gather,
        "histogram": histogram,
        "sum of columns": column_sum,
    }


# --- the two sides


@dataclass
class Figures:
    """What one side says of a launch."""

    requests: dict[str, float] = field(default_factory=dict)  # by kind of access
    sectors: dict[str, float] = field(default_factory=dict)
    conflicts: float = 0
    read: float = 0  # bytes of device memory
    written: float = 0
    registers: float = 0
    shared: float = 0
    occupancy: float = 0  # percent


def of_run(run: KernelRun) -> Figures:
    """By our counters and layouts."""
    code, out = run.gpu, Figures()
    for kind in KINDS:
        found = [a.counted for a in code.accesses if a.kind == kind]
        out.requests[kind] = sum(c[0] for c in found)
        out.sectors[kind] = sum(c[1] for c in found)
    out.conflicts = sum(s.conflicts for s in code.shared_accesses)
    out.read, out.written = code.memory_read, code.memory_written
    out.registers, out.shared = code.registers, code.shared
    out.occupancy = 100 * code.occupancy
    return out


def of_ncu(row: dict[str, float]) -> Figures:
    """By the counters of the GPU."""
    out = Figures()
    for kind, ops in KINDS.items():
        for what, found in (("requests", out.requests), ("sectors", out.sectors)):
            found[kind] = sum(row.get(LSU.format(what=what, op=op), 0) for op in ops)
    out.conflicts = sum(row[BANKS.format(op=op)] for op in ("ld", "st"))
    out.read, out.written = row["dram__bytes_read.sum"], row["dram__bytes_write.sum"]
    out.registers = row["launch__registers_per_thread"]
    out.shared = row["launch__shared_mem_per_block_dynamic"]
    out.occupancy = row["sm__maximum_warps_per_active_cycle_pct"]
    return out


def explained(launch: Callable[[], Any], show: bool) -> KernelRun:
    ledger = Ledger()
    with explaining(ledger):
        launch()
    (run,) = ledger.kernels
    if show:
        print(text(ledger), flush=True)
    return run


def known_metrics() -> list[str]:
    """Those of the metrics that this version of ncu has for this GPU."""
    listing = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=True)
    names = {line.split(" ")[0] for line in listing.stdout.splitlines()}
    bases = {m: m.removesuffix(".sum").removesuffix("_pct").partition(".")[0] for m in METRICS}
    sure = ("launch__", "sm__maximum")
    return [m for m in METRICS if m.startswith(sure) or bases[m] in names]


def profiled(names: list[str], small: bool) -> list[dict[str, float]]:
    """The metrics of one launch of each kernel."""
    command = [
        "ncu", "--csv", "--print-units", "base", "--clock-control", "none", "-k", ENTRY,
        "--metrics", ",".join(known_metrics()), sys.executable, __file__, "--launch-only", *names,
    ]  # fmt: skip
    done = subprocess.run(
        command + ["--small"] * small, capture_output=True, text=True, check=False
    )
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise SystemExit(f"ncu failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    rows: dict[int, dict[str, float]] = {}
    for line in csv.DictReader(io.StringIO(done.stdout[start:])):
        value = float(line["Metric Value"].replace(",", ""))
        rows.setdefault(int(line["ID"]), {})[line["Metric Name"]] = value
    return [rows[k] for k in sorted(rows)]


# --- counts of elements, against the eager runner's


def check_cases() -> bool:
    """Whether the counters of the kernels of the tests agree with what the eager runner touches."""
    sys.path[:0] = [str(ROOT / "tests/targets"), str(ROOT / "tests/targets/cuda")]
    import cases

    chosen = [c for c in cases.all_cases() if "print" not in c.name]
    wrong = []
    for case in chosen:
        try:
            found = difference(case)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:300]}"
        if found:
            wrong.append(f"{case.name}: {found}")
    print(f"counts of elements: {len(chosen) - len(wrong)} of {len(chosen)} cases are exact")
    for line in wrong[:20]:
        print("  FAIL", line)
    return not wrong


def difference(case: Any) -> str:
    """What is wrong with the counters of one case; nothing is the empty string."""
    from eager_counts import EagerCounts
    from native import run_eager

    jit = case.kernel
    arguments, options = jit.parameters.bind(case.fresh(), case.constants)
    kernel, _ = make_ir(jit.prepare(arguments, options, current().on("cpu")).on(CUDA).request(), {})
    values = [arguments[p.name] for p in kernel.params]
    wanted = EagerCounts(kernel)
    fresh = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    run_eager(kernel, case.grid, fresh, observers=[wanted.see])
    code = CUDA.lower(kernel, bounds=True, counters=True)
    binary = CUDA.load(CUDA.assemble(code), code.metadata)
    held, slots = [], []
    for value in values:
        if isinstance(value, np.ndarray):
            held.append(CUDA.storage(value.nbytes))
            held[-1].write(np.frombuffer(value.tobytes(), np.uint8))
            slots += [held[-1].address, held[-1].address, held[-1].address + value.nbytes]
        else:
            slots.append(value)
    words = CUDA.storage(8 * (SITE_WORDS * len(binary.metadata["sites"]) + 1))
    binary.launch((*case.grid, 1, 1)[:3], slots, counters=words.address)
    numbers = words.read().view(np.int64)
    for number, site in enumerate(binary.metadata["sites"]):
        if site["kind"] in ("load", "store", "atomic"):
            elements, masked = numbers[SITE_WORDS * number :][[ELEMENTS, MASKED]]
            line = site["line"]
            if (elements, masked) != (wanted.elements[line], wanted.masked[line]):
                return (
                    f"site {line}: {elements} elements and {masked} masked off, not "
                    f"{wanted.elements[line]} and {wanted.masked[line]}"
                )
    return ""


# --- the table

COLUMNS = (
    ("load sectors/request", lambda f: ratio(f.sectors["load"], f.requests["load"])),
    ("store sectors/request", lambda f: ratio(f.sectors["store"], f.requests["store"])),
    ("atomic sectors/request", lambda f: ratio(f.sectors["atomic"], f.requests["atomic"])),
    ("load requests", lambda f: f.requests["load"]),
    ("store requests", lambda f: f.requests["store"]),
    ("DRAM read MB", lambda f: f.read / 1e6),
    ("DRAM write MB", lambda f: f.written / 1e6),
    ("bank conflicts", lambda f: f.conflicts),
    ("registers", lambda f: f.registers),
    ("occupancy %", lambda f: f.occupancy),
)
LOOSE = {"DRAM read MB", "DRAM write MB", "bank conflicts"}  # caches and arbiters interfere


def ratio(x: float, y: float) -> float:
    return x / y if y else 0.0


def compare(name: str, ours: Figures, theirs: Figures) -> bool:
    """Print a row of pairs, ours first; whether all that is exact is close."""
    fine, cells = True, []
    for title, get in COLUMNS:
        x, y = get(ours), get(theirs)
        far = abs(x - y) > ALLOWED * max(abs(x), abs(y))
        fine &= not far or title in LOOSE
        mark = " !" if far and title not in LOOSE else ""
        cells.append(f"{number(x)} / {number(y)}{mark}")
    print("| " + " | ".join([name, *cells]) + " |", flush=True)
    return fine


def number(x: float) -> str:
    return f"{x:,.0f}" if x == int(x) or x >= 1000 else f"{x:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--show", action="store_true", help="Print the reports as well.")
    parser.add_argument("--cases", action="store_true", help="Count the tests' kernels only.")
    parser.add_argument("--launch-only", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cases:
        return 0 if check_cases() else 1
    made = launches(chosen.small)
    names = chosen.names or list(made)
    if chosen.launch_only:
        for name in names:
            made[name]()()
            torch.cuda.synchronize()
        return 0
    ours = [of_run(explained(made[name](), chosen.show)) for name in names]
    torch.cuda.empty_cache()
    theirs = [of_ncu(row) for row in profiled(names, chosen.small)]
    print("Each cell: ours / Nsight Compute's")
    print("| kernel | " + " | ".join(title for title, _ in COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    fine = [compare(*row) for row in zip(names, ours, theirs, strict=True)]
    if chosen.json is not None:
        rows = zip(names, ours, theirs, strict=True)
        chosen.json.write_text(
            json.dumps({n: {"ours": asdict(x), "ncu": asdict(y)} for n, x, y in rows}, indent=1)
        )
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
