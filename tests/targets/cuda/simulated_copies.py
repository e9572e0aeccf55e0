"""Asynchronous copies for the simulator: they happen when waited for, as late as they may.

What a copy will overwrite is spoilt at once, so that reading before the wait shows.
"""

from __future__ import annotations

import ctypes
import re

MOST = 4096  # copies of a thread that may be under way
SPOILT = 0xCB  # a byte that makes a NaN of any float
# A queue: the number of groups closed, the first and the next free copy; then for each copy its
# target, source, bytes, bytes that are not zeros, and group.
HEAD, ENTRY = 3, 5

CALL = re.compile(
    r'call void asm sideeffect "@\$2 cp\.async\.c[ag]\.shared\.global \[\$0\], '
    r'\[\$1(?: \+ (-?\d+))?\], (\d+)(, \$3)?;", "[^"]*"'
    r"\(i32 (\S+), ptr (\S+), i1 (\w+|%\w+)(?:, i32 (\S+))?\)"
)
COMMIT = "call void @llvm.nvvm.cp.async.commit.group()"
WAIT = re.compile(r"call void @llvm\.nvvm\.cp\.async\.wait\.group\((i32 \d+)\)")


def queue() -> ctypes.Array:
    return (ctypes.c_int64 * (HEAD + ENTRY * MOST))()


def rewritten(line: str) -> str:
    line = CALL.sub(copy, line)
    line = line.replace(COMMIT, "call void @sim_commit(ptr %sim)")
    return WAIT.sub(r"call void @sim_settle(ptr %sim, \1)", line)


def copy(match: re.Match) -> str:
    far, bytes, sized, target, source, on, size = match.groups()
    return (
        f"call void @sim_copy(ptr %sim, i32 {target}, ptr {source}, i64 {far or 0}, i32 {bytes}, "
        f"i32 {size if sized else bytes}, i1 {on})"
    )


HELPERS = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal ptr @sim_queue(ptr %s) {{
  %p = getelementptr i64, ptr %s, i32 14
  %q = load volatile ptr, ptr %p
  ret ptr %q
}}
define internal void @sim_copy(
  ptr %s, i32 %at, ptr %base, i64 %far, i32 %bytes, i32 %size, i1 %on
) noinline {{
  br i1 %on, label %go, label %end
go:
  %to = inttoptr i32 %at to ptr
  %from = getelementptr i8, ptr %base, i64 %far
  %q = call ptr @sim_queue(ptr %s)
  %n = zext i32 %bytes to i64
  %m = zext i32 %size to i64
  call void @llvm.memset.p0.i64(ptr %to, i8 {SPOILT}, i64 %n, i1 true)
  %group = load volatile i64, ptr %q
  %tailp = getelementptr i64, ptr %q, i32 2
  %tail = load volatile i64, ptr %tailp
  %next = add i64 %tail, 1
  store volatile i64 %next, ptr %tailp
  %row = mul i64 %tail, {ENTRY}
  %place = add i64 %row, {HEAD}
  %entry = getelementptr i64, ptr %q, i64 %place
  store volatile ptr %to, ptr %entry
  %b = getelementptr i64, ptr %entry, i32 1
  store volatile ptr %from, ptr %b
  %c = getelementptr i64, ptr %entry, i32 2
  store volatile i64 %n, ptr %c
  %d = getelementptr i64, ptr %entry, i32 3
  store volatile i64 %m, ptr %d
  %e = getelementptr i64, ptr %entry, i32 4
  store volatile i64 %group, ptr %e
  br label %end
end:
  ret void
}}
define internal void @sim_commit(ptr %s) noinline {{
  %q = call ptr @sim_queue(ptr %s)
  %group = load volatile i64, ptr %q
  %next = add i64 %group, 1
  store volatile i64 %next, ptr %q
  ret void
}}
define internal void @sim_settle(ptr %s, i32 %left) noinline {{
entry:
  %q = call ptr @sim_queue(ptr %s)
  %groups = load volatile i64, ptr %q
  %n = zext i32 %left to i64
  %limit = sub i64 %groups, %n
  %firstp = getelementptr i64, ptr %q, i32 1
  %tailp = getelementptr i64, ptr %q, i32 2
  %begin = load volatile i64, ptr %firstp
  %tail = load volatile i64, ptr %tailp
  br label %head
head:
  %at = phi i64 [%begin, %entry], [%after, %do]
  %some = icmp slt i64 %at, %tail
  br i1 %some, label %look, label %end
look:
  %far = mul i64 %at, {ENTRY}
  %place = add i64 %far, {HEAD}
  %p = getelementptr i64, ptr %q, i64 %place
  %e = getelementptr i64, ptr %p, i32 4
  %group = load volatile i64, ptr %e
  %due = icmp slt i64 %group, %limit
  br i1 %due, label %do, label %end
do:
  %b = getelementptr i64, ptr %p, i32 1
  %c = getelementptr i64, ptr %p, i32 2
  %d = getelementptr i64, ptr %p, i32 3
  %to = load volatile ptr, ptr %p
  %from = load volatile ptr, ptr %b
  %bytes = load volatile i64, ptr %c
  %size = load volatile i64, ptr %d
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %bytes, i1 true)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 true)
  %after = add i64 %at, 1
  br label %head
end:
  %empty = icmp eq i64 %at, %tail
  %first = select i1 %empty, i64 0, i64 %at
  %last = select i1 %empty, i64 0, i64 %tail
  store volatile i64 %first, ptr %firstp
  store volatile i64 %last, ptr %tailp
  ret void
}}
"""
