"""`triton.tools.ragged_tma`: descriptors whose blocks end with the group of rows they lie in."""

from __future__ import annotations

from typing import Any

import tilewright.language as tl
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.kernel import jit

# Rows count down from here to the end of their group, so that a block ends where the group does.
END = 2**30
# END steps of this many elements lead once around 64-bit offsets, to where they began.
AROUND = 2**34
ANY = 2**31 - 2**16


def create_ragged_descriptor(
    T: Any, block_shape: Any, ragged_dim: int = 0, write_only: bool = False
) -> TensorDescriptor:
    """A descriptor of a tensor whose rows along `ragged_dim` are cut into groups.

    The two leading dimensions choose the group: place `[END, end, END - (end - row)]` is the row.
    """
    whole = TensorDescriptor.from_tensor(T, block_shape)
    shape, strides = whole.shape, whole.strides
    axis = ragged_dim % len(shape)
    assert axis < len(shape) - 1, "the last dimension is contiguous and cannot be ragged"
    assert shape[axis] <= END, f"at most {END} rows"
    shape[axis] = END
    step = strides[axis]
    return TensorDescriptor(
        T, [ANY, ANY, *shape], [AROUND - step, step, *strides], [1, 1, *block_shape]
    )


@jit
def place(batch_offset, batch_size, coords, ragged_dim: tl.constexpr):
    end = batch_offset + batch_size
    row = 1073741824 - batch_size + coords[ragged_dim]
    return [1073741824, end] + coords[:ragged_dim] + [row] + coords[ragged_dim + 1 :]


@jit
def to_ragged_indices(batch_offset, batch_size, row):
    """The three numbers that stand for a row of a group."""
    return 1073741824, batch_offset + batch_size, 1073741824 - batch_size + row


@jit
def load_ragged(TMA, batch_offset, batch_size, coords, ragged_dim: tl.constexpr = 0):
    """The block at `coords` of the group; elements beyond the group are 0."""
    block = TMA.load(place(batch_offset, batch_size, coords, ragged_dim))
    return tl.reshape(block, block.shape[2:])


@jit
def store_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Write the block at `coords` of the group; elements beyond the group stay as they are."""
    block = tl.reshape(data, [1, 1] + data.shape)
    TMA.store(place(batch_offset, batch_size, coords, ragged_dim), block)


@jit
def atomic_add_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):
    """Add to the block at `coords` of the group; elements beyond the group stay as they are."""
    block = tl.reshape(data, [1, 1] + data.shape)
    TMA.atomic_add(place(batch_offset, batch_size, coords, ragged_dim), block)
