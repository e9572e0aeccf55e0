"""Run, step through and explain Triton kernels on CPUs and NVIDIA GPUs."""

from tilewright import testing
from tilewright.config import options
from tilewright.runtime.kernel import JITFunction, KernelInterface, jit
