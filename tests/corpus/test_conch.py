"""Conch: kernels for inference (norms, quantization, attention, vision), against its references."""

from __future__ import annotations

import math

import harness
import pytest
from harness import ERROR, close, integers, tensor

from tilewright.errors import OutOfBoundsError

pytestmark = pytest.mark.corpus

harness.need("conch")

import torch
import torch.nn.functional as F
from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.attention.paged_attention import paged_attention
from conch.ops.attention.varlen_attention import varlen_attention
from conch.ops.embedding.rotary_embedding import rotary_embedding
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm
from conch.ops.quantization.bitsandbytes import functional as four_bits
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.gemm import mixed_precision_gemm, scaled_gemm
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.ops.vision.bev_pool import bev_pool, bev_pool_backward
from conch.ops.vision.nms import nms
from conch.ops.vision.voxelization import VoxelizationParameter, generate_voxels
from conch.ops.vllm.copy_blocks import copy_blocks
from conch.ops.vllm.reshape_and_cache import reshape_and_cache
from conch.reference.embedding import rotary_embedding as rotary_reference
from conch.reference.vision import bev_pool as bev_reference
from conch.reference.vision import nms as nms_reference
from conch.reference.vision import voxelization as voxel_reference

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
rows = pytest.mark.parametrize("shape", [(4, 128), (5, 77 * 2), (2, 3, 512)])


@every_dtype
@rows
def test_activations(target, shape, dtype):
    x = tensor(*shape)
    a, b = x.chunk(2, -1)
    close(silu_and_mul(x.to(getattr(torch, dtype))), F.silu(a) * b, ERROR[dtype], "silu")
    # Its tanh is libdevice's, which knows no 16-bit floats.
    close(gelu_tanh_and_mul(x.float()), F.gelu(a, approximate="tanh") * b, 2e-5, "gelu")


@every_dtype
@pytest.mark.parametrize("shape", [(4, 128), (5, 77)])
def test_norms(target, shape, dtype):
    kind = getattr(torch, dtype)
    x, r, w = tensor(*shape), tensor(*shape, seed=1), tensor(shape[-1])

    def reference(x, w):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w

    close(rms_norm(x.to(kind), w.to(kind), 1e-6), reference(x, w), ERROR[dtype], "rms norm")
    normed = gemma_rms_norm(x.to(kind), w.to(kind), 1e-6)
    close(normed, reference(x, 1 + w), ERROR[dtype], "gemma")
    out, total = fused_add_rms_norm(x.to(kind), r.to(kind), w.to(kind), 1e-6)
    close(total, x + r, ERROR[dtype], "sum")
    close(out, reference(x + r, w), ERROR[dtype], "norm of the sum")


@every_dtype
@pytest.mark.parametrize("size", [64, 80])
def test_rotary_embedding(target, size, dtype):
    kind, count, heads = getattr(torch, dtype), 11, 3
    cache = rotary_reference.compute_cos_sin_cache(10000.0, size, 64).to(kind)
    places = integers(0, 64, count)
    q, k = (tensor(count, heads * size, seed=s).to(kind) for s in (0, 1))
    wanted = rotary_reference.rotary_embedding(
        places, q.double(), k.double(), cache.double(), size, size
    )
    found = rotary_embedding(places, q, k, size, cache)
    for a, b in zip(found, wanted):
        close(a, b.view_as(a), ERROR[dtype], "rotated")


@every_dtype
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("count", [256, 1000])
def test_four_bits(target, kind, count, dtype):
    x = tensor(count * 4).to(getattr(torch, dtype))
    packed, state = four_bits.quantize_4bit(x, blocksize=64, quant_type=kind)
    found = four_bits.dequantize_4bit(packed, state, blocksize=64, quant_type=kind)
    assert found.shape == x.shape
    scale = torch.stack([part.abs().max() for part in x.double().split(64)])
    far = (found.double() - x.double()).abs() / scale.repeat_interleave(64)[: len(x)]
    assert far.max() <= 0.17  # half of the widest gap between neighbouring numbers


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale", [0.03, 0.05])
def test_eight_bits(target, scale, dtype):
    x = tensor(7, 130).to(getattr(torch, dtype))
    given = torch.tensor(scale)
    found, used = scaled_int8_quant(x, given)
    wanted = (x.double() / used.double()).round().clamp(-128, 127)
    assert (found.double() - wanted).abs().max() <= 1
    found, used = scaled_fp8_quant(x, given)
    wanted = (x.double() / used.double()).clamp(-448, 448)
    close(found.double(), wanted, 0.04, "fp8")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(32, 128, 64), (33, 256, 128)])
