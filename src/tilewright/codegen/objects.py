"""Object files of x86-64 Linux made ready to run without LLVM, which takes longer to load."""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QIIq")
MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian
RELOCATABLE, X86_64 = 1, 62
WRITE, ALLOC, THREAD_LOCAL = 1, 2, 1 << 10  # flags of sections
SYMBOLS, RELOCATIONS, EMPTY = 2, 4, 8  # types of sections
KNOWN = ("text", "rodata", "data", "bss")  # how the names of sections begin, after a dot
UNWIND = "eh_frame"
UNDEFINED, FIRST_RESERVED, ABSOLUTE = 0, 0xFF00, 0xFFF1  # in place of a section's number
LOCAL = 0  # binding of a symbol
PLAIN_KINDS = range(5)  # of symbols: none, data, code, section, file
ADDRESS, RELATIVE, CALL = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
BY_TABLE = (9, 41, 42)  # R_X86_64_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX
# Of each symbol that other objects may name: a jump to it, then its address.
ENTRY = struct.Struct("<8sQ")
JUMP = b"\xff\x25\x02\x00\x00\x00\x66\x90"
NEAR = 1 << 31
WORD, DISTANCE = struct.Struct("<Q"), struct.Struct("<i")


class NotMapped(Exception):
    """An object has something in it that is left to LLVM's linker."""


class Section(NamedTuple):
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class Object:
    """The parts of one object file."""

    def __init__(self, data: bytes):
        self.data = data
        head = HEADER.unpack_from(data)
        if head[0][:7] != MAGIC or head[1:3] != (RELOCATABLE, X86_64):
            raise NotMapped
        start, count, strings = head[6], head[12], head[13]
        rows = list(SECTION.iter_unpack(data[start : start + count * SECTION.size]))
        if len(rows) != count or count >= FIRST_RESERVED:
            raise NotMapped
        names = data[rows[strings][4] :]
        self.sections = [
            Section(text_at(names, r[0]), r[1], r[2], *r[4:8], max(r[8], 1)) for r in rows
        ]
        self.places = [0] * count  # the address of each section in memory
        self.loaded = [i for i, s in enumerate(self.sections) if is_loaded(s)]
        self.symbols: list[tuple] = []
        self.names: list[str] = []
        for section in self.sections:
            if section.type == SYMBOLS:
                self.symbols = list(SYMBOL.iter_unpack(self.content(section)))
                strings = self.content(self.sections[section.link])
                self.names = [text_at(strings, s[0]) for s in self.symbols]

    def content(self, section: Section) -> bytes:
        content = self.data[section.offset : section.offset + section.size]
        if len(content) != section.size:
            raise NotMapped
        return content

    def outer(self) -> Iterator[tuple[str, tuple]]:
        """The symbols that other objects may name."""
        for name, symbol in zip(self.names, self.symbols, strict=True):
            if symbol[1] >> 4 != LOCAL:
                yield name, symbol

    def value(self, symbol: tuple) -> int:
        """The address of a symbol of this object."""
        _, info, _, section, value, _ = symbol
        if info & 15 not in PLAIN_KINDS:
            raise NotMapped
        if section == ABSOLUTE:
            return value
        if section >= FIRST_RESERVED or not self.places[section]:
            raise NotMapped
        return self.places[section] + value

    def relocations(self) -> Iterator[tuple[int, int, tuple, str, int]]:
        """Place, kind, symbol, its name, and addend of all that depends on addresses."""
        for section in self.sections:
            if section.type != RELOCATIONS or not self.places[section.info]:
                continue
            base, size = self.places[section.info], self.sections[section.info].size
            for offset, kind, number, addend in RELOCATION.iter_unpack(self.content(section)):
                if offset + (8 if kind == ADDRESS else 4) > size:
                    raise NotMapped
                yield base + offset, kind, self.symbols[number], self.names[number], addend


def is_loaded(section: Section) -> bool:
    """Whether a section is needed at run time: what describes frames for exceptions is not."""
    if not section.flags & ALLOC or not section.size:
        return False
    kind = section.name.split(".")[1]
    if kind not in (*KNOWN, UNWIND) or section.flags & THREAD_LOCAL:
        raise NotMapped
    return kind != UNWIND


