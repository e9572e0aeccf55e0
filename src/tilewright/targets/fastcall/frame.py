"""The native launcher, as LLVM IR text: from a Python call to the kernel in one function.

It does the launches that it has learnt, by `lines`, and gives all others to Python. Everything it
looks at belongs to Python objects and is read with the GIL held; nothing is kept between calls
and a launch's memory is on the stack, so that threads and signal handlers may launch at will.
"""

from __future__ import annotations

import ctypes
import string
from dataclasses import dataclass

from tilewright.targets.fastcall.match import LINE, MOST_OPTIONS, match_ir
from tilewright.targets.values import SLOTS

MOST_PARAMETERS = 64
EXPORTS = ("tw_launch", "tw_key", "tw_layouts", "tw_itemsizes")

# Items of the tuple that is the launcher's `self`.
ITEMS = {
    "parameters": 0,  # bytes: their number, then PARAMETER_WORDS for each
    "fallback": 1,  # the launch in Python
    "sizes": 2,  # makes three ints of what a grid may be
    "failed": 3,  # raises the error of a launch that stopped
    "lines": 4,  # a list of lines
    "quiet": 5,  # a tuple of lists that have to be empty
    "settings": 6,  # a list: the number of the settings, then what they were read from
    "watched": 7,  # a list of (dictionary, key, value) that were compiled in
}

