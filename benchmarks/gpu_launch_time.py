"""What a launch on a GPU costs the host: 3 tensors and 3 numbers, by the way it is written.

Wall-clock time of a launch of an empty kernel in one program: medians over batches of launches
that the GPU's queue holds, by turns. Then first calls, in processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tilewright as tw
import tilewright.language as tl
from tilewright.codegen import llvm
from tilewright.targets.cuda import driver, fastcall

BATCH = 200
ROUNDS = 40
SOURCE = '''
def empty_kernel(x_ptr, y_ptr, out_ptr, n, rows, scale, BLOCK: tl.constexpr):
    """Does nothing: what is measured is the way to it."""
'''
# So many launches by the driver's function alone.
LOOP = """
define i32 @loop(ptr %launch, i64 %count, ptr %config, ptr %function, ptr %extra) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %status = call i32 %launch(ptr %config, ptr %function, ptr null, ptr %extra)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %count
  br i1 %more, label %next, label %done
done:
  ret i32 %status
}
"""
FIRST = """
import json, sys, time
import torch
x = torch.randn(1024, 1024, device="cuda")
y = torch.empty_like(x)
torch.softmax(x, 1)
torch.cuda.synchronize()
start = time.perf_counter()
import {library}
import {library}.language as tl
imported = time.perf_counter()
{source}
import linecache
linecache.cache["<softmax>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<softmax>")
names = {{"tl": tl}}
exec(compile(SOURCE, "<softmax>", "exec"), names)
kernel = {library}.jit(names["softmax_kernel"])
before = time.perf_counter()
handle = kernel[(1024,)](x, y, 1024, 1024, 1024, BLOCK=1024)
torch.cuda.synchronize()
after = time.perf_counter()
assert torch.allclose(y, torch.softmax(x, 1), atol=1e-5)
times = getattr(handle, "times", None) or {{}}
print(json.dumps([imported - start, after - before, dict(times)]))
"""


def empty_kernels(libraries: dict[str, Any]) -> dict[str, Any]:
    """The empty kernel of each library, from a file as they want it."""
    folder = Path(tempfile.mkdtemp())
    out = {}
    for name, (jit, language) in libraries.items():
        path = folder / f"{name}_kernel.py"
        path.write_text(SOURCE)
        names = {"tl": language, "__name__": name}
        exec(compile(SOURCE, str(path), "exec"), names)
        out[name] = jit(names["empty_kernel"])
    return out


def ways(kernel: Any, x: Any, y: Any, out: Any, cdiv: Callable) -> dict[str, Callable]:
    """The same launch as users write it."""
    fixed = kernel[(1,)]
    return {
        "grid tuple": lambda: kernel[(1,)](x, y, out, 1000, 7, 0.5, BLOCK=64),
        "grid function": lambda: kernel[lambda meta: (cdiv(64, meta["BLOCK"]),)](
            x, y, out, 1000, 7, 0.5, BLOCK=64
        ),
        "all by keyword": lambda: kernel[(1,)](
            x_ptr=x, y_ptr=y, out_ptr=out, n=1000, rows=7, scale=0.5, BLOCK=64
        ),
        "num_warps given": lambda: kernel[(1,)](x, y, out, 1000, 7, 0.5, BLOCK=64, num_warps=4),
        "kernel[grid] kept": lambda: fixed(x, y, out, 1000, 7, 0.5, BLOCK=64),
    }


def driver_alone(binary: Any) -> Callable[[int], None]:
    """Launches of a kernel by the driver's function, as many as are asked for."""
    library = llvm.Library.load(llvm.compile_object(LOOP, llvm.host_machine()).bytes, ["loop"])
    loop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3)(
        library.address("loop")
    )
    size = binary.history.size
    memory = (ctypes.c_char * size)()
    ctypes.memmove(memory, binary.history.address + binary.history.offset(1), size)
    bytes_passed = ctypes.c_size_t(size - fastcall.CONFIG_BYTES)
    extra = (ctypes.c_void_p * 5)(
        1, ctypes.addressof(memory) + fastcall.CONFIG_BYTES, 2, ctypes.addressof(bytes_passed), 0
    )
    launch = fastcall.address(driver.driver().library.cuLaunchKernelEx)
    handle = binary.entry

    def run(count: int) -> None:
        assert loop(launch, count, ctypes.addressof(memory), handle, ctypes.addressof(extra)) == 0

    run.held = (library, memory, bytes_passed, extra)
    return run


