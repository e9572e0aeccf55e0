"""The modules of a lowered kernel: its entry function, with or without the routines it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.targets.counting import SITE_WORDS
from tilewright.targets.cpu import alone

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

ENTRY = "tw_entry"
FLOPS_WORD = "@FLOPS@"  # stands for the number of the word after those of all sites
STACK_BYTES = 512 << 10  # larger scratch comes from malloc: pool threads have 8 MiB of stack


def module_texts(lowering: Lowering) -> tuple[str, str]:
    """The module with the routines that it calls, and without."""
    w, routines = lowering.e.w, lowering.routines.values()
    entry = entry_text(lowering)
    needs = dict.fromkeys([*w.declared, *(need for routine in routines for need in routine.needs)])
    whole = "\n".join([*needs, *(routine.definition for routine in routines), entry])
    return whole, "\n".join([*w.declared, *(routine.declaration for routine in routines), entry])


def entry_text(lowering: Lowering) -> str:
    """The function that runs programs; what it needs is declared."""
    w = lowering.e.w
    w.write("br label %leave")
    size = max(64, lowering.scratch.size)
    large = size > STACK_BYTES
    if large:
        w.declare("declare ptr @aligned_alloc(i64, i64)")
        w.declare("declare void @free(ptr)")
        scratch = f"  %scratch = call ptr @aligned_alloc(i64 64, i64 {size})"
    else:
        scratch = f"  %scratch = alloca [{size} x i8], align 64"
    for name in lowering.imports:
        w.declare(f"declare {lowering.imports[name]}")
    text = "\n".join(
        [
            f"define void @{ENTRY}(i64 %begin, i64 %end, ptr %args) nounwind {{",
            "entry:",
            scratch,
            *([alone.HEAD] if lowering.memory.is_asking else []),
            *w.allocas,
            *w.scopes[0].lines,
            "leave:",
            *([alone.TAIL] if lowering.memory.is_asking else []),
            *(["  call void @llvm.x86.sse.sfence()"] if lowering.memory.streams.are_used else []),
            *(["  call void @free(ptr %scratch)"] if large else []),
            "  ret void",
            "}",
            "",
        ]
    )
    return text.replace(FLOPS_WORD, str(SITE_WORDS * len(lowering.memory.sites)))
