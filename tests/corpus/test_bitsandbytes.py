"""bitsandbytes: the quantization and optimizer kernels of its Triton back end, against torch."""

from __future__ import annotations

import importlib

import harness
import pytest
from harness import tensor

pytestmark = [pytest.mark.corpus, pytest.mark.usefixtures("pretend_cuda")]

harness.need("bitsandbytes")

import torch
from bitsandbytes.functional import create_dynamic_map, get_4bit_type

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
sizes = pytest.mark.parametrize("shape", [(64, 64), (7, 300), (4097,)])


@pytest.fixture
def ops(pretend_cuda):
    """The back end asks for an accelerator when it is imported, and its context in each call."""
    return importlib.import_module("bitsandbytes.backends.triton.ops")


def blocks(x: torch.Tensor, size: int) -> torch.Tensor:
    flat = x.flatten().double()
    return torch.nn.functional.pad(flat, (0, -len(flat) % size)).view(-1, size)


def nearest(x: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """The distance of each number to the nearest of the code."""
    return (x[..., None] - code.double()).abs().min(-1).values


@every_dtype
@sizes
@pytest.mark.parametrize("size", [64, 256])
def test_eight_bits(target, ops, shape, size, dtype):
    x, code = tensor(*shape).to(getattr(torch, dtype)), create_dynamic_map().float()
    codes, scales = ops.quantize_blockwise(x, code, size)
    assert torch.equal(scales.double(), blocks(x, size).abs().amax(1))
    found = ops.dequantize_blockwise(codes, scales, code, size, x.dtype)
    each = blocks(x, size) / scales.double()[:, None]
    chosen = code.double()[codes.flatten().long()]
    wanted = nearest(each.flatten()[: x.numel()], code)
    distance = (each.flatten()[: x.numel()] - chosen).abs()
    # In 16 bits the quotient is rounded before the code is chosen.
    assert (distance - wanted).max() <= (1e-6 if dtype == "float32" else 8e-3)
    scaled = chosen * scales.double().repeat_interleave(size)[: x.numel()]
    harness.close(found.flatten(), scaled, harness.ERROR[dtype], "numbers")


@every_dtype
@sizes
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("size", [64, 128])
def test_four_bits(target, ops, shape, size, kind, dtype):
    x = tensor(*shape).to(getattr(torch, dtype))
    packed, scales = ops.quantize_4bit(x, size, kind, torch.uint8)
    found = ops.dequantize_4bit(packed, scales, size, kind, shape, x.dtype)
    code = get_4bit_type(kind, device="cpu").double()
    largest = blocks(x, size).abs().amax(1)
    harness.close(scales[: len(largest)], largest, 0, "scales")
    each = blocks(x, size) / largest[:, None]
    wanted = nearest(each, code).flatten()[: x.numel()]
    scale = largest.repeat_interleave(size)[: x.numel()]
    distance = (x.flatten().double() - found.flatten().double()).abs() / scale
    # The thresholds between neighbours are rounded, and so is what is given back.
    assert (distance - wanted).max() <= (2e-3 if dtype == "float32" else 1e-2)


def test_product_with_four_bits(target, ops):
    a, b = tensor(3, 128).float(), tensor(48, 128, seed=1).float()
    packed, scales = ops.quantize_4bit(b, 64, "nf4", torch.uint8)
    whole = ops.dequantize_4bit(packed, scales, 64, "nf4", b.shape, b.dtype)
    code = get_4bit_type("nf4", device="cpu").float()
    found = ops.gemv_4bit(a, packed, b.shape, scales, code, 64)
    harness.close(found, a.double() @ whole.double().T, 1e-5, "product")


def adam(p, g, m, v, *, lr, beta1, beta2, eps, decay, step):
    m.mul_(beta1).add_(g, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    c1, c2 = 1 - beta1**step, 1 - beta2**step
    p.sub_(lr / c1 * m / ((v / c2).sqrt() + eps)).mul_(1 - lr * decay)


def lion(p, g, m, v, *, lr, beta1, beta2, eps, decay, step):
    p.mul_(1 - lr * decay).sub_(lr * torch.sign(m * beta1 + g * (1 - beta1)))
    m.mul_(beta2).add_(g, alpha=1 - beta2)


def momentum(p, g, m, v, *, lr, beta1, beta2, eps, decay, step):
    g = g + p * decay
    m.copy_(g if step == 1 else m * beta1 + g)
    p.sub_(lr * m)


OPTIMIZERS = {"adam": adam, "lion": lion, "momentum": momentum}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("count", [256, 1000])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(target, ops, name, count, dtype):
    kind = getattr(torch, dtype)
    p, m, v = tensor(count), torch.zeros(count).double(), torch.zeros(count).double()
    ours = [p.to(kind), m.float(), v.float() if name == "adam" else None]
    settings = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "decay": 0.1}
    for step in (1, 2, 3):
        g = tensor(count, seed=step) * 1.01  # no sums that cancel, whose sign is chance
        g = g.to(kind).double()
        p = p.to(kind).double()
        OPTIMIZERS[name](p, g, m, v, step=step, **settings)
        ops.optimizer_update_32bit(
            name, g.to(kind), *ours, torch.zeros(1), 0.0, 0.0, 0.9, 0.95, 0.0, 0.0, 1e-8, 0.1,
            step, 1e-2, 1.0,
        )  # fmt: skip
    harness.close(ours[0], p, harness.ERROR[dtype], "parameters")
    harness.close(ours[1], m, 1e-5, "first moment")


@pytest.mark.parametrize("name", ["adam", "lion", "momentum", "rmsprop", "adagrad"])
def test_optimizer_in_eight_bits(target, ops, name):
    """Against the package's own formulas in PyTorch."""
    kernels = importlib.import_module("bitsandbytes.backends.triton.kernels_optim")
    reference = kernels.optimizer_update_8bit_blockwise_pytorch
    count, size = 1000, 256
    two = name == "adam"
    signed, unsigned = create_dynamic_map().float(), create_dynamic_map(signed=False).float()
    first = signed if name in ("adam", "lion", "momentum") else unsigned

    def state():
        zero = int((first.abs()).argmin())
        scales = torch.zeros(-(-count // size))
        return {
            "p": tensor(count).float(),
            "state1": torch.full((count,), zero, dtype=torch.uint8),
            "state2": torch.zeros(count, dtype=torch.uint8) if two else None,
            "qmap1": first, "qmap2": unsigned if two else None,
            "absmax1": scales.clone(), "absmax2": scales.clone() if two else None,
        }  # fmt: skip

    ours, theirs = state(), state()
    for step in (1, 2, 3):
        common = {
            "optimizer_name": name, "g": tensor(count, seed=step).float(), "beta1": 0.9,
            "beta2": 0.95, "beta3": 0.0, "alpha": 0.0, "eps": 1e-8, "step": step, "lr": 1e-2,
        }  # fmt: skip
        ops.optimizer_update_8bit_blockwise(**common, **ours)
        reference(**common, weight_decay=0.0, gnorm_scale=1.0, skip_zeros=False, **theirs)
    harness.close(ours["p"], theirs["p"], 2e-3, "parameters")
    harness.close(ours["absmax1"], theirs["absmax1"], 1e-5, "scales")
