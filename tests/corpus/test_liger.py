"""Liger Kernel: fused layers and losses, forward and backward, against torch in float64."""

from __future__ import annotations

import math

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("liger_kernel")

import torch
import torch.nn.functional as F
from liger_kernel import ops

EPS = 1e-6
every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
rows = pytest.mark.parametrize("shape", [(4, 128), (3, 77), (2, 5, 300), (5, 3)])
logits = pytest.mark.parametrize("shape", [(4, 128), (7, 333), (2, 5000)])


def rms_norm(x, w, offset=0.0):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * (w + offset)


@every_dtype
@rows
@pytest.mark.parametrize("mode, offset", [("llama", 0.0), ("gemma", 1.0), ("none", 0.0)])
def test_rms_norm(target, shape, dtype, mode, offset):
    check(
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, EPS, offset, mode, True),
        lambda x, w: rms_norm(x, w, offset),
        [tensor(*shape), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@rows
def test_rms_norm_by_blocks_of_rows(target, shape, dtype):
    check(
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, EPS, 0.0, "llama", False, False),
        rms_norm,
        [tensor(*shape), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@rows
def test_fused_add_rms_norm(target, shape, dtype):
    check(
        lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, EPS, 0.0, "gemma", False),
        lambda x, r, w: (rms_norm(x + r, w), x + r),
        [tensor(*shape), tensor(*shape, seed=1), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("shape", [(2, 6, 64), (3, 5, 77)])
def test_modulated_rms_norm(target, shape, dtype):
    sizes = (shape[0], shape[-1])
    check(
        lambda x, w, s, t: ops.LigerModulatedRMSNormFunction.apply(x, w, s, t, EPS),
        lambda x, w, s, t: (1 + s[:, None]) * rms_norm(x, w) + t[:, None],
        [tensor(*shape), tensor(shape[-1]), tensor(*sizes), tensor(*sizes, seed=1)],
        dtype,
    )


@every_dtype
@rows
def test_layer_norm(target, shape, dtype):
    check(
        lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, EPS),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS),
        [tensor(*shape), tensor(shape[-1]), tensor(shape[-1], seed=1)],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("shape, groups", [((2, 6, 40), 3), ((3, 4, 77), 2), ((1, 8, 5, 9), 8)])
def test_group_norm(target, shape, groups, dtype):
    channels = shape[1]
    check(
        lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, channels, groups, EPS),
        lambda x, w, b: F.group_norm(x, groups, w, b, EPS),
        [tensor(*shape), tensor(channels), tensor(channels, seed=1)],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("shape", [(4, 128), (3, 77)])
def test_poly_norm(target, shape, dtype):
    def reference(x, w, b):
        def norm(u):
            return u * torch.rsqrt((u * u).mean(-1, keepdim=True) + EPS)

        return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b

    check(
        lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, EPS),
        reference,
        [tensor(*shape), tensor(3), tensor()],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize("shape", [(4, 128), (3, 77)])
def test_dyt(target, pretend_cuda, shape, dtype):
    check(
        lambda x, a, g, b: ops.LigerDyTFunction.apply(x, a, g, b),
        lambda x, a, g, b: torch.tanh(x * a) * g + b,
        [tensor(*shape), tensor(1), tensor(shape[-1]), tensor(shape[-1], seed=1)],
        dtype,
    )


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos[:, None] + turned * sin[:, None]


def angles(length, size):
    inverse = 1.0 / 10000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    steps = torch.arange(length, dtype=torch.float64)[:, None] * inverse
    both = torch.cat([steps, steps], -1)[None]
    return both.cos().bfloat16().double(), both.sin().bfloat16().double()


@every_dtype
@pytest.mark.parametrize("shape, kv_heads", [((2, 4, 16, 32), 2), ((1, 3, 7, 24), 1)])
def test_rope(target, shape, kv_heads, dtype):
    batch, _, length, size = shape
    cos, sin = angles(length, size)
    check(
        lambda q, k: ops.LigerRopeFunction.apply(q, k, cos.to(q.dtype), sin.to(q.dtype)),
        lambda q, k: (rotate(q, cos, sin), rotate(k, cos, sin)),
        [tensor(*shape), tensor(batch, kv_heads, length, size)],
        dtype,
    )


@every_dtype
def test_qwen2vl_mrope(target, dtype):
    sections = [4, 6, 6]
    cos, sin = (torch.stack([x * 0.5**i for i in range(3)]) for x in angles(9, 32))

    def pick(x):
        parts = x.split(sections * 2, dim=-1)
        return torch.cat([part[i % 3] for i, part in enumerate(parts)], -1)

    def run(q, k):
        c, s = (x.expand(3, 2, 9, 32).to(q.dtype).contiguous() for x in (cos, sin))
        return ops.LigerQwen2VLMRopeFunction.apply(q, k, c, s, sections)

    check(
        run,
        lambda q, k: (rotate(q, pick(cos), pick(sin)), rotate(k, pick(cos), pick(sin))),
        [tensor(2, 4, 9, 32), tensor(2, 2, 9, 32)],
        dtype,
    )


def test_llama4_rope(target):
    steps = torch.outer(torch.arange(11.0), 1.0 / 100 ** (torch.arange(16) / 16))
    turns = torch.polar(torch.ones_like(steps), steps)

    def reference(q, k):
        def turn(x):
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns[None, :, None]).flatten(3)

        return turn(q), turn(k)

    check(
        lambda q, k: ops.LigerLlama4RopeFunction.apply(q, k, turns),
        reference,
        [tensor(2, 11, 4, 32), tensor(2, 11, 2, 32)],
        "float32",
    )


@every_dtype
@rows
def test_swiglu(target, shape, dtype):
    check(
        lambda a, b: ops.LigerSiLUMulFunction.apply(a, b),
        lambda a, b: F.silu(a) * b,
        [tensor(*shape), tensor(*shape, seed=1)],
        dtype,
    )


@every_dtype
@rows
def test_geglu(target, shape, dtype):
    check(
        lambda a, b: ops.LigerGELUMulFunction.apply(a, b),
        lambda a, b: F.gelu(a, approximate="tanh") * b,
        [tensor(*shape), tensor(*shape, seed=1)],
        dtype,
    )


@every_dtype
@rows
def test_relu_squared(target, shape, dtype):
    check(ops.LigerReLUSquaredFunction.apply, lambda x: F.relu(x) ** 2, [tensor(*shape)], dtype)


@every_dtype
@pytest.mark.parametrize("shape", [(4, 128), (3, 77), (2, 5000)])
def test_softmax(target, shape, dtype):
    check(ops.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), [tensor(*shape, scale=3)], dtype)


