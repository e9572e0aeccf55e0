"""torchnorm: fused norms, forward and backward; it asks whether a tensor is on a GPU."""

from __future__ import annotations

import harness
import pytest
from harness import check, tensor

pytestmark = [pytest.mark.corpus, pytest.mark.usefixtures("pretend_cuda")]

harness.need("torchnorm")

import torch.nn.functional as F
from torchnorm import _triton as kernels

every_dtype = pytest.mark.parametrize("dtype", harness.DTYPES)
rows = pytest.mark.parametrize("shape", [(4, 128), (3, 77), (2, 5, 300)])


@every_dtype
@rows
def test_rms_norm(target, shape, dtype):
    check(
        lambda x, w: kernels.fused_rms_norm(x, w, 1e-6),
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
        [tensor(*shape), tensor(shape[-1])],
        dtype,
    )


@every_dtype
@rows
def test_fused_add_rms_norm(target, shape, dtype):
    """The package keeps the sum in bf16, whatever it was given, and passes no gradient to it."""
    check(
        lambda x, r, w: kernels.fused_add_rms_norm(x, r, w, 1e-6)[0],
        lambda x, r, w: F.rms_norm(x + r, x.shape[-1:], w, 1e-6),
        [tensor(*shape), tensor(*shape, seed=1), tensor(shape[-1])],
        dtype,
        error=3e-2,
    )
    x, r, w = tensor(*shape), tensor(*shape, seed=1), tensor(shape[-1])
    total = kernels.fused_add_rms_norm(x.float(), r.float(), w.float(), 1e-6)[1]
    harness.close(total, (x + r).bfloat16(), 0, "sum")


@every_dtype
@rows
def test_layer_norm(target, shape, dtype):
    check(
        lambda x, w, b: kernels.fused_layer_norm(x, w, b, 1e-6),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-6),
        [tensor(*shape), tensor(shape[-1]), tensor(shape[-1], seed=1)],
        dtype,
    )
