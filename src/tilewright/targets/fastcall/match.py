"""Which of the launches it has learnt a call of the native launcher is, as LLVM IR text."""

from __future__ import annotations

import string

from tilewright.targets.fastcall.read import read_ir

MOST_OPTIONS = 8
PARAMETER_WORDS = 3  # of a parameter: name, default or 0, flags

# Items of a line: a launch that the launcher has learnt.
LINE = {
    "key": 0,  # bytes: number of the settings, two words an argument, name and value of options
    "plan": 1,  # bytes: words of what the target makes of it
    "result": 2,  # what the launch returns
    "binary": 3,  # the code
}

_MATCH = """
@_Py_NoneStruct = external global i8
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyBytes_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare ptr @PyLong_AsVoidPtr(ptr)

; whether nobody wants to see launches
define internal i1 @is_quiet(ptr %lists) nounwind {
entry:
  %count = call i64 @PyTuple_Size(ptr %lists)
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %yes
next:
  %list = call ptr @PyTuple_GetItem(ptr %lists, i64 %i)
  %size = call i64 @PyList_Size(ptr %list)
  %empty = icmp eq i64 %size, 0
  %i1 = add i64 %i, 1
  br i1 %empty, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; whether the dictionaries still hold the very values of a list of (dictionary, key, value)
define internal i1 @holds(ptr %list, i64 %first) nounwind {
entry:
  %count = call i64 @PyList_Size(ptr %list)
  br label %look
look:
  %i = phi i64 [ %first, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %yes
next:
  %item = call ptr @PyList_GetItem(ptr %list, i64 %i)
  %dict = call ptr @PyTuple_GetItem(ptr %item, i64 0)
  %name = call ptr @PyTuple_GetItem(ptr %item, i64 1)
  %value = call ptr @PyTuple_GetItem(ptr %item, i64 2)
  %found = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %name)
  %missing = icmp eq ptr %found, null
  %now = select i1 %missing, ptr @_Py_NoneStruct, ptr %found
  %same = icmp eq ptr %now, %value
  %i1 = add i64 %i, 1
  br i1 %same, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; whether a list has the very items of a tuple
define internal i1 @consists(ptr %list, ptr %tuple) nounwind {
entry:
  %count = call i64 @PyList_Size(ptr %list)
  %wanted = call i64 @PyTuple_Size(ptr %tuple)
  %long = icmp eq i64 %count, %wanted
  br i1 %long, label %look, label %no
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %yes
next:
  %item = call ptr @PyList_GetItem(ptr %list, i64 %i)
  %other = call ptr @PyTuple_GetItem(ptr %tuple, i64 %i)
  %same = icmp eq ptr %item, %other
  %i1 = add i64 %i, 1
  br i1 %same, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; whether settings are known, and still in force
define internal i1 @in_force(ptr %settings) nounwind {
  %size = call i64 @PyList_Size(ptr %settings)
  %known = icmp sgt i64 %size, 0
  br i1 %known, label %overrides, label %no
overrides:
  %list = call ptr @PyList_GetItem(ptr %settings, i64 1)
  %tuple = call ptr @PyList_GetItem(ptr %settings, i64 2)
  %same = call i1 @consists(ptr %list, ptr %tuple)
  br i1 %same, label %variables, label %no
variables:
  %unchanged = call i1 @holds(ptr %settings, i64 5)
  br i1 %unchanged, label %threads, label %no
threads:
  %counter_object = call ptr @PyList_GetItem(ptr %settings, i64 3)
  %counter = call ptr @PyLong_AsVoidPtr(ptr %counter_object)
  %uncounted = icmp eq ptr %counter, null
  br i1 %uncounted, label %yes, label %count
count:
  %now = call i32 %counter()
  %before_object = call ptr @PyList_GetItem(ptr %settings, i64 4)
  %before_pointer = call ptr @PyLong_AsVoidPtr(ptr %before_object)
  %before = ptrtoint ptr %before_pointer to i64
  %wide = zext i32 %now to i64
  %equal = icmp eq i64 %wide, %before
  ret i1 %equal
yes:
  ret i1 true
no:
  ret i1 false
}

; the arguments by parameter, and the launch options as pairs of name and value; the result is
; the number of options, or -1 for a call that Python has to judge
define internal i64 @bind(ptr %parameters, ptr %args, i64 %nargs, ptr %kwnames, ptr %values,
                          ptr %options) nounwind {
entry:
  %n = load i64, ptr %parameters, align 8
  %given = sub i64 %nargs, 1
  %fits = icmp ule i64 %given, %n
  br i1 %fits, label %place, label %refuse
place:
  %i = phi i64 [ 0, %entry ], [ %i1, %put ]
  %left = icmp ult i64 %i, %n
  br i1 %left, label %put, label %named
put:
  %i1 = add i64 %i, 1
  %argp = getelementptr ptr, ptr %args, i64 %i1
  %positional = icmp ult i64 %i, %given
  %from = select i1 %positional, ptr %argp, ptr @null
  %arg = load ptr, ptr %from, align 8
  %valuep = getelementptr ptr, ptr %values, i64 %i
  store ptr %arg, ptr %valuep, align 8
  br label %place
named:
  %nonames = icmp eq ptr %kwnames, null
  br i1 %nonames, label %fill, label %names
names:
  %count = call i64 @PyTuple_Size(ptr %kwnames)
  br label %name
name:
  %j = phi i64 [ 0, %names ], [ %j1, %take ], [ %j1, %option ]
  %used = phi i64 [ 0, %names ], [ %used, %take ], [ %used1, %option ]
  %morenames = icmp slt i64 %j, %count
  br i1 %morenames, label %search, label %fill
search:
  %key = call ptr @PyTuple_GetItem(ptr %kwnames, i64 %j)
  %at = add i64 %nargs, %j
  %namedp = getelementptr ptr, ptr %args, i64 %at
  %value = load ptr, ptr %namedp, align 8
  %j1 = add i64 %j, 1
  br label %compare
compare:
  %k = phi i64 [ 0, %search ], [ %k1, %differs ]
  %w = mul i64 %k, 3
  %w1 = add i64 %w, 1
  %end = icmp uge i64 %k, %n
  br i1 %end, label %isoption, label %candidate
candidate:
  %candp = getelementptr i64, ptr %parameters, i64 %w1
  %cand = load ptr, ptr %candp, align 8
  %equal = icmp eq ptr %cand, %key
  br i1 %equal, label %found, label %differs
differs:
  %k1 = add i64 %k, 1
  br label %compare
found:
  %slot = getelementptr ptr, ptr %values, i64 %k
  %before = load ptr, ptr %slot, align 8
  %twice = icmp ne ptr %before, null
  br i1 %twice, label %refuse, label %take
take:
  store ptr %value, ptr %slot, align 8
  br label %name
isoption:
  %full = icmp sge i64 %used, $most_options
  br i1 %full, label %refuse, label %option
option:
  %pair = mul i64 %used, 2
  %keyp = getelementptr ptr, ptr %options, i64 %pair
  store ptr %key, ptr %keyp, align 8
  %pair1 = add i64 %pair, 1
  %optionp = getelementptr ptr, ptr %options, i64 %pair1
  store ptr %value, ptr %optionp, align 8
  %used1 = add i64 %used, 1
  br label %name
fill:
  %options_used = phi i64 [ 0, %named ], [ %used, %name ]
  br label %check
check:
  %m = phi i64 [ 0, %fill ], [ %m1, %next ]
  %morevalues = icmp ult i64 %m, %n
  br i1 %morevalues, label %test, label %done
test:
  %m1 = add i64 %m, 1
  %vp = getelementptr ptr, ptr %values, i64 %m
  %v = load ptr, ptr %vp, align 8
  %unset = icmp eq ptr %v, null
  br i1 %unset, label %default, label %next
default:
  %dw = mul i64 %m, 3
  %dw1 = add i64 %dw, 2
  %dp = getelementptr i64, ptr %parameters, i64 %dw1
  %d = load ptr, ptr %dp, align 8
  store ptr %d, ptr %vp, align 8
  %nodefault = icmp eq ptr %d, null
  br i1 %nodefault, label %refuse, label %next
next:
  br label %check
done:
  ret i64 %options_used
refuse:
  ret i64 -1
}
@null = internal constant ptr null

; the words of the key of a launch, but for its options, and the values that are passed
define i64 @tw_key(ptr %parameters, i64 %settings, ptr %values, ptr %key, ptr %slots) nounwind {
entry:
  %n = load i64, ptr %parameters, align 8
  store i64 %settings, ptr %key, align 8
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %i2 = mul i64 %i, 2
  %words = add i64 %i2, 1
  %i1 = add i64 %i, 1
  %i3 = mul i64 %i, 3
  %more = icmp slt i64 %i, %n
  br i1 %more, label %next, label %done
next:
  %valuep = getelementptr ptr, ptr %values, i64 %i
  %value = load ptr, ptr %valuep, align 8
  %fw = add i64 %i3, 3
  %flagsp = getelementptr i64, ptr %parameters, i64 %fw
  %flags = load i64, ptr %flagsp, align 8
  %keyp = getelementptr i64, ptr %key, i64 %words
  %slotp = getelementptr i64, ptr %slots, i64 %i3
  %known = call i1 @read(ptr %value, i64 %flags, ptr %keyp, ptr %slotp)
  br i1 %known, label %look, label %unknown
done:
  ret i64 %words
unknown:
  ret i64 0
}

; the line with this key, or null
define internal ptr @find(ptr %lines, ptr %key, i64 %bytes) nounwind {
entry:
  %count = call i64 @PyList_Size(ptr %lines)
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ], [ %i1, %compare ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %next, label %none
next:
  %line = call ptr @PyList_GetItem(ptr %lines, i64 %i)
  %have = call ptr @PyTuple_GetItem(ptr %line, i64 $key)
  %size = call i64 @PyBytes_Size(ptr %have)
  %i1 = add i64 %i, 1
  %long = icmp eq i64 %size, %bytes
  br i1 %long, label %compare, label %look
compare:
  %text = call ptr @PyBytes_AsString(ptr %have)
  %order = call i32 @memcmp(ptr %text, ptr %key, i64 %bytes)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %found, label %look
found:
  ret ptr %line
none:
  ret ptr null
}
"""


def match_ir(device_type: int) -> str:
    """`@is_quiet`, `@in_force`, `@holds`, `@bind`, `@tw_key` and `@find`, for the launcher."""
    return read_ir(device_type) + string.Template(_MATCH).substitute(
        LINE, most_options=MOST_OPTIONS
    )
