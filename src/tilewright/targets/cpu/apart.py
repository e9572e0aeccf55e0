"""Keep workers off the core of the thread that launches, as LLVM IR text.

A scheduler may wake a worker on the core that woke it, and leave both there for many launches while
another core idles. So workers may run on every core that the launching thread may use but its
present one. Of more workers than there are such cores, the others roam.
"""

from __future__ import annotations

MOST_APART = 64  # workers that are told where to run

# Numbers of Linux's system calls.
CALLS = {
    "x86_64": {"gettid": 186, "setaffinity": 203, "getaffinity": 204},
    "aarch64": {"gettid": 178, "setaffinity": 122, "getaffinity": 123},
}

# `tw_core`: the core of the launching thread when workers were last told, from 1. A worker writes
# its number into `tw_tids` and then reads the core, a launch the other way round, so that one of
# them sees what the other wrote.
POOL_APART_IR = """
@tw_core = internal global i32 0
@tw_tids = internal global [$apart x i64] zeroinitializer, align 64

declare i32 @sched_getcpu()
declare i64 @llvm.ctpop.i64(i64)

; the cores that a thread (0: this one) may use but `core`, into a mask of 16 words; how many
define internal i64 @others(i64 %thread, i64 %core, ptr %mask) nounwind {
entry:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %r = call i64 (i64, ...) @syscall(i64 $getaffinity, i64 %thread, i64 128, ptr %mask)
  %known = icmp sgt i64 %r, 0
  %small = icmp ult i64 %core, 1024
  %usable = and i1 %known, %small
  br i1 %usable, label %clear, label %none
clear:
  %word = lshr i64 %core, 6
  %bit = and i64 %core, 63
  %one = shl i64 1, %bit
  %keep = xor i64 %one, -1
  %p = getelementptr i64, ptr %mask, i64 %word
  %old = load i64, ptr %p, align 8
  %new = and i64 %old, %keep
  store i64 %new, ptr %p, align 8
  br label %count
count:
  %k = phi i64 [ 0, %clear ], [ %k1, %count ]
  %sum = phi i64 [ 0, %clear ], [ %sum1, %count ]
  %q = getelementptr i64, ptr %mask, i64 %k
  %w = load i64, ptr %q, align 8
  %n = call i64 @llvm.ctpop.i64(i64 %w)
  %sum1 = add i64 %sum, %n
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, 16
  br i1 %more, label %count, label %done
done:
  ret i64 %sum1
none:
  ret i64 0
}

; tell the workers, if the launching thread has moved to another core
define internal void @keep_apart() nounwind {
entry:
  %mask = alloca [16 x i64], align 16
  %core = call i32 @sched_getcpu()
  %core1 = add i32 %core, 1
  %told = load atomic i32, ptr @tw_core monotonic, align 4
  %same = icmp eq i32 %core1, %told
  br i1 %same, label %done, label %tell
tell:
  %x = atomicrmw xchg ptr @tw_core, i32 %core1 seq_cst
  %wide = sext i32 %core to i64
  %cores = call i64 @others(i64 0, i64 %wide, ptr %mask)
  %most = call i64 @llvm.smin.i64(i64 %cores, i64 $apart)
  %any = icmp sgt i64 %most, 0
  br i1 %any, label %each, label %done
each:
  %k = phi i64 [ 0, %tell ], [ %k1, %next ]
  %p = getelementptr i64, ptr @tw_tids, i64 %k
  %tid = load atomic i64, ptr %p seq_cst, align 8
  %there = icmp ne i64 %tid, 0
  br i1 %there, label %set, label %next
set:
  %r = call i64 (i64, ...) @syscall(i64 $setaffinity, i64 %tid, i64 128, ptr %mask)
  br label %next
next:
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %most
  br i1 %more, label %each, label %done
done:
  ret void
}

; a new worker, the `index`th, moves away from the core of the launch that made it
define internal void @move_away(i64 %index) nounwind {
entry:
  %mask = alloca [16 x i64], align 16
  %few = icmp ult i64 %index, $apart
  br i1 %few, label %enter, label %done
enter:
  %tid = call i64 (i64, ...) @syscall(i64 $gettid)
  %p = getelementptr i64, ptr @tw_tids, i64 %index
  store atomic i64 %tid, ptr %p seq_cst, align 8
  %core1 = load atomic i32, ptr @tw_core seq_cst, align 4
  %core = sub i32 %core1, 1
  %wide = zext i32 %core to i64
  %cores = call i64 @others(i64 0, i64 %wide, ptr %mask)
  %room = icmp slt i64 %index, %cores
  br i1 %room, label %set, label %done
set:
  %r = call i64 (i64, ...) @syscall(i64 $setaffinity, i64 0, i64 128, ptr %mask)
  br label %done
done:
  ret void
}

; a forked child has no workers
define internal void @forget_apart() nounwind {
  store i32 0, ptr @tw_core, align 4
  call void @llvm.memset.p0.i64(ptr @tw_tids, i8 0, i64 $apart_bytes, i1 false)
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
