"""What the processor says of itself, to know without LLVM for which one code on disk was made."""

from __future__ import annotations

import ctypes
import functools
import mmap

from tilewright.codegen import objects

# void ask(u32 leaf, u32 part, u32 *words): CPUID
ASK = bytes.fromhex(
    "53"  # push rbx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "4989d0"  # mov r8, rdx
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8 + 4], ebx
    "41894808"  # mov [r8 + 8], ecx
    "4189500c"  # mov [r8 + 12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
# u64 enabled(): the registers that the system keeps for programs, XCR0
ENABLED = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "48c1e220"  # shl rdx, 32
    "4809d0"  # or rax, rdx
    "c3"  # ret
)
SECOND = 64  # where the second begins
EXTENDED = 0x80000000
# Leaf, part and the words that tell of instructions: those of caches, counters and the core that
# answers are left out.
FEATURES = (
    (0, 0, "abcd"), (1, 0, "acd"), (7, 0, "abcd"), (7, 1, "abcd"), (7, 2, "d"), (0xD, 1, "a"),
    (0x14, 0, "b"), (0x19, 0, "b"), (0x1E, 1, "a"), (0x24, 0, "ab"), (EXTENDED, 0, "a"),
    (EXTENDED + 1, 0, "abcd"), (EXTENDED + 8, 0, "b"), (EXTENDED + 0x21, 0, "a"),
)  # fmt: skip
KEEPS_STATE = 1 << 27  # of leaf 1, word c: whether `ENABLED` may be asked


@functools.cache
def identity() -> str:
    """All that decides which instructions there are; "" where nobody can be asked."""
    if not objects.is_possible():
        return ""
    try:
        memory = objects.fresh(mmap.PAGESIZE)
        memory[: len(ASK)] = ASK
        memory[SECOND : SECOND + len(ENABLED)] = ENABLED
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        objects.protect(address, mmap.PAGESIZE)
    except (OSError, objects.NotMapped):
        return ""
    word = ctypes.c_uint32
    ask = ctypes.CFUNCTYPE(None, word, word, ctypes.c_void_p)(address)
    enabled = ctypes.CFUNCTYPE(ctypes.c_uint64)(address + SECOND)
    words = (word * 4)()
    most, said = {}, []
    for leaf, part, wanted in FEATURES:
        level = leaf & EXTENDED
        if leaf > most.get(level, leaf):
            continue
        ask(leaf, part, ctypes.addressof(words))
        if leaf == level:
            most[level] = words[0]
        said += [f"{leaf:x}.{part}"] + [f"{words['abcd'.index(name)]:x}" for name in wanted]
        if leaf == 1 and words[2] & KEEPS_STATE:
            said.append(f"{enabled():x}")
    return " ".join(said)
