"""One launch in checked native code: what it notes, and the memory that it changes put back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import Loc, TilewrightError
from tilewright.instruments import poison
from tilewright.instruments.views import View, views
from tilewright.ir.inst import Kernel
from tilewright.passes.arithmetic import may_go_wrong
from tilewright.runtime.call import Call
from tilewright.runtime.closure import scan
from tilewright.runtime.compile import Request, compile_kernel, front_ir, key_of
from tilewright.runtime.grid import Grid
from tilewright.runtime.signature import Leaf
from tilewright.targets import base
from tilewright.targets.checking import (
    CELL,
    FIRST_PARAM,
    KINDS,
    MOST_PAIRS,
    OWN,
    PAIRS,
    PARAM_WORDS,
    PROGRAMS,
    READERS,
    RECORD_WORDS,
    SPAN_HIGH,
    SPAN_LOW,
    TOP,
    WRITERS,
    WRITTEN,
    record_word,
)
from tilewright.targets.places import place_loc
from tilewright.targets.storage import HostStorage

PARTS = 100  # in which a launch is run, so that an interrupt is heard between them
MOST_CELLS = 1 << 30
Span = tuple[int, int]


class NotNative(Exception):
    """Why a launch cannot run in checked native code."""


@dataclass(frozen=True, slots=True)
class Note:
    """That there may be a fault of a kind at a place, in so many programs."""

    kind: str
    loc: Loc
    programs: int
    pairs: tuple[tuple[int, int], ...]  # the first and last programs, and whom each met (-1: none)

    @property
    def is_whole(self) -> bool:
        """Whether all programs that it is of are among the pairs."""
        return len(self.pairs) < MOST_PAIRS


class CellMemory:
    """Shadow memory that launches take one after the other, and the numbers of programs in it."""

    def __init__(self) -> None:
        self.cells = np.zeros(0, np.uint32)
        self.number = 0

    def take(self, count: int, programs: int) -> tuple[int, int]:
        """The address of so many cells, and the number that comes before those of programs."""
        if count > len(self.cells):
            # Filled, so that it is mapped: masked stores to what is not are very slow.
            self.cells = np.zeros(count, np.uint32)
            self.cells.fill(0)
        if self.number + programs >= TOP:
            self.cells[:] = 0
            self.number = 0
        before = self.number
        self.number += programs
        return self.cells.ctypes.data, before


_memory = CellMemory()
_kernels: dict[str, Kernel] = {}  # by the hash of their code: as the frontend gives them
_tested: dict[tuple, tuple[int, ...]] = {}  # by hash, numbers and grid of a launch


class NativeLaunch:
    """A launch in checked native code.

    Raises:
        NotNative: with the reason, for what that cannot do.
    """

    def __init__(self, call: Call, grid: Grid):
        if call.settings.seed:
            raise NotNative("programs run in a shuffled order")
        if not call.device.startswith("cpu"):
            raise NotNative(f"its arrays are on {call.device}")
        self.grid = grid
        self.total = grid[0] * grid[1] * grid[2]
        try:
            self.call = call.on(base.find("cpu"))
            self.leaves = [leaf for leaf in self.call.leaves if leaf.type is not None]
            self.groups = groups_of(self.leaves)
            tested = self.may_go_wrong()
            self.code = compile_kernel(self.request(tested=tested) if tested else self.request())
        except TilewrightError as error:
            raise NotNative(str(error).partition("\n")[0]) from None
        if any(not leaf.is_writable and leaf.name in self.code.writes for leaf in self.leaves):
            raise NotNative("it writes to an argument that is read-only")
        self.views = views(self.call)
        self.own: list[np.ndarray] = []
        self.saved = Saved(self.changing())
        self.table = self.make_table()

    def request(self, **more: Any) -> Request:
        """What is compiled, with more options."""
        options = {k: v for k, v in self.call.options.items() if k in self.call.target.options}
        options |= {"checked": self.groups, **more}
        return self.call.request(options=options, bounds=True, debug=True)

    def may_go_wrong(self) -> tuple[int, ...]:
        """The instructions that this launch should test."""
        request = self.request()
        values = tuple(as_integer(leaf) for leaf in self.leaves)
        closures = (scan(request.jit), scan(request.constants, request.types))
        kernel = key_of(request, *closures)
        key = (kernel, values, self.grid)
        if key not in _tested:
            if kernel not in _kernels:
                _kernels[kernel] = front_ir(request)
            _tested[key] = may_go_wrong(_kernels[kernel], values, self.grid)
        return _tested[key]

    @property
    def has_order(self) -> bool:
        """Whether atomic operations of single elements may put programs in an order."""
        return bool(self.code.metadata["checks"]["ordering"])

    # --- tables

    def make_table(self) -> np.ndarray:
        count = len(self.leaves)
        table = np.zeros(record_word(count, len(self.code.sites), 0), np.int64)
        cells, table[0] = self.place_cells()
        for number, leaf in enumerate(self.leaves):
            if not leaf.type.dtype.is_pointer:
                continue
            words = table[FIRST_PARAM + PARAM_WORDS * number :][:PARAM_WORDS]
            words[WRITERS], words[READERS] = cells.get(number, (0, 0))
            words[SPAN_LOW], words[SPAN_HIGH] = leaf.bounds
            if leaf.name in self.views:
                self.put_view(words, self.views[leaf.name])
            low, high = leaf.bounds
            memory = poison.allocated.get(low)
            if memory is not None and memory.size == high - low:
                words[WRITTEN] = memory.written.ctypes.data
        return table

    def put_view(self, words: np.ndarray, view: View) -> None:
        words[SPAN_LOW], words[SPAN_HIGH] = view.low, view.low + view.span * view.size
        if view.own is not None:
            self.own.append(view.own)
            words[OWN] = view.own.ctypes.data

    def place_cells(self) -> tuple[dict[int, tuple[int, int]], int]:
        """By parameter, where the cells of its memory are; and the number before all programs."""
        at, offsets = 0, {}
        taken: dict[int, tuple[int, int, int, int]] = {}
        for number, granule, is_read in self.code.metadata["checks"]["tracked"]:
            group = self.groups[number]
            if group not in taken:
                low, high = self.span(group)
                count = -(-(high - low) // granule) + 1
                taken[group] = (low, granule, at, at + count * is_read)
                at += count * (1 + is_read)
            low, granule, writers, readers = taken[group]
            skip = (self.leaves[number].bounds[0] - low) // granule
            offsets[number] = (writers + skip, readers + skip)
        if at > MOST_CELLS:
            raise NotNative(f"it would take {at * CELL >> 30} GB of shadow memory")
        address, before = _memory.take(at, self.total)
        found = {n: tuple(address + CELL * x for x in places) for n, places in offsets.items()}
        return found, before

    def span(self, group: int) -> Span:
        """The memory of all arguments in a group."""
        bounds = [leaf.bounds for leaf, g in zip(self.leaves, self.groups) if g == group]
        return min(low for low, _ in bounds), max(high for _, high in bounds)

    def changing(self) -> set[Span]:
        """The memory that a second run must find as the first did."""
        kinds: dict[int, set[str]] = {}
        for site in self.code.sites:
            if site["param"] >= 0:
                kinds.setdefault(self.groups[site["param"]], set()).add(site["kind"])
        again = {g for g, k in kinds.items() if "atomic" in k or {"load", "store"} <= k}
        return {self.span(group) for group in again}

    # --- running

    def run(self) -> tuple[list[Note], tuple[int, int] | None]:
        """What was noted, and the site and program of an access that stopped the launch."""
        step = max(1, self.total // PARTS)
        fault = None
        for begin in range(0, self.total, step):
            fault = self.run_part(range(begin, min(begin + step, self.total)), self.table)
            if fault is not None:
                break
        self.name_writers()
        return list(self.notes()), fault

    def name_writers(self) -> None:
        """Note of memory that was allocated as empty which store wrote it last."""
        for site in self.code.sites:
            if site["kind"] in ("store", "atomic") and site["param"] >= 0:
                leaf = self.leaves[site["param"]]
                memory = poison.allocated.get(leaf.bounds[0])
                if memory is not None:
                    memory.writer = poison.Writer(
                        self.code.name, leaf.name, self.program(self.total - 1),
                        place_loc(site), leaf.value,
                    )  # fmt: skip

    def run_part(self, programs: range, table: np.ndarray) -> tuple[int, int] | None:
        if not programs:
            return None
        address = table.ctypes.data
        return self.code.binary.launch_part(self.grid, self.call.slots, programs, address)

    def notes(self) -> Iterator[Note]:
        for number, site in enumerate(self.code.sites):
            for kind, name in enumerate(KINDS):
                begin = record_word(len(self.leaves), number, kind)
                record = self.table[begin : begin + RECORD_WORDS].tolist()
                if record[PROGRAMS]:
                    pairs = record[PAIRS + 1 :][: 2 * record[PAIRS]]
                    both = tuple(zip(pairs[::2], pairs[1::2], strict=True))
                    yield Note(name, place_loc(site), record[PROGRAMS], both)

    def program(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)


def as_integer(leaf: Leaf) -> int | None:
    """The integer that an argument is."""
    dtype = leaf.type.dtype
    return int(leaf.value) if dtype.is_integer else None


class Saved:
    """What pieces of memory held, and of memory allocated as empty which bytes were written."""

    def __init__(self, spans: set[Span]):
        self.copies = {low: copy_of(low, high) for low, high in spans}
        held = {low: m for low, m in poison.allocated.items() if low in self.copies}
        self.written = {low: m.written.copy() for low, m in held.items() if m.has_map}

    def restore(self) -> None:
        for low, storage in self.copies.items():
            storage.put(low)
            memory = poison.allocated.get(low)
            if memory is not None and memory.has_map:
                memory.written[:] = self.written.get(low, False)

    def again(self) -> Saved:
        """The same of now."""
        return Saved({(low, low + storage.size) for low, storage in self.copies.items()})


def copy_of(low: int, high: int) -> HostStorage:
    storage = HostStorage(high - low)
    storage.take(low)
    return storage


def groups_of(leaves: list[Leaf]) -> tuple[int, ...]:
    """Which arguments share memory: a number for each, the same where they do."""
    numbers = list(range(len(leaves)))
    arrays = [k for k, leaf in enumerate(leaves) if leaf.type.dtype.is_pointer]
    arrays.sort(key=lambda k: leaves[k].bounds)
    end, last = 0, -1
    for k in arrays:
        low, high = leaves[k].bounds
        if last >= 0 and low < end:
            numbers[k] = numbers[last]
        end, last = max(end, high), k
    return tuple(numbers)
