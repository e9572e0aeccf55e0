"""Flash linear attention: chunked, recurrent and parallel forms against its naive ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("fla", "einops")

import torch
import torch.nn.functional as F
from fla import ops
from fla.modules import causal_conv1d, fused_cross_entropy, rotary, token_shift
from fla.modules.activations import ops as activations
from fla.modules.norm import fused_norm_gate, l2norm, layernorm
from fla.ops.attn.naive import naive_parallel_attn
from fla.ops.based.naive import naive_parallel_based
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.forgetting_attn.naive import naive_forgetting_attn
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.hgrn.naive import naive_recurrent_hgrn
from fla.ops.kda.naive import naive_recurrent_kda
from fla.ops.retention.naive import naive_retention
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from fla.ops.stickbreaking_attn.naive import naive_stickbreaking_attn
from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum
from fla.ops.utils.matmul import matmul
from fla.ops.utils.pooling import mean_pooling
from fla.ops.utils.softmax import softmax_fwd
from fla.ops.utils.solve_tril import solve_tril

# Products of these kernels are in TF32 by default, and chunks sum in another order.
ERROR = {"float32": 5e-3, "float16": 1e-2, "bfloat16": 6e-2}
every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)


def gate(*shape: int, seed: int = 5) -> torch.Tensor:
    """Logarithms of decays."""
    return F.logsigmoid(tensor(*shape, seed=seed)).bfloat16().double()


def part(*shape: int, seed: int = 6) -> torch.Tensor:
    """Numbers between 0 and 1."""
    return tensor(*shape, seed=seed).sigmoid().bfloat16().double()


def unit(*shape: int, seed: int = 1) -> torch.Tensor:
    """Vectors of length one, but for rounding."""
    return F.normalize(tensor(*shape, seed=seed), dim=-1).bfloat16().double()


def qkv(shape: tuple, key: Callable = tensor) -> list[torch.Tensor]:
    return [tensor(*shape), key(*shape, seed=1), tensor(*shape, seed=2)]


def heads_first(call: Callable) -> Callable:
    """A naive form that takes (batch, heads, length, size)."""

    def turned(*args: torch.Tensor) -> torch.Tensor:
        out = call(*(x.transpose(1, 2) for x in args))
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return turned


def first(call: Callable, **options: object) -> Callable:
    """The output alone, without the final state."""

    def run(*args: torch.Tensor) -> torch.Tensor:
        out = call(*args, **options)
        return out[0] if isinstance(out, tuple) else out

    return run


@dataclass
class Case:
    """A form of attention, its naive form, and the inputs for a shape."""

    run: Callable
    naive: Callable
    inputs: Callable


def gla_inputs(shape: tuple) -> list[torch.Tensor]:
    return [*qkv(shape), gate(*shape)]


def scalar_gate_inputs(shape: tuple) -> list[torch.Tensor]:
    return [*qkv(shape), gate(*shape[:3])]


def delta_inputs(shape: tuple) -> list[torch.Tensor]:
    return [*qkv(shape, unit), part(*shape[:3])]


def gated_delta_inputs(shape: tuple) -> list[torch.Tensor]:
    return [*qkv(shape, unit), gate(*shape[:3]), part(*shape[:3])]


def kda_inputs(shape: tuple) -> list[torch.Tensor]:
    return [unit(*shape, seed=0), unit(*shape), tensor(*shape, seed=2), gate(*shape),
            part(*shape[:3])]  # fmt: skip


def dplr_inputs(shape: tuple) -> list[torch.Tensor]:
    a = unit(*shape, seed=3)
    return [*qkv(shape, unit), -a, a * part(*shape), gate(*shape)]


def rwkv6_inputs(shape: tuple) -> list[torch.Tensor]:
    return [*qkv(shape), gate(*shape), tensor(*shape[2:])]


def naive_gated_delta(q, k, v, g, beta):
    return naive_recurrent_gated_delta_rule(q, k, v, beta, g)[0]


def naive_dplr(*args):
    q, k, v, a, b, g = (x.float() for x in args)  # its state is float32
    return heads_first(dplr_recurrence)(q, k, v, a, b, g)


def naive_rwkv6(r, k, v, w, u):
    r, k, v, w = (x.transpose(1, 2) for x in (r, k, v, w))
    return naive_recurrent_rwkv6(r, k, v, w, u)[0].transpose(1, 2)


NAIVE = {
    "gla": (first(naive_recurrent_gla), gla_inputs),
    "simple_gla": (first(naive_recurrent_simple_gla), scalar_gate_inputs),
    "retention": (heads_first(naive_retention), qkv),
    "delta": (heads_first(delta_rule_recurrence), delta_inputs),
    "gated_delta": (naive_gated_delta, gated_delta_inputs),
    "kda": (first(naive_recurrent_kda), kda_inputs),
    "dplr": (naive_dplr, dplr_inputs),
    "rwkv6": (naive_rwkv6, rwkv6_inputs),
    "attn": (first(naive_parallel_attn), qkv),
    "forgetting": (first(naive_forgetting_attn), scalar_gate_inputs),
    "stickbreaking": (first(naive_stickbreaking_attn), qkv),
    "based": (heads_first(naive_parallel_based), qkv),
}
FORMS = {
    "gla": [ops.chunk_gla, ops.fused_recurrent_gla],
    "simple_gla": [
        ops.chunk_simple_gla, ops.fused_recurrent_simple_gla, ops.parallel_simple_gla,
        ops.simple_gla.fused_chunk_simple_gla,
    ],
    "retention": [ops.chunk_retention, ops.fused_recurrent_retention, ops.parallel_retention],
    "delta": [ops.chunk_delta_rule, ops.fused_recurrent_delta_rule],
    "gated_delta": [ops.chunk_gated_delta_rule],
    "kda": [ops.kda.chunk_kda],
    "dplr": [ops.generalized_delta_rule.chunk_dplr_delta_rule],
    "rwkv6": [ops.chunk_rwkv6, ops.fused_recurrent_rwkv6],
    "attn": [ops.attn.parallel_attn],
    "forgetting": [ops.forgetting_attn.parallel_forgetting_attn],
    "stickbreaking": [ops.stickbreaking_attn.parallel_stickbreaking_attn],
    "based": [ops.based.parallel_based],
}  # fmt: skip
CASES = {
    form.__name__: Case(first(form), *NAIVE[name])
    for name, forms in FORMS.items()
    for form in forms
}


# Few, since each form tunes and compiles dozens of kernels for each.
USES = [((2, 75, 2, 32), "float32"), ((1, 64, 2, 32), "bfloat16"), ((1, 130, 1, 64), "float16")]
# These say themselves that they do not take float32.
NOT_FLOAT32 = {"chunk_delta_rule"}


@pytest.mark.parametrize("shape, dtype", USES)
@pytest.mark.parametrize("name", CASES)
def test_attention(target, name, shape, dtype):
    if dtype == "float32" and name in NOT_FLOAT32:
        dtype = "bfloat16"
    case = CASES[name]
    check(case.run, case.naive, case.inputs(shape), dtype, error=ERROR[dtype])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(2, 75, 40), (1, 130, 64)])
@pytest.mark.parametrize("form", ["fused_recurrent", "chunk"])
def test_hgrn(target, form, shape, dtype):
    run = {"fused_recurrent": ops.fused_recurrent_hgrn, "chunk": ops.hgrn.chunk_hgrn}[form]
    check(first(run), first(naive_recurrent_hgrn), [tensor(*shape), gate(*shape)], dtype)


def test_state_is_carried_on(target):
    """Two halves, with the state handed over, are the whole."""
    q, k, v, g = (x.float() for x in gla_inputs((2, 64, 2, 32)))
    whole, end = ops.chunk_gla(q, k, v, g, output_final_state=True)
    state, parts = None, []
    for half in (slice(0, 32), slice(32, 64)):
        out, state = ops.fused_recurrent_gla(
            q[:, half], k[:, half], v[:, half], g[:, half],
            initial_state=state, output_final_state=True,
        )  # fmt: skip
        parts.append(out)
    harness.close(torch.cat(parts, 1), whole, 5e-3, "output")
    harness.close(state, end, 5e-3, "state")


def test_sequences_of_different_lengths(target):
    lengths = torch.tensor([0, 20, 75, 130])
    q, k, v, g = (x.float() for x in gla_inputs((1, 130, 2, 32)))
    out, _ = ops.chunk_gla(q, k, v, g, cu_seqlens=lengths)
    for start, end in zip(lengths[:-1], lengths[1:]):
        alone = [x[:, start:end].double() for x in (q, k, v, g)]
        harness.close(out[:, start:end], naive_recurrent_gla(*alone)[0], 5e-3, "output")


rows = pytest.mark.parametrize("shape", [(4, 128), (2, 5, 77)])


@every_dtype
@rows
def test_layer_norm(target, shape, dtype):
    check(
        layernorm.layer_norm,
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
        [tensor(*shape), tensor(shape[-1]), tensor(shape[-1], seed=1)],
        dtype,
    )


@every_dtype
@rows
def test_rms_norm(target, shape, dtype):
    check(
        lambda x, w: layernorm.rms_norm(x, w, None),
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5),
        [tensor(*shape), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@rows
def test_gated_rms_norm(target, shape, dtype):
    check(
        lambda x, g, w: fused_norm_gate.rms_norm_gated(x, g, w, None, eps=1e-5),
        lambda x, g, w: F.rms_norm(x, x.shape[-1:], w, 1e-5) * F.silu(g),
        [tensor(*shape), tensor(*shape, seed=1), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@rows
def test_l2_norm(target, shape, dtype):
    check(
        l2norm.l2norm,
        lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6),
        [tensor(*shape)],
        dtype,
    )


ACTIVATIONS = {
    "swiglu": (activations.swiglu, lambda x, y: F.silu(x) * y, 2),
    "sigmoidglu": (activations.sigmoidglu, lambda x, y: x.sigmoid() * y, 2),
    "swish": (activations.swish, F.silu, 1),
    "sigmoid": (activations.sigmoid, torch.sigmoid, 1),
    "logsigmoid": (activations.logsigmoid, F.logsigmoid, 1),
    "elu_p1": (activations.elu_p1, lambda x: F.elu(x) + 1, 1),
}


@every_dtype
@rows
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(target, name, shape, dtype):
    run, reference, count = ACTIVATIONS[name]
    check(run, reference, [tensor(*shape, seed=i) for i in range(count)], dtype)


@every_dtype
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(target, interleaved, dtype):
    steps = torch.outer(torch.arange(13.0), 1 / 100 ** (torch.arange(16) / 16)).double()
    cos, sin = steps.cos().bfloat16().double(), steps.sin().bfloat16().double()

    def reference(x):
        c, s = cos[:, None], sin[:, None]
        if interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    check(
        lambda x: rotary.rotary_embedding(x, cos.to(x.dtype), sin.to(x.dtype), interleaved),
        reference,
        [tensor(2, 13, 3, 32)],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("shape", [(5, 128), (7, 3001)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(target, shape, smoothing, dtype):
    labels = integers(0, shape[1], shape[0])
    labels[2] = -100
    check(
        lambda x: fused_cross_entropy.cross_entropy_loss(x, labels, smoothing)[0],
        lambda x: F.cross_entropy(x, labels, reduction="none", label_smoothing=smoothing),
        [tensor(*shape)],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("activation", [None, "silu"])
def test_causal_convolution(target, activation, dtype):
    def reference(x, w, b):
        out = F.conv1d(x.transpose(1, 2), w[:, None], b, padding=3, groups=40)[..., :-3]
        return F.silu(out.transpose(1, 2)) if activation else out.transpose(1, 2)

    check(
        lambda x, w, b: causal_conv1d.causal_conv1d(x, w, b, activation=activation)[0],
        reference,
        [tensor(2, 75, 40), tensor(40, 4), tensor(40)],
        dtype,
    )


@every_dtype
def test_token_shift(target, dtype):
    check(
        first(token_shift.token_shift),
        lambda x: F.pad(x, (0, 0, 1, -1)) - x,
        [tensor(2, 75, 40)],
        dtype,
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(2, 75, 3), (2, 75, 3, 40)])
def test_cumsum(target, shape, reverse):
    x = tensor(*shape)
    local = chunk_local_cumsum(x.float(), 32, reverse=reverse)
    whole = chunk_global_cumsum(x.float(), reverse=reverse)

    def reference(part):
        return part.flip(1).cumsum(1).flip(1) if reverse else part.cumsum(1)

    wanted = torch.cat([reference(part) for part in x.split(32, 1)], 1)
    harness.close(local, wanted, 1e-5, "chunks")
    harness.close(whole, reference(x), 1e-5, "whole")


@every_dtype
def test_mean_pooling(target, dtype):
    check(
        lambda x: mean_pooling(x, 32),
        lambda x: torch.stack([part.mean(1) for part in x.split(32, 1)], 1),
        [tensor(2, 75, 3, 40)],
        dtype,
    )


@pytest.mark.parametrize("size", [16, 32, 64])
def test_inverse_of_triangles(target, size):
    a = tensor(1, 130, 2, size, scale=0.1).float()
    rows_of = torch.arange(130)[:, None] % size
    a = a.masked_fill((rows_of <= torch.arange(size))[None, :, None], 0.0)
    found = solve_tril(a)
    for start in range(0, 130, size):
        part = a[0, start : start + size].transpose(0, 1).double()
        n = part.shape[1]
        eye = torch.eye(n, dtype=torch.float64)
        wanted = torch.linalg.inv(eye + part[..., :n]).transpose(0, 1)
        harness.close(found[0, start : start + size][..., :n], wanted, 5e-3, "inverse")


@every_dtype
@pytest.mark.parametrize("shape", [(64, 64, 64), (75, 40, 90)])
def test_matmul(target, shape, dtype):
    m, k, n = shape
    a, b = tensor(m, k), tensor(k, n)
    kind = getattr(torch, dtype)
    harness.close(matmul(a.to(kind), b.to(kind)), a @ b, ERROR[dtype], "product")


@every_dtype
def test_softmax(target, dtype):
    x = tensor(75, 100, scale=3)
    found = softmax_fwd(x.to(getattr(torch, dtype)))
    harness.close(found, x.softmax(-1), 1e-2, "softmax")
