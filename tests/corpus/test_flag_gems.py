"""FlagGems: PyTorch operators in Triton, many from code it generates, against PyTorch's own."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import harness
import pytest
from harness import close, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("flag_gems", "yaml", "sqlalchemy")

import torch
import torch.nn.functional as F

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
# Few, since each rank and dtype is compiled anew.
USES = [
    ((40,), "float32"), ((7, 77), "bfloat16"), ((2, 3, 130), "float16"), ((0, 4), "float32"),
]  # fmt: skip


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Iterator[None]:
    """Where the package writes the kernels that it generates and the configurations it found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAGGEMS_CACHE_DIR", str(tmp_path_factory.mktemp("flag_gems")))
        patch.setenv("GEMS_VENDOR", "nvidia")  # it would look for the tools of each vendor
        yield


@pytest.fixture
def ops(generated, pretend_cuda) -> Any:
    assert os.environ["FLAGGEMS_CACHE_DIR"]
    return importlib.import_module("flag_gems").ops


def typed(values: tuple, dtype: str) -> tuple:
    kind = getattr(torch, dtype)
    return tuple(x.to(kind) if harness.is_float(x) else x for x in values)


def agree(run: Callable, reference: Callable, args: tuple, dtype: str, **options: Any) -> None:
    """The operator on numbers of a dtype gives what PyTorch gives in float64."""
    found = run(*typed(args, dtype), **options)
    wanted = reference(*args, **options)
    many = isinstance(wanted, tuple)
    for i, (a, b) in enumerate(zip(found, wanted) if many else [(found, wanted)]):
        b = b.to(a.dtype) if b.dtype is torch.bool else b
        close(a, b, harness.ERROR[dtype], f"output {i}")


def positive(*shape: int) -> torch.Tensor:
    return tensor(*shape).abs() + 0.5


def fraction(*shape: int) -> torch.Tensor:
    return tensor(*shape).sigmoid().bfloat16().double()


UNARY = {
    "abs": (torch.abs, tensor), "acos": (torch.acos, fraction), "atan": (torch.atan, tensor),
    "ceil": (torch.ceil, tensor), "celu": (F.celu, tensor), "cos": (torch.cos, tensor),
    "cosh": (torch.cosh, tensor), "elu": (F.elu, tensor), "erf": (torch.erf, tensor),
    "exp": (torch.exp, tensor), "exp2": (torch.exp2, tensor), "expm1": (torch.expm1, tensor),
    "gelu": (F.gelu, tensor), "hardsigmoid": (F.hardsigmoid, tensor),
    "isfinite": (torch.isfinite, tensor), "isinf": (torch.isinf, tensor),
    "isnan": (torch.isnan, tensor), "log": (torch.log, positive),
    "log10": (torch.log10, positive), "log_sigmoid": (F.logsigmoid, tensor),
    "logical_not": (torch.logical_not, tensor), "neg": (torch.neg, tensor),
    "reciprocal": (torch.reciprocal, positive), "relu": (F.relu, tensor),
    "rsqrt": (torch.rsqrt, positive), "sigmoid": (torch.sigmoid, tensor),
    "signbit": (torch.signbit, tensor), "silu": (F.silu, tensor), "sin": (torch.sin, tensor),
    "softplus": (F.softplus, tensor), "softshrink": (F.softshrink, tensor),
    "sqrt": (torch.sqrt, positive), "square": (torch.square, tensor), "tan": (torch.tan, fraction),
    "tanh": (torch.tanh, tensor), "i0": (torch.special.i0, tensor),
    "nan_to_num": (torch.nan_to_num, tensor), "relu6": (F.relu6, tensor), "selu": (F.selu, tensor),
}  # fmt: skip


@pytest.mark.parametrize("shape, dtype", USES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(target, ops, name, shape, dtype):
    reference, numbers = UNARY[name]
    agree(getattr(ops, name), reference, (numbers(*shape),), dtype)


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "true_divide": torch.true_divide,
    "maximum": torch.maximum, "minimum": torch.minimum, "eq": torch.eq, "ne": torch.ne,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "atan2": torch.atan2,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "hypot": torch.hypot, "logaddexp": torch.logaddexp,
    "copysign": torch.copysign, "fmin": torch.fmin,
}  # fmt: skip
PAIRS = [
    ((7, 77), (7, 77), "float32"), ((7, 1), (1, 77), "bfloat16"), ((2, 3, 130), (130,), "float16"),
]  # fmt: skip


