"""Points and tokens: farthest points, k-means, late interaction, sparse convolutions."""

from __future__ import annotations

import harness
import pytest
from harness import check, integers, tensor

pytestmark = pytest.mark.corpus

harness.need("torch_fps", "flash_kmeans", "late_interaction_kernels", "spconv_triton")

import late_interaction_kernels as late
import spconv_triton.pytorch as spconv
import torch
import torch.nn.functional as F
from flash_kmeans.centroid_update_triton import (
    triton_centroid_update_euclid,
    triton_centroid_update_sorted_euclid,
)
from flash_kmeans.kmeans_triton_impl import batch_kmeans_Euclid
from flash_kmeans.torch_fallback import batch_kmeans_Euclid_torch_native
from late_interaction_kernels import reference as late_reference
from torch_fps import _reference as fps_reference
from torch_fps import _triton as fps

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)


@pytest.fixture(autouse=True)
def gpu(pretend_cuda):
    """The packages ask for CUDA."""


@every_dtype
@pytest.mark.parametrize("batch, points, axes, count", [(2, 100, 3, 12), (1, 700, 5, 9)])
def test_farthest_points(target, batch, points, axes, count, dtype):
    x = tensor(batch, points, axes).to(getattr(torch, dtype))
    valid = integers(0, 10, batch, points) > 0
    first = valid.long().argmax(1)
    found = fps.fps(x, valid, first, count)
    assert torch.equal(found, fps_reference.fps_reference(x, valid, first, count))
    found, near = fps.fps_knn(x, valid, first, count, 8)
    wanted, others = fps_reference.fps_knn_reference(x, valid, first, count, 8)
    assert torch.equal(found, wanted)
    assert (near != others).float().mean() < 0.02  # ties


@every_dtype
@pytest.mark.parametrize("points, axes", [(500, 24), (300, 16)])
def test_centroids(target, points, axes, dtype):
    x = tensor(2, points, axes).to(getattr(torch, dtype))
    ids = integers(0, 7, 2, points)
    old = tensor(2, 8, axes).to(x.dtype)
    mean = torch.stack([
        torch.stack([x[b][ids[b] == k].double().mean(0) for k in range(7)]) for b in range(2)
    ])  # fmt: skip
    wanted = torch.cat([mean, old[:, 7:].double()], 1)
    for update in (triton_centroid_update_euclid, triton_centroid_update_sorted_euclid):
        found = update(x, ids, old)
        harness.close(found, wanted, harness.ERROR[dtype], update.__name__)


def test_kmeans(target):
    x = tensor(2, 300, 32).float()
    first = x[:, :8].clone()
    ids, centres, *_ = batch_kmeans_Euclid(x, 8, max_iters=4, init_centroids=first)
    others, wanted, *_ = batch_kmeans_Euclid_torch_native(
        x, 8, max_iters=4, init_centroids=first.clone()
    )
    assert (ids != others).float().mean() < 0.02
    harness.close(centres, wanted, 5e-2, "centres")


@every_dtype
@pytest.mark.parametrize("masked", [False, True])
def test_late_interaction(target, masked, dtype):
    queries = F.normalize(tensor(3, 9, 48), dim=-1).bfloat16().double()
    documents = F.normalize(tensor(5, 33, 48), dim=-1).bfloat16().double()
    masks = {}
    if masked:
        masks = {"q_mask": integers(0, 9, 3, 9) > 0, "d_mask": integers(0, 9, 5, 33) > 0}
    check(
        lambda q, d: late.maxsim(q, d, **masks),
        lambda q, d: late_reference.maxsim_reference(q, d, **masks),
        [queries, documents],
        dtype,
        error=max(harness.ERROR[dtype], 2e-3),
    )


@pytest.mark.parametrize("kind", ["SubMConv3d", "SparseConv3d"])
def test_sparse_convolution(kind):
    options = {"padding": 1} if kind == "SubMConv3d" else {"padding": 1, "stride": 2}
    at = torch.randperm(1024, generator=torch.Generator().manual_seed(0))[:60]
    where = torch.stack([at // 512, at // 64 % 8, at // 8 % 8, at % 8], 1).int()
    layer = getattr(spconv, kind)(16, 32, 3, bias=False, **options)
    features = tensor(60, 16)
    found = layer(spconv.SparseConvTensor(features.float(), where, [8] * 3, 2))
    dense = spconv.SparseConvTensor(features, where, [8] * 3, 2).dense()
    weight = layer.weight.detach().double().permute(0, 4, 1, 2, 3)
    wanted = F.conv3d(dense, weight, **options)
    found = found.dense()
    active = found.abs().sum(1, keepdim=True) != 0
    harness.close(found, wanted * active, 1e-4, "features")
