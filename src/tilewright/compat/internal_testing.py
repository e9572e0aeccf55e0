"""`triton._internal_testing`: what Triton's own tests use to make and compare data."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from tilewright.compat import knobs
from tilewright.errors import UnsupportedError
from tilewright.ir import types as ir
from tilewright.runtime import driver
from tilewright.runtime.dtypes import named_dtype
from tilewright.runtime.wrapped import TensorWrapper, reinterpret

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})

SEED = 17
ROOT = Path(__file__).parents[2]
BFLOAT16_BITS = np.uint32(0xFFFF0000)


def is_interpreter() -> bool:
    """Kernels are compiled from source, also when they are stepped through."""
    return False


def get_current_target() -> driver.GPUTarget:
    return driver.active.get_current_target()


def get_arch() -> str:
    return str(get_current_target().arch)


def never(*_: Any, **__: Any) -> bool:
    """Is this some GPU? It is not."""
    return False


is_cuda = is_hip = is_xpu = never
is_ampere_or_newer = is_hopper = is_hopper_or_newer = is_blackwell = is_blackwell_ultra = never
is_sm12x = supports_tma = supports_ws = never
is_hip_cdna = is_hip_cdna2 = is_hip_cdna3 = is_hip_cdna4 = never
is_hip_rdna = is_hip_rdna3 = is_hip_rdna4 = is_hip_gfx11 = is_hip_gfx12 = is_hip_gfx1250 = never
requires_tma = pytest.mark.skip(reason="needs the tensor memory accelerator of a GPU")


def tma_skip_msg(byval_only: bool = False) -> str:
    return "needs the tensor memory accelerator of a GPU"


def get_hip_lds_size() -> int:
    return 0


def numpy_random(
    shape: Any, dtype_str: str, rs: Any = None, low: int | None = None, high: int | None = None
) -> np.ndarray:
    """Random data of a dtype: integers without zeros, floats from the normal distribution."""
    shape = (shape,) if isinstance(shape, int) else shape
    rs = np.random.RandomState(seed=SEED) if rs is None else rs
    if dtype_str in integral_dtypes:
        limits = np.iinfo(dtype_str)
        low = limits.min if low is None else max(low, limits.min)
        high = limits.max if high is None else min(high, limits.max)
        x = rs.randint(low, high, shape, dtype=dtype_str)
        x[x == 0] = 1  # nothing divides by zero
        return x
    if "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    if dtype_str in float_dtypes:
        return rs.normal(0, 1, shape).astype(dtype_str)
    if dtype_str == "bfloat16":
        bits = rs.normal(0, 1, shape).astype(np.float32).view(np.uint32) & BFLOAT16_BITS
        return bits.view(np.float32)
    if dtype_str in ("bool", "int1", "bool_"):
        return rs.normal(0, 1, shape) > 0.0
    raise RuntimeError(f"Unknown dtype {dtype_str}")


def to_triton(x: np.ndarray, device: Any, dst_type: str | None = None) -> Any:
    """A NumPy array as a torch tensor, wrapped where torch has no such dtype."""
    import torch

    name = x.dtype.name
    if name in uint_dtypes:
        signed = torch.tensor(x.view(name[1:]), device=device)
        return reinterpret(signed, ir.BY_NAME[name])
    made = torch.tensor(x, device=device)
    if dst_type and "float8" in dst_type:
        return reinterpret(made, named_dtype(dst_type))
    if name == "float32" and dst_type == "bfloat16":
        return made.bfloat16()
    return made


def to_numpy(x: Any) -> np.ndarray:
    """A tensor, wrapped or not, as a NumPy array."""
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().view(torch_dtype_name(x.dtype))
    if str(x.dtype) == "torch.bfloat16":
        return x.cpu().float().numpy()
    return x.cpu().numpy()


def torch_dtype_name(dtype: Any) -> str:
    """The name of a dtype of the language or of torch."""
    if isinstance(dtype, ir.DType):
        return dtype.name
    return re.match(r"^torch\.(\w+)$", str(dtype)).group(1)


def str_to_triton_dtype(name: str) -> ir.DType:
    return named_dtype(name)


def unwrap_tensor(t: Any) -> Any:
    """The tensor itself."""
    return t.base if isinstance(t, TensorWrapper) else t


def default_alloc_fn(size: int, align: int, stream: Any) -> Any:
    """Scratch memory for a kernel."""
    import torch

    return torch.empty(size, dtype=torch.int8)


def _fresh_knobs_impl(skipped_attr: Any = None) -> tuple:
    """All settings as new, and a function that puts back what was."""
    groups = {
        name: group for name, group in vars(knobs).items() if isinstance(group, knobs.base_knobs)
    }
    before = {name: group.copy() for name, group in groups.items()}

    def fresh() -> Any:
        for name, group in groups.items():
            setattr(knobs, name, group.copy().reset())
        return knobs

    def restore() -> None:
        for name, group in before.items():
            setattr(knobs, name, group)

    return fresh, restore


fresh_knobs_impl = _fresh_knobs_impl


def mxfp8_to_fp32(*_: Any) -> NoReturn:
    raise UnsupportedError("triton._internal_testing.mxfp8_to_fp32 is not supported")


# The program of a process that runs one function and writes what became of it.
CHILD = """
import pickle, sys
from tilewright.compat import install
install()
from tilewright.compat.internal_testing import outcome
task = sys.stdin.buffer.read()
sys.path[:], call, out = pickle.loads(task)
with open(out, "wb") as file:
    file.write(outcome(call))
"""


def outcome(call: bytes) -> bytes:
    """Run a pickled (function, args, kwargs); gives the exception, pickled, None if all is well."""
    function, args, kwargs = pickle.loads(call)
    try:
        function(*args, **kwargs)
    except Exception as error:
        try:
            return pickle.dumps(error)
        except Exception:
            return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickle.dumps(None)


def run_in_process(
    client_fn: Any,
    args: tuple = (),
    kwargs: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> SimpleNamespace:
    """Call a function in a Python process of its own; gives its exception as `exc`."""
    call = pickle.dumps((client_fn, args, kwargs or {}))
    path = [str(ROOT), *sys.path]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **(env or {})}
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "outcome")
        task = pickle.dumps((path, call, out))
        done = subprocess.run(
            [sys.executable, "-c", CHILD], input=task, capture_output=True, env=variables,
            check=False,
        )  # fmt: skip
        errors = done.stderr.decode(errors="replace")
        if os.path.exists(out):
            with open(out, "rb") as file:
                error = pickle.load(file)
        else:
            error = RuntimeError(f"the process ended with {done.returncode}: {errors}")
    return SimpleNamespace(exc=error, driver_stderr_output=errors)
