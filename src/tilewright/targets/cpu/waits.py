"""Tell programs that wait for each other from programs that wait for ever, as LLVM IR text.

A round of a `while` loop that leaves the loop's own values and memory as they were will be the
same again unless another program writes something. Programs in such rounds are *waiting*. When
every program that runs is waiting, and each has done a whole such round since the last of them
came or went, none will ever go on: that is a deadlock, whatever the timing was. A second more is
given to what is outside of the launch, such as another Python thread that writes to an array.

Word 6 of the launch state: epoch << 32 | programs waiting << 16 | those that did a whole round
in this epoch; a new epoch begins whenever one comes or goes. What a waiting program keeps for
itself, `WAIT_WORDS` of i64: 0 whether it is waiting, 1 the epoch of the current round, 2 whether
it was counted in it, 3 since when (ns), 4 rounds, and as the report of a deadlock 5 how many
programs run at once and 6 how many have not started (-1: not known here).
"""

from __future__ import annotations

WAIT_WORDS = 8
DEADLOCK = 3  # what `tw_wait` gives then; else the stop word
MOST_TOGETHER = 256  # programs that run at once when they wait for each other, by more threads
PATIENCE = 1_000_000_000  # ns, for what is outside of the launch
LATE = 20_000_000_000  # ns, for a thread that was asked for and has not come
REINFORCE = 1_000_000  # ns of waiting until more threads are brought in
ROUNDS = 20_000_000  # the patience where there is no clock

# `after` (bits to add to the count of those waiting) begins a new epoch and gives it.
STANDING_IR = """
define internal i64 @turn(ptr %state, i64 %after) nounwind {
entry:
  %p = getelementptr i64, ptr %state, i64 6
  br label %again
again:
  %v = load atomic i64, ptr %p acquire, align 8
  %epoch = lshr i64 %v, 32
  %epoch1 = add i64 %epoch, 1
  %high = shl i64 %epoch1, 32
  %low = and i64 %v, 4294901760
  %low1 = add i64 %low, %after
  %new = or i64 %high, %low1
  %x = cmpxchg ptr %p, i64 %v, i64 %new acq_rel acquire
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %done, label %again
done:
  %mine = lshr i64 %new, 32
  ret i64 %mine
}

; a waiting program goes on
define void @tw_go_on(ptr %state, ptr %own) nounwind {
  %epoch = call i64 @turn(ptr %state, i64 -65536)
  store i64 0, ptr %own, align 8
  ret void
}

; after a round that changed nothing: 0 to go on, the stop word, or DEADLOCK
define i64 @tw_wait(ptr %state, ptr %own) nounwind {
entry:
  %p = getelementptr i64, ptr %state, i64 6
  %o1 = getelementptr i64, ptr %own, i64 1
  %o2 = getelementptr i64, ptr %own, i64 2
  %o3 = getelementptr i64, ptr %own, i64 3
  %o4 = getelementptr i64, ptr %own, i64 4
  %stop = call i64 @tw_poll(ptr %state)
  %going = icmp eq i64 %stop, 0
  br i1 %going, label %known, label %leave
known:
  %now = call i64 @wait_time(ptr %own)
  %waiting0 = load i64, ptr %own, align 8
  %new = icmp eq i64 %waiting0, 0
  br i1 %new, label %come, label %look
come:
  %mine = call i64 @turn(ptr %state, i64 65536)
  store i64 1, ptr %own, align 8
  store i64 0, ptr %o4, align 8
  %here = call i64 @wait_time(ptr %own)
  br label %fresh
look:
  %v = load atomic i64, ptr %p acquire, align 8
  %epoch = lshr i64 %v, 32
  %seen = load i64, ptr %o1, align 8
  %same = icmp eq i64 %epoch, %seen
  br i1 %same, label %count, label %fresh
fresh:
  ; the next round is the first whole one of this epoch
  %epoch1 = phi i64 [ %mine, %come ], [ %epoch, %look ]
  %start = phi i64 [ %here, %come ], [ %now, %look ]
  store i64 %epoch1, ptr %o1, align 8
  store i64 0, ptr %o2, align 8
  store i64 %start, ptr %o3, align 8
  br label %rest
count:
  %counted = load i64, ptr %o2, align 8
  %already = icmp ne i64 %counted, 0
  br i1 %already, label %judge, label %vote
vote:
  %v1 = add i64 %v, 1
  %x = cmpxchg ptr %p, i64 %v, i64 %v1 acq_rel acquire
  %won = extractvalue { i64, i1 } %x, 1
  %own1 = zext i1 %won to i64
  store i64 %own1, ptr %o2, align 8
  br label %rest
judge:
  %shifted = lshr i64 %v, 16
  %waiting = and i64 %shifted, 65535
  %votes = and i64 %v, 65535
  %all = icmp eq i64 %votes, %waiting
  br i1 %all, label %everyone, label %rest
everyone:
  %o5 = getelementptr i64, ptr %own, i64 5
  %o6 = getelementptr i64, ptr %own, i64 6
  call void @census(ptr %state, ptr %o5)
  %running = load i64, ptr %o5, align 8
  %unstarted = load i64, ptr %o6, align 8
  %v2 = load atomic i64, ptr %p acquire, align 8
  %still = icmp eq i64 %v, %v2
  %nobody = icmp eq i64 %running, %waiting
  %stuck = and i1 %still, %nobody
  br i1 %stuck, label %patience, label %rest
patience:
  %since = load i64, ptr %o3, align 8
  %waited = sub i64 %now, %since
  %limit = call i64 @call_help(i64 %waited, i64 %running, i64 %unstarted)
  %over = icmp sgt i64 %waited, %limit
  br i1 %over, label %dead, label %rest
rest:
  call void @relax(ptr %own, i64 %now)
  ret i64 0
leave:
  ret i64 %stop
dead:
  ret i64 $deadlock
}
"""

