"""The end of a native launch on a GPU: parameters in one buffer, and the driver's launch."""

from __future__ import annotations

import ctypes
import os
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.locks import Lock
from tilewright.targets.base import ShortcutSpec
from tilewright.targets.cuda import driver, streams
from tilewright.targets.fastcall.frame import Ending
from tilewright.targets.fastcall.match import LINE
from tilewright.targets.fastcall.read import CUDA
from tilewright.targets.fastcall.shortcut import Native, Shortcut, takes

# A launch is described by a CUlaunchConfig (grid, block, shared memory, stream, no attributes),
# behind which stand the parameters: the fault record, the number of the launch, the counters, and
# then the kernel's.
HEAD = "@7I4xQQI4x"
OWN = "QIQ"
CONFIG_BYTES = 56
EXTRA_POINTER, EXTRA_SIZE, EXTRA_END = 1, 2, 0
GRID_LIMITS = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
LAUNCHES = 1 << 17  # numbers of launches, in turn
REMEMBERED = 256  # launches whose arguments a late report can name

# The words of a binary's state, then a row for each launch that is remembered.
STATE = {"count": 0, "captured": 1}
STATE_WORDS = len(STATE)
# Words of the plan of a line; then number and place of each argument that the code takes.
PLAN = {
    "handle": 0,  # of the kernel
    "context": 1,  # in which the handle is good
    "record": 2,  # address of the fault record
    "state": 3,  # and of the state
    "device": 4,
    "threads": 5,
    "shared": 6,
    "size": 7,  # bytes of the configuration and the parameters
    "row": 8,  # and of a row
    "taken": 9,
}
PLAN_WORDS = len(PLAN)
# Addresses of functions in @tw_driver; all are 0 where native launches cannot be.
DRIVER = {"launch": 0, "get_context": 1, "get_stream": 2, "is_capturing": 3}
# What `@run` gives beside the driver's error codes.
LARGE_GRID, NO_STREAM = -1, -2

