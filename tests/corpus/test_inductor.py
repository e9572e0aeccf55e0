"""Kernels that TorchInductor generates, with its helpers and its launchers, against torch."""

from __future__ import annotations

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need()

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
import triton
import triton.language as tl

from tilewright.runtime import handle

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)


@pytest.fixture(autouse=True)
def generated(monkeypatch):
    """`torch.compile` makes Triton kernels for the CPU; each test must have launched one."""
    made = []
    start = handle.CompiledKernel.__init__

    def note(self, *args):
        made.append(self)
        start(self, *args)

    monkeypatch.setattr(handle.CompiledKernel, "__init__", note)
    torch._dynamo.reset()
    with inductor.patch(cpu_backend="triton", compile_threads=1, fx_graph_cache=False):
        yield
    assert made


def compare(function, inputs, dtype, **options):
    check(torch.compile(function), function, inputs, dtype, **options)


@every_dtype
@pytest.mark.parametrize("shape", [(4, 128), (7, 333), (3, 5000)])
def test_rows(shape, dtype):
    def function(x, w):
        x = F.gelu(x) * 2
        x = F.layer_norm(x, x.shape[-1:], w)
        return torch.softmax(x, -1) * torch.sigmoid(x)

    compare(function, [tensor(*shape), tensor(shape[-1])], dtype, error=2 * harness.ERROR[dtype])


@every_dtype
def test_columns_and_scans(dtype):
    def function(x):
        return x.sum(0), x.amax(1), x.var(1), torch.cumsum(x, 1), torch.logcumsumexp(x, 1)

    compare(function, [tensor(37, 65)], dtype, grad=False)


def test_indices():
    at = integers(0, 50, 4, 7)

    def function(table):
        rows = F.embedding(at, table)
        order, places = rows.sort(dim=-1, stable=True)
        best = torch.argmax(rows, -1)
        return torch.cat([order, rows.flip(0)], -1), places, best

    compare(function, [tensor(50, 16)], "float32")


def test_images():
    def function(x):
        x = F.max_pool2d(F.pad(x, (1, 2, 1, 2), mode="reflect"), 3, 2)
        return F.interpolate(F.avg_pool2d(x, 2), scale_factor=2.0, mode="bilinear")

    compare(function, [tensor(2, 3, 17, 19)], "float32")


@pytest.mark.parametrize("shape", [(4, 30000), (3, 5000)])
def test_cooperative_reductions(shape):
    """Programs that wait for each other, and functions that Inductor marks as the language's."""

    def function(x):
        return x.sum(-1), x.var(-1), x.amax()

    with inductor.patch({"triton.force_cooperative_reductions": True}):
        compare(function, [tensor(*shape)], "float32", grad=False, error=1e-4)


@triton.jit
def scale_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * factor, i < n)


tuned_kernel = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], ["n"])(
    scale_kernel
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("tuned", [False, True])
def test_kernels_of_programs(tuned, dynamic):
    def function(x):
        y, n = torch.empty_like(x), x.numel()
        if tuned:
            tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 2.5)
        else:
            scale_kernel[(triton.cdiv(n, 64),)](x, y, n, 2.5, BLOCK=64)
        return y.sin() + 1

    x = tensor(10, 77).float()
    found = torch.compile(function, dynamic=dynamic)(x)
    harness.close(found, (x.double() * 2.5).sin() + 1, 1e-5, "output")


@triton.jit
def add_into_kernel(x, y, total, n, unused, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n) + 1
    tl.store(y + i, value, i < n)
    tl.atomic_add(total, tl.sum(tl.where(i < n, value, 0)))


def test_what_kernels_of_programs_write_to():
    """Inductor asks for it, and copies what it does not know to stay as it is."""
    from torch._higher_order_ops.triton_kernel_wrap import identify_accessed_tensors

    x, y, total = tensor(10).float(), torch.zeros(10), torch.zeros(1)
    given = {"x": x, "y": y, "total": total, "n": 10, "unused": None, "BLOCK": 16}
    found = identify_accessed_tensors(add_into_kernel, given, {}).read_writes
    assert [d.name for d in found.writes] == ["y", "total"]
    assert [d.name for d in found.reads] == ["x", "total"]

    def function(a):
        y, total = torch.empty_like(a), a.new_zeros(1)
        add_into_kernel[(1,)](a * 2, y, total, a.numel(), None, BLOCK=16)
        add_into_kernel[(1,)](y, y, total, a.numel(), None, BLOCK=16)
        return y, total, a + 1

    wanted = [x * 2 + 2, (x * 4 + 3).sum()[None], x + 1]
    for a, b in zip(torch.compile(function)(x), wanted):
        harness.close(a, b, 1e-5, "output")


@pytest.mark.parametrize("dtype", ["float64", "uint8", "int16"])
def test_numbers_of_other_types(dtype):
    def function(x, factor):
        return x * factor + x.shape[1]

    x = tensor(10, 77).abs().to(getattr(torch, dtype))
    for factor in (0.1, 0.3) if x.is_floating_point() else (3, 70):
        found = torch.compile(function, dynamic=True)(x, factor)
        assert torch.equal(found, function(x, factor))


def test_random_numbers():
    function = torch.compile(lambda x: F.dropout(torch.ones_like(x) + torch.rand_like(x), 0.5))
    x = function(torch.zeros(10000))
    assert 0.4 < (x == 0).float().mean() < 0.6
    assert 2.8 < x[x > 0].mean() < 3.2


def test_a_model_learns():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5)
    )
    step = torch.optim.Adam(model.parameters(), 0.05)
    compiled = torch.compile(model)
    x, labels = tensor(40, 16).float(), integers(0, 5, 40)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(compiled(x), labels)
        loss.backward()
        step.step()
        step.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
