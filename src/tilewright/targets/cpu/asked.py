"""What a kernel asks of its arguments once, before its first program, as LLVM IR text.

Kernels call these functions, since LLVM would take longer over their lines than over any loop.
"""

from __future__ import annotations

PART_SHIFT = 2  # stores that go past the caches fill at least a quarter of the last one

SHARES, STREAMS = "tw_shares", "tw_streams"
SHARES_IMPORT = {SHARES: f"i1 @{SHARES}(ptr, ptr, i64)"}
STREAMS_IMPORT = {STREAMS: f"i1 @{STREAMS}(ptr, i64, i64, ptr, i64, i64)"}

# The slots of the arguments begin at 6, three each: address, low and high end of the storage. The
# grid is in slots 1 to 3.
ASKED_IR = f"""
declare i64 @llvm.abs.i64(i64, i1)

define internal ptr @slots(ptr %args, i64 %param) alwaysinline nounwind {{
  %first = getelementptr i64, ptr %args, i64 6
  %slots = getelementptr [3 x i64], ptr %first, i64 %param
  ret ptr %slots
}}

; the ends of the storage of an argument
define internal {{ i64, i64 }} @ends(ptr %args, i64 %param) alwaysinline nounwind {{
  %slots = call ptr @slots(ptr %args, i64 %param)
  %lows = getelementptr i64, ptr %slots, i64 1
  %highs = getelementptr i64, ptr %slots, i64 2
  %low = load i64, ptr %lows
  %high = load i64, ptr %highs
  %one = insertvalue {{ i64, i64 }} poison, i64 %low, 0
  %both = insertvalue {{ i64, i64 }} %one, i64 %high, 1
  ret {{ i64, i64 }} %both
}}

; whether the storages of two arguments have bytes in common
define internal i1 @meet(ptr %args, i64 %i, i64 %j) alwaysinline nounwind {{
  %x = call {{ i64, i64 }} @ends(ptr %args, i64 %i)
  %y = call {{ i64, i64 }} @ends(ptr %args, i64 %j)
  %xl = extractvalue {{ i64, i64 }} %x, 0
  %xh = extractvalue {{ i64, i64 }} %x, 1
  %yl = extractvalue {{ i64, i64 }} %y, 0
  %yh = extractvalue {{ i64, i64 }} %y, 1
  %before = icmp slt i64 %xl, %yh
  %after = icmp slt i64 %yl, %xh
  %meet = and i1 %before, %after
  ret i1 %meet
}}

; whether a pair of arguments shares memory that starts less than so many bytes apart, and at least
; so many: pairs are i, j, less, least. Then the launch is told.
define i1 @{SHARES}(ptr %args, ptr %pairs, i64 %count) nounwind {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %is_end = icmp eq i64 %k, %count
  br i1 %is_end, label %none, label %pair
pair:
  %p0 = getelementptr [4 x i64], ptr %pairs, i64 %k
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %i = load i64, ptr %p0
  %j = load i64, ptr %p1
  %less = load i64, ptr %p2
  %least = load i64, ptr %p3
  %k1 = add i64 %k, 1
  %meet = call i1 @meet(ptr %args, i64 %i, i64 %j)
  br i1 %meet, label %starts, label %next
starts:
  %is = call ptr @slots(ptr %args, i64 %i)
  %js = call ptr @slots(ptr %args, i64 %j)
  %x = load i64, ptr %is
  %y = load i64, ptr %js
  %far = sub i64 %x, %y
  %gap = call i64 @llvm.abs.i64(i64 %far, i1 false)
  %near = icmp slt i64 %gap, %less
  %apart = icmp sge i64 %gap, %least
  %bad = and i1 %near, %apart
  br i1 %bad, label %shared, label %next
next:
  br label %head
shared:
  call void @tw_fault(ptr %args, i64 -1, i64 0, i64 0, i64 0, i64 0)
  ret i1 true
none:
  ret i1 false
}}

; whether a launch stores more to an argument, `each` bytes a program if that is known, than caches
; keep until it ends, and reads from others only
define i1 @{STREAMS}(
    ptr %args, i64 %param, i64 %each, ptr %reads, i64 %count, i64 %cache) nounwind {{
entry:
  %own = call {{ i64, i64 }} @ends(ptr %args, i64 %param)
  %low = extractvalue {{ i64, i64 }} %own, 0
  %high = extractvalue {{ i64, i64 }} %own, 1
  %whole = sub i64 %high, %low
  %part = lshr i64 %cache, {PART_SHIFT}
  %may = icmp sge i64 %whole, %part
  br i1 %may, label %launch, label %no
launch:
  %g1 = getelementptr i64, ptr %args, i64 1
  %g2 = getelementptr i64, ptr %args, i64 2
  %g3 = getelementptr i64, ptr %args, i64 3
  %n1 = load i64, ptr %g1
  %n2 = load i64, ptr %g2
  %n3 = load i64, ptr %g3
  %n12 = mul i64 %n1, %n2
  %programs = mul i64 %n12, %n3
  %bytes = mul i64 %programs, %each
  %is_known = icmp ne i64 %each, 0
  %is_less = icmp slt i64 %bytes, %whole
  %takes = and i1 %is_known, %is_less
  %size = select i1 %takes, i64 %bytes, i64 %whole
  %is_large = icmp sge i64 %size, %part
  br i1 %is_large, label %head, label %no
head:
  %i = phi i64 [ 0, %launch ], [ %i1, %apart ]
  %total = phi i64 [ %size, %launch ], [ %total1, %apart ]
  %is_end = icmp eq i64 %i, %count
  br i1 %is_end, label %out, label %read
read:
  %p = getelementptr i64, ptr %reads, i64 %i
  %k = load i64, ptr %p
  %i1 = add i64 %i, 1
  %meet = call i1 @meet(ptr %args, i64 %param, i64 %k)
  br i1 %meet, label %no, label %apart
apart:
  %other = call {{ i64, i64 }} @ends(ptr %args, i64 %k)
  %olow = extractvalue {{ i64, i64 }} %other, 0
  %ohigh = extractvalue {{ i64, i64 }} %other, 1
  %more = sub i64 %ohigh, %olow
  %total1 = add i64 %total, %more
  br label %head
out:
  %enough = icmp sge i64 %total, %cache
  ret i1 %enough
no:
  ret i1 false
}}
"""
