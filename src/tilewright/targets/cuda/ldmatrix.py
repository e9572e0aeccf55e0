"""Operands of tensor cores that lie in shared memory: how they get there, and ldmatrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.targets.cuda.emitter import Emitter
from tilewright.targets.cuda.exchange import store_moves
from tilewright.targets.cuda.layout import Layout, union
from tilewright.targets.cuda.operands import Shared, operand_tile
from tilewright.targets.cuda.swizzle import Side, access, is_aligned
from tilewright.targets.cuda.tiles import Staged, Tile

if TYPE_CHECKING:
    from tilewright.targets.cuda.mma import Instruction, Product

CHUNK = 16  # bytes that ldmatrix reads from one row
NEXT = 8  # columns from one block of a right operand to the next


def stage_for(layout: Layout, bytes: int) -> Shared | None:
    """Where a tile lies in shared memory: rows along what its threads hold neighbours of."""
    if len(layout.shape) != 2 or bytes > 4:
        return None
    order = (1, 0)
    vertical = [c for c in layout.register if c == 1 << layout.span(0)[0]]
    if vertical and 1 not in layout.register:
        order = (0, 1)
    if layout.shape[order[0]] * bytes < CHUNK:
        return None
    return operand_tile(layout.shape, bytes, order)


def rows_of(shared: Shared) -> int:
    """The dimension that runs along rows in shared memory."""
    return 1 if shared.columns[0] == 1 else 0


def can_load(shared: Shared, side: int, found: Instruction) -> bool:
    """Whether ldmatrix gives what the instruction takes; it transposes 16-bit elements only."""
    inner_dim = 1 - side
    if rows_of(shared) == inner_dim:
        return shared.shape[inner_dim] >= found.inner and found.takes_matrices
    return found.operand.bits == 16 and found.takes_matrices


class FromShared:
    """An operand that lies in shared memory and is read by ldmatrix."""

    def __init__(self, product: Product, side: int, staged: Staged):
        self.product = product
        self.side = side
        self.shared, self.base = staged.shared, staged.base
        self.bytes = self.shared.bytes
        self.turned = rows_of(self.shared) != 1 - side
        self.bases: dict[int, Lane] = {}
        self.pending: dict[tuple[int, int], list[Lane]] = {}

    def read(self, batch: int, start: int, k: int) -> list[Lane]:
        """The words of a block; two blocks of columns come at once."""
        if self.side == 0:
            return self.load(start, k, 4)
        if (start, k) not in self.pending:
            other = start ^ NEXT
            columns = self.product.layout.constants_along(1)
            if other in columns and not start & NEXT:
                both = self.load(start, k, 4)
                self.pending[start, k], self.pending[other, k] = both[:2], both[2:]
            else:
                self.pending[start, k] = self.load(start, k, 2)
        return self.pending[start, k]

    def index(self, outer: int, inner: int) -> int:
        """The row-major index of an element at a row or column, and a place along K."""
        empty = Layout(self.shared.shape, (), (), ())
        dims = (0, 1) if self.side == 0 else (1, 0)
        return outer << empty.span(dims[0])[0] | inner << empty.span(dims[1])[0]

    def lanes(self) -> list[int]:
        """The row of shared memory that each lane gives the address of, as columns of its number.

        Lanes 0 to 7 give those of the first 8 x 8 matrix, 8 to 15 those of the second, ...
        The matrices of a left operand are the upper rows, the lower rows, then both again further
        along K; those of a right one are two along K, then both again 8 columns on.
        """
        chunk = CHUNK // self.bytes
        if self.turned:
            rows = [self.index(0, 1 << k) for k in range(3)]
        else:
            rows = [self.index(1 << k, 0) for k in range(3)]
        along = self.index(0, 8 if self.turned else chunk)
        across = self.index(8, 0)
        return [*rows, across, along] if self.side == 0 else [*rows, along, across]

    def load(self, start: int, k: int, count: int) -> list[Lane]:
        e, offset = self.product.e, self.shared.offset
        lane = [offset(c) * self.bytes for c in self.lanes()]
        if count == 2:
            lane[4] = 0
        fragment = self.product.fragments[self.side]
        warp = [offset(c) * self.bytes for c in fragment.warp]
        used = union((*lane, *warp))
        constant = offset(self.index(start, k)) * self.bytes
        low = constant & used
        if low not in self.bases:
            own = e.of_thread((*lane, *warp))
            self.bases[low] = e.b.add(self.base, e.xor(own, low))
        address = e.plus(self.bases[low], constant ^ low)
        e.note_shared("load", lane, CHUNK, 1, 0 if count == 4 else 1 << 4)
        return ldmatrix(e, address, count, self.turned)


def ldmatrix(e: Emitter, address: Lane, count: int, turned: bool) -> list[Lane]:
    """8 x 8 matrices of 16-bit elements, a word of each to every lane."""
    trans = ".trans" if turned else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{trans}.b16.p3"
    kind = "{ " + ", ".join(["i32"] * count) + " }"
    e.w.declare(f"declare {kind} @{name}(ptr addrspace(3))")
    pointer = e.w.value(f"inttoptr {address.typed} to ptr addrspace(3)")
    found = e.w.value(f"call {kind} @{name}(ptr addrspace(3) {pointer})")
    return [e.b.value(f"extractvalue {kind} {found}, {k}", t.uint32, 1) for k in range(count)]


def store_tile(e: Emitter, held: Tile, shared: Shared, base: Lane) -> None:
    """Write a tile to its place in shared memory, in the widest accesses that its layout allows."""
    layout = held.layout.compact()
    lanes = [held.lanes[r] for r in held.layout.registers_holding(layout.split()[0])]
    words = [e.to_word(v) for v in lanes]
    size = words[0].dtype.bytes
    by_offset = {shared.columns[k]: 1 << k for k in range(layout.bits)}
    vector: list[int] = []
    while size << len(vector) < CHUNK and by_offset.get(1 << len(vector)) in layout.register:
        vector.append(by_offset[1 << len(vector)])
    while not is_aligned(shared.columns, Side(layout, tuple(vector))):
        vector.pop()
    stores = access(Side(layout, tuple(vector)), shared.columns, 0, 0, 1, True)
    store_moves(e, stores, stores.passes[0], base, words)