_RUN = """
@tw_driver = global [$driver_words x i64] zeroinitializer, align 64
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @driver(i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr @tw_driver, i64 %number
  %v = load ptr, ptr %p, align 8
  ret ptr %v
}

define internal i64 @word(ptr %plan, i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr %plan, i64 %number
  %v = load i64, ptr %p, align 1
  ret i64 %v
}

define internal ptr @address(ptr %plan, i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr %plan, i64 %number
  %v = load ptr, ptr %p, align 1
  ret ptr %v
}

define internal void @put32(ptr %block, i64 %at, i64 %value) nounwind alwaysinline {
  %p = getelementptr i8, ptr %block, i64 %at
  %v = trunc i64 %value to i32
  store i32 %v, ptr %p, align 4
  ret void
}

define internal void @put64(ptr %block, i64 %at, i64 %value) nounwind alwaysinline {
  %p = getelementptr i8, ptr %block, i64 %at
  store i64 %value, ptr %p, align 8
  ret void
}

; whether the kernel's context is current and no launch has reported a fault
define internal i1 @ready(ptr %line) nounwind {
  %current = alloca ptr, align 8
  %get = call ptr @driver(i64 $get_context)
  %none = icmp eq ptr %get, null
  br i1 %none, label %no, label %ask
ask:
  %plan_object = call ptr @PyTuple_GetItem(ptr %line, i64 $plan)
  %plan = call ptr @PyBytes_AsString(ptr %plan_object)
  %status = call i32 %get(ptr %current)
  %good = icmp eq i32 %status, 0
  %context = load ptr, ptr %current, align 8
  %wanted = call ptr @address(ptr %plan, i64 $context)
  %same = icmp eq ptr %context, %wanted
  %record = call ptr @address(ptr %plan, i64 $record)
  %fault = load volatile i64, ptr %record, align 8
  %quiet = icmp eq i64 %fault, 0
  %fine = and i1 %good, %same
  %all = and i1 %fine, %quiet
  ret i1 %all
no:
  ret i1 false
}

; the stream in force, and a note when it is being captured: then a graph may hold the kernel
define internal i1 @stream(ptr %plan, ptr %state, ptr %out) nounwind {
  %capturing = alloca i32, align 4
  %get = call ptr @driver(i64 $get_stream)
  %device = call i64 @word(ptr %plan, i64 $device)
  %device32 = trunc i64 %device to i32
  %status = call i32 %get(i32 %device32, ptr %out)
  %good = icmp eq i32 %status, 0
  %stream = load ptr, ptr %out, align 8
  %plain = icmp eq ptr %stream, null
  %bad = xor i1 %good, true
  %enough = or i1 %plain, %bad
  br i1 %enough, label %done, label %ask
ask:
  store i32 0, ptr %capturing, align 4
  %is = call ptr @driver(i64 $is_capturing)
  %status1 = call i32 %is(ptr %stream, ptr %capturing)
  %mode = load i32, ptr %capturing, align 4
  %open = icmp eq i32 %mode, 0
  br i1 %open, label %done, label %note
note:
  %captured = getelementptr i64, ptr %state, i64 $captured
  store i64 1, ptr %captured, align 8
  br label %done
done:
  ret i1 %good
}

; have the driver run the grid, without the GIL
define internal i64 @run(ptr %line, ptr %three, ptr %slots, ptr %block) nounwind {
entry:
  %extra = alloca [5 x i64], align 16
  %bytes = alloca i64, align 8
  %current = alloca i64, align 8
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
  br i1 %none, label %empty, label %grid
grid:
  call void @put32(ptr %block, i64 0, i64 %x)
  call void @put32(ptr %block, i64 4, i64 %y)
  call void @put32(ptr %block, i64 8, i64 %z)
  %largest = call i64 @llvm.umax.i64(i64 %y, i64 %z)
  %large = icmp ugt i64 %largest, $most_y
  br i1 %large, label %too_large, label %place
place:
  %state = call ptr @address(ptr %plan, i64 $state)
  %known = call i1 @stream(ptr %plan, ptr %state, ptr %current)
  br i1 %known, label %head, label %nowhere
head:
  %stream = load i64, ptr %current, align 8
  %threads = call i64 @word(ptr %plan, i64 $threads)
  %shared = call i64 @word(ptr %plan, i64 $shared)
  %record = call i64 @word(ptr %plan, i64 $record)
  %countp = getelementptr i64, ptr %state, i64 $count
  %before = load i64, ptr %countp, align 8
  %after = add i64 %before, 1
  %number = and i64 %after, $last_launch
  store i64 %number, ptr %countp, align 8
  call void @put32(ptr %block, i64 12, i64 %threads)
  call void @put32(ptr %block, i64 16, i64 1)
  call void @put32(ptr %block, i64 20, i64 1)
  call void @put32(ptr %block, i64 24, i64 %shared)
  call void @put64(ptr %block, i64 32, i64 %stream)
  call void @put64(ptr %block, i64 40, i64 0)
  call void @put64(ptr %block, i64 48, i64 0)
  call void @put64(ptr %block, i64 56, i64 %record)
  call void @put64(ptr %block, i64 64, i64 %number)
  call void @put64(ptr %block, i64 72, i64 0)
  %count = call i64 @word(ptr %plan, i64 $taken)
  %pairs = getelementptr i64, ptr %plan, i64 $plan_words
  br label %look
look:
  ; three words of each: what is written too much is overwritten by the next, or not passed
  %i = phi i64 [ 0, %head ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %remember
copy:
  %i2 = mul i64 %i, 2
  %i3 = add i64 %i2, 1
  %argument = call i64 @word(ptr %pairs, i64 %i2)
  %at = call i64 @word(ptr %pairs, i64 %i3)
  %source0 = mul i64 %argument, 3
  %source = getelementptr i64, ptr %slots, i64 %source0
  %target = getelementptr i8, ptr %block, i64 %at
  %words = load <3 x i64>, ptr %source, align 8
  store <3 x i64> %words, ptr %target, align 1
  %i1 = add i64 %i, 1
  br label %look
remember:
  %size = call i64 @word(ptr %plan, i64 $size)
  %row_bytes = call i64 @word(ptr %plan, i64 $row)
  %rows = getelementptr i64, ptr %state, i64 $state_words
  %turn = and i64 %number, $last_remembered
  %offset = mul i64 %turn, %row_bytes
  %row = getelementptr i8, ptr %rows, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %row, ptr align 8 %block, i64 %size, i1 false)
  %passed = sub i64 %size, $config_bytes
  store i64 %passed, ptr %bytes, align 8
  %params = getelementptr i8, ptr %block, i64 $config_bytes
  store i64 $extra_pointer, ptr %extra, align 8
  %e1 = getelementptr i64, ptr %extra, i64 1
  store ptr %params, ptr %e1, align 8
  %e2 = getelementptr i64, ptr %extra, i64 2
  store i64 $extra_size, ptr %e2, align 8
  %e3 = getelementptr i64, ptr %extra, i64 3
  store ptr %bytes, ptr %e3, align 8
  %e4 = getelementptr i64, ptr %extra, i64 4
  store i64 $extra_end, ptr %e4, align 8
  %handle = call ptr @address(ptr %plan, i64 $handle)
  %launch = call ptr @driver(i64 $launch)
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 %launch(ptr %block, ptr %handle, ptr null, ptr %extra)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = zext i32 %status to i64
  ret i64 %result
empty:
  ret i64 0
too_large:
  ret i64 $large_grid
nowhere:
  ret i64 $no_stream
}
declare i64 @llvm.umax.i64(i64, i64)
"""


