"""Kernels run by CPython itself on NumPy tiles, and a runner for IR with the same meaning."""

from tilewright.eager.kernel import run_kernel
from tilewright.eager.machine import Eager, Scalar
from tilewright.eager.memory import Buffer, Touch
from tilewright.eager.run import run_ir

__all__ = ["Buffer", "Eager", "Scalar", "Touch", "run_ir", "run_kernel"]