@pytest.mark.parametrize("first, second, dtype", PAIRS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(target, ops, name, first, second, dtype):
    if name in ("hypot", "logaddexp", "copysign", "fmin"):  # these do not broadcast
        second = first
    a, b = tensor(*first), tensor(*second, seed=1)
    agree(getattr(ops, name), BINARY[name], (a, b), dtype)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers(target, ops, kind):
    a, b = (integers(1, 100, 7, 77, seed=s).to(getattr(torch, kind)) for s in (0, 1))
    if kind != "uint8":
        a = a - 50
    assert torch.equal(ops.add(a, b), a + b)
    assert torch.equal(ops.mul(a, b), a * b)
    assert torch.equal(ops.floor_divide(a, b), a // b)
    assert torch.equal(ops.remainder(a, b), a % b)
    assert torch.equal(
        ops.div_mode(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="trunc")
    )
    assert torch.equal(ops.bitwise_and_tensor(a, b), a & b)
    assert torch.equal(ops.bitwise_or_tensor(a, b), a | b)
    assert torch.equal(ops.bitwise_not(a), ~a)
    assert torch.equal(ops.abs(a), a.abs())


def test_strides(target, ops):
    """Views that are not contiguous, and scalars."""
    a, b = tensor(30, 40).float().T, tensor(80, 60).float()[::2, ::2]
    assert torch.equal(ops.add(a, b), a + b)
    assert torch.equal(ops.add(a, b, alpha=2), torch.add(a, b, alpha=2))
    assert torch.equal(ops.mul(a, 3.0), a * 3.0)
    close(ops.exp(a[:, ::3]), a[:, ::3].double().exp(), 1e-5, "exp")
    assert torch.equal(ops.where_self(a > 0, a, b), torch.where(a > 0, a, b))
    close(ops.pow_tensor_scalar(b.abs(), 1.5), b.abs().double() ** 1.5, 1e-5, "pow")
    c = a.clone()
    ops.add_(c, b)
    assert torch.equal(c, a + b)


REDUCTIONS = {
    "sum_dim": torch.sum, "mean_dim": torch.mean, "amax": torch.amax, "prod_dim": torch.prod,
    "var": torch.var, "std": torch.std, "vector_norm": torch.linalg.vector_norm,
    "any_dim": torch.any, "all_dim": torch.all, "cumsum": torch.cumsum, "softmax": torch.softmax,
    "log_softmax": torch.log_softmax, "argmax": torch.argmax, "argmin": torch.argmin,
    "max_dim": torch.max, "min_dim": torch.min,
}  # fmt: skip
ALONG = [
    ((7, 77), 1, "float32"), ((8, 77), 0, "float16"), ((2, 300, 5), 1, "bfloat16"),
    ((3, 2500), -1, "float32"),
]  # fmt: skip
LISTS = {"sum_dim", "mean_dim", "amax", "var", "std", "vector_norm"}


@pytest.mark.parametrize("shape, dim, dtype", ALONG)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(target, ops, name, shape, dim, dtype):
    # bf16 numbers around one: their product stays finite, and equal ones have a first.
    x = 1 + tensor(*shape) / 64 if name == "prod_dim" else tensor(*shape)
    if name in ("argmax", "argmin", "max_dim", "min_dim"):
        order = torch.arange(math.prod(shape), dtype=torch.float64).view(shape) % 200
        x = order[torch.randperm(shape[0], generator=torch.Generator().manual_seed(0))]
    if name == "argmin" and dim in (-1, x.dim() - 1):
        pytest.skip("its kernel along the last dimension reads past the end: a mask of True")
    options: dict[str, Any] = {"dim": [dim] if name in LISTS else dim}
    run = getattr(ops, name)
    if name in ("softmax", "log_softmax"):
        found = run(*typed((x,), dtype), dim)
        close(found, REDUCTIONS[name](x, dim), harness.ERROR[dtype], name)
        return
    given = typed((x,), dtype)[0]
    found, wanted = run(given, **options), REDUCTIONS[name](given.double(), **options)
    if isinstance(found, tuple):
        close(found[0], wanted[0], harness.ERROR[dtype], "values")
        picked = given.double().gather(dim, found[1].unsqueeze(dim)).squeeze(dim)
        close(picked, wanted[0], 0, "places")
    elif found.dtype is torch.int64:
        picked = given.double().gather(dim, found.unsqueeze(dim))
        close(picked, given.double().gather(dim, wanted.unsqueeze(dim)), 0, "places")
    else:
        close(found, wanted, harness.ERROR[dtype], name)


@every_dtype
def test_whole(target, ops, dtype):
    for shape in [(77,), (130, 40)]:
        x = typed((tensor(*shape),), dtype)[0]
        error = harness.ERROR[dtype]
        close(ops.sum(x), x.double().sum(), error, "sum")
        close(ops.mean(x), x.double().mean(), error, "mean")
        close(ops.max(x), x.double().max(), 0, "max")
        close(ops.min(x), x.double().min(), 0, "min")
        assert bool(ops.any(x > 100)) is False
        assert bool(ops.all(x > -100)) is True


@every_dtype
@pytest.mark.parametrize("shape", [(3, 77), (2, 5, 300), (2, 4100)])
def test_norms(target, ops, shape, dtype):
    x, w, b = tensor(*shape), tensor(shape[-1]), tensor(shape[-1], seed=1)
    given = typed((x, w, b), dtype)
    found = ops.layer_norm(given[0], list(shape[-1:]), given[1], given[2], 1e-5)[0]
    close(found, F.layer_norm(x, shape[-1:], w, b, 1e-5), harness.ERROR[dtype], "layer norm")
    found = ops.rms_norm(given[0], list(shape[-1:]), given[1], 1e-5)
    close(found, F.rms_norm(x, shape[-1:], w, 1e-5), harness.ERROR[dtype], "rms norm")


@every_dtype
def test_group_and_batch_norm(target, ops, dtype):
    x, w, b = tensor(4, 8, 4, 8), tensor(8), tensor(8, seed=1)
    given = typed((x, w, b), dtype)
    found = ops.group_norm(*given, 4, 8, 32, 4, 1e-5)[0]
    close(found, F.group_norm(x, 4, w, b, 1e-5), harness.ERROR[dtype], "group norm")
    running = [torch.zeros(8), torch.ones(8)]  # without them it writes to its input in their place
    found = ops.batch_norm(*given, *running, training=True, eps=1e-5)[0]
    wanted = F.batch_norm(x, None, None, w, b, True, eps=1e-5)
    close(found, wanted, harness.ERROR[dtype], "batch norm")


@pytest.mark.parametrize("shape, dtype", [((64, 64, 64), "bfloat16"), ((33, 70, 45), "float32")])
def test_products(target, ops, shape, dtype):
    m, k, n = shape
    a, b, c = tensor(m, k), tensor(k, n), tensor(m, n)
    given = typed((a, b, c), dtype)
    error = 2e-3 if dtype == "float32" else harness.ERROR[dtype]  # TF32
    close(ops.mm(given[0], given[1]), a @ b, error, "mm")
    close(ops.addmm(given[2], given[0], given[1]), torch.addmm(c, a, b), error, "addmm")
    found = ops.bmm(given[0].expand(3, m, k).contiguous(), given[1].expand(3, k, n).contiguous())
    close(found, (a @ b).expand(3, m, n), error, "bmm")
    close(ops.mv(given[0], given[1][:, 0].contiguous()), a @ b[:, 0], error, "mv")


@every_dtype
def test_losses(target, ops, dtype):
    x, y, labels = tensor(9, 77), tensor(9, 77, seed=1), integers(0, 77, 9)
    logs = x.log_softmax(-1).bfloat16().double()
    agree(lambda a, b: ops.mse_loss(a, b), F.mse_loss, (x, y), dtype)
    found = ops.nll_loss_forward(typed((logs,), dtype)[0], labels)[0]
    close(found, F.nll_loss(logs, labels), harness.ERROR[dtype], "nll")


def test_places(target, ops):
    """Operators that move numbers must not change them."""
    x, index = tensor(9, 40).float(), integers(0, 9, 5, 40)
    picks = integers(0, 9, 6)
    assert torch.equal(ops.gather(x, 0, index), x.gather(0, index))
    assert torch.equal(ops.index_select(x, 0, picks), x[picks])
    assert torch.equal(ops.flip(x, [0, 1]), x.flip(0, 1))
    assert torch.equal(ops.tril(x, 2), x.tril(2))
    assert torch.equal(ops.triu(x, -1), x.triu(-1))
    assert torch.equal(ops.repeat(x, (2, 3)), x.repeat(2, 3))
    assert torch.equal(ops.cat([x, x[:3]], 0), torch.cat([x, x[:3]]))
    assert torch.equal(ops.stack([x, x], 1), torch.stack([x, x], 1))
    assert torch.equal(ops.masked_fill(x, x > 0, 1.5), x.masked_fill(x > 0, 1.5))
    assert torch.equal(ops.masked_select(x, x > 0), x[x > 0])
    assert torch.equal(ops.nonzero(x > 0), (x > 0).nonzero())
    assert torch.equal(ops.pad(x, (1, 2, 3, 4)), F.pad(x, (1, 2, 3, 4)))
    assert torch.equal(ops.embedding(x, picks), F.embedding(picks, x))
    assert torch.equal(ops.arange_start(3, 50, 2, device="cuda"), torch.arange(3, 50, 2))
    assert torch.equal(ops.full((3, 4), 2.5, device="cuda"), torch.full((3, 4), 2.5))
    found = ops.scatter(torch.zeros(9, 40), 0, index[:1], x[:1])
    assert torch.equal(found, torch.zeros(9, 40).scatter(0, index[:1], x[:1]))


@pytest.mark.parametrize("shape", [(5, 77), (2, 500)])
def test_order(target, ops, shape):
    x = torch.arange(math.prod(shape), dtype=torch.float32) * 7 % 997
    x = x.view(shape)
    for descending in (False, True):
        found, places = ops.sort(x, dim=-1, descending=descending)
        wanted, _ = x.sort(-1, descending=descending)
        assert torch.equal(found, wanted)
        assert torch.equal(x.gather(-1, places), wanted)
    found, places = ops.topk(x, 5)
    assert torch.equal(found, x.topk(5).values)
    assert torch.equal(x.gather(-1, places), found)


@pytest.mark.parametrize("shape", [(2, 64, 64), (3, 77, 64)])
def test_attention(target, ops, shape):
    batch, length, size = shape
    q, k, v = (tensor(batch, 2, length, size, seed=s) for s in range(3))
    for causal in (False, True):
        found = ops.scaled_dot_product_attention(*(x.half() for x in (q, k, v)), is_causal=causal)
        wanted = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        close(found, wanted, 1e-2, "attention")


@every_dtype
def test_convolution(target, ops, dtype):
    x, w, b = tensor(2, 4, 9, 11), tensor(6, 4, 3, 3), tensor(6)
    given = typed((x, w, b), dtype)
    error = 2e-3 if dtype == "float32" else harness.ERROR[dtype]  # TF32
    close(ops.conv2d(*given, padding=1), F.conv2d(x, w, b, padding=1), error, "conv2d")
    found = ops.max_pool2d_with_indices(given[0], 3, 2, 1)[0]
    close(found, F.max_pool2d(x, 3, 2, 1), 0, "max pool")


def test_random_numbers(target, ops):
    uniform, normal = ops.rand((100, 101), device="cuda"), ops.randn((100, 101), device="cuda")
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.double().mean() - 0.5) < 0.02
    assert abs(normal.double().mean()) < 0.05
    assert abs(normal.double().std() - 1) < 0.05
    dropped, kept = ops.dropout(torch.ones(100, 101), 0.3, True)
    assert abs(kept.double().mean() - 0.7) < 0.03
    assert torch.equal(dropped, torch.where(kept, torch.tensor(1 / 0.7), torch.tensor(0.0)))


def test_in_place_of_pytorchs(target, ops):
    """Registered for CUDA, the operators take over those of PyTorch, backward passes too."""
    x, y, w = tensor(6, 77).float(), tensor(6, 77, seed=1).float(), tensor(77).float()

    def use(x, w):
        rows = F.layer_norm(x + y, (77,), w, w)
        return torch.softmax(rows, -1), F.gelu(rows).sum(-1), torch.where(x > 0, x, y).amax()

    results = []
    for within in (importlib.import_module("flag_gems").use_gems(), contextlib.nullcontext()):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        with within:
            found = use(*leaves)
            torch.autograd.backward(found, [torch.ones_like(r) for r in found])
        results.append([*found, *(leaf.grad for leaf in leaves)])
    for i, (a, b) in enumerate(zip(*results)):
        close(a.detach(), b.detach(), 1e-4, f"result {i}")
