"""`triton.tools.mxfp`: tensors of 4-bit floats, and scales that are powers of two."""

from __future__ import annotations

from typing import Any

import torch

# What the eight magnitudes of an e2m1 float are; the fourth bit of a code is the sign.
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SCALE_BIAS = 127
SCALE_NAN = 255


class MXFP4Tensor:
    """A tensor of e2m1 floats, one in the low bits of each byte of `data`."""

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        self.device = device
        self.size = data.shape if data is not None else size if isinstance(size, tuple) else (size,)
        self.data = None if data is None else self._encode(data)

    def random(self) -> MXFP4Tensor:
        """Fill with random numbers."""
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def _encode(self, values: Any) -> Any:
        """The nearest codes; ties go to the even one."""
        values = values.to(torch.float32)
        magnitudes = torch.tensor(MAGNITUDES, device=values.device)
        middles = (magnitudes[1:] + magnitudes[:-1]) / 2
        size = values.abs().contiguous()
        below = torch.bucketize(size, middles)  # middles belong to the code below
        above = torch.bucketize(size, middles, right=True)
        code = torch.where(below % 2 == 0, below, above)
        return (code | (torch.signbit(values).long() << 3)).to(torch.uint8)

    def to(self, dtype: Any) -> Any:
        """The numbers as fp32."""
        magnitudes = torch.tensor(MAGNITUDES, dtype=torch.float32, device=self.data.device)
        found = magnitudes[(self.data & 7).long()]
        return torch.where(self.data & 8 != 0, -found, found).to(dtype)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes in each byte along `dim`, the first in the low bits; padded to an even size."""
        codes = self.data
        if codes.shape[dim] % 2:
            shape = list(codes.shape)
            shape[dim] = 1
            codes = torch.cat([codes, codes.new_zeros(shape)], dim)
        low = codes.index_select(dim, torch.arange(0, codes.shape[dim], 2, device=codes.device))
        high = codes.index_select(dim, torch.arange(1, codes.shape[dim], 2, device=codes.device))
        return low | (high << 4)

    def unpack_packed_tensor(self, packed: Any, dim: int, original_shape: Any) -> Any:
        """The inverse of `to_packed_tensor`."""
        pairs = torch.stack([packed & 15, packed >> 4], dim + 1 if dim >= 0 else dim)
        shape = list(packed.shape)
        shape[dim] *= 2
        return pairs.reshape(shape).narrow(dim, 0, original_shape[dim])


class MXScaleTensor:
    """A tensor of e8m0 scales: powers of two, as their exponents plus 127."""

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        self.device = device
        self.size = data.shape if data is not None else size if isinstance(size, tuple) else (size,)
        self.data = None if data is None else self._encode(data)

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with random scales between two numbers."""
        first = 0 if low is None else max(0, int(torch.log2(torch.tensor(low))) + SCALE_BIAS)
        last = 254 if high is None else min(254, int(torch.log2(torch.tensor(high))) + SCALE_BIAS)
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def _encode(self, values: Any) -> Any:
        values = values.to(torch.float32)
        exponent = torch.floor(torch.log2(values.abs())) + SCALE_BIAS
        wrong = torch.isnan(values) | torch.isinf(values) | (values <= 0)
        return torch.where(wrong, SCALE_NAN, exponent.clamp(0, 254)).to(torch.uint8)

    def to(self, dtype: Any) -> Any:
        """The scales as fp32."""
        scale = torch.exp2(self.data.to(torch.float32) - SCALE_BIAS)
        return torch.where(self.data == SCALE_NAN, torch.nan, scale).to(dtype)
