"""The thread pool of the CPU target, as LLVM IR text."""

from __future__ import annotations

import string

from tilewright.targets.cpu.alone import ENTER, LEAVE, POOL_ALONE_IR
from tilewright.targets.cpu.apart import CALLS, MOST_APART, POOL_APART_IR
from tilewright.targets.cpu.asked import ASKED_IR, SHARES, STREAMS
from tilewright.targets.cpu.stop import FAULT, STOP_IR
from tilewright.targets.cpu.waits import NUMBERS, POOL_WAITS_IR

# What kernels call.
KERNEL_EXPORTS = (FAULT, SHARES, STREAMS, "tw_poll", "tw_wait", "tw_go_on", ENTER, LEAVE)
EXPORTS = ("tw_parallel", "tw_raise", "tw_reset", *KERNEL_EXPORTS)

# The number of Linux's futex system call, and a pause as declared and as called.
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}
_PAUSES = {
    "x86_64": ("@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": ("@llvm.aarch64.hint(i32)", "@llvm.aarch64.hint(i32 1)"),
}

# A job is a generation. Its ticket is generation << 32 | next chunk, and a chunk is claimed by
# compare-and-swap, so that a worker that wakes late claims nothing of a newer job and what it
# read of the job's data does not matter. The launch is over when the chunks done are all of
# them: no worker is waited for that has not claimed one. A worker takes part when it gets one of
# the job's seats (generation << 32 | seats left).
_POOL = """
@tw_busy = internal global i32 0, align 64
@tw_holder = internal global i64 0
@tw_main = internal global i64 0
@tw_workers = internal global i64 0
@tw_job = internal global [5 x i64] zeroinitializer, align 64
@tw_ticket = internal global i64 0, align 64
@tw_done = internal global i64 0, align 64
@tw_seats = internal global i64 0, align 64
@tw_generation = internal global i32 0, align 64
@tw_asleep = internal global i32 0, align 64

declare void $pause_declared
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)

; claim and run chunks of the job until none is left
define internal void @work(i64 %generation) nounwind {
  %p1 = getelementptr i64, ptr @tw_job, i64 1
  %p2 = getelementptr i64, ptr @tw_job, i64 2
  %p3 = getelementptr i64, ptr @tw_job, i64 3
  %p4 = getelementptr i64, ptr @tw_job, i64 4
  br label %next
next:
  %ticket = load atomic i64, ptr @tw_ticket acquire, align 8
  %of = lshr i64 %ticket, 32
  %mine = icmp eq i64 %of, %generation
  br i1 %mine, label %look, label %leave
look:
  %i = and i64 %ticket, 4294967295
  %fn = load atomic ptr, ptr @tw_job monotonic, align 8
  %args = load atomic ptr, ptr %p1 monotonic, align 8
  %total = load atomic i64, ptr %p2 monotonic, align 8
  %chunk = load atomic i64, ptr %p3 monotonic, align 8
  %chunks = load atomic i64, ptr %p4 monotonic, align 8
  %left = icmp ult i64 %i, %chunks
  br i1 %left, label %claim, label %leave
claim:
  fence acquire
  %ticket1 = add i64 %ticket, 1
  %x = cmpxchg ptr @tw_ticket, i64 %ticket, i64 %ticket1 acq_rel acquire
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %check, label %next
check:
  ; only now: without a claim, the arguments may be those of a launch that is over
  %state = load ptr, ptr %args, align 8
  %stop = load atomic i64, ptr %state monotonic, align 8
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %run, label %skip
run:
  %begin = mul i64 %i, %chunk
  %end0 = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %end0, i64 %total)
  call void %fn(i64 %begin, i64 %end, ptr %args)
  %polled = call i64 @tw_poll(ptr %state)
  br label %count
skip:
  ; claim all that is left at once; our own chunk, not yet counted, keeps the job alive
  %base = shl i64 %generation, 32
  %last = or i64 %base, %chunks
  %old = atomicrmw xchg ptr @tw_ticket, i64 %last acq_rel
  %claimed = and i64 %old, 4294967295
  %rest = sub i64 %chunks, %claimed
  %skipped = add i64 %rest, 1
  br label %count
count:
  %n = phi i64 [ 1, %run ], [ %skipped, %skip ]
  %d = atomicrmw add ptr @tw_done, i64 %n acq_rel
  br label %next
leave:
  ret void
}

; a pool thread: spin for 200 us, then sleep until there is a new job
define internal ptr @worker(ptr %number) nounwind {
entry:
  %index = ptrtoint ptr %number to i64
  call void @move_away(i64 %index)
  br label %top
top:
  %seen = phi i32 [ 0, %entry ], [ %generation, %seat ], [ %generation, %sit ]
  %start = call i64 @now(i32 1)
  br label %watch
watch:
  %k = phi i32 [ 0, %top ], [ %k1, %spin ], [ %k1, %clock ]
  %v = load atomic i32, ptr @tw_generation acquire, align 4
  %new = icmp ne i32 %v, %seen
  br i1 %new, label %wanted, label %spin
spin:
  call void $pause
  %k1 = add i32 %k, 1
  %low = and i32 %k1, 63
  %tick = icmp eq i32 %low, 0
  br i1 %tick, label %clock, label %watch
clock:
  %t = call i64 @now(i32 1)
  %waited = sub i64 %t, %start
  %more = icmp slt i64 %waited, 200000
  br i1 %more, label %watch, label %sleep
sleep:
  %a = atomicrmw add ptr @tw_asleep, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr @tw_generation, i32 128, i32 %seen, ptr null)
  %b = atomicrmw sub ptr @tw_asleep, i32 1 seq_cst
  %w = load atomic i32, ptr @tw_generation acquire, align 4
  %woken = icmp ne i32 %w, %seen
  br i1 %woken, label %wanted, label %sleep
wanted:
  %generation = phi i32 [ %v, %watch ], [ %w, %sleep ]
  br label %seat
seat:
  %s = load atomic i64, ptr @tw_seats acquire, align 8
  %free = and i64 %s, 4294967295
  %full = icmp eq i64 %free, 0
  br i1 %full, label %top, label %take
take:
  %s1 = sub i64 %s, 1
  %x = cmpxchg ptr @tw_seats, i64 %s, i64 %s1 acq_rel acquire
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %sit, label %seat
sit:
  %job = lshr i64 %s, 32
  call void @work(i64 %job)
  br label %top
}

; start threads until there are `wanted`: 8 MiB of stack, detached, and no signals but faults
define internal void @grow(i64 %wanted) nounwind {
  %set = alloca [16 x i64], align 16
  %old = alloca [16 x i64], align 16
  %attr = alloca [16 x i64], align 16
  %thread = alloca i64, align 8
  %r0 = call i32 @sigfillset(ptr %set)
  %r1 = call i32 @sigdelset(ptr %set, i32 4)
  %r2 = call i32 @sigdelset(ptr %set, i32 7)
  %r3 = call i32 @sigdelset(ptr %set, i32 8)
  %r4 = call i32 @sigdelset(ptr %set, i32 11)
  %r5 = call i32 @pthread_sigmask(i32 2, ptr %set, ptr %old)
  %r6 = call i32 @pthread_attr_init(ptr %attr)
  %r7 = call i32 @pthread_attr_setdetachstate(ptr %attr, i32 1)
  %r8 = call i32 @pthread_attr_setstacksize(ptr %attr, i64 8388608)
  br label %more
more:
  %n = load i64, ptr @tw_workers, align 8
  %enough = icmp sge i64 %n, %wanted
  br i1 %enough, label %done, label %create
create:
  %number = inttoptr i64 %n to ptr
  %r = call i32 @pthread_create(ptr %thread, ptr %attr, ptr @worker, ptr %number)
  %failed = icmp ne i32 %r, 0
  br i1 %failed, label %done, label %count
count:
  %n1 = add i64 %n, 1
  store i64 %n1, ptr @tw_workers, align 8
  br label %more
done:
  %r9 = call i32 @pthread_attr_destroy(ptr %attr)
  %r10 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

; run all chunks in this thread
define internal void @inline(ptr %fn, ptr %args, ptr %state, i64 %total, i64 %chunk) nounwind {
entry:
  br label %next
next:
  %begin = phi i64 [ 0, %entry ], [ %end, %run ]
  %stop = call i64 @tw_poll(ptr %state)
  %go = icmp eq i64 %stop, 0
  %left = icmp slt i64 %begin, %total
  %more = and i1 %go, %left
  br i1 %more, label %run, label %done
run:
  %end0 = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %end0, i64 %total)
  call void %fn(i64 %begin, i64 %end, ptr %args)
  br label %next
done:
  ret void
}

; make a job known to the pool; the result is its generation
define internal i64 @publish(ptr %fn, ptr %args, i64 %total, i64 %chunk, i64 %chunks,
                             i64 %helpers) nounwind {
  %g0 = load atomic i32, ptr @tw_generation monotonic, align 4
  %g1 = add i32 %g0, 1
  %generation = zext i32 %g1 to i64
  %base = shl i64 %generation, 32
  ; the new ticket first: whoever still reads the data as the old job's then fails to claim
  store atomic i64 %base, ptr @tw_ticket monotonic, align 8
  fence release
  %p1 = getelementptr i64, ptr @tw_job, i64 1
  %p2 = getelementptr i64, ptr @tw_job, i64 2
  %p3 = getelementptr i64, ptr @tw_job, i64 3
  %p4 = getelementptr i64, ptr @tw_job, i64 4
  store atomic ptr %fn, ptr @tw_job monotonic, align 8
  store atomic ptr %args, ptr %p1 monotonic, align 8
  store atomic i64 %total, ptr %p2 monotonic, align 8
  store atomic i64 %chunk, ptr %p3 monotonic, align 8
  store atomic i64 %chunks, ptr %p4 monotonic, align 8
  store atomic i64 0, ptr @tw_done monotonic, align 8
  store atomic i64 %helpers, ptr @tw_seated monotonic, align 8
  %seats = or i64 %base, %helpers
  store atomic i64 %seats, ptr @tw_seats release, align 8
  %g = atomicrmw xchg ptr @tw_generation, i32 %g1 seq_cst
  %asleep = load atomic i32, ptr @tw_asleep seq_cst, align 4
  %wake = icmp sgt i32 %asleep, 0
  br i1 %wake, label %call, label %done
call:
  %n = trunc i64 %helpers to i32
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr @tw_generation, i32 129, i32 %n)
  br label %done
done:
  ret i64 %generation
}

; until all chunks are done: spin for 100 us, yield for 5 ms, then sleep 100 us at a time
define internal void @wait(ptr %state, i64 %chunks) nounwind {
entry:
  %d0 = load atomic i64, ptr @tw_done acquire, align 8
  %all0 = icmp eq i64 %d0, %chunks
  br i1 %all0, label %done, label %begin
begin:
  %start = call i64 @now(i32 1)
  br label %look
look:
  %d = load atomic i64, ptr @tw_done acquire, align 8
  %all = icmp eq i64 %d, %chunks
  br i1 %all, label %done, label %idle
idle:
  %stop = call i64 @tw_poll(ptr %state)
  %t = call i64 @now(i32 1)
  %waited = sub i64 %t, %start
  %short = icmp slt i64 %waited, 100000
  br i1 %short, label %spin, label %longer
spin:
  call void $pause
  br label %look
longer:
  %medium = icmp slt i64 %waited, 5000000
  br i1 %medium, label %yield, label %sleep
yield:
  %r0 = call i32 @sched_yield()
  br label %look
sleep:
  call void @doze()
  br label %look
done:
  ret void
}

; 100 us of sleep
define internal void @doze() nounwind {
  %nap = alloca [2 x i64], align 8
  store i64 0, ptr %nap, align 8
  %ns = getelementptr i64, ptr %nap, i64 1
  store i64 100000, ptr %ns, align 8
  %r = call i32 @nanosleep(ptr %nap, ptr null)
  ret void
}

define internal void @share(ptr %fn, ptr %args, ptr %state, i64 %total, i64 %chunk, i64 %chunks,
                            i64 %team) nounwind {
  %helpers = sub i64 %team, 1
  %workers = load i64, ptr @tw_workers, align 8
  call void @keep_apart()
  %few = icmp slt i64 %workers, %helpers
  br i1 %few, label %start, label %run
start:
  call void @grow(i64 %helpers)
  br label %run
run:
  %generation = call i64 @publish(ptr %fn, ptr %args, i64 %total, i64 %chunk, i64 %chunks,
                                  i64 %helpers)
  call void @work(i64 %generation)
  call void @wait(ptr %state, i64 %chunks)
  ret void
}

; run fn(begin, end, args) over [0, total) by at most `threads` threads; the result is the status
; a negative wish: programs may wait for each other, so one at a time, and not without the pool
define i64 @tw_parallel(ptr %fn, ptr %args, i64 %total, i64 %wish, i64 %threads) nounwind {
  %state = load ptr, ptr %args, align 8
  %self = call i64 @pthread_self()
  %main = load i64, ptr @tw_main, align 8
  %ismain = icmp eq i64 %self, %main
  %owner = select i1 %ismain, i64 %self, i64 0
  %now = call i64 @now(i32 6)
  %later = add i64 %now, 40000000
  %s1 = getelementptr i64, ptr %state, i64 1
  %s2 = getelementptr i64, ptr %state, i64 2
  %s3 = getelementptr i64, ptr %state, i64 3
  store i64 %owner, ptr %s1, align 8
  store i64 %later, ptr %s2, align 8
  store ptr null, ptr %s3, align 8
  %s6 = getelementptr i64, ptr %state, i64 6
  %s7 = getelementptr i64, ptr %state, i64 7
  store atomic i64 0, ptr %s6 monotonic, align 8
  store i64 0, ptr %s7, align 8
  %any = icmp sgt i64 %total, 0
  br i1 %any, label %size, label %finish
size:
  ; the number of a chunk has 32 bits
  %least = lshr i64 %total, 31
  %least1 = call i64 @llvm.smax.i64(i64 %least, i64 1)
  %chunk = call i64 @llvm.smax.i64(i64 %wish, i64 %least1)
  %last = sub i64 %total, 1
  %chunks0 = sdiv i64 %last, %chunk
  %chunks = add i64 %chunks0, 1
  %team = call i64 @llvm.smin.i64(i64 %threads, i64 %chunks)
  %alone = icmp sle i64 %team, 1
  br i1 %alone, label %inline, label %enter
enter:
  %x = cmpxchg ptr @tw_busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %x, 1
  br i1 %free, label %share, label %taken
taken:
  %waits = icmp slt i64 %wish, 0
  %holder = load atomic i64, ptr @tw_holder monotonic, align 8
  %another = icmp ne i64 %holder, %self
  %queue = and i1 %waits, %another
  br i1 %queue, label %turn, label %inline
turn:
  %stop0 = call i64 @tw_poll(ptr %state)
  %go0 = icmp eq i64 %stop0, 0
  br i1 %go0, label %nap, label %finish
nap:
  call void @doze()
  br label %enter
inline:
  call void @inline(ptr %fn, ptr %args, ptr %state, i64 %total, i64 %chunk)
  br label %finish
share:
  store atomic i64 %self, ptr @tw_holder monotonic, align 8
  store i64 1, ptr %s7, align 8
  call void @share(ptr %fn, ptr %args, ptr %state, i64 %total, i64 %chunk, i64 %chunks, i64 %team)
  store atomic i64 0, ptr @tw_holder monotonic, align 8
  store atomic i32 0, ptr @tw_busy release, align 4
  br label %finish
finish:
  %error = load ptr, ptr %s3, align 8
  %quiet = icmp eq ptr %error, null
  %stop = load atomic i64, ptr %state acquire, align 8
  %status = select i1 %quiet, i64 %stop, i64 2
  ret i64 %status
}

; forget the workers (a forked child has none); `main` is Python's main thread
define void @tw_reset(i64 %main) nounwind {
  store i64 %main, ptr @tw_main, align 8
  store i64 0, ptr @tw_workers, align 8
  store i32 0, ptr @tw_asleep, align 4
  store i64 0, ptr @tw_seats, align 8
  store i32 0, ptr @tw_busy, align 4
  store i32 0, ptr @tw_helping, align 4
  call void @forget_apart()
  store i64 0, ptr @tw_together, align 8
  ret void
}
"""


def pool_ir(arch: str) -> str:
    """The pool for Linux on `arch`, one of `FUTEX_CALL`; any processor of that kind can run it."""
    declared, pause = _PAUSES[arch]
    parts = _POOL + POOL_ALONE_IR + POOL_APART_IR + POOL_WAITS_IR
    return (
        STOP_IR
        + ASKED_IR
        + string.Template(parts).substitute(
            NUMBERS,
            **CALLS[arch],
            futex=FUTEX_CALL[arch],
            apart=MOST_APART,
            apart_bytes=8 * MOST_APART,
            pause=pause,
            pause_declared=declared,
        )
    )
