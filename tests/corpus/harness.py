"""Run what a package offers on CPU tensors and compare it, and its gradients, with torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tilewright import compat

# Greatest error accepted, relative to the largest element of the reference.
ERROR = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "float64": 1e-12}
DTYPES = ("float32", "bfloat16", "float16")


def need(*names: str) -> None:
    """Let Tilewright stand in for triton; skips the module where a package is missing."""
    for name in ("torch", *names):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed; see `make corpus`", allow_module_level=True)
    compat.install()


def tensor(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal float64 numbers that every dtype of the tests holds exactly (8 significant bits)."""
    import torch

    generator = torch.Generator().manual_seed(seed + 31 * len(shape) + sum(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return values.bfloat16().double()


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator)


def check(
    run: Callable, reference: Callable, inputs: Sequence[Any], dtype: str,
    *, grad: bool = True, error: float | None = None,
) -> None:  # fmt: skip
    """`run` on inputs of `dtype` gives what `reference` gives in float64; so do its gradients."""
    import torch

    bound = ERROR[dtype] if error is None else error
    found, found_grads = outcome(run, inputs, getattr(torch, dtype), grad)
    wanted, wanted_grads = outcome(reference, inputs, torch.float64, grad)
    assert len(found) == len(wanted)
    for i, (a, b) in enumerate(zip(found, wanted)):
        close(a, b, bound, f"output {i}")
    for i, (a, b) in enumerate(zip(found_grads, wanted_grads)):
        close(a, b, bound, f"gradient {i}")


def outcome(call: Callable, inputs: Sequence[Any], dtype: Any, grad: bool) -> tuple[list, list]:
    """Outputs of a call, and the gradients of a fixed weighing of them."""
    import torch

    args = [x.to(dtype) if is_float(x) else x for x in inputs]
    args = [x.clone().requires_grad_(grad) if is_float(x) else x for x in args]
    # A package may write to its inputs, which autograd forbids of leaves.
    result = call(*[x * 1 if is_float(x) and grad else x for x in args])
    results = result if isinstance(result, tuple | list) else [result]
    outputs = [r for r in results if isinstance(r, torch.Tensor)]
    plain = [r.detach().clone() for r in outputs]
    if not grad:
        return plain, []
    weighed = [r for r in outputs if r.requires_grad]
    weights = [tensor(*r.shape, seed=7 + i).to(r.dtype) for i, r in enumerate(weighed)]
    torch.autograd.backward(weighed, weights)
    leaves = [x for x in args if is_float(x)]
    return plain, [x.grad for x in leaves]


def is_float(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and value.is_floating_point()


def close(found: Any, wanted: Any, bound: float, what: str) -> None:
    import torch

    assert (found is None) == (wanted is None), what
    if found is None:
        return
    assert found.shape == wanted.shape, what
    if not wanted.is_floating_point():
        assert torch.equal(found, wanted), what
        return
    found, wanted = found.double(), wanted.double()
    assert torch.equal(torch.isfinite(found), torch.isfinite(wanted)), f"{what}: NaN or infinity"
    finite = torch.isfinite(wanted)
    if not finite.any():
        return
    scale = max(float(wanted[finite].abs().max()), 1e-3)
    worst = float((found - wanted)[finite].abs().max()) / scale
    assert worst <= bound, f"{what}: off by {worst:.2g} of the largest element, {bound:.2g} allowed"
