"""Loads and stores: vectors of neighbours, masks as predicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.errors import Loc
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Kernel, Value
from tilewright.ir.types import DType
from tilewright.passes.facts import root_params, strides
from tilewright.targets.cuda.emitter import WORDS, Emitter
from tilewright.targets.cuda.hazards import Hazards
from tilewright.targets.cuda.tiles import Tile, tile, uniform
from tilewright.targets.places import place_fields

if TYPE_CHECKING:
    from tilewright.targets.cuda.counters import Counters
    from tilewright.targets.cuda.lower import Lowering

WIDEST = 16  # bytes of one access
EVICTION = {"evict_first": "L1::evict_first", "evict_last": "L1::evict_last"}
CONSTRAINTS = {16: "h", 32: "r", 64: "l"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a register's element lies: a number of bytes from a pointer in a register."""

    pointer: Lane
    bytes: int


@dataclass(frozen=True, slots=True)
class Vector:
    """Registers whose elements lie one after the other, from a place on."""

    registers: tuple[int, ...]
    place: Place


class Memory:
    """What is known of a kernel's accesses, and their sites."""

    counters: Counters | None = None

    def __init__(self, e: Emitter, kernel: Kernel):
        self.e = e
        self.kernel = kernel
        self.roots = root_params(kernel)
        self.strides = strides(kernel)
        self.hazards = Hazards(self.roots, self.strides, e.barrier)
        e.on_wait = self.hazards.waited
        self.sites: list[dict] = []
        self.numbers: dict[tuple[Inst, str], int] = {}

    # --- sites

    def site(self, inst: Inst, kind: str = "") -> int:
        """The number of an access in the table of sites, or of another thing that is counted."""
        if (inst, kind) not in self.numbers:
            self.numbers[inst, kind] = len(self.sites)
            self.sites.append(self.site_record(inst, kind))
        return self.numbers[inst, kind]

    def site_record(self, inst: Inst, kind: str) -> dict:
        loc = inst.loc or Loc("<unknown>", 0)
        dtype, param = t.int1, None
        if inst.op.access and not kind:
            dtype = inst.operands[0].type.dtype.element_ty
            param = self.param(inst)
        return {
            "kind": kind or (inst.op.access.kind if inst.op.access else "assert"),
            "op": inst.op.name,
            "param": -1 if param is None else param,
            **place_fields(loc),
            "dtype": dtype.name,
            "bytes": dtype.bytes,
            "expression": loc.text,
            "message": inst.attrs.get("message", ""),
        }

    def param(self, inst: Inst) -> int | None:
        """The one parameter that an access goes to, if that is known."""
        roots = self.roots(inst.operands[0])
        return next(iter(roots)) if roots and len(roots) == 1 else None

    # --- where elements lie

    def places(self, pointer: Value, held: Tile) -> list[Place]:
        """Of each register, as a constant distance from another register where steps are known."""
        layout, steps = held.layout, self.strides(pointer)
        if held.uniform or not layout.is_additive:
            return [Place(lane, 0) for lane in held.lanes]
        anchors: dict[tuple[int, ...], Lane] = {}
        out = []
        for constant, lane in zip(layout.split()[0], held.lanes, strict=True):
            coords = layout.coords(constant)
            key = tuple(c for c, s in zip(coords, steps, strict=True) if s is None)
            known = sum(c * s for c, s in zip(coords, steps, strict=True) if s is not None)
            if key not in anchors:
                anchors[key] = (lane, known)
            anchor, start = anchors[key]
            out.append(Place(anchor, known - start))
        return out

    def vectors(
        self, accesses: Sequence[tuple[int, ...]], places: Sequence[Place], operands: Sequence[Tile]
    ) -> tuple[list[Vector], dict[int, int]]:
        """Each access once, and of each register the one that stands for it.

        Registers stand for each other where places and operands are the same.
        """
        first: dict[tuple, tuple[int, ...]] = {}
        copies: dict[int, int] = {}
        for registers in accesses:
            place = places[registers[0]]
            held = tuple(o.lanes[r].text for o in operands for r in registers)
            found = first.setdefault((place.pointer.text, place.bytes, held), registers)
            copies.update(zip(registers, found, strict=True))
        return [Vector(rs, places[rs[0]]) for rs in first.values()], copies

    def address(self, place: Place) -> Lane:
        return self.e.plus(self.e.b.bitcast(place.pointer, t.uint64), place.bytes)

    def program(self) -> Lane:
        """The number of the program in the grid, first axis first; read here, as it is rare."""
        b = self.e.b
        wide = [b.cast(self.e.read(f"ctaid.{axis}"), t.uint64) for axis in "xyz"]
        sizes = [b.cast(self.e.read(f"nctaid.{axis}"), t.uint64) for axis in "xy"]
        return b.add(wide[0], b.mul(sizes[0], b.add(wide[1], b.mul(sizes[1], wide[2]))))

    # --- accesses

    def global_pointer(self, pointer: Lane) -> str:
        return self.e.w.value(f"addrspacecast {pointer.typed} to ptr addrspace(1)")

    def load_words(
        self, place: Place, mask: Lane | None, fill: Sequence[Lane], modifiers: str
    ) -> list[Lane]:
        """Load a vector of words; `fill` is what they are where the mask is false.

        Gives the registers that were loaded: `words_of` takes them apart.
        """
        e = self.e
        chunks = e.chunks(fill)
        held = [as_asm(e, c) for c in chunks]
        letter, count = CONSTRAINTS[held[0].dtype.bits], len(held)
        outputs = ", ".join(f"${k}" for k in range(count))
        target = f"{{{outputs}}}" if count > 1 else outputs
        vector = f".v{count}" if count > 1 else ""
        bits = chunks[0].dtype.bits
        address = offset_text(f"${count if mask is None else 2 * count}", place.bytes)
        predicate = "" if mask is None else f"@${2 * count + 1} "
        text = f"{predicate}ld{modifiers}{vector}.b{bits} {target}, [{address}];"
        constraints = [f"={letter}"] * count
        operands = []
        if mask is not None:
            constraints += map(str, range(count))
            operands += [h.typed for h in held]
        constraints.append("l")
        operands.append(f"ptr addrspace(1) {self.global_pointer(place.pointer)}")
        if mask is not None:
            constraints.append("b")
            operands.append(mask.typed)
        kind = held[0].type
        result = kind if count == 1 else "{" + ", ".join([kind] * count) + "}"
        name = e.w.value(
            f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"'
            f"({', '.join(operands)})"
        )
        if count == 1:
            return [Lane(name, held[0].dtype)]
        return [
            e.b.value(f"extractvalue {result} {name}, {k}", held[0].dtype, 1) for k in range(count)
        ]

    def words_of(self, loaded: Sequence[Lane], count: int, word: DType) -> list[Lane]:
        """The words in registers that a vector of so many was loaded to."""
        e = self.e
        chunk = WORDS[word.bits * count // len(loaded)]
        return [w for x in loaded for w in e.unpack(e.b.cast(x, chunk), word.bits)]

    def store_words(
        self, place: Place, mask: Lane | None, words: Sequence[Lane], modifiers: str
    ) -> None:
        e = self.e
        chunks = e.chunks(words)
        held = [as_asm(e, c) for c in chunks]
        count = len(held)
        letter = CONSTRAINTS[held[0].dtype.bits]
        inputs = ", ".join(f"${k + 1}" for k in range(count))
        source = f"{{{inputs}}}" if count > 1 else inputs
        vector = f".v{count}" if count > 1 else ""
        predicate = "" if mask is None else f"@${count + 1} "
        text = (
            f"{predicate}st{modifiers}{vector}.b{chunks[0].dtype.bits} "
            f"[{offset_text('$0', place.bytes)}], {source};"
        )
        constraints = ["l", *[letter] * count, *(["b"] if mask is not None else []), "~{memory}"]
        operands = [f"ptr addrspace(1) {self.global_pointer(place.pointer)}"]
        operands += [h.typed for h in held]
        if mask is not None:
            operands.append(mask.typed)
        e.w.write(
            f'call void asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(operands)})'
        )

    def store_byte(self, pointer: Lane, mask: Lane | None, byte: Lane) -> None:
        self.store_words(Place(pointer, 0), mask, [byte], ".global")


def as_asm(e: Emitter, chunk: Lane) -> Lane:
    """A chunk as inline assembly takes it: no register is narrower than 16 bits."""
    return e.b.cast(chunk, t.uint16) if chunk.dtype.bits < 16 else chunk


def offset_text(name: str, bytes: int) -> str:
    return f"{name} + {bytes}" if bytes else name


def load_modifiers(inst: Inst) -> str:
    if inst.attrs.get("volatile"):
        return ".volatile.global"
    evict = EVICTION.get(inst.attrs.get("evict", ""))
    if evict:
        return f".global.{evict}"
    return ".global" + {".ca": ".ca", ".cg": ".cg", ".cv": ".cv"}.get(inst.attrs.get("cache"), "")


def store_modifiers(inst: Inst) -> str:
    evict = EVICTION.get(inst.attrs.get("evict", ""))
    if evict:
        return f".global.{evict}"
    cache = inst.attrs.get("cache")
    return ".global" + (cache if cache in (".wb", ".cg", ".cs", ".wt") else "")


def load(x: Lowering, inst: Inst, on: Lane | None = None) -> Tile:
    """What the pointers point to; nothing is read unless `on` holds."""
    m, e = x.memory, x.e
    layout = x.access_layout(inst)
    pointer = x.tile(inst.operands[0], layout)
    mask = x.tile(inst.operands[1], layout) if len(inst.operands) > 1 else None
    other = x.tile(inst.operands[2], layout) if len(inst.operands) > 2 else None
    dtype = inst.result.type.dtype
    same = pointer.uniform and (mask is None or mask.uniform) and (other is None or other.uniform)
    accesses = [(0,)] if same else x.assigned.vectors(inst)
    operands = [o for o in (mask, other) if o is not None]
    vectors, copies = m.vectors(accesses, m.places(inst.operands[0], pointer), operands)
    masks = [e.both(on, mask.lanes[v.registers[0]] if mask is not None else None) for v in vectors]
    m.hazards.before(inst, layout)
    zero = e.b.const(0, dtype)
    fills = [
        [e.to_word(other.lanes[r] if other is not None else zero) for r in v.registers]
        for v in vectors
    ]

    def perform(k: int, where: Lane | None) -> list[Lane]:
        return m.load_words(vectors[k].place, where, fills[k], load_modifiers(inst))

    if m.counters is not None:
        m.counters.access(inst, layout, vectors, masks, mask)
    loaded = x.guard.guarded(inst, vectors, masks, dtype.bytes, perform)
    words = [
        w
        for v, fill, parts in zip(vectors, fills, loaded, strict=True)
        for w in m.words_of(parts, len(v.registers), fill[0].dtype)
    ]
    lanes: list[Lane | None] = [None] * layout.registers
    for r, word in zip((r for v in vectors for r in v.registers), words, strict=True):
        lanes[r] = value_of(e, word, dtype)
    if same:
        return uniform(lanes[0], x.layout(inst.result))
    held = tile(layout, [lanes[copies[r]] for r in range(layout.registers)])
    return x.in_layout(held, x.layout(inst.result))


def value_of(e: Emitter, word: Lane, dtype: DType) -> Lane:
    """A loaded word as a value; any byte that is not 0 is a true boolean."""
    return e.b.ne(word, e.b.const(0, t.uint8)) if dtype is t.int1 else e.from_word(word, dtype)


def store(x: Lowering, inst: Inst) -> None:
    """Write where the pointers point to; of the threads that hold copies one does."""
    m, e = x.memory, x.e
    layout = x.access_layout(inst)
    pointer = x.tile(inst.operands[0], layout)
    value = x.tile(inst.operands[1], layout)
    mask = x.tile(inst.operands[2], layout) if len(inst.operands) > 2 else None
    dtype = value.dtype
    spare = layout.free_bits()[0]
    accesses = [rs for rs in x.assigned.vectors(inst) if not any(r & spare for r in rs)]
    places = m.places(inst.operands[0], pointer)
    vectors = [Vector(rs, places[rs[0]]) for rs in accesses]
    owner = e.owner(layout)
    masks = [
        e.both(owner, mask.lanes[v.registers[0]] if mask is not None else None) for v in vectors
    ]
    m.hazards.before(inst, layout)
    words = [[e.to_word(value.lanes[r]) for r in v.registers] for v in vectors]

    def perform(k: int, on: Lane | None) -> list[Lane]:
        m.store_words(vectors[k].place, on, words[k], store_modifiers(inst))
        return []

    if m.counters is not None:
        m.counters.access(inst, layout, vectors, masks, mask)
    x.guard.guarded(inst, vectors, masks, dtype.bytes, perform)