_LAUNCH = """
@PyTuple_Type = external global i8
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyCallable_Check(ptr)
declare ptr @$vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

; three sizes from an int or a tuple of one to three ints, if they are in range
define internal i1 @plain_sizes(ptr %grid, ptr %three) nounwind {
entry:
  %overflow = alloca i32, align 4
  %one = alloca ptr, align 8
  store i64 1, ptr %three, align 8
  %yp = getelementptr i64, ptr %three, i64 1
  store i64 1, ptr %yp, align 8
  %zp = getelementptr i64, ptr %three, i64 2
  store i64 1, ptr %zp, align 8
  %typep = getelementptr i8, ptr %grid, i64 8
  %type = load ptr, ptr %typep, align 8
  %istuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %istuple, label %tuple, label %single
tuple:
  %size = call i64 @PyTuple_Size(ptr %grid)
  %size0 = sub i64 %size, 1
  %few = icmp ult i64 %size0, 3
  br i1 %few, label %look, label %no
single:
  br label %look
look:
  %count = phi i64 [ %size, %tuple ], [ 1, %single ], [ %count, %store ]
  %i = phi i64 [ 0, %tuple ], [ 0, %single ], [ %i1, %store ]
  %total = phi i64 [ 1, %tuple ], [ 1, %single ], [ %total1, %store ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %yes
next:
  br i1 %istuple, label %item, label %check
item:
  %x = call ptr @PyTuple_GetItem(ptr %grid, i64 %i)
  br label %check
check:
  %size_object = phi ptr [ %grid, %next ], [ %x, %item ]
  %kindp = getelementptr i8, ptr %size_object, i64 8
  %kind = load ptr, ptr %kindp, align 8
  %isint = icmp eq ptr %kind, @PyLong_Type
  br i1 %isint, label %value, label %no
value:
  %v = call i64 @PyLong_AsLongLongAndOverflow(ptr %size_object, ptr %overflow)
  %o = load i32, ptr %overflow, align 4
  %fits = icmp eq i32 %o, 0
  %small = icmp ult i64 %v, 2147483648
  %total1 = mul i64 %total, %v
  %bounded = icmp ult i64 %total1, 2147483648
  %fine0 = and i1 %fits, %small
  %fine = and i1 %fine0, %bounded
  br i1 %fine, label %store, label %no
store:
  %place = getelementptr i64, ptr %three, i64 %i
  store i64 %v, ptr %place, align 8
  %i1 = add i64 %i, 1
  br label %look
yes:
  ret i1 true
no:
  ret i1 false
}

; the options and arguments as a new dictionary
define internal ptr @meta(ptr %parameters, ptr %values, ptr %options, i64 %used) nounwind {
entry:
  %dict = call ptr @PyDict_New()
  %failed = icmp eq ptr %dict, null
  br i1 %failed, label %error, label %option
option:
  %j = phi i64 [ 0, %entry ], [ %j1, %add ]
  %more = icmp slt i64 %j, %used
  br i1 %more, label %add, label %value
add:
  %j2 = mul i64 %j, 2
  %j3 = add i64 %j2, 1
  %namep = getelementptr ptr, ptr %options, i64 %j2
  %name = load ptr, ptr %namep, align 8
  %optionp = getelementptr ptr, ptr %options, i64 %j3
  %option_value = load ptr, ptr %optionp, align 8
  %r0 = call i32 @PyDict_SetItem(ptr %dict, ptr %name, ptr %option_value)
  %j1 = add i64 %j, 1
  br label %option
value:
  %i = phi i64 [ 0, %option ], [ %i1, %put ]
  %n = load i64, ptr %parameters, align 8
  %left = icmp slt i64 %i, %n
  br i1 %left, label %put, label %done
put:
  %i3 = mul i64 %i, 3
  %w = add i64 %i3, 1
  %paramp = getelementptr i64, ptr %parameters, i64 %w
  %param = load ptr, ptr %paramp, align 8
  %valuep = getelementptr ptr, ptr %values, i64 %i
  %v = load ptr, ptr %valuep, align 8
  %r1 = call i32 @PyDict_SetItem(ptr %dict, ptr %param, ptr %v)
  %i1 = add i64 %i, 1
  br label %value
done:
  ret ptr %dict
error:
  ret ptr null
}

; call with one argument, of which the reference is taken over; null arguments give null
define internal ptr @call1(ptr %function, ptr %argument) nounwind {
  %args = alloca ptr, align 8
  store ptr %argument, ptr %args, align 8
  %none = icmp eq ptr %argument, null
  br i1 %none, label %error, label %call
call:
  %result = call ptr @PyObject_VectorcallDict(ptr %function, ptr %args, i64 1, ptr null)
  call void @Py_DecRef(ptr %argument)
  ret ptr %result
error:
  ret ptr null
}

; three sizes from whatever was written in the brackets; false: an exception is set
define internal i1 @sizes(ptr %self, ptr %grid, ptr %parameters, ptr %values, ptr %options,
                          i64 %used, ptr %three) nounwind {
entry:
  %plain = call i1 @plain_sizes(ptr %grid, ptr %three)
  br i1 %plain, label %yes, label %other
other:
  %callable = call i32 @PyCallable_Check(ptr %grid)
  %iscallable = icmp ne i32 %callable, 0
  br i1 %iscallable, label %ask, label %keep
keep:
  call void @Py_IncRef(ptr %grid)
  br label %normal
ask:
  %meta = call ptr @meta(ptr %parameters, ptr %values, ptr %options, i64 %used)
  %made = call ptr @call1(ptr %grid, ptr %meta)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no, label %answer
answer:
  %simple = call i1 @plain_sizes(ptr %made, ptr %three)
  br i1 %simple, label %drop, label %normal
drop:
  call void @Py_DecRef(ptr %made)
  br label %yes
normal:
  %odd = phi ptr [ %grid, %keep ], [ %made, %answer ]
  %checker = call ptr @PyTuple_GetItem(ptr %self, i64 $sizes)
  %checked = call ptr @call1(ptr %checker, ptr %odd)
  %wrong = icmp eq ptr %checked, null
  br i1 %wrong, label %no, label %use
use:
  %fine = call i1 @plain_sizes(ptr %checked, ptr %three)
  call void @Py_DecRef(ptr %checked)
  ret i1 %fine
yes:
  ret i1 true
no:
  ret i1 false
}

; have Python mend a launch, or raise its error: then the result is null
define internal ptr @failed(ptr %self, ptr %line, ptr %block, i64 %status) nounwind {
  %three = alloca [3 x ptr], align 8
  %binary = call ptr @PyTuple_GetItem(ptr %line, i64 $binary)
  %where = call ptr @PyLong_FromVoidPtr(ptr %block)
  %number = call ptr @PyLong_FromLongLong(i64 %status)
  store ptr %binary, ptr %three, align 8
  %p1 = getelementptr ptr, ptr %three, i64 1
  store ptr %where, ptr %p1, align 8
  %p2 = getelementptr ptr, ptr %three, i64 2
  store ptr %number, ptr %p2, align 8
  %function = call ptr @PyTuple_GetItem(ptr %self, i64 $failed)
  %result = call ptr @PyObject_VectorcallDict(ptr %function, ptr %three, i64 3, ptr null)
  call void @Py_DecRef(ptr %where)
  call void @Py_DecRef(ptr %number)
  ret ptr %result
}

; launch(grid, *args, **kwargs)
define ptr @tw_launch(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) nounwind {
entry:
  %values = alloca [$most_parameters x ptr], align 16
  %options = alloca [$option_words x ptr], align 16
  %key = alloca [$key_words x i64], align 16
  %slots = alloca [$slot_words x i64], align 16
  %block = alloca [$block_words x i64], align 64
  %three = alloca [3 x i64], align 16
  %overflow = alloca i32, align 4
  %parameters_object = call ptr @PyTuple_GetItem(ptr %self, i64 $parameters)
  %parameters = call ptr @PyBytes_AsString(ptr %parameters_object)
  %n = load i64, ptr %parameters, align 8
  %lists = call ptr @PyTuple_GetItem(ptr %self, i64 $quiet)
  %quiet = call i1 @is_quiet(ptr %lists)
  br i1 %quiet, label %settings, label %fallback
settings:
  %settings_list = call ptr @PyTuple_GetItem(ptr %self, i64 $settings)
  %unchanged = call i1 @in_force(ptr %settings_list)
  br i1 %unchanged, label %watch, label %fallback
watch:
  %watched = call ptr @PyTuple_GetItem(ptr %self, i64 $watched)
  %current = call i1 @holds(ptr %watched, i64 0)
  br i1 %current, label %take, label %fallback
take:
  %used = call i64 @bind(ptr %parameters, ptr %args, i64 %nargs, ptr %kwnames, ptr %values,
                         ptr %options)
  %bound = icmp sge i64 %used, 0
  br i1 %bound, label %know, label %fallback
know:
  %number_object = call ptr @PyList_GetItem(ptr %settings_list, i64 0)
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %number_object, ptr %overflow)
  %words = call i64 @tw_key(ptr %parameters, i64 %number, ptr %values, ptr %key, ptr %slots)
  %read = icmp ne i64 %words, 0
  br i1 %read, label %tail, label %fallback
tail:
  %i = phi i64 [ 0, %know ], [ %i1, %copy ]
  %used2 = mul i64 %used, 2
  %more = icmp slt i64 %i, %used2
  br i1 %more, label %copy, label %search
copy:
  %optionp = getelementptr i64, ptr %options, i64 %i
  %option = load i64, ptr %optionp, align 8
  %at = add i64 %words, %i
  %keyp = getelementptr i64, ptr %key, i64 %at
  store i64 %option, ptr %keyp, align 8
  %i1 = add i64 %i, 1
  br label %tail
search:
  %all = add i64 %words, %used2
  %bytes = mul i64 %all, 8
  %lines = call ptr @PyTuple_GetItem(ptr %self, i64 $lines)
  %line = call ptr @find(ptr %lines, ptr %key, i64 %bytes)
  %learnt = icmp ne ptr %line, null
  br i1 %learnt, label %ready, label %fallback
ready:
  %now = call i1 @ready(ptr %line)
  br i1 %now, label %launch, label %fallback
launch:
  ; the line keeps the code and the result alive, whatever Python code does meanwhile
  call void @Py_IncRef(ptr %line)
  %grid = load ptr, ptr %args, align 8
  %sized = call i1 @sizes(ptr %self, ptr %grid, ptr %parameters, ptr %values, ptr %options,
                          i64 %used, ptr %three)
  br i1 %sized, label %run, label %error
run:
  %status = call i64 @run(ptr %line, ptr %three, ptr %slots, ptr %block)
  %good = icmp eq i64 %status, 0
  br i1 %good, label %done, label %stopped
stopped:
  %mended = call ptr @failed(ptr %self, ptr %line, ptr %block, i64 %status)
  %raised = icmp eq ptr %mended, null
  br i1 %raised, label %error, label %mend
mend:
  call void @Py_DecRef(ptr %mended)
  br label %done
error:
  call void @Py_DecRef(ptr %line)
  ret ptr null
done:
  %result = call ptr @PyTuple_GetItem(ptr %line, i64 $result)
  call void @Py_IncRef(ptr %result)
  call void @Py_DecRef(ptr %line)
  ret ptr %result
fallback:
  %python = call ptr @PyTuple_GetItem(ptr %self, i64 $fallback)
  %answer = call ptr @$vectorcall(ptr %python, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %answer
}
"""


