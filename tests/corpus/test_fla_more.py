"""Flash linear attention, the rest of its operators, against its naive forms or a loop."""

from __future__ import annotations

from collections.abc import Callable

import harness
import pytest
from harness import check, tensor

import tilewright

pytestmark = pytest.mark.corpus

harness.need("fla", "einops")

import torch
import torch.nn.functional as F
from fla.ops import (
    attnres,
    comba,
    gated_oja_rule,
    gdn2,
    generalized_delta_rule,
    gsa,
    lightning_attn,
    linear_attn,
    log_linear_attn,
    mesa_net,
    momentum_delta_rule,
    nsa,
    parallax,
    path_attn,
    precond_gated_delta_rule,
    precond_kda,
    rwkv7,
    ttt,
    wall_attn,
)
from fla.ops.gated_delta_product import chunk_gated_delta_product
from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
from fla.ops.gsa.naive import naive_recurrent_gsa
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.log_linear_attn.naive import naive_log_linear_attn
from fla.ops.mesa_net.naive import naive_mesa_net_exact
from fla.ops.nsa.naive import naive_nsa
from fla.ops.path_attn.naive import naive_path_attn
from fla.ops.rwkv7.channel_mixing import channel_mixing_rwkv7
from fla.ops.rwkv7.fused_addcmul import fused_addcmul_rwkv7
from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from fla.ops.ttt.naive import chunk_ttt_linear_ref

# Products of these kernels are in TF32 by default, and chunks sum in another order.
ERROR = {"float32": 1e-2, "bfloat16": 8e-2}
LENGTH, HEADS, SIZE = 70, 2, 32
SHAPE = (1, LENGTH, HEADS, SIZE)
EACH = SHAPE[:3]


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """Some of the operators ask for CUDA."""


def decay(*shape: int, seed: int = 5) -> torch.Tensor:
    """Logarithms of decays."""
    return F.logsigmoid(tensor(*shape, seed=seed)).bfloat16().double()


def part(*shape: int, seed: int = 6) -> torch.Tensor:
    """Numbers between 0 and 1."""
    return tensor(*shape, seed=seed).sigmoid().bfloat16().double()


def unit(*shape: int, seed: int = 1) -> torch.Tensor:
    """Vectors of length one, but for rounding."""
    return F.normalize(tensor(*shape, seed=seed), dim=-1).bfloat16().double()


def first(call: Callable, **options: object) -> Callable:
    """The output alone, without the final state."""

    def run(*args: torch.Tensor) -> torch.Tensor:
        out = call(*args, **options)
        return out[0] if isinstance(out, tuple) else out

    return run


def steps(q, k, v, a, b, decays=None):
    """A state that is multiplied by 1 + a b and by decays, and to which k v is added."""
    state, out = q.new_zeros(*q.shape[:1], *q.shape[2:], v.shape[-1]), []
    for t in range(q.shape[1]):
        seen = torch.einsum("bhkv,bhk->bhv", state, a[:, t])
        if decays is not None:
            state = state * decays[:, t].exp()[..., None]
        state = state + b[:, t][..., None] * seen[:, :, None]
        state = state + k[:, t][..., None] * v[:, t][:, :, None]
        out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(out, 1)


def rwkv7_reference(r, w, k, v, a, b):
    return steps(r, k, v, a, b, w)


def iplr_reference(q, k, v, a, b):
    return steps(q * SIZE**-0.5, k, v, a, b)


def lightning_reference(q, k, v):
    decays = -(8 / HEADS * (1 - 1 / 4)) * torch.arange(HEADS, dtype=q.dtype)
    return naive_recurrent_simple_gla(q, k, v, decays.expand(EACH).contiguous())[0]


def channel_reference(x, before, mix, keys, values):
    shifted = torch.cat([before[:, None], x[:, :-1]], 1) - x
    return torch.relu((x + shifted * mix) @ keys) ** 2 @ values


def log_linear_reference(q, k, v, g, levels):
    shape = (*v.shape[:3], q.shape[-1])
    return first(naive_log_linear_attn)(q.expand(shape), k.expand(shape), v, g, levels)


def blocks(length: int, size: int) -> torch.Tensor:
    """The first block and the own one, of each token."""
    own = torch.arange(length) // size
    return torch.stack([torch.zeros_like(own), own], -1)[None, :, None].contiguous()


