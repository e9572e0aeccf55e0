"""Flash linear attention: chunked, recurrent and parallel forms against its naive ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.package("fla", "einops")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from fla import ops  # noqa: E402
from fla.modules import causal_conv1d, fused_cross_entropy, rotary  # noqa: E402
from fla.modules.activations import ops as activations  # noqa: E402
from fla.modules.norm import l2norm, layernorm  # noqa: E402
from fla.ops.attn.naive import naive_parallel_attn  # noqa: E402
from fla.ops.based.naive import naive_parallel_based  # noqa: E402
from fla.ops.delta_rule.naive import delta_rule_recurrence  # noqa: E402
from fla.ops.forgetting_attn.naive import naive_forgetting_attn  # noqa: E402
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule  # noqa: E402
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence  # noqa: E402
from fla.ops.gla.naive import naive_recurrent_gla  # noqa: E402
from fla.ops.hgrn.naive import naive_recurrent_hgrn  # noqa: E402
from fla.ops.kda.naive import naive_recurrent_kda  # noqa: E402
from fla.ops.retention.naive import naive_retention  # noqa: E402
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6  # noqa: E402
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla  # noqa: E402
from fla.ops.stickbreaking_attn.naive import naive_stickbreaking_attn  # noqa: E402
from fla.ops.utils import cumsum, matmul, pooling, softmax, solve_tril  # noqa: E402

# Products of these kernels are in TF32 by default, and chunks sum in another order.
ERROR = {"float32": 5e-3, "float16": 1e-2, "bfloat16": 6e-2}
SHAPES = [(1, 64, 2, 32), (2, 75, 2, 32), (1, 130, 1, 64)]  # batch, length, heads, head size
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


def naive_dplr(q, k, v, a, b, g):
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
    "based": (naive_parallel_based, qkv),
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
    form.__name__: Case(first(form), *NAIVE[name]) for name, forms in FORMS.items() for form in forms
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_attention(target, name, shape, dtype):
    case = CASES[name]
    check(case.run, case.naive, case.inputs(shape), dtype, error=ERROR[dtype])