def sparsemax(x):
    ordered = x.sort(-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    counts = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    kept = (ordered * counts > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, kept - 1) / kept).clamp(min=0)


@pytest.mark.parametrize("shape", [(4, 128), (3, 77)])
def test_sparsemax(target, shape):
    check(lambda x: ops.LigerSparsemaxFunction.apply(x, -1), sparsemax, [tensor(*shape)], "float32")


@every_dtype
@logits
@pytest.mark.parametrize(
    "options", [{}, {"smoothing": 0.1}, {"softcap": 5.0}, {"z": 1e-2}, {"reduction": "sum"}]
)
def test_cross_entropy(target, shape, dtype, options):
    cap, z = options.get("softcap"), options.get("z", 0.0)
    smoothing, reduction = options.get("smoothing", 0.0), options.get("reduction", "mean")
    labels = integers(0, shape[1], shape[0])
    labels[1] = -100

    def reference(x):
        x = cap * torch.tanh(x / cap) if cap else x
        loss = F.cross_entropy(x, labels, reduction=reduction, label_smoothing=smoothing)
        kept = x.logsumexp(-1)[labels != -100]
        return loss + z * (kept**2).mean() if z else loss

    check(
        lambda x: ops.LigerCrossEntropyFunction.apply(
            x, labels, None, -100, z, smoothing, reduction, cap
        )[0],
        reference,
        [tensor(*shape)],
        dtype,
    )