@pytest.mark.parametrize("bits", [4, 8])
def test_mixed_precision_product(target, bits, shape, dtype):
    m, k, n = shape
    kind, bias, group = getattr(torch, dtype), 1 << (bits - 1), 64
    codes = integers(0, 1 << bits, k, n)
    scales = tensor(k // group, n, seed=1).abs().to(kind)
    each = 32 // bits
    parts = codes.view(k // each, each, n) << (torch.arange(each) * bits)[None, :, None]
    packed = parts.sum(1).to(torch.uint32).view(torch.int32)
    x = tensor(m, k).to(kind)
    found = mixed_precision_gemm(x, packed, scales, None, bits, bias, group)
    weights = (codes - bias).double() * scales.double().repeat_interleave(group, 0)
    close(found, x.double() @ weights, 2 * ERROR[dtype], "product")


@pytest.mark.parametrize("shape", [(32, 64, 64), (33, 128, 192)])
def test_scaled_product(target, shape):
    m, k, n = shape
    a, b = (integers(-100, 100, *s, seed=s[0]).to(torch.int8) for s in ((m, k), (k, n)))
    scale_a, scale_b = tensor(m, 1).abs().float(), tensor(n, 1).abs().float()
    if target == "eager":  # a load of nothing, which is never used and so dropped in native code
        with pytest.raises(OutOfBoundsError):
            scaled_gemm(a, b, scale_a, scale_b, torch.bfloat16)
        return
    found = scaled_gemm(a, b, scale_a, scale_b, torch.bfloat16)
    wanted = (a.double() @ b.double()) * scale_a.double() * scale_b.double().T
    close(found, wanted, ERROR["bfloat16"], "product")


def paged(batch: int, length: int, heads: int, size: int, block: int) -> tuple:
    """Keys and values in shuffled blocks, the blocks of each sequence, and the plain ones."""
    per = -(-length // block)
    order = torch.randperm(batch * per, generator=torch.Generator().manual_seed(0))
    table = order.view(batch, per).int()
    plain = [tensor(batch, per * block, heads, size, seed=s) for s in (1, 2)]
    caches = []
    for x in plain:
        cache = torch.zeros(batch * per, block, heads, size, dtype=torch.float64)
        cache[table.long().flatten()] = x.reshape(batch * per, block, heads, size)
        caches.append(cache)
    return caches, table, plain


@every_dtype
@pytest.mark.parametrize("length, heads, kv_heads", [(40, 4, 4), (75, 8, 2)])
def test_paged_attention(target, length, heads, kv_heads, dtype):
    kind, batch, size = getattr(torch, dtype), 3, 64
    caches, table, plain = paged(batch, length, kv_heads, size, 16)
    query = tensor(batch, heads, size)
    lengths = torch.tensor([length, 1, length // 2], dtype=torch.int32)
    keys, values = (x.to(kind) for x in caches)
    found = paged_attention(query.to(kind), keys, values, table, lengths)
    for i, n in enumerate(lengths.tolist()):
        k, v = (x[i, :n].repeat_interleave(heads // kv_heads, 1).transpose(0, 1) for x in plain)
        scores = (query[i][:, None] @ k.transpose(-1, -2)) / math.sqrt(size)
        close(found[i], (scores.softmax(-1) @ v)[:, 0], 4 * ERROR[dtype], f"sequence {i}")


def test_suppression_of_overlaps(target):
    corners = tensor(100, 2).float() * 10
    boxes = torch.cat([corners, corners + tensor(100, 2, seed=1).float().abs() * 10 + 1], 1)
    scores = torch.rand(100, generator=torch.Generator().manual_seed(0))
    found = nms(boxes, scores, 0.3)
    assert torch.equal(found, nms_reference.nms(boxes, scores, 0.3))


def test_pooling_from_above(target):
    count, channels, batch, grid = 300, 10, 2, (2, 8, 8)
    place = torch.stack([integers(0, n, count, seed=n + i) for i, n in
                         enumerate((8, 8, 2, batch))], 1).int()  # fmt: skip
    ranks = ((place[:, 0] * 8 + place[:, 1]) * 2 + place[:, 2]) * batch + place[:, 3]
    order = ranks.argsort()
    place, ranks, features = place[order], ranks[order], tensor(count, channels).float()[order]
    first = torch.ones(count, dtype=torch.bool)
    first[1:] = ranks[1:] != ranks[:-1]
    starts = torch.where(first)[0].int()
    lengths = torch.diff(torch.cat([starts, torch.tensor([count])])).int()
    where = (place, starts, lengths)
    found = bev_pool(features, *where, batch, *grid)
    close(
        found, bev_reference.bev_pool_pytorch(features, *where, batch, *grid).double(), 1e-5, "sum"
    )
    grad = tensor(*found.shape, seed=3).float()
    wanted = bev_reference.bev_pool_backward_pytorch(grad, *where).double()
    close(bev_pool_backward(grad, *where), wanted, 1e-5, "gradient")


def test_voxels(target):
    points = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * 20
    limits = VoxelizationParameter((-50.0,) * 3, (50.0,) * 3, (25.0,) * 3, 1000)
    filled, features, places, counts = generate_voxels(points, limits)
    number = int(filled[0])
    flat = (places[:number, 2] * 4 + places[:number, 1]) * 4 + places[:number, 0]
    wanted, _, flat_wanted = voxel_reference.voxelization_stable(points, limits, use_triton=False)
    flat, order = flat.sort()
    assert torch.equal(flat.long(), flat_wanted.long())
    assert torch.equal(counts[:number][order].long(), wanted.long())
    inside = (points[:, :3].abs() < 50).all(1)
    close(features[:number].sum((0, 1)), points[inside].double().sum(0), 1e-4, "features")


def test_cache(target):
    keys, values = (tensor(6, 2, 32, seed=s).bfloat16() for s in (0, 1))
    caches = [torch.zeros(5, 16, 2, 32, dtype=torch.bfloat16) for _ in range(2)]
    slots = torch.tensor([3, 17, -1, 40, 79, 0])
    reshape_and_cache(keys, values, *caches, slots)
    wanted = torch.zeros(80, 2, 32, dtype=torch.bfloat16)
    wanted[slots[slots >= 0]] = keys[slots >= 0]
    assert torch.equal(caches[0].view(80, 2, 32), wanted)
    before = [x.clone() for x in caches]
    caches = [x.view(5, -1) for x in caches]
    copy_blocks(caches[:1], caches[1:], torch.tensor([[0, 3], [1, 4]]))
    for cache, old in zip(caches, before):
        assert torch.equal(cache[3], old[0].flatten())
        assert torch.equal(cache[4], old[1].flatten())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_over_sequences(target, causal, dtype):
    kind, batch, heads, kv_heads, size = getattr(torch, dtype), 2, 4, 2, 64
    caches, table, plain = paged(batch, 40, kv_heads, size, 32)
    queries, lengths = [9, 40], torch.tensor([25, 40], dtype=torch.int32)
    starts = torch.tensor([0, 9, 49], dtype=torch.int32)
    query = tensor(49, heads, size)
    keys, values = (x.to(kind) for x in caches)
    found = varlen_attention(
        query.to(kind), keys, values, starts, 40, lengths, 40, table, causal=causal
    )
    for i, (m, n) in enumerate(zip(queries, lengths.tolist())):
        k, v = (x[i, :n].repeat_interleave(heads // kv_heads, 1).transpose(0, 1) for x in plain)
        q = query[starts[i] : starts[i + 1]].transpose(0, 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)
        if causal:
            later = torch.arange(n)[None] > torch.arange(m)[:, None]  # aligned at the start
            scores = scores.masked_fill(later, -math.inf)
        wanted = (scores.softmax(-1) @ v).transpose(0, 1)
        close(found[starts[i] : starts[i + 1]], wanted, ERROR[dtype], f"sequence {i}")
