"""The names of `triton.language.target_info`: what the kernel is compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.lang.constexpr import constexpr_function

source: Callable[[], Any] = lambda: None  # noqa: E731 - set by `runtime`, which knows the device


@constexpr_function
def current_target() -> Any:
    """The target in force: `backend`, `arch`, `warp_size`; None without one."""
    return source()


@constexpr_function
def is_cuda() -> bool:
    """Whether kernels are compiled for an NVIDIA GPU."""
    target = source()
    return target is not None and target.backend == "cuda"


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether kernels are compiled for an NVIDIA GPU of at least this compute capability."""
    return is_cuda() and source().arch >= major * 10 + minor


@constexpr_function
def is_hip() -> bool:
    """Whether kernels are compiled for an AMD GPU: they are not."""
    return False


is_hip_cdna2 = is_hip_cdna3 = is_hip_cdna4 = is_hip_rdna3 = is_hip_rdna4 = is_hip
is_hip_gfx11 = is_hip_gfx12 = is_hip_gfx1250 = is_hip_cdna = is_hip_rdna = is_hip

__all__ = ["current_target"]