def test_cross_entropy_with_weights_and_predictions(target):
    labels, weight = integers(0, 77, 9), tensor(77).abs().float()
    loss, _, accuracy, predicted = ops.LigerCrossEntropyFunction.apply(
        tensor(9, 77).float(), labels, weight, -100, 0.0, 0.0, "mean", None, False, True, True
    )
    wanted = F.cross_entropy(tensor(9, 77), labels, weight.double())
    harness.close(loss, wanted, 1e-5, "loss")
    assert torch.equal(predicted, tensor(9, 77).argmax(-1))
    harness.close(accuracy, (predicted == labels).double().mean(), 1e-5, "accuracy")


@every_dtype
@pytest.mark.parametrize("shape", [(8, 32, 100), (13, 48, 333)])
def test_fused_linear_cross_entropy(target, shape, dtype):
    count, size, words = shape
    labels = integers(0, words, count)
    check(
        lambda x, w, b: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, labels, b)[0],
        lambda x, w, b: F.cross_entropy(x @ w.T + b, labels),
        [tensor(count, size), tensor(words, size, scale=0.2), tensor(words)],
        dtype,
    )


def jsd(x, y, beta):
    """Both are logarithms; y is the target."""
    if beta == 0:
        return F.kl_div(x, y, reduction="batchmean", log_target=True)
    if beta == 1:
        return F.kl_div(y, x, reduction="batchmean", log_target=True)
    mean = torch.log(beta * y.exp() + (1 - beta) * x.exp())
    return beta * F.kl_div(mean, y, reduction="batchmean", log_target=True) + (1 - beta) * F.kl_div(
        mean, x, reduction="batchmean", log_target=True
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@logits
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_jsd(target, shape, dtype, beta):
    # The target is rounded to the dtype first: small probabilities are not exact in bf16.
    rounded = getattr(torch, dtype)
    x, y = (tensor(*shape, seed=s).log_softmax(-1).to(rounded).double() for s in (0, 1))
    check(
        lambda x: ops.LigerJSDFunction.apply(x, y.to(x.dtype), None, beta),
        lambda x: jsd(x, y, beta),
        [x],
        dtype,
        error=2e-3 if dtype == "float32" else None,  # the loss is a small difference
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_fused_linear_jsd(target, dtype, beta):
    teacher, weight = tensor(6, 48, seed=2), tensor(100, 48, seed=3, scale=0.2)
    check(
        lambda x, w: ops.LigerFusedLinearJSDFunction.apply(
            x, w, teacher.to(x.dtype), weight.to(x.dtype), None, beta
        ),
        lambda x, w: jsd((x @ w.T).log_softmax(-1), (teacher @ weight.T).log_softmax(-1), beta),
        [tensor(6, 48), tensor(100, 48, scale=0.2)],
        dtype,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@logits
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", ["batchmean", "none"])
def test_kl_div(target, shape, dtype, log_target, reduction):
    rounded = getattr(torch, dtype)
    y = tensor(*shape, seed=1).softmax(-1)
    y = (y.log() if log_target else y).to(rounded).double()
    check(
        lambda x: ops.LigerKLDivLossFunction.apply(x, y.to(x.dtype), reduction, log_target),
        lambda x: F.kl_div(x, y, reduction=reduction, log_target=log_target),
        [tensor(*shape).log_softmax(-1).to(rounded).double()],
        dtype,
    )


@every_dtype
@logits
@pytest.mark.parametrize("reduction", ["batchmean", "sum", "none"])
def test_tvd(target, shape, dtype, reduction):
    rounded = getattr(torch, dtype)
    x, y = (tensor(*shape, seed=s).softmax(-1).to(rounded).double() for s in (0, 1))

    def reference(x):
        each = 0.5 * (x - y).abs()
        if reduction == "none":
            return each
        return each.sum() / (shape[0] if reduction == "batchmean" else 1)

    check(
        lambda x: ops.LigerTVDLossFunction.apply(x, y.to(x.dtype), None, reduction),
        reference,
        [x],
        dtype,
    )


@every_dtype
def test_attention_over_residuals(target, dtype):
    def reference(v, query, norm):
        keys = rms_norm(v, norm)
        weights = (keys @ query).softmax(0)
        return (weights[..., None] * v).sum(0)

    check(
        lambda v, query, norm: ops.LigerAttnResFunction.apply(v, query, norm, EPS),
        reference,
        [tensor(4, 2, 5, 48), tensor(48, scale=0.2), tensor(48, seed=1)],
        dtype,
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_multi_token_attention(target, sparse):
    future = torch.ones(20, 20).triu(1).bool()

    def reference(scores, weight, bias):
        past = scores.masked_fill(future, -1e9)
        attention = sparsemax(past) if sparse else past.softmax(-1)
        return F.conv2d(attention, weight, bias, padding=1).masked_fill(future, 0.0)

    check(
        lambda s, w, b: ops.LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1, 1, 1, sparse),
        reference,
        # Not round numbers, which would lie just on the edge of the support.
        [tensor(2, 3, 20, 20) * 1.01, tensor(3, 3, 3, 3, scale=0.3), tensor(3)],
        "float32",
    )


def test_neighborhood_attention(target):
    length, kernel = 24, 5

    def reference(q, k, v):
        near = (torch.arange(length)[:, None] - torch.arange(length)).abs() <= kernel // 2
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~near, -math.inf)
        return scores.softmax(-1) @ v

    shape = (2, 3, length, 32)
    check(
        lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, kernel),
        reference,
        [tensor(*shape, seed=s) for s in range(3)],
        "float32",
        error=1e-4,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fused_mixture_of_experts(target, dtype):
    tokens, size, inner, experts = 20, 32, 48, 4
    index = torch.stack([torch.randperm(experts)[:2] for _ in range(tokens)])

    def reference(x, up, down, weights):
        result = torch.zeros_like(x)
        for t in range(tokens):
            for slot, e in enumerate(index[t].tolist()):
                gate, value = (up[e] @ x[t]).chunk(2)
                result[t] = result[t] + weights[t, slot] * (down[e] @ (F.silu(gate) * value))
        return result

    check(
        lambda x, up, down, w: ops.LigerFusedMoEFunction.apply(x, up, down, index.int(), w),
        reference,
        [
            tensor(tokens, size),
            tensor(experts, 2 * inner, size, scale=0.2),
            tensor(experts, size, inner, scale=0.2),
            tensor(tokens, 2).abs(),
        ],
        dtype,
    )


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dapo"])
def test_grpo_loss(target, loss_type):
    batch, length, words, beta = 3, 6, 77, 0.04
    ids = integers(0, words, batch, length)
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1, 4:] = 0
    old, ref = (tensor(batch, length, seed=s).abs().neg() for s in (1, 2))
    advantages = tensor(batch)

    def per_token(x):
        logp = x[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = (logp - old).exp()
        loss = -torch.min(ratio * advantages[:, None], ratio.clamp(0.8, 1.4) * advantages[:, None])
        return loss + beta * ((ref - logp).exp() - (ref - logp) - 1)

    check(
        lambda x: ops.GrpoLossFunction.apply(
            x, old.to(x.dtype), ref.to(x.dtype), ids, advantages.to(x.dtype), mask,
            1.0, beta, 0.2, 0.4, False, loss_type, None, False,
        )[0],
        lambda x: per_token(x) * mask,
        [tensor(batch, length + 1, words)],
        "float32",
        error=2e-4,
    )  # fmt: skip