# With the pool: its counts tell how many programs run, and threads can be added.
_POOL_WAITS = """
@tw_helping = internal global i32 0, align 64
@tw_seated = internal global i64 0  ; the seats that the job has had, taken or not

define internal i64 @wait_time(ptr %own) nounwind {
  %t = call i64 @now(i32 1)
  ret i64 %t
}

; how many programs run, and how many have not started
define internal void @census(ptr %state, ptr %out) nounwind {
  %sharedp = getelementptr i64, ptr %state, i64 7
  %shared = load i64, ptr %sharedp, align 8
  %o1 = getelementptr i64, ptr %out, i64 1
  %pooled = icmp ne i64 %shared, 0
  br i1 %pooled, label %count, label %alone
count:
  ; in this order: a count that is late makes more programs run than do
  %done = load atomic i64, ptr @tw_done acquire, align 8
  %ticket = load atomic i64, ptr @tw_ticket acquire, align 8
  %claimed = and i64 %ticket, 4294967295
  %running = sub i64 %claimed, %done
  %p4 = getelementptr i64, ptr @tw_job, i64 4
  %chunks = load atomic i64, ptr %p4 monotonic, align 8
  %left = sub i64 %chunks, %claimed
  store i64 %running, ptr %out, align 8
  store i64 %left, ptr %o1, align 8
  ret void
alone:
  store i64 1, ptr %out, align 8
  store i64 -1, ptr %o1, align 8
  ret void
}

; all wait and others have not started: let more threads run them; gives the patience left (ns)
define internal i64 @call_help(i64 %waited, i64 %running, i64 %unstarted) nounwind {
  %others = icmp sgt i64 %unstarted, 0
  br i1 %others, label %coming, label %usual
coming:
  %s = load atomic i64, ptr @tw_seats acquire, align 8
  %free = and i64 %s, 4294967295
  %taken = icmp eq i64 %free, 0
  br i1 %taken, label %room, label %late
room:
  %seated0 = load atomic i64, ptr @tw_seated monotonic, align 8
  %space = sub i64 $most_seats, %seated0
  %fits = icmp sgt i64 %space, 0
  br i1 %fits, label %time, label %usual
time:
  %due = icmp sgt i64 %waited, $reinforce
  br i1 %due, label %lock, label %late
lock:
  %x = cmpxchg ptr @tw_helping, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %x, 1
  br i1 %mine, label %add, label %late
add:
  %n0 = call i64 @llvm.smin.i64(i64 %unstarted, i64 %running)
  %n = call i64 @llvm.smin.i64(i64 %n0, i64 %space)
  %s1 = add i64 %s, %n
  %y = cmpxchg ptr @tw_seats, i64 %s, i64 %s1 acq_rel acquire
  %added = extractvalue { i64, i1 } %y, 1
  br i1 %added, label %wake, label %unlock
wake:
  ; idle threads look at the seats again when the generation changes; the job keeps its own
  %g = atomicrmw add ptr @tw_generation, i32 1 seq_cst
  %count = trunc i64 %n to i32
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr @tw_generation, i32 129, i32 %count)
  ; one thread for each seat: who has taken one may not have begun to run
  %seated = add i64 %seated0, %n
  store atomic i64 %seated, ptr @tw_seated monotonic, align 8
  call void @grow(i64 %seated)
  br label %unlock
unlock:
  store atomic i32 0, ptr @tw_helping release, align 4
  br label %late
late:
  ret i64 $late
usual:
  ret i64 $patience
}

; pause, then let others have the core, then sleep 50 us at a time
define internal void @relax(ptr %own, i64 %now) nounwind {
  %nap = alloca [2 x i64], align 8
  %o3 = getelementptr i64, ptr %own, i64 3
  %o4 = getelementptr i64, ptr %own, i64 4
  %k = load i64, ptr %o4, align 8
  %k1 = add i64 %k, 1
  store i64 %k1, ptr %o4, align 8
  %few = icmp slt i64 %k, 64
  br i1 %few, label %spin, label %longer
spin:
  call void $pause
  ret void
longer:
  %since = load i64, ptr %o3, align 8
  %waited = sub i64 %now, %since
  %short = icmp slt i64 %waited, 2000000
  br i1 %short, label %yield, label %sleep
yield:
  %r0 = call i32 @sched_yield()
  ret void
sleep:
  store i64 0, ptr %nap, align 8
  %ns = getelementptr i64, ptr %nap, i64 1
  store i64 50000, ptr %ns, align 8
  %r1 = call i32 @nanosleep(ptr %nap, ptr null)
  ret void
}
"""