def times_of(calls: dict[str, Callable[[int], None]]) -> dict[str, list[float]]:
    """Microseconds of one launch in each round, all by turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for run in calls.values():
        run(BATCH)
    for _ in range(ROUNDS):
        for name, run in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run(BATCH)
            found[name].append((time.perf_counter() - start) / BATCH * 1e6)
    torch.cuda.synchronize()
    return found


def repeated(call: Callable[[], Any]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def launches() -> None:
    arrays = [torch.zeros(1024, device="cuda") for _ in range(3)]
    libraries = {"ours": (tw.jit, tl)}
    with contextlib.suppress(ImportError):
        import triton
        import triton.language

        libraries["triton"] = (triton.jit, triton.language)
    calls: dict[str, Callable[[int], None]] = {}
    kernels = empty_kernels(libraries)
    for library, kernel in kernels.items():
        for name, call in ways(kernel, *arrays, tw.cdiv).items():
            calls[f"{library}, {name}"] = repeated(call)
    (x, y, out), side = arrays, torch.cuda.Stream()
    ours = kernels["ours"]

    def on_side(count: int) -> None:
        with torch.cuda.stream(side):
            for _ in range(count):
                ours[(1,)](x, y, out, 1000, 7, 0.5, BLOCK=64)

    python = tw.jit(ours.fn)
    python.learn = lambda *_: None
    calls["ours, another stream"] = on_side
    calls["ours, in Python"] = repeated(lambda: python[(1,)](x, y, out, 1000, 7, 0.5, BLOCK=64))
    calls["torch.add with out"] = repeated(lambda: torch.add(x, y, out=out))
    with contextlib.suppress(ImportError):
        import cupy

        others = [cupy.zeros(1024, cupy.float32) for _ in range(3)]
        calls["ours, CuPy arrays"] = repeated(lambda: ours[(1,)](*others, 1000, 7, 0.5, BLOCK=64))
    handle = ours[(1,)](*arrays, 1000, 7, 0.5, BLOCK=64)
    calls["the driver alone"] = driver_alone(handle.compilation.binary)
    for name, times in times_of(calls).items():
        print(f"{name:28} {statistics.median(times):7.2f} us, least {min(times):6.2f}")


def first_calls(repeats: int) -> None:
    """First launches of a softmax, with an empty cache folder and then from it."""
    text = (Path(__file__).parents[1] / "examples/softmax.py").read_text()
    begin = text.index("@triton.jit\ndef softmax_kernel") + len("@triton.jit\n")
    source = text[begin : text.index("@triton.jit", begin)]
    for library in ("tilewright", "triton"):
        for _ in range(repeats + 1):  # one more, which compiles the library's own Python
            with tempfile.TemporaryDirectory() as folder:
                names = ("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR")
                environment = os.environ | dict.fromkeys(names, folder)
                environment.pop("PYTHONDONTWRITEBYTECODE", None)
                code = FIRST.format(library=library, source=f"SOURCE = {source!r}")
                for cache in ("empty", "filled"):
                    show_first(f"{library}, cache {cache}", code, environment)


def show_first(name: str, code: str, environment: dict[str, str]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    if found.returncode:
        print(f"{name:28} failed: {found.stderr.strip()[-300:]}")
        return
    imported, spent, steps = json.loads(found.stdout.splitlines()[-1])
    parts = ", ".join(f"{k} {v * 1e3:.0f}" for k, v in steps.items() if v > 5e-4)
    print(f"{name:28} import {imported * 1e3:4.0f} ms, first call {spent * 1e3:6.1f} ms  {parts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=3, help="processes for first calls")
    options = parser.parse_args()
    launches()
    first_calls(options.first)


if __name__ == "__main__":
    main()
