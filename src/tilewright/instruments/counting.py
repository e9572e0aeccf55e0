"""The counters of one launch: made ready before it, read after it, by site."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.instruments.gpu import SECTOR
from tilewright.instruments.traffic import Site
from tilewright.runtime.call import Call
from tilewright.runtime.compile import Compilation
from tilewright.targets.counting import (
    ELEMENTS,
    FIRST,
    MAP,
    MASKED,
    NOWHERE,
    SITE_WORDS,
)
from tilewright.targets.storage import Storage

MAP_LIMIT = 4 << 30  # bytes of maps of touched elements that a launch may take
ACCESSES = frozenset({"load", "store", "atomic"})  # kinds of sites that touch memory


class Counting:
    """The counters of one launch, in memory of the target."""

    def __init__(self, call: Call, compilation: Compilation, place: int):
        self.call = call
        self.place = place  # where the launch will be
        self.compilation = compilation
        self.records: list[dict[str, Any]] = compilation.sites
        self.extents = [(0, 0)] * len(compilation.metadata["params"])
        self.storage: dict[int, Storage] = {}  # of the maps
        self.find_extents()
        words = np.zeros(SITE_WORDS * len(self.records) + 1, np.int64)
        words[FIRST:-1:SITE_WORDS] = NOWHERE
        self.make_maps(words)
        self.held = call.target.storage(words.nbytes, place)
        self.held.write(words.view(np.uint8))
        self.address = self.held.address
        self.words = words
        self.maps: dict[int, np.ndarray] = {}

    def find_extents(self) -> None:
        """The storage of each parameter of the code."""
        leaves = [leaf for leaf in self.call.leaves if leaf.type is not None]
        for i, leaf in enumerate(leaves):
            if leaf.type.dtype.is_pointer:
                _, low, high = leaf.slots
                self.extents[i] = (low, high)

    def make_maps(self, words: np.ndarray) -> None:
        """A map for each access, if all together are not too large."""
        sizes = {}
        for number, site in enumerate(self.records):
            if site["param"] < 0:
                continue
            low, high = self.extents[site["param"]]
            sizes[number] = -(-(high - low) // site["bytes"])
        if sum(sizes.values()) > min(MAP_LIMIT, self.call.target.room(self.place)):
            return
        for number, size in sizes.items():
            self.storage[number] = self.call.target.storage(size, self.place)
            words[SITE_WORDS * number + MAP] = self.storage[number].address

    def read(self) -> None:
        """Fetch what a launch has counted."""
        self.words = self.held.read().view(np.int64).copy()
        self.maps = {number: held.read() for number, held in self.storage.items()}

    def word(self, number: int, which: int) -> int:
        return int(self.words[SITE_WORDS * number + which])

    @property
    def flops(self) -> int:
        return int(self.words[-1])

    def sites(self) -> list[Site]:
        """All accesses, as they stand in the source; those of each file together."""
        found = [self.site(n) for n, s in enumerate(self.records) if s["kind"] in ACCESSES]
        files = list(dict.fromkeys(s.file for s in found))
        return sorted(found, key=lambda s: (files.index(s.file), s.line, s.col))

    def site(self, number: int) -> Site:
        record = self.records[number]
        elements, masked = self.word(number, ELEMENTS), self.word(number, MASKED)
        size = record["bytes"]
        unique = self.unique(number, elements) * size
        return Site(
            kernel=self.compilation.name,
            file=record["file"],
            line=record["line"],
            col=record["col"],
            expression=record["expression"],
            kind=record["kind"],
            argument=argument_of(self.compilation, record),
            dtype=record["dtype"],
            elements=elements,
            bytes=elements * size,
            unique_bytes=unique,
            masked=masked,
        )

    def unique(self, number: int, elements: int) -> int:
        """How many different elements a site touched; all, where that was not recorded."""
        if number not in self.maps:
            return elements
        return int(np.count_nonzero(self.maps[number]))

    def minimum(self) -> dict[str, tuple[int, int]]:
        """By argument: the different bytes that were read from it and written to it."""
        out: dict[str, tuple[int, int]] = {}
        accesses = [s for s in self.records if s["kind"] in ACCESSES]
        for record in {s["param"]: s for s in accesses}.values():
            read = self.touched(record["param"], ("load", "atomic"))
            written = self.touched(record["param"], ("store", "atomic"))
            out[argument_of(self.compilation, record)] = (read, written)
        return out

    def sector_bytes(self, kinds: tuple[str, ...]) -> int:
        """Bytes of the different sectors that accesses of these kinds touch, where known."""
        found: dict[int, np.ndarray] = {}
        for number, held in self.maps.items():
            site = self.records[number]
            if site["kind"] in kinds:
                low, _ = self.extents[site["param"]]
                mine = sectors(held, low, site["bytes"])
                known = found.setdefault(site["param"], mine)
                found[site["param"]] = known | mine
        return sum(int(np.count_nonzero(part)) * SECTOR for part in found.values())

    def touched(self, param: int, kinds: tuple[str, ...]) -> int:
        """Bytes touched by any of an argument's sites of these kinds."""
        union: dict[int, np.ndarray] = {}
        rest = 0
        for number, site in enumerate(self.records):
            if site["param"] != param or site["kind"] not in kinds:
                continue
            if number not in self.maps:
                rest += self.word(number, ELEMENTS) * site["bytes"]
                continue
            size = site["bytes"]
            if size in union:
                np.maximum(union[size], self.maps[number], out=union[size])
            else:
                union[size] = self.maps[number].copy()
        return rest + sum(int(np.count_nonzero(m)) * size for size, m in union.items())


def sectors(touched: np.ndarray, low: int, size: int) -> np.ndarray:
    """Which sectors hold elements that were touched, of `size` bytes from an address on."""
    each = SECTOR // size
    before = low % SECTOR // size
    after = -(before + len(touched)) % each
    return np.pad(touched, (before, after)).reshape(-1, each).any(axis=1)


def argument_of(compilation: Compilation, record: dict[str, Any]) -> str:
    """The name of the argument that a site touches; "?" where it is not known."""
    param = record["param"]
    return compilation.metadata["params"][param][0] if param >= 0 else "?"