def vectorcall() -> str:
    """Python's own call of a function with what a launcher is called with; before 3.11 inline."""
    exported = hasattr(ctypes.pythonapi, "PyObject_Vectorcall")
    return "PyObject_Vectorcall" if exported else "_PyFunction_Vectorcall"


@dataclass(frozen=True)
class Ending:
    """What a target does of a launch, in LLVM IR.

    The text defines `i1 @ready(ptr %line)`, whether native code may do a launch like this line
    now, and `i64 @run(ptr %line, ptr %three, ptr %slots, ptr %block)`, which does it and gives 0
    or what went wrong. Launches that stopped are Python's to explain, by their block.
    """

    text: str
    device_type: int
    block_words: int  # of the memory of a launch, beside that of its arguments
    exports: tuple[str, ...] = ()


def launcher_ir(ending: Ending) -> str:
    """The launcher of a target."""
    frame = string.Template(_LAUNCH).substitute(
        ITEMS | LINE, vectorcall=vectorcall(),
        most_parameters=MOST_PARAMETERS, option_words=2 * MOST_OPTIONS,
        key_words=1 + 2 * MOST_PARAMETERS + 2 * MOST_OPTIONS,
        slot_words=SLOTS * MOST_PARAMETERS,
        block_words=ending.block_words + SLOTS * MOST_PARAMETERS,
    )  # fmt: skip
    return match_ir(ending.device_type) + ending.text + frame
