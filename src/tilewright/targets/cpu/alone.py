"""Atomics without locks where no other thread can run a kernel's atomics at the same time.

A kernel asks when it begins a chunk of programs. If its launch has one thread and no other chunk
with atomics runs in the process, it is *alone*: its read-modify-writes are plain ones, and whoever
comes meanwhile waits until the chunk ends. After that has happened once, launches do overlap here,
and nobody is alone any more. Kernels that may wait for other programs do not ask.
"""

from __future__ import annotations

ENTER, LEAVE = "tw_enter", "tw_leave"
IMPORTS = {ENTER: f"i64 @{ENTER}(ptr)", LEAVE: f"void @{LEAVE}(i64)"}
HEAD = f"""  %state = load ptr, ptr %args
  %company = call i64 @{ENTER}(ptr %state)
  %alone = icmp eq i64 %company, 1"""
TAIL = f"  call void @{LEAVE}(i64 %company)"

# `tw_together`: how many chunks with atomics run, or with the sign bit the thread that is alone.
# `tw_enter` gives 0 for one of those, 1 for the one that is alone, 2 inside one that is alone
# (a signal handler launches too).
POOL_ALONE_IR = """
@tw_together = internal global i64 0, align 64
@tw_overlap = internal global i32 0

define i64 @tw_enter(ptr %state) nounwind {
entry:
  %thread = call i64 @pthread_self()
  %self = or i64 %thread, -9223372036854775808
  %pooledp = getelementptr i64, ptr %state, i64 7
  %pooled = load i64, ptr %pooledp, align 8
  %overlap = load atomic i32, ptr @tw_overlap monotonic, align 4
  %wide = zext i32 %overlap to i64
  %others = or i64 %pooled, %wide
  %try = icmp eq i64 %others, 0
  br i1 %try, label %alone, label %count
alone:
  %x = cmpxchg ptr @tw_together, i64 0, i64 %self acquire monotonic
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %leave, label %count
count:
  %v = load atomic i64, ptr @tw_together monotonic, align 8
  %taken = icmp slt i64 %v, 0
  br i1 %taken, label %wait, label %add
add:
  %v1 = add i64 %v, 1
  %y = cmpxchg ptr @tw_together, i64 %v, i64 %v1 acquire monotonic
  %counted = extractvalue { i64, i1 } %y, 1
  br i1 %counted, label %leave, label %count
wait:
  %mine = icmp eq i64 %v, %self
  br i1 %mine, label %leave, label %yield
yield:
  store atomic i32 1, ptr @tw_overlap monotonic, align 4
  %r = call i32 @sched_yield()
  br label %count
leave:
  %company = phi i64 [ 1, %alone ], [ 0, %add ], [ 2, %wait ]
  ret i64 %company
}

define void @tw_leave(i64 %company) nounwind {
  switch i64 %company, label %done [ i64 0, label %count
                                     i64 1, label %alone ]
count:
  %n = atomicrmw sub ptr @tw_together, i64 1 release
  br label %done
alone:
  store atomic i64 0, ptr @tw_together release, align 8
  br label %done
done:
  ret void
}
"""

# Where there is no native pool nobody is alone.
PYTHON_ALONE_IR = """
define i64 @tw_enter(ptr %state) nounwind {
  ret i64 0
}

define void @tw_leave(i64 %company) nounwind {
  ret void
}
"""
