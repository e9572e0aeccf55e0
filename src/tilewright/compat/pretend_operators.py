"""What operators of PyTorch and of packages do while the CPU pretends to be a CUDA device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.library

from tilewright.compat.pretend_mode import Pretence, within

# Keys by which PyTorch finds what an operator does with tensors on a GPU, and on the CPU.
KEYS = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}
FOR_THE_CPU = {"CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"}
RUN_AS_THEY_ARE = {*FOR_THE_CPU, *KEYS.values(), "Autograd"}


def registering(mode: Pretence, impl: Callable) -> Callable:
    """`Library.impl`: what operators do on CUDA they do on the CPU, unless their package says
    what to do there."""
    known: set[tuple[str, str]] = set()  # operators that have a function for the CPU

    @functools.wraps(impl)
    def register(
        library: Any, op_name: Any, fn: Callable, dispatch_key: str = "", **options: Any
    ) -> Any:
        key = dispatch_key or library.dispatch_key or "CompositeImplicitAutograd"
        name = op_name if isinstance(op_name, str) else op_name.name()
        operator = (library.ns, name.rpartition("::")[2])
        if key in FOR_THE_CPU:
            known.add(operator)
        elif key == "CUDA" and operator in known:
            return None
        key = KEYS.get(key, key)
        if key in RUN_AS_THEY_ARE and fn is not torch.library.fallthrough_kernel:
            fn = within(mode, fn)
        return impl(library, op_name, fn, key, **options)

    return register


def cuda_only() -> torch.library.Library:
    """Operators that PyTorch has for CUDA only: products whose results keep more digits."""
    library = torch.library.Library("aten", "IMPL")
    for name in ("mm", "bmm", "addmm", "baddbmm"):
        plain = getattr(torch, name)
        library.impl(f"{name}.dtype", functools.partial(wider, plain), "CPU")
        library.impl(f"{name}.dtype_out", functools.partial(wider_out, plain), "CPU")
    return library


def wider(product: Callable, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A product of tensors, computed in the dtype of its result, which is the last argument."""
    *tensors, dtype = args
    return product(*(x.to(dtype) for x in tensors), **kwargs)


def wider_out(product: Callable, *args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return out.copy_(wider(product, *args, **kwargs))
