"""What rules write code with: lanes of one thread, thread numbers, shuffles, shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.codegen import mathlib
from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane, llvm_type
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import DType
from tilewright.targets.cuda import f2
from tilewright.targets.cuda.arch import Arch
from tilewright.targets.cuda.banks import SharedUse, shared_use
from tilewright.targets.cuda.layout import LANE_BITS, Layout, log2, union
from tilewright.targets.cuda.lending import SharedMemory
from tilewright.targets.cuda.writer import Writer

SREG = "llvm.nvvm.read.ptx.sreg"
BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
AGREEMENT = "llvm.nvvm.barrier.cta.red.and.aligned.all"
WARP_BARRIER = "llvm.nvvm.bar.warp.sync"
WORDS = {8: t.uint8, 16: t.uint16, 32: t.uint32, 64: t.uint64}


class OpLanes(Lanes):
    """The builder that emit hooks of ops get: lanes, and the elementary functions by name."""

    def math(self, name: str, *xs: Lane) -> Lane:
        return getattr(mathlib, name)(self, *xs)


class Emitter:
    """Writes the code of one kernel, of which every thread of a program runs all."""

    def __init__(self, arch: Arch, num_warps: int):
        self.arch = arch
        self.num_warps = num_warps
        self.thread_bits = LANE_BITS + log2(num_warps)
        self.w = Writer()
        self.b = OpLanes(self.w.write, self.w.fresh, self.w.declare, "nvptx")
        self.maps: dict[tuple[int, ...], Lane] = {}
        self.specials: dict[str, Lane] = {}
        self.memory = SharedMemory(self)
        self.on_wait: Callable[[], None] = lambda: None
        self.here: Inst | None = None  # what is being written
        self.uses: dict[tuple[Inst, SharedUse], int] = {}  # of shared memory, and how often written
        self.on_use: Callable[[Inst, SharedUse], None] = lambda inst, use: None

    # --- numbers of threads and programs

    def const(self, value: int, dtype: DType = t.int32) -> Lane:
        return self.b.const(value, dtype)

    def special(self, name: str, limit: int = 0) -> Lane:
        """A special register, e.g. `tid.x`; below `limit` when there is one."""
        if name not in self.specials:
            self.w.declare(f"declare i32 @{SREG}.{name}()")
            within = f"range(i32 0, {limit}) " if limit else ""
            with self.w.once():
                call = f"call {within}i32 @{SREG}.{name}()"
                self.specials[name] = self.b.value(call, t.int32, 1)
        return self.specials[name]

    def read(self, name: str) -> Lane:
        """A special register, read in the block being written."""
        self.w.declare(f"declare i32 @{SREG}.{name}()")
        return self.b.value(f"call i32 @{SREG}.{name}()", t.uint32, 1)

    @property
    def thread(self) -> Lane:
        """The number of the thread in its program: the lane, and from bit 5 on the warp."""
        return self.special("tid.x", 1 << self.thread_bits)

    def no_address(self) -> Lane:
        """0, which the assembler does not know: no address has its highest bits set."""
        return self.b.value("lshr i64 %record, 60", t.uint64, 1)

    def program_id(self, axis: int) -> Lane:
        return self.special(f"ctaid.{'xyz'[axis]}")

    def num_programs(self, axis: int) -> Lane:
        return self.special(f"nctaid.{'xyz'[axis]}")

    def clock(self) -> Lane:
        """Nanoseconds, read here."""
        text = 'call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l,~{memory}"()'
        return self.b.value(text, t.int64, 1)

    def of_thread(self, columns: Sequence[int]) -> Lane:
        """A map of the bits of the thread's number, computed at the start of the kernel."""
        columns = tuple(columns)
        if columns not in self.maps:
            with self.w.once():
                self.maps[columns] = self.mapped(self.thread, columns)
        return self.maps[columns]

    def of_warp(self, columns: Sequence[int]) -> Lane:
        """A map of the bits of the warp's number, which the assembler sees to be one for a warp."""
        key = f"warp {tuple(columns)}"
        if key not in self.specials:
            own = self.of_thread((*[0] * LANE_BITS, *columns))
            with self.w.once():
                first = self.shuffle(self.b.bitcast(own, t.uint32), self.const(0))
                self.specials[key] = self.b.bitcast(first, t.int32)
        return self.specials[key]

    def mapped(self, x: Lane, columns: Sequence[int]) -> Lane:
        """The XOR of the columns of the bits set in x, which has no others."""
        out, used = None, 0
        for first, count, to in f2.runs(columns):
            part = x
            if first + count < len(columns) or (first and to):
                mask = (1 << count) - 1 << first
                part = self.b.bit_and(part, self.const(mask))
            part = self.shifted(part, to - first)
            bits = (1 << count) - 1 << to
            if out is None:
                out = part
            elif used & bits:
                out = self.b.bit_xor(out, part)
            else:
                out = self.disjoint(out, part)
            used |= bits
        return self.const(0) if out is None else out

    def parity(self, lanes: int, warps: int) -> Lane:
        """Whether an odd number of these bits of the thread's number are set."""
        bits = lanes | warps << LANE_BITS
        key = f"parity {bits}"
        if key not in self.specials:
            columns = [bits >> k & 1 for k in range(self.thread_bits)]
            number = self.of_thread(columns)
            with self.w.once():
                self.specials[key] = self.b.ne(number, self.const(0))
        return self.specials[key]

    def shifted(self, x: Lane, by: int) -> Lane:
        if by == 0:
            return x
        word = "shl" if by > 0 else "lshr"
        return self.b.value(f"{word} i32 {x.text}, {abs(by)}", t.int32, 1)

    def disjoint(self, x: Lane, y: Lane) -> Lane:
        """x | y for numbers without common bits."""
        return self.b.value(f"or disjoint i32 {x.text}, {y.text}", t.int32, 1)

    def plus(self, x: Lane, number: int) -> Lane:
        """x + number, folded where one is known."""
        if number == 0:
            return x
        if x.known is not None:
            return self.b.const(x.known + number, x.dtype)
        return self.b.add(x, self.b.const(number, x.dtype))

    def xor(self, x: Lane, number: int) -> Lane:
        if number == 0:
            return x
        if x.known is not None:
            return self.const(x.known ^ number)
        return self.b.bit_xor(x, self.const(number))

    def combined(self, base: Lane, used: int, constant: int) -> Lane:
        """base ^ constant, as a sum where the bits that base may have allow it."""
        low = constant & used
        return self.plus(self.xor(base, low), constant ^ low)

    def indices(self, layout: Layout) -> list[Lane]:
        """The row-major index of each register's element in this thread."""
        base, used = self.of_thread(layout.thread), union(layout.thread)
        return [self.combined(base, used, c) for c in layout.split()[0]]

    def coordinates(self, layout: Layout, dim: int) -> list[Lane]:
        """The same along one dimension."""
        return self.indices(layout.along(dim))

    def is_zero(self, bits: int) -> Lane | None:
        """Whether these bits of the thread's number are all 0; None where there are none."""
        if not bits:
            return None
        masked = self.b.bit_and(self.thread, self.const(bits))
        return self.b.eq(masked, self.const(0))

    def owner(self, layout: Layout) -> Lane | None:
        """Whether this thread, of those that hold copies, is the one that acts for all.

        None where none holds copies.
        """
        _, lane, warp = layout.free_bits()
        bits = lane | warp << LANE_BITS
        key = f"owner {bits}"
        if bits and key not in self.specials:
            with self.w.once():
                self.specials[key] = self.is_zero(bits)
        return self.specials.get(key) if bits else None

    def both(self, x: Lane | None, y: Lane | None) -> Lane | None:
        """Two conditions at once; None is one that always holds."""
        if x is None or x.text == "true":
            return y
        if y is None or y.text == "true":
            return x
        return self.b.bit_and(x, y)

    # --- words: how values travel

    def to_word(self, x: Lane) -> Lane:
        """The bits of a value as an unsigned integer; booleans are bytes."""
        if x.dtype is t.int1:
            return self.b.cast(x, t.uint8)
        if x.dtype.is_pointer:
            return self.b.bitcast(x, t.uint64)
        return self.b.bitcast(x, WORDS[x.dtype.bits])

    def from_word(self, x: Lane, dtype: DType) -> Lane:
        if dtype is t.int1:
            return self.b.value(f"trunc {x.typed} to i1", t.int1, 1)
        return self.b.bitcast(x, dtype)

    def pack(self, words: Sequence[Lane]) -> Lane:
        """Words of less than 32 bits as one, the first one lowest."""
        bits = words[0].dtype.bits
        total = bits * len(words)
        if len(words) == 1:
            return words[0]
        vector = f"<{len(words)} x i{bits}>"
        name = "poison"
        for k, word in enumerate(words):
            name = self.w.value(f"insertelement {vector} {name}, {word.typed}, i32 {k}")
        return self.b.value(f"bitcast {vector} {name} to i{total}", WORDS[total], 1)

    def unpack(self, word: Lane, bits: int) -> list[Lane]:
        """The inverse of `pack`."""
        count = word.dtype.bits // bits
        if count == 1:
            return [word]
        vector = f"<{count} x i{bits}>"
        name = self.w.value(f"bitcast {word.typed} to {vector}")
        return [
            self.b.value(f"extractelement {vector} {name}, i32 {k}", WORDS[bits], 1)
            for k in range(count)
        ]

    # --- warps

    def shuffle(self, word: Lane, lane: Lane, kind: str = "idx", clamp: int = 31) -> Lane:
        """The word of another lane: `lane` is its number, or for bfly what its number differs by.

        Words have at most 64 bits.
        """
        bits = word.dtype.bits
        if bits == 64:
            halves = self.unpack(word, 32)
            return self.pack([self.shuffle(half, lane, kind, clamp) for half in halves])
        name = f"llvm.nvvm.shfl.sync.{kind}.i32"
        self.w.declare(f"declare i32 @{name}(i32, i32, i32, i32)")
        wide = self.b.cast(word, t.uint32)
        out = self.b.value(
            f"call i32 @{name}(i32 -1, {wide.typed}, {lane.typed}, i32 {clamp})", t.uint32, 1
        )
        return self.b.cast(out, word.dtype)

    def shuffle_value(self, x: Lane, lane: Lane, kind: str = "idx", clamp: int = 31) -> Lane:
        """The same for a value of any dtype."""
        return self.from_word(self.shuffle(self.to_word(x), lane, kind, clamp), x.dtype)

    def barrier(self) -> None:
        """Wait for all threads of the program; what they wrote before is seen after."""
        self.memory.waited()
        self.on_wait()
        if self.num_warps == 1:
            self.warp_barrier()
            return
        self.w.declare(f"declare void @{BARRIER}(i32) convergent nounwind")
        self.w.write(f"call void @{BARRIER}(i32 0)")

    def all_agree(self, on: Lane) -> Lane:
        """Whether a condition holds in all threads of the program, which wait for one another."""
        self.memory.waited()
        self.on_wait()
        self.w.declare(f"declare i1 @{AGREEMENT}(i32, i1) convergent nounwind")
        all = self.b.value(f"call i1 @{AGREEMENT}(i32 0, {on.typed})", t.int1, 1)
        # What a lane reads of another, the assembler knows to be the same in all of a warp.
        word = self.shuffle(self.b.cast(all, t.uint32), self.const(0))
        return self.b.ne(word, self.b.const(0, t.uint32))

    def warp_barrier(self) -> None:
        self.w.declare(f"declare void @{WARP_BARRIER}(i32) convergent nounwind")
        self.w.write(f"call void @{WARP_BARRIER}(i32 -1)")

    def fence_async(self) -> None:
        """Let units that read shared memory by themselves see what this thread wrote there."""
        self.w.write('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')

    # --- shared memory

    def note_shared(
        self, kind: str, lanes: Sequence[int], bytes: int, accesses: int, idle: int = 0
    ) -> None:
        """Say, where all threads come by, that shared memory is accessed next; as `shared_use`.

        `idle` are bits of the number of a thread.
        """
        if self.here is None:
            return
        warps = self.num_warps >> (idle >> LANE_BITS).bit_count()
        use = shared_use(kind, lanes, bytes, accesses, warps, idle & (1 << LANE_BITS) - 1)
        self.uses[self.here, use] = self.uses.get((self.here, use), 0) + 1
        self.on_use(self.here, use)

    def store_shared(self, address: Lane, words: Sequence[Lane]) -> None:
        """Store words one after the other in a single access; the address is an i32."""
        chunks = self.chunks(words)
        kind, text = chunks[0].type, chunks[0].text
        if len(chunks) > 1:
            kind, text = f"<{len(chunks)} x {kind}>", "poison"
            for k, chunk in enumerate(chunks):
                text = self.w.value(f"insertelement {kind} {text}, {chunk.typed}, i32 {k}")
        pointer = self.w.value(f"inttoptr {address.typed} to ptr addrspace(3)")
        align = words[0].dtype.bytes * len(words)
        self.w.write(f"store {kind} {text}, ptr addrspace(3) {pointer}, align {align}")

    def load_shared(self, address: Lane, word: DType, count: int) -> list[Lane]:
        """Load words one after the other in a single access."""
        chunk, number = chunk_of(word, count)
        kind = llvm_type(chunk)
        if number > 1:
            kind = f"<{number} x {kind}>"
        pointer = self.w.value(f"inttoptr {address.typed} to ptr addrspace(3)")
        name = self.w.value(f"load {kind}, ptr addrspace(3) {pointer}, align {word.bytes * count}")
        if number == 1:
            return self.unpack(Lane(name, chunk), word.bits)
        chunks = [
            self.b.value(f"extractelement {kind} {name}, i32 {k}", chunk, 1) for k in range(number)
        ]
        return [x for c in chunks for x in self.unpack(c, word.bits)]

    def chunks(self, words: Sequence[Lane]) -> list[Lane]:
        """Words packed into the largest units of at most 32 bits (64 if they have so many)."""
        chunk, number = chunk_of(words[0].dtype, len(words))
        each = len(words) // number
        return [self.pack(words[k : k + each]) for k in range(0, len(words), each)]


def chunk_of(word: DType, count: int) -> tuple[DType, int]:
    """What so many words are moved as: the unit, and how many of them."""
    total = word.bits * count
    bits = max(word.bits, min(total, 32))
    return WORDS[bits], total // bits
