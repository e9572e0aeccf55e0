"""How a launch is stopped by a fault or by Python's signals, as LLVM IR text."""

from __future__ import annotations

FAULT = "tw_fault"
IMPORTS = {FAULT: f"void @{FAULT}(ptr, i64, i64, i64, i64, i64) cold"}

# The first program that faults leaves what happened in the launch state and stops the launch.
FAULT_IR = """
define void @tw_fault(
    ptr %args, i64 %site, i64 %pid, i64 %address, i64 %stride, i64 %count) nounwind cold {
  %state = load ptr, ptr %args
  %record = getelementptr i64, ptr %state, i64 8
  %old = cmpxchg ptr %record, i64 0, i64 1 acq_rel monotonic
  %won = extractvalue { i64, i1 } %old, 1
  br i1 %won, label %tell, label %stop
tell:
  %p1 = getelementptr i64, ptr %record, i64 1
  store i64 %site, ptr %p1
  %p2 = getelementptr i64, ptr %record, i64 2
  store i64 %pid, ptr %p2
  %p3 = getelementptr i64, ptr %record, i64 3
  store i64 %address, ptr %p3
  %p4 = getelementptr i64, ptr %record, i64 4
  store i64 %stride, ptr %p4
  %p5 = getelementptr i64, ptr %record, i64 5
  store i64 %count, ptr %p5
  br label %stop
stop:
  %word = cmpxchg ptr %state, i64 0, i64 1 acq_rel monotonic
  ret void
}
"""

# State words: 0 stop, 1 the thread that may ask for signals, 2 when it asks next (ns),
# 3-5 the exception that a signal handler raised, 6 those that wait for each other (`waits.py`),
# 7 whether the pool has the launch.
STOP_IR = (
    FAULT_IR
    + """
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)

; nanoseconds; clock 1 is CLOCK_MONOTONIC, 6 its coarse form (5 ns to read, ticks of 1 to 10 ms)
define internal i64 @now(i32 %clock) nounwind {
  %time = alloca [2 x i64], align 8
  %r = call i32 @clock_gettime(i32 %clock, ptr %time)
  %s = load i64, ptr %time, align 8
  %np = getelementptr i64, ptr %time, i64 1
  %n = load i64, ptr %np, align 8
  %sn = mul i64 %s, 1000000000
  %t = add i64 %sn, %n
  ret i64 %t
}

; the stop word; on the launching thread also runs Python's signal handlers every 40 ms
define i64 @tw_poll(ptr %state) nounwind {
  %stop = load atomic i64, ptr %state monotonic, align 8
  %going = icmp eq i64 %stop, 0
  br i1 %going, label %who, label %out
who:
  %ownerp = getelementptr i64, ptr %state, i64 1
  %owner = load i64, ptr %ownerp, align 8
  %self = call i64 @pthread_self()
  %launcher = icmp eq i64 %owner, %self
  br i1 %launcher, label %when, label %out
when:
  %now = call i64 @now(i32 6)
  %nextp = getelementptr i64, ptr %state, i64 2
  %next = load i64, ptr %nextp, align 8
  %due = icmp sge i64 %now, %next
  br i1 %due, label %ask, label %out
ask:
  %later = add i64 %now, 40000000
  store i64 %later, ptr %nextp, align 8
  %gil = call i32 @PyGILState_Ensure()
  %r = call i32 @PyErr_CheckSignals()
  %raised = icmp slt i32 %r, 0
  br i1 %raised, label %keep, label %release
keep:
  %e0 = getelementptr i64, ptr %state, i64 3
  %e1 = getelementptr i64, ptr %state, i64 4
  %e2 = getelementptr i64, ptr %state, i64 5
  call void @PyErr_Fetch(ptr %e0, ptr %e1, ptr %e2)
  %x = cmpxchg ptr %state, i64 0, i64 2 acq_rel monotonic
  br label %release
release:
  call void @PyGILState_Release(i32 %gil)
  %after = load atomic i64, ptr %state monotonic, align 8
  ret i64 %after
out:
  ret i64 %stop
}

; with the GIL: raise what a signal handler raised during the launch with these arguments
define void @tw_raise(ptr %args) nounwind {
  %state = load ptr, ptr %args, align 8
  %e0 = getelementptr i64, ptr %state, i64 3
  %e1 = getelementptr i64, ptr %state, i64 4
  %e2 = getelementptr i64, ptr %state, i64 5
  %type = load ptr, ptr %e0, align 8
  %none = icmp eq ptr %type, null
  br i1 %none, label %out, label %restore
restore:
  %value = load ptr, ptr %e1, align 8
  %trace = load ptr, ptr %e2, align 8
  store ptr null, ptr %e0, align 8
  store ptr null, ptr %e1, align 8
  store ptr null, ptr %e2, align 8
  call void @PyErr_Restore(ptr %type, ptr %value, ptr %trace)
  ret void
out:
  ret void
}
"""
)

# Where there is no native pool: the stop word without signals.
POLL_IR = (
    FAULT_IR
    + """
define i64 @tw_poll(ptr %state) nounwind {
  %stop = load atomic i64, ptr %state monotonic, align 8
  ret i64 %stop
}
"""
)