def text_at(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()


class Mapped:
    """Linked code in memory, for as long as this object lives."""

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]):
        self.memory = memory
        self.addresses = addresses

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def link(
    images: Sequence[bytes], exports: Iterable[str], imports: Mapping[str, int]
) -> Mapped | None:
    """Object files linked with one another, this process and `imports`; None: LLVM has to do it."""
    if not is_possible():
        return None
    try:
        return Linker([Object(image) for image in images], imports).link(list(exports))
    except (NotMapped, OSError, ValueError, IndexError, KeyError, struct.error):
        return None


@functools.cache
def is_possible() -> bool:
    """Whether object code of this computer is of the kind that is linked here."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > NEAR


class Linker:
    """Links some objects: code and constants lie in one block of memory, variables behind it."""

    def __init__(self, objects: Sequence[Object], imports: Mapping[str, int]):
        self.objects = objects
        self.imports = imports

    def link(self, exports: Sequence[str]) -> Mapped:
        names = dict.fromkeys(n for o in self.objects for n, _ in o.outer())
        offsets, table, fixed, size = self.layout(len(names))
        memory = fresh(size)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.memory, self.base = memory, base
        for (o, i), offset in offsets.items():
            section = o.sections[i]
            o.places[i] = base + offset
            if section.type != EMPTY:
                memory[offset : offset + section.size] = o.content(section)
        defined = self.defined()
        self.addresses = {n: defined[n] if n in defined else self.outside(n) for n in names}
        self.entries = {}
        for number, name in enumerate(names):
            at = table + number * ENTRY.size
            self.entries[name] = base + at
            ENTRY.pack_into(memory, at, JUMP, self.addresses[name])
        for o in self.objects:
            for relocation in o.relocations():
                self.relocate(o, *relocation)
        protect(base, fixed)
        return Mapped(memory, {name: defined[name] for name in exports})

    def layout(self, names: int) -> tuple[dict[tuple[Object, int], int], int, int, int]:
        """Where each section lies, the table of names, how much is fixed, and the whole size."""
        offsets, at, fixed = {}, 0, 0
        table = 0
        for writable in (False, True):
            for o in self.objects:
                for i in o.loaded:
                    section = o.sections[i]
                    if bool(section.flags & WRITE) is writable:
                        at = -(-at // section.align) * section.align
                        offsets[o, i] = at
                        at += section.size
            if not writable:
                table = -(-at // ENTRY.size) * ENTRY.size
                fixed = at = whole_pages(table + names * ENTRY.size)
        if any(o.sections[i].align > mmap.PAGESIZE for o, i in offsets):
            raise NotMapped
        return offsets, table, fixed, max(whole_pages(at), mmap.PAGESIZE)

    def defined(self) -> dict[str, int]:
        """The addresses of the names that the objects define."""
        found: dict[str, int] = {}
        for o in self.objects:
            for name, symbol in o.outer():
                if symbol[3] == UNDEFINED:
                    continue
                if name in found:
                    raise NotMapped
                found[name] = o.value(symbol)
        return found

    def outside(self, name: str) -> int:
        """The address of what no object defines."""
        return self.imports.get(name) or address_in_process(name)

    def relocate(
        self, o: Object, place: int, kind: int, symbol: tuple, name: str, addend: int
    ) -> None:
        """Fill in what depends on addresses at one place."""
        if kind in BY_TABLE:
            target = self.entries[name] + ENTRY.size - WORD.size
        elif symbol[1] >> 4 == LOCAL:
            target = o.value(symbol)
        else:
            target = self.addresses[name]
        if kind == ADDRESS:
            WORD.pack_into(self.memory, place - self.base, (target + addend) % (1 << 64))
            return
        if kind not in (RELATIVE, CALL, *BY_TABLE):
            raise NotMapped
        distance = target + addend - place
        if kind == CALL and not -NEAR <= distance < NEAR:
            distance = self.entries[name] + addend - place
        DISTANCE.pack_into(self.memory, place - self.base, distance)


def fresh(size: int) -> mmap.mmap:
    """Zeroed memory of this process alone: a forked child gets a copy."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@functools.cache
def process() -> ctypes.CDLL:
    """Everything that is loaded into this process and open to all."""
    return ctypes.CDLL(None, use_errno=True)


def address_in_process(name: str) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(process(), name))
    except ValueError:
        raise NotMapped from None


def protect(address: int, size: int) -> None:
    """Make memory executable that was written to, and no longer writable."""
    if not size:
        return
    change = process().mprotect
    change.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if change(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise NotMapped
