"""Values that come from several blocks: a phi for each register of a tile."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.literals import Lane
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.tiles import Tile, tile, uniform

Phis = list[list[Lane]]


def fresh_phis(e: Emitter, starts: Sequence[Tile]) -> Phis:
    """A new name for each register of each tile; one for all where a scalar is carried."""
    return [
        [Lane(e.w.fresh("phi"), s.dtype) for _ in range(1 if s.uniform else s.layout.registers)]
        for s in starts
    ]


def tiles_of(phis: Phis, like: Sequence[Tile]) -> list[Tile]:
    return [
        uniform(lanes[0], s.layout) if s.uniform else tile(s.layout, lanes)
        for lanes, s in zip(phis, like, strict=True)
    ]


def phi_lines(phis: Phis, sources: Sequence[tuple[str, Sequence[Tile]]]) -> list[str]:
    """The text of phis, given the tiles that come from each label."""
    lines = []
    for k, lanes in enumerate(phis):
        for r, phi in enumerate(lanes):
            arms = ", ".join(f"[{tiles[k].lanes[r].text}, %{label}]" for label, tiles in sources)
            lines.append(f"{phi.text} = phi {phi.type} {arms}")
    return lines
