"""Threads with registers, shuffles and banked shared memory, which execute conversion plans."""

from __future__ import annotations

import numpy as np

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.convert import Plan, Select, Shuffle, Swap
from tilewright.targets.cuda.layout import Layout
from tilewright.targets.cuda.swizzle import Access, Exchange


def held(layout: Layout, data: np.ndarray) -> np.ndarray:
    """What each slot holds of the elements `data`: [register, lane, warp]."""
    slots = np.indices((layout.registers, 32, layout.num_warps)).reshape(3, -1)
    index = [layout.index(*map(int, slot)) for slot in slots.T]
    return data[index].reshape(layout.registers, 32, layout.num_warps)


class Machine:
    """Executes plans on values [register, lane, warp]; `ways` is the worst bank conflict seen."""

    def __init__(self, num_warps: int):
        self.lane, self.warp = np.meshgrid(np.arange(32), np.arange(num_warps), indexing="ij")
        self.ways = 1

    def run(self, plan: Plan, values: np.ndarray) -> np.ndarray:
        for step in plan.steps:
            values = self.step(step, values, plan.bytes)
        return values

    def step(self, step, values: np.ndarray, bytes: int) -> np.ndarray:
        if isinstance(step, Select):
            return values[list(step.registers)]
        if isinstance(step, Swap):
            chosen = parity(self.lane & step.lane) ^ parity(self.warp & step.warp)
            other = values[np.arange(len(values)) ^ 1 << step.bit]
            return np.where(chosen, other, values)
        if isinstance(step, Shuffle):
            return self.shuffle(step, values, bytes)
        assert isinstance(step, Exchange)
        return self.exchange(step, values, bytes)

    def shuffle(self, step: Shuffle, values: np.ndarray, bytes: int) -> np.ndarray:
        out = np.full_like(values, -1)
        for group, constant in zip(step.groups, step.constants, strict=True):
            assert len(group) * bytes <= max(4, bytes)
            lane = applied(step.lane, self.lane) ^ applied(step.warp, self.warp) ^ constant
            assert lane.max() < 32
            for register in group:
                out[register] = values[register, lane, self.warp]
        return out

    def exchange(self, step: Exchange, values: np.ndarray, bytes: int) -> np.ndarray:
        assert len(step.store.passes) == len(step.load.passes)
        out = np.full((step.load.registers, *self.lane.shape), -1)
        for stores, loads in zip(step.store.passes, step.load.passes, strict=True):
            memory = np.full(step.size // bytes, -1)
            writer = np.full(step.size // bytes, -1)
            idle = (self.lane & step.store.idle_lane) | (self.warp & step.store.idle_warp)
            for registers, place in self.accesses(step.store, stores, bytes, idle == 0):
                for e, register in enumerate(registers):
                    at = np.where(idle == 0, place + e, 0)
                    assert np.all(
                        (memory[at] == -1) | (memory[at] == values[register]) | (idle != 0)
                    )
                    memory[at[idle == 0]] = values[register][idle == 0]
                    writer[at[idle == 0]] = self.warp[idle == 0]
            for registers, place in self.accesses(step.load, loads, bytes, idle >= 0):
                for e, register in enumerate(registers):
                    out[register] = memory[place + e]
                    assert not step.in_warp or np.all(writer[place + e] == self.warp)
        return out

    def accesses(self, access: Access, moves, bytes: int, active: np.ndarray):
        """Registers and offsets of each move; conflicts are counted."""
        own = applied(access.lane, self.lane) ^ applied(access.warp, self.warp)
        for move in moves:
            offset = (own ^ move.xor) + move.add
            wide = bytes * len(move.registers)
            assert wide <= 16 and np.all(offset % len(move.registers) == 0)
            self.count(offset * bytes, wide, active)
            yield move.registers, offset

    def count(self, address: np.ndarray, wide: int, active: np.ndarray) -> None:
        lanes = min(32, 128 // wide)
        for warp in range(address.shape[1]):
            for first in range(0, 32, lanes):
                chosen = slice(first, first + lanes), warp
                here = address[chosen][active[chosen]]
                words = np.unique(here[:, None] + np.arange(0, wide, min(wide, 4))[None] >> 2)
                if words.size:
                    self.ways = max(self.ways, int(np.bincount(words % 32).max()))


def applied(columns, numbers: np.ndarray) -> np.ndarray:
    """A map of bits at each of the numbers."""
    table = np.array([f2.apply(columns, x) for x in range(1 << len(columns))])
    return table[numbers]


def parity(numbers: np.ndarray) -> np.ndarray:
    out = np.zeros_like(numbers)
    for bit in range(8):
        out ^= numbers >> bit & 1
    return out == 1