def ending() -> Ending:
    """For parameters behind a configuration."""
    text = string.Template(_RUN).substitute(
        LINE | PLAN | STATE | DRIVER, plan_words=PLAN_WORDS, state_words=STATE_WORDS,
        driver_words=len(DRIVER), config_bytes=CONFIG_BYTES, most_y=GRID_LIMITS[1],
        last_launch=LAUNCHES - 1, last_remembered=REMEMBERED - 1, extra_pointer=EXTRA_POINTER,
        extra_size=EXTRA_SIZE, extra_end=EXTRA_END, large_grid=LARGE_GRID, no_stream=NO_STREAM,
    )  # fmt: skip
    return Ending(text, CUDA, CONFIG_BYTES // 8 + 3, ("tw_driver",))


class CudaNative(Native):
    """The native function, and the words in which it finds the driver's functions."""

    def __init__(self, object_bytes: bytes):
        super().__init__(object_bytes, ending(), {})
        where = self.library.address("tw_driver")
        self.words = (ctypes.c_int64 * len(DRIVER)).from_address(where)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disconnect)

    def connect(self) -> bool:
        """Whether launches may be native: from when torch has made use of a GPU."""
        if not self.words[DRIVER["launch"]]:
            get_stream = stream_getter()
            if get_stream is None:
                return False
            library = driver.driver().library
            self.words[DRIVER["get_stream"]] = get_stream
            self.words[DRIVER["get_context"]] = address(library.cuCtxGetCurrent)
            self.words[DRIVER["is_capturing"]] = address(library.cuStreamIsCapturing)
            self.words[DRIVER["launch"]] = address(library.cuLaunchKernelEx)
        return True

    def disconnect(self) -> None:
        """Leave all launches to Python: in a forked process the driver cannot be used."""
        self.words[:] = [0] * len(DRIVER)


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def stream_getter() -> int | None:
    """The address of torch's C function that gives the current stream of a device."""
    bindings = streams.torch_cuda()
    if bindings is None:
        return None
    folder = Path(sys.modules["torch"].__file__).parent / "lib"
    for path in (bindings.__file__, folder / "libtorch_cuda.so", folder / "torch_cuda.dll"):
        try:
            get = ctypes.CDLL(str(path)).aoti_torch_get_current_cuda_stream
        except (OSError, AttributeError):
            continue
        get.argtypes = (ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
        number, found = bindings._cuda_getDevice(), ctypes.c_void_p(-1)
        status = get(number, ctypes.byref(found))
        if not status and (found.value or 0) == bindings._cuda_getCurrentRawStream(number):
            return address(get)
    return None


_starting = Lock()
_native: CudaNative | None = None


def is_connected() -> bool:
    """Whether launches may be native."""
    return _native is not None and _native.connect()


def shortcut(
    spec: ShortcutSpec, failed: Callable, object_bytes: Callable[[], bytes]
) -> Shortcut | None:
    """The shortcut of one kernel, where there can be one."""
    global _native
    if not takes(spec):
        return None
    with _starting:
        if _native is None:
            _native = CudaNative(object_bytes())
    return Shortcut(_native, spec, failed)