QUERIES, KEYS, VALUES = tensor(*SHAPE), unit(*SHAPE), tensor(*SHAPE, seed=2)
UNITS, GATES, PARTS = unit(*SHAPE, seed=8), decay(*EACH), part(*EACH)
SLOTS = tensor(*EACH, 16, seed=4).softmax(-1).bfloat16().double()
LOW_RANK = [-UNITS, (UNITS * part(*SHAPE, seed=9)).bfloat16().double()]
WIDE = [tensor(1, 128, HEADS, 64, seed=s) for s in range(3)]
ROWS = [tensor(1, LENGTH, 64, seed=s) for s in range(2)]
LONG = (1, 2 * LENGTH, HEADS, SIZE)
SELECT = {"block_indices": blocks(96, 32), "block_counts": 2, "block_size": 32}
MESA = [unit(1, 64, HEADS, SIZE, seed=8), unit(1, 64, HEADS, SIZE), tensor(1, 64, HEADS, SIZE)]
TTT = [*MESA, tensor(HEADS, SIZE, seed=3), tensor(HEADS, SIZE, seed=4)]
TTT.append((part(1, 64, HEADS, 1) * 0.1).bfloat16().double())
MOMENTUM = [UNITS, KEYS, VALUES, GATES, decay(*EACH, seed=9), unit(*SHAPE, seed=10), PARTS]
MOMENTUM.append(part(*EACH, seed=11))
PLAIN = {"use_qk_l2norm_in_kernel": False, "use_p_times_alpha": False}


def product(q, k, v, g, beta):
    return chunk_gated_delta_product(q, k, v, g, beta, num_householder=2)[0]


def product_reference(*args):
    options = {"scale": SIZE**-0.5, "cu_seqlens": torch.tensor([0, LENGTH]), "num_householder": 2}
    return naive_recurrent_gated_delta_product(*args, **options)[0]


# name: (operator, reference, inputs, whether there are gradients to compare)
CASES = {
    "gsa": (first(gsa.chunk_gsa), first(naive_recurrent_gsa),
            [QUERIES, KEYS, VALUES, SLOTS, decay(*EACH, 16)], True),
    "gsa, recurrent": (first(gsa.fused_recurrent_gsa), first(naive_recurrent_gsa),
                       [QUERIES, KEYS, VALUES, SLOTS, decay(*EACH, 16)], True),
    "linear": (first(linear_attn.chunk_linear_attn, normalize=False),
               first(naive_recurrent_linear_attn), [QUERIES, KEYS, VALUES], True),
    "linear, fused": (first(linear_attn.fused_chunk_linear_attn, normalize=False),
                      first(naive_recurrent_linear_attn), [QUERIES, KEYS, VALUES], True),
    "linear, recurrent": (first(linear_attn.fused_recurrent_linear_attn),
                          first(naive_recurrent_linear_attn), [QUERIES, KEYS, VALUES], True),
    "log-linear": (first(log_linear_attn.chunk_log_linear_attn), log_linear_reference,
                   [tensor(1, 128, 1, 64), unit(1, 128, 1, 64), WIDE[2], decay(1, 128, HEADS),
                    part(1, 128, HEADS, 8)], False),
    "mesa": (lambda q, k, v, g, b, m: mesa_net.chunk_mesa_net(q, k, v, g, b, m)[0],
             lambda q, k, v, g, b, m: naive_mesa_net_exact(q, k, v, g, m, b)[0],
             [*MESA, decay(1, 64, HEADS), part(1, 64, HEADS), part(HEADS, SIZE) + 1], True),
    "nsa": (lambda q, k, v, g: nsa.parallel_nsa(q, k, v, g_slc=g, **SELECT),
            lambda q, k, v, g: naive_nsa(q, k, v, g_slc=g, **SELECT),
            [tensor(1, 96, 16, SIZE), *(tensor(1, 96, 1, SIZE, seed=s) for s in (1, 2)),
             part(1, 96, 16)], True),
    "path": (first(path_attn.parallel_path_attn, scale=0.125),
             first(naive_path_attn, scale=0.125),
             [*WIDE, unit(1, 128, HEADS, 64, seed=3), part(1, 128, HEADS), decay(1, 128, HEADS)],
             True),
    "ttt": (first(ttt.chunk_ttt_linear, chunk_size=16, scale=1.0),
            first(chunk_ttt_linear_ref, mini_batch_size=16, scale=1.0), TTT, True),
    "ttt, fused": (first(ttt.fused_chunk_ttt_linear, chunk_size=16, scale=1.0),
                   first(chunk_ttt_linear_ref, mini_batch_size=16, scale=1.0), TTT, True),
    "gdn2": (first(gdn2.chunk_gdn2), first(gdn2.naive_recurrent_gdn2),
             [UNITS, KEYS, VALUES, decay(*SHAPE), part(*SHAPE), part(*SHAPE, seed=9)], True),
    "gdn2, recurrent": (first(gdn2.fused_recurrent_gdn2), first(gdn2.naive_recurrent_gdn2),
                        [UNITS, KEYS, VALUES, decay(*SHAPE), part(*SHAPE), part(*SHAPE, seed=9)],
                        False),
    "momentum": (first(momentum_delta_rule.chunk_momentum_delta_rule, **PLAIN),
                 first(momentum_delta_rule.recurrent_momentum_delta_rule_ref), MOMENTUM, True),
    "preconditioned": (first(precond_gated_delta_rule.chunk_precond_gated_delta_rule),
                       first(precond_gated_delta_rule.naive_recurrent_precond_gated_delta_rule),
                       [UNITS, KEYS, VALUES, GATES, decay(*EACH, seed=9), PARTS,
                        part(*EACH, seed=11)], True),
    "preconditioned kda": (first(precond_kda.chunk_precond_kda),
                           first(precond_kda.naive_recurrent_precond_kda),
                           [UNITS, KEYS, VALUES, decay(*SHAPE), decay(*EACH, seed=9), PARTS,
                            part(*EACH, seed=11)], False),
    "wall": (first(wall_attn.parallel_wall_attn, scale=0.125),
             first(wall_attn.naive_wall_attn, scale=0.125),
             [*WIDE, (decay(1, 128, HEADS, 64) * 0.2).bfloat16().double()], False),
    "residuals": (lambda q, a, b, c, w: attnres.fused_attnres(q, [a, b, c], w),
                  lambda q, a, b, c, w: attnres.naive_attnres(q, [a, b, c], w),
                  [tensor(64), *ROWS, tensor(1, LENGTH, 64, seed=2), part(64)], True),
    "rwkv7": (first(rwkv7.chunk_rwkv7), rwkv7_reference,
              [QUERIES, (-part(*SHAPE) * 0.6).bfloat16().double(), KEYS, VALUES, *LOW_RANK], True),
    "rwkv7, recurrent": (first(rwkv7.fused_recurrent_rwkv7, scale=1.0), rwkv7_reference,
                         [QUERIES, (-part(*SHAPE) * 0.6).bfloat16().double(), KEYS, VALUES,
                          *LOW_RANK], False),
    "rwkv7, mixing": (fused_addcmul_rwkv7, lambda x, d, *m: tuple(x + d * y for y in m),
                      [*ROWS, *(tensor(1, 1, 64, seed=s) for s in range(6))], True),
    "rwkv7, keys": (fused_k_rwkv7, lambda k, a, c: k * (1 + (a - 1) * c),
                    [*ROWS, tensor(1, 1, 64)], True),
    "rwkv7, channels": (first(channel_mixing_rwkv7), channel_reference,
                        [tensor(2, LENGTH, 64), tensor(2, 64), tensor(64),
                         tensor(64, 128, scale=0.125), tensor(128, 64, scale=0.125)], False),
    "lightning": (first(lightning_attn.chunk_lightning_attn, layer_idx=1, num_layers=4),
                  lightning_reference, [QUERIES, KEYS, VALUES], True),
    "iplr": (first(generalized_delta_rule.chunk_iplr_delta_rule), iplr_reference,
             [QUERIES, KEYS, VALUES, *LOW_RANK], False),
    "iplr, recurrent": (first(generalized_delta_rule.fused_recurrent_iplr_delta_rule),
                        iplr_reference, [QUERIES, KEYS, VALUES, *LOW_RANK], True),
    # of bfloat16 only
    "delta product": (product, product_reference,
                      [QUERIES, unit(*LONG), tensor(*LONG, seed=2), GATES, part(*LONG[:3])], True),
    "parallax": (first(parallax.parallel_parallax), first(parallax.naive_parallax),
                 [WIDE[0], tensor(1, 128, HEADS, 64, seed=3), *WIDE[1:]], True),
}  # fmt: skip
ONLY_BFLOAT16 = {"delta product", "momentum", "parallax"}
ONLY_FLOAT32 = {"path"}


