"""The end of a native launch on the CPU: its arguments in a block, and the grid on the pool."""

from __future__ import annotations

import string
from collections.abc import Callable

from tilewright.locks import Lock
from tilewright.targets.base import ShortcutSpec
from tilewright.targets.cpu import threads
from tilewright.targets.fastcall.frame import Ending
from tilewright.targets.fastcall.match import LINE
from tilewright.targets.fastcall.read import CPU
from tilewright.targets.fastcall.shortcut import Native, Shortcut, takes

# Words of the plan of a line, then the numbers of the arguments that the code takes; parts are
# the chunks of a thread, 0: each program is one; `few` programs, or fewer, take one thread.
PLAN = {"entry": 0, "team": 1, "parts": 2, "few": 3, "taken": 4}
PLAN_WORDS = len(PLAN)

_RUN = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @tw_parallel(ptr, ptr, i64, i64, i64)

; always
define internal i1 @ready(ptr %line) nounwind alwaysinline {
  ret i1 true
}

; run the grid, without the GIL
define internal i64 @run(ptr %line, ptr %three, ptr %slots, ptr %block) nounwind {
entry:
  %plan_object = call ptr @PyTuple_GetItem(ptr %line, i64 $plan)
  %plan = call ptr @PyBytes_AsString(ptr %plan_object)
  %x = load i64, ptr %three, align 8
  %yp = getelementptr i64, ptr %three, i64 1
  %y = load i64, ptr %yp, align 8
  %zp = getelementptr i64, ptr %three, i64 2
  %z = load i64, ptr %zp, align 8
  %xy = mul i64 %x, %y
  %total = mul i64 %xy, %z
  %none = icmp eq i64 %total, 0
  br i1 %none, label %empty, label %head
head:
  call void @llvm.memset.p0.i64(ptr align 16 %block, i8 0, i64 $state_bytes, i1 false)
  %args = getelementptr i8, ptr %block, i64 $state_bytes
  store ptr %block, ptr %args, align 8
  %a1 = getelementptr i64, ptr %args, i64 1
  store i64 %x, ptr %a1, align 8
  %a2 = getelementptr i64, ptr %args, i64 2
  store i64 %y, ptr %a2, align 8
  %a3 = getelementptr i64, ptr %args, i64 3
  store i64 %z, ptr %a3, align 8
  %a4 = getelementptr i64, ptr %args, i64 4
  store i64 0, ptr %a4, align 8
  %a5 = getelementptr i64, ptr %args, i64 5
  store i64 0, ptr %a5, align 8
  %to = getelementptr i64, ptr %args, i64 $head_slots
  %countp = getelementptr i64, ptr %plan, i64 $taken
  %count = load i64, ptr %countp, align 1
  %numbers = getelementptr i64, ptr %plan, i64 $plan_words
  br label %look
look:
  %i = phi i64 [ 0, %head ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %start
copy:
  %numberp = getelementptr i64, ptr %numbers, i64 %i
  %number = load i64, ptr %numberp, align 1
  %source0 = mul i64 %number, 3
  %source = getelementptr i64, ptr %slots, i64 %source0
  %target0 = mul i64 %i, 3
  %target = getelementptr i64, ptr %to, i64 %target0
  %words = load <3 x i64>, ptr %source, align 8
  store <3 x i64> %words, ptr %target, align 8
  %i1 = add i64 %i, 1
  br label %look
start:
  %entry_code = load ptr, ptr %plan, align 1
  %teamp = getelementptr i64, ptr %plan, i64 $team
  %team = load i64, ptr %teamp, align 1
  %partsp = getelementptr i64, ptr %plan, i64 $parts
  %parts = load i64, ptr %partsp, align 1
  %fewp = getelementptr i64, ptr %plan, i64 $few
  %few = load i64, ptr %fewp, align 1
  %single = icmp sle i64 %total, %few
  %threads = select i1 %single, i64 1, i64 %team
  %each = icmp eq i64 %parts, 0
  br i1 %each, label %go, label %divide
divide:
  %pieces = mul i64 %team, %parts
  %last = add i64 %total, %pieces
  %last1 = sub i64 %last, 1
  %chunk0 = sdiv i64 %last1, %pieces
  br label %go
go:
  %chunk = phi i64 [ -1, %start ], [ %chunk0, %divide ]
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 @tw_parallel(ptr %entry_code, ptr %args, i64 %total, i64 %chunk, i64 %threads)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i64 %status
empty:
  ret i64 0
}
"""


def ending(state_words: int, head_slots: int) -> Ending:
    """For argument blocks with a state of so many words, and so many slots before the arguments."""
    text = string.Template(_RUN).substitute(
        LINE | PLAN, plan_words=PLAN_WORDS, state_bytes=8 * state_words, head_slots=head_slots
    )
    return Ending(text, CPU, state_words + head_slots)


_starting = Lock()
_native: Native | None = None


def shortcut(
    spec: ShortcutSpec, failed: Callable, ending: Ending, object_bytes: Callable[[], bytes]
) -> Shortcut | None:
    """The shortcut of one kernel, where there can be one."""
    global _native
    if not takes(spec) or not threads.is_native():
        return None
    with _starting:
        if _native is None:
            imports = {"tw_parallel": threads.start().parallel_address}
            _native = Native(object_bytes(), ending, imports)
    return Shortcut(_native, spec, failed)
