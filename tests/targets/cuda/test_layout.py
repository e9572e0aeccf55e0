"""Layouts: where elements and copies are, what ops on shapes do, what tensor cores hold."""

from __future__ import annotations

import numpy as np
import pytest
from simulate import held

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.layout import Layout, blocked, scalar
from tilewright.targets.cuda.operands import (
    fma_accumulator,
    mma_a,
    mma_accumulator,
    mma_b,
    operand_tile,
)

TILES = [
    blocked((128, 64), 4, (1, 0), 8),
    blocked((16, 8), 4, (0, 1), 2),
    blocked((4, 8, 16), 2, (2, 0, 1), 4),
    mma_accumulator((64, 32), 4),
    mma_accumulator((2, 64, 32), 2, 2),
    mma_a((64, 32), 16, 2, 2),
    mma_b((32, 64), 8, 2, 2),
    fma_accumulator((32, 64), 4),
    fma_accumulator((8, 8), 4),
    Layout((4, 16), (5, 32 | 3), (1, 2, 4, 8, 16), (63,)),
]


def positions(layout: Layout) -> np.ndarray:
    return held(layout, np.arange(1 << layout.bits))


def numbered(layout: Layout) -> np.ndarray:
    """A tile of its own indices."""
    return np.arange(1 << layout.bits).reshape(layout.shape)


def agrees(layout: Layout, tile: np.ndarray, slots: np.ndarray) -> None:
    """A layout of a tile holds, slot by slot, these elements."""
    assert layout.shape == tile.shape
    np.testing.assert_array_equal(held(layout, tile.reshape(-1)), slots)


@pytest.mark.parametrize("layout", TILES, ids=str)
def test_every_element_is_held(layout):
    assert layout.is_surjective
    assert set(positions(layout).ravel()) == set(range(1 << layout.bits))


@pytest.mark.parametrize("layout", TILES, ids=str)
def test_each_element_has_one_owner(layout):
    register, lane, warp = layout.free_bits()
    slots = np.indices((layout.registers, 32, layout.num_warps))
    owners = (slots[0] & register | slots[1] & lane | slots[2] & warp) == 0
    assert sorted(positions(layout)[owners]) == list(range(1 << layout.bits))
    assert layout.has_copies == bool(register | lane | warp)


@pytest.mark.parametrize("layout", TILES, ids=str)
def test_an_index_is_a_constant_and_a_part_of_the_thread(layout):
    constants, lane, warp = layout.split()
    for register in range(layout.registers):
        own = f2.apply(lane, 19) ^ f2.apply(warp, layout.num_warps - 1)
        index = layout.index(register, 19, layout.num_warps - 1)
        assert index == own ^ constants[register]
        assert not layout.is_additive or index == own + constants[register]
    assert layout.registers_holding(constants) == list(range(layout.registers))


@pytest.mark.parametrize("layout", TILES, ids=str)
def test_coordinates_of_one_dimension(layout):
    for d in range(len(layout.shape)):
        wanted = np.unravel_index(positions(layout), layout.shape)[d]
        np.testing.assert_array_equal(positions(layout.along(d)), wanted)
    assert layout.coords(5) == tuple(np.unravel_index(5, layout.shape))