@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize("name", CASES)
def test_operator(name, dtype):
    if name in (ONLY_BFLOAT16 if dtype == "float32" else ONLY_FLOAT32):
        pytest.skip("it refuses this dtype")
    run, reference, inputs, grad = CASES[name]
    check(run, reference, inputs, dtype, grad=grad, error=ERROR[dtype])


@pytest.mark.parametrize("name", [name for name in CASES if name not in ONLY_BFLOAT16])
def test_operator_stepped(name):
    run, reference, inputs, _ = CASES[name]
    with tilewright.options(target="eager"):
        check(run, reference, inputs, "float32", grad=False, error=ERROR["float32"])


@pytest.mark.parametrize("kind", ["comba", "oja"])
def test_chunks_agree_with_steps(kind):
    """Operators whose naive forms are others, or missing."""
    if kind == "comba":
        args = [x.float() for x in (QUERIES, KEYS, VALUES, unit(*SHAPE, seed=9), GATES, PARTS)]
        q, k, v, p, g, beta = args
        found = comba.chunk_comba(*args)[0]
        wanted = comba.fused_recurrent_comba(q, k, p, v, g, beta)[0]
    else:
        args = [UNITS, KEYS, unit(*SHAPE, seed=9), decay(*SHAPE), PARTS]
        args = [x.float() for x in args]
        found = gated_oja_rule.chunk_gated_oja_rule(*args)[0]
        wanted = gated_oja_rule.fused_recurrent_gated_oja_rule(*args)[0]
    harness.close(found, wanted, 1e-2, kind)
