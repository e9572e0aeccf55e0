"""Run a lane recipe over NumPy arrays: the loop that a CPU target would write around it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from tilewright.codegen.lanes import Lane, Lanes, llvm_type
from tilewright.codegen.llvm import Library, Machine, compile_object, host_machine
from tilewright.ir import types as ty
from tilewright.ir.types import DType

NUMPY = {
    ty.int1: np.dtype(np.bool_),
    ty.float16: np.dtype(np.float16),
    ty.bfloat16: np.dtype(ml_dtypes.bfloat16),
    ty.float32: np.dtype(np.float32),
    ty.float64: np.dtype(np.float64),
    ty.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    ty.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    ty.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    ty.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
    ty.float8e4b15: np.dtype(np.uint8),
} | {d: np.dtype(d.name) for d in ty.SCALARS if d.is_integer and d is not ty.int1}


def lanes_for(machine: Machine, write, fresh, declare) -> Lanes:
    """The builder for a machine."""
    target = {"x86_64": "x86", "nvptx64": "nvptx"}.get(machine.arch, machine.arch)
    features = frozenset(f[1:] for f in machine.features.split(",") if f.startswith("+"))
    return Lanes(write, fresh, declare, target, features)


def loop_text(recipe: Callable, dtypes: tuple[DType, ...], width: int, machine: Machine):
    """A function `run(out, in0, in1, ..., n)` as LLVM IR, and the dtype of `out`."""
    lines, declared, numbers = [], {}, itertools.count()
    b = lanes_for(machine, lines.append, lambda: f"%t{next(numbers)}", declared.setdefault)
    args = []
    for k, dtype in enumerate(dtypes):
        kind = "i8" if dtype is ty.int1 else llvm_type(dtype)
        memory = kind if width == 1 else f"<{width} x {kind}>"
        b.write(f"%p{k} = getelementptr {kind}, ptr %in{k}, i64 %i")
        b.write(f"%x{k} = load {memory}, ptr %p{k}, align 1")
        args.append(Lane(f"%x{k}", ty.uint8 if dtype is ty.int1 else dtype, width))
    args = [b.cast(a, d) if a.dtype != d else a for a, d in zip(args, dtypes, strict=True)]
    out = b.splat(recipe(b, *args), width)
    stored = b.cast(out, ty.uint8) if out.dtype is ty.int1 else out
    b.write(f"%po = getelementptr {llvm_type(stored.dtype)}, ptr %out, i64 %i")
    b.write(f"store {stored.typed}, ptr %po, align 1")
    params = ", ".join(["ptr %out", *(f"ptr %in{k}" for k in range(len(dtypes))), "i64 %n"])
    body = "\n ".join(lines)
    text = (
        "\n".join(declared)
        + f"""
define void @run({params}) {{
 br label %loop
loop:
 %i = phi i64 [0, %0], [%inext, %loop]
 {body}
 %inext = add i64 %i, {width}
 %go = icmp slt i64 %inext, %n
 br i1 %go, label %loop, label %end
end:
 ret void
}}
"""
    )
    return text, out.dtype


class Runner:
    """A compiled recipe; called with arrays of one length."""

    def __init__(self, recipe: Callable, *dtypes: DType, width: int = 1, level: str = ""):
        machine = host_machine(level)
        text, self.result = loop_text(recipe, dtypes, width, machine)
        self.dtypes, self.width = dtypes, width
        self.library = Library.load(compile_object(text, machine).bytes, ["run"])
        types = [ctypes.c_void_p] * (len(dtypes) + 1) + [ctypes.c_int64]
        self.run = ctypes.CFUNCTYPE(None, *types)(self.library.address("run"))

    def __call__(self, *arrays) -> np.ndarray:
        arrays = np.broadcast_arrays(
            *(np.asarray(a, NUMPY[d]) for a, d in zip(arrays, self.dtypes))
        )
        size = arrays[0].size
        padded = -(-size // self.width) * self.width
        arrays = [np.resize(a, padded) for a in arrays]
        out = np.empty(padded, NUMPY[self.result])
        self.run(out.ctypes.data, *(a.ctypes.data for a in arrays), padded)
        return out[:size]


def host_widths() -> tuple[int, ...]:
    """Scalar, and the number of f32 lanes in a vector register of this computer."""
    return (1, host_machine().vector_bytes // 4)


def host_levels() -> tuple[str, ...]:
    """This computer, and where it is more than that its AVX2 subset."""
    return ("", "avx2") if host_machine().has("avx512f") else ("",)