@pytest.mark.parametrize("layout", TILES, ids=str)
def test_shape_ops(layout):
    tile, slots, rank = numbered(layout), positions(layout), len(layout.shape)
    order = tuple(np.roll(np.arange(rank), 1))
    agrees(layout.permute(order), tile.transpose(order), slots)
    agrees(layout.reshape((2, tile.size // 2)), tile.reshape(2, -1), slots)
    agrees(layout.expand_dims(1), np.expand_dims(tile, 1), slots)
    agrees(layout.join(), np.stack([tile, tile + tile.size], -1),
           np.stack([slots, slots + tile.size], 1).reshape(-1, *slots.shape[1:]))  # fmt: skip
    agrees(layout.cat(), np.concatenate([tile, tile + tile.size]),
           np.concatenate([slots, slots + tile.size]))  # fmt: skip
    assert layout.join().half() == layout and layout.join().halves_bit() == 0


@pytest.mark.parametrize("layout", TILES, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_reducing_and_repeating(layout, axis):
    """A slot of the result of a reduction stands where the slot of the operand stood."""
    ones = tuple(1 if d == axis else n for d, n in enumerate(layout.shape))
    small = np.arange(np.prod(ones)).reshape(ones)
    wanted = held(layout, np.broadcast_to(small, layout.shape).reshape(-1))
    agrees(layout.project(ones), small, wanted)
    agrees(layout.reduced(axis), small.squeeze(axis), wanted)
    compact = layout.reduced(axis).compact()
    assert compact.is_surjective and 0 not in compact.register
    for part in (layout.project(ones), compact.expand_dims(axis)):
        wide = part.broadcast(layout.shape)
        assert wide.is_surjective
        rows = positions(wide.project(ones))[: part.registers]
        np.testing.assert_array_equal(rows, positions(part))


def test_halves_that_threads_tell_apart():
    assert blocked((64, 2), 1).halves_bit() is None
    assert blocked((64, 2), 1, (1, 0), 2).halves_bit() == 0
    assert Layout((2, 2), (1, 3), (2, 0, 0, 0, 0), ()).halves_bit() is None


def test_blocked():
    layout = blocked((128, 64), 4, (1, 0), 8)
    assert layout.register == (1, 2, 4, 1024, 2048, 4096)
    assert (layout.lane, layout.warp) == ((8, 16, 32, 64, 128), (256, 512))
    assert blocked((256,), 4, vec=8).register == (1,)  # more would leave threads idle
    assert blocked((8,), 2).lane == (1, 2, 4, 0, 0)
    assert scalar(4).registers == 1 and scalar(4).is_surjective


def fragment(layout: Layout, register: int, lane: int, warp: int = 0) -> tuple[int, ...]:
    return layout.coords(layout.index(register, lane, warp))


def test_fragments_are_those_of_the_instructions():
    """PTX ISA, "Matrix fragments for mma.m16n8k16": rows and columns of each register."""
    for lane in (0, 5, 31):
        group, inside = lane // 4, lane % 4
        acc, a = mma_accumulator((16, 8), 1), mma_a((16, 16), 16, 1)
        b, tf32 = mma_b((16, 8), 16, 1), mma_a((16, 8), 32, 1)
        for i in range(4):
            row = group + 8 * (i >= 2)
            assert fragment(acc, i, lane) == (row, inside * 2 + i % 2)
            assert fragment(tf32, i, lane) == (group + 8 * (i % 2), inside + 4 * (i // 2))
            assert fragment(b, i, lane) == (inside * 2 + i % 2 + 8 * (i >= 2), group)
        for i in range(8):
            place = group + 8 * (i // 2 % 2), inside * 2 + i % 2 + 8 * (i >= 4)
            assert fragment(a, i, lane) == place


def test_accumulator_of_wgmma():
    acc = mma_accumulator((128, 64), 8)
    for register, lane, warp in [(0, 0, 0), (29, 13, 2), (31, 31, 7)]:
        j, h, q = register >> 2, register >> 1 & 1, register & 1
        row = 64 * (warp // 4) + 16 * (warp % 4) + lane // 4 + 8 * h
        assert fragment(acc, register, lane, warp) == (row, 8 * j + 2 * (lane % 4) + q)
    assert mma_a((64, 128), 16, 4) == mma_accumulator((64, 128), 4)


@pytest.mark.parametrize("shape, bytes", [((64, 64), 2), ((64, 32), 2), ((16, 256), 1)])
def test_operand_tiles_are_swizzled_as_the_hardware_does(shape, bytes):
    tile = operand_tile(shape, bytes, (1, 0))
    width = min(128, shape[1] * bytes)
    for row, column in [(0, 0), (1, 8), (5, 17), (15, shape[1] - 1)]:
        panel, inside = divmod(column * bytes, width)
        plain = panel * shape[0] * width + row * width + inside
        mask = (width // 16 - 1) << 4
        assert tile.offset(row * shape[1] + column) * bytes == plain ^ plain >> 3 & mask
    assert tile.size == shape[0] * shape[1] * bytes


def test_a_warp_reads_rows_of_an_operand_tile_without_conflicts():
    """ldmatrix: eight rows of 16 bytes at once."""
    for shape in ((64, 64), (64, 32)):
        tile = operand_tile(shape, 2, (1, 0))
        chunks = {tile.offset(row * shape[1]) * 2 // 16 % 8 for row in range(8)}
        assert len(chunks) == 8