# Where Python's threads are the pool: they count the programs in word 7 of the state, those that
# have not started << 32 | those that run; time is counted in rounds.
_PYTHON_WAITS = """
define internal i64 @wait_time(ptr %own) nounwind {
  %o4 = getelementptr i64, ptr %own, i64 4
  %k = load i64, ptr %o4, align 8
  ret i64 %k
}

define internal void @census(ptr %state, ptr %out) nounwind {
  %p = getelementptr i64, ptr %state, i64 7
  %v = load atomic i64, ptr %p acquire, align 8
  %running = and i64 %v, 4294967295
  %left = lshr i64 %v, 32
  %o1 = getelementptr i64, ptr %out, i64 1
  store i64 %running, ptr %out, align 8
  store i64 %left, ptr %o1, align 8
  ret void
}

define internal i64 @call_help(i64 %waited, i64 %running, i64 %unstarted) nounwind {
  ret i64 $rounds
}

define internal void @relax(ptr %own, i64 %now) nounwind {
  %o4 = getelementptr i64, ptr %own, i64 4
  %k = load i64, ptr %o4, align 8
  %k1 = add i64 %k, 1
  store i64 %k1, ptr %o4, align 8
  ret void
}
"""

NUMBERS = {
    "deadlock": DEADLOCK,
    "most_seats": MOST_TOGETHER - 1,  # the thread that launched has none
    "patience": PATIENCE,
    "late": LATE,
    "reinforce": REINFORCE,
    "rounds": ROUNDS,
}
POOL_WAITS_IR = STANDING_IR + _POOL_WAITS
PYTHON_WAITS_IR = STANDING_IR + _PYTHON_WAITS
