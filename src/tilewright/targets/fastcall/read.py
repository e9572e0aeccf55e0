"""Read the arguments of a launch in native code, as LLVM IR text."""

from __future__ import annotations

import string

# What an argument is, the first of its two words in the key of a launch; the second is below.
OBJECT = 1  # a constant: its address
CONST_INT = 2  # a constant: the value
CONST_FLOAT = 3  # a constant: the bits
INT = 4  # passed: 32 or 64, the bits it needs, or 1 for the constant 1; + DIVISIBLE
FLOAT = 5  # passed, as fp32: 0
BOOL = 6  # passed: 0
NUMPY = 7  # passed: the address of its dtype
NUMPY_READ_ONLY = 8  # the same
TORCH = 9  # passed: torch's number of its dtype; + DIVISIBLE; the device << DEVICE_SHIFT
PASSED = {INT, FLOAT, BOOL, NUMPY, NUMPY_READ_ONLY, TORCH}

DIVISIBLE = 1 << 8  # an address or a number is a multiple of ALIGNMENT
DEVICE_SHIFT = 16
ALIGNMENT = 16

# Bits of a parameter's flags.
IS_CONSTEXPR, IS_SPECIALIZED, IS_ALIGNED = 1, 2, 4

# Words of @tw_layouts.
LAYOUT = {
    "ndarray": 0,  # the type, or 0: then no array is known
    "elsize": 1,  # where a dtype holds the bytes of an element
    "tensor": 2,  # the types torch.Tensor and torch.nn.Parameter, or 0
    "nn_parameter": 3,
    "handle": 4,  # where a tensor's object holds its at::Tensor
    "get_device": 5,  # addresses of functions
    "get_dtype": 6,
    "is_neg": 7,
    "get_data": 8,
    "get_offset": 9,
    "get_size": 10,
    "get_index": 11,
}
CPU, CUDA = 0, 1  # types of devices, as torch counts them
MOST_DTYPES = 128  # numbers of torch's dtypes

_READ = """
@tw_layouts = global [16 x i64] zeroinitializer, align 64
@tw_itemsizes = global [$most_dtypes x i8] zeroinitializer, align 64
@PyLong_Type = external global i8
@PyFloat_Type = external global i8
@PyBool_Type = external global i8
@_Py_TrueStruct = external global i8
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)

define internal i64 @layout(i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr @tw_layouts, i64 %number
  %v = load i64, ptr %p, align 8
  ret i64 %v
}

define internal ptr @layout_ptr(i64 %number) nounwind alwaysinline {
  %p = getelementptr i64, ptr @tw_layouts, i64 %number
  %v = load ptr, ptr %p, align 8
  ret ptr %v
}

; the bit for a multiple of the alignment, where the parameter is specialised on that
define internal i64 @divisible(i64 %value, i64 %flags) nounwind alwaysinline {
  %rest = and i64 %value, $below_alignment
  %whole = icmp eq i64 %rest, 0
  %alignbit = and i64 %flags, $is_aligned
  %asked = icmp ne i64 %alignbit, 0
  %both = and i1 %whole, %asked
  %bit = select i1 %both, i64 $divisible, i64 0
  ret i64 %bit
}

; one argument: its two words of the key, and what is passed; false: only Python knows it
define internal i1 @read(ptr %x, i64 %flags, ptr %key, ptr %slots) nounwind {
  %overflow = alloca i32, align 4
  %detail = getelementptr i64, ptr %key, i64 1
  %typep = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %typep, align 8
  %constbit = and i64 %flags, $is_constexpr
  %const = icmp ne i64 %constbit, 0
  %isint = icmp eq ptr %type, @PyLong_Type
  br i1 %isint, label %int, label %notint
int:
  %v = call i64 @PyLong_AsLongLongAndOverflow(ptr %x, ptr %overflow)
  %o = load i32, ptr %overflow, align 4
  %fits = icmp eq i32 %o, 0
  br i1 %fits, label %whole, label %unknown
whole:
  store i64 %v, ptr %slots, align 8
  br i1 %const, label %constint, label %width
constint:
  store i64 $const_int, ptr %key, align 8
  store i64 %v, ptr %detail, align 8
  ret i1 true
width:
  %moved = add i64 %v, 2147483648
  %narrow = icmp ult i64 %moved, 4294967296
  %bits = select i1 %narrow, i64 32, i64 64
  %onebit = and i64 %flags, $is_specialized
  %special = icmp ne i64 %onebit, 0
  %one = icmp eq i64 %v, 1
  %fixed = and i1 %special, %one
  %kind = select i1 %fixed, i64 1, i64 %bits
  %multiple = call i64 @divisible(i64 %v, i64 %flags)
  %known_int = or i64 %kind, %multiple
  store i64 $int, ptr %key, align 8
  store i64 %known_int, ptr %detail, align 8
  ret i1 true
notint:
  %isfloat = icmp eq ptr %type, @PyFloat_Type
  br i1 %isfloat, label %float, label %notfloat
float:
  %d = call double @PyFloat_AsDouble(ptr %x)
  br i1 %const, label %constfloat, label %single
constfloat:
  store i64 $const_float, ptr %key, align 8
  store double %d, ptr %detail, align 8
  ret i1 true
single:
  %f = fptrunc double %d to float
  %f32 = bitcast float %f to i32
  %f64 = zext i32 %f32 to i64
  store i64 %f64, ptr %slots, align 8
  store i64 $float, ptr %key, align 8
  store i64 0, ptr %detail, align 8
  ret i1 true
notfloat:
  br i1 %const, label %object, label %notconst
notconst:
  %isbool = icmp eq ptr %type, @PyBool_Type
  br i1 %isbool, label %bool, label %notbool
bool:
  %true = icmp eq ptr %x, @_Py_TrueStruct
  %t = zext i1 %true to i64
  store i64 %t, ptr %slots, align 8
  store i64 $bool, ptr %key, align 8
  store i64 0, ptr %detail, align 8
  ret i1 true
notbool:
  %ndarray = call ptr @layout_ptr(i64 $ndarray)
  %isarray = icmp eq ptr %type, %ndarray
  br i1 %isarray, label %array, label %notarray
array:
  %known = call i1 @read_array(ptr %x, ptr %key, ptr %slots)
  ret i1 %known
notarray:
  %tensortype = call ptr @layout_ptr(i64 $tensor)
  %istensor = icmp eq ptr %type, %tensortype
  %parametertype = call ptr @layout_ptr(i64 $nn_parameter)
  %isparameter = icmp eq ptr %type, %parametertype
  %torch = or i1 %istensor, %isparameter
  br i1 %torch, label %tensor, label %object
tensor:
  %understood = call i1 @read_tensor(ptr %x, i64 %flags, ptr %key, ptr %slots)
  ret i1 %understood
object:
  store i64 $object, ptr %key, align 8
  store ptr %x, ptr %detail, align 8
  ret i1 true
unknown:
  ret i1 false
}

define internal i64 @nbytes(ptr %array, ptr %dtype) nounwind {
entry:
  %sizeoff = call i64 @layout(i64 $elsize)
  %sizep = getelementptr i8, ptr %dtype, i64 %sizeoff
  %size32 = load i32, ptr %sizep, align 4
  %size = sext i32 %size32 to i64
  %ndp = getelementptr i8, ptr %array, i64 24
  %nd32 = load i32, ptr %ndp, align 4
  %nd = sext i32 %nd32 to i64
  %dimsp = getelementptr i8, ptr %array, i64 32
  %dims = load ptr, ptr %dimsp, align 8
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %bytes = phi i64 [ %size, %entry ], [ %bytes1, %next ]
  %more = icmp slt i64 %i, %nd
  br i1 %more, label %next, label %done
next:
  %dimp = getelementptr i64, ptr %dims, i64 %i
  %dim = load i64, ptr %dimp, align 8
  %bytes1 = mul i64 %bytes, %dim
  %i1 = add i64 %i, 1
  br label %look
done:
  ret i64 %bytes
}

; PyArrayObject: 16 data, 24 nd, 32 dimensions, 48 base, 56 descr, 64 flags. What may be touched
; is the memory of the array, or of the one it is a view of; longer chains are left to Python.
define internal i1 @read_array(ptr %x, ptr %key, ptr %slots) nounwind {
entry:
  %datap = getelementptr i8, ptr %x, i64 16
  %data = load ptr, ptr %datap, align 8
  %basep = getelementptr i8, ptr %x, i64 48
  %base = load ptr, ptr %basep, align 8
  %descrp = getelementptr i8, ptr %x, i64 56
  %descr = load ptr, ptr %descrp, align 8
  %flagsp = getelementptr i8, ptr %x, i64 64
  %flags = load i32, ptr %flagsp, align 4
  %owner = icmp eq ptr %base, null
  br i1 %owner, label %whole, label %view
view:
  %typep = getelementptr i8, ptr %base, i64 8
  %type = load ptr, ptr %typep, align 8
  %ndarray = call ptr @layout_ptr(i64 $ndarray)
  %isarray = icmp eq ptr %type, %ndarray
  br i1 %isarray, label %end, label %unknown
end:
  %basebasep = getelementptr i8, ptr %base, i64 48
  %basebase = load ptr, ptr %basebasep, align 8
  %last = icmp eq ptr %basebase, null
  br i1 %last, label %whole, label %unknown
whole:
  %root = phi ptr [ %x, %entry ], [ %base, %end ]
  %rootdatap = getelementptr i8, ptr %root, i64 16
  %low = load i64, ptr %rootdatap, align 8
  %rootdescrp = getelementptr i8, ptr %root, i64 56
  %rootdescr = load ptr, ptr %rootdescrp, align 8
  %bytes = call i64 @nbytes(ptr %root, ptr %rootdescr)
  %high = add i64 %low, %bytes
  store ptr %data, ptr %slots, align 8
  %lowp = getelementptr i64, ptr %slots, i64 1
  store i64 %low, ptr %lowp, align 8
  %highp = getelementptr i64, ptr %slots, i64 2
  store i64 %high, ptr %highp, align 8
  %writebit = and i32 %flags, 1024
  %writable = icmp ne i32 %writebit, 0
  %kind = select i1 %writable, i64 $numpy, i64 $numpy_read_only
  store i64 %kind, ptr %key, align 8
  %detail = getelementptr i64, ptr %key, i64 1
  store ptr %descr, ptr %detail, align 8
  ret i1 true
unknown:
  ret i1 false
}

; a dense tensor on a device of the target without a pending negation
define internal i1 @read_tensor(ptr %x, i64 %flags, ptr %key, ptr %slots) nounwind {
  %word = alloca i64, align 8
  %int = alloca i32, align 4
  %at = call i64 @layout(i64 $handle)
  %handle = getelementptr i8, ptr %x, i64 %at
  %impl = load ptr, ptr %handle, align 8
  %nothing = icmp eq ptr %impl, null
  br i1 %nothing, label %unknown, label %device
device:
  %f0 = call ptr @layout_ptr(i64 $get_device)
  %r0 = call i32 %f0(ptr %handle, ptr %int)
  %where = load i32, ptr %int, align 4
  %elsewhere = xor i32 %where, $device_type
  %wrong = or i32 %r0, %elsewhere
  %here = icmp eq i32 %wrong, 0
  br i1 %here, label %dtype, label %unknown
dtype:
  %f1 = call ptr @layout_ptr(i64 $get_dtype)
  %r1 = call i32 %f1(ptr %handle, ptr %int)
  %number = load i32, ptr %int, align 4
  %common = icmp ult i32 %number, $most_dtypes
  br i1 %common, label %size, label %unknown
size:
  %index = zext i32 %number to i64
  %itemp = getelementptr i8, ptr @tw_itemsizes, i64 %index
  %item8 = load i8, ptr %itemp, align 1
  %possible = icmp ne i8 %item8, 0
  br i1 %possible, label %sign, label %unknown
sign:
  %item = zext i8 %item8 to i64
  %f2 = call ptr @layout_ptr(i64 $is_neg)
  %neg = call zeroext i1 %f2(ptr %handle)
  br i1 %neg, label %unknown, label %extent
extent:
  %f3 = call ptr @layout_ptr(i64 $get_size)
  %r3 = call i32 %f3(ptr %handle, ptr %word)
  %bytes = load i64, ptr %word, align 8
  %f4 = call ptr @layout_ptr(i64 $get_offset)
  %r4 = call i32 %f4(ptr %handle, ptr %word)
  %offset = load i64, ptr %word, align 8
  %bad34 = or i32 %r3, %r4
  %good34 = icmp eq i32 %bad34, 0
  br i1 %good34, label %memory, label %unknown
memory:
  %f5 = call ptr @layout_ptr(i64 $get_data)
  %r5 = call i32 %f5(ptr %handle, ptr %word)
  %data = load i64, ptr %word, align 8
  %bad5 = icmp ne i32 %r5, 0
  %null = icmp eq i64 %data, 0
  %none = or i1 %bad5, %null
  br i1 %none, label %unknown, label %known
known:
  %before = mul i64 %offset, %item
  %low = sub i64 %data, %before
  %high = add i64 %low, %bytes
  store i64 %data, ptr %slots, align 8
  %lowp = getelementptr i64, ptr %slots, i64 1
  store i64 %low, ptr %lowp, align 8
  %highp = getelementptr i64, ptr %slots, i64 2
  store i64 %high, ptr %highp, align 8
  store i64 $torch, ptr %key, align 8
  %multiple = call i64 @divisible(i64 %data, i64 %flags)
  %kind = or i64 %index, %multiple
  %detail = getelementptr i64, ptr %key, i64 1
  store i64 %kind, ptr %detail, align 8
$device_part  ret i1 true
unknown:
  ret i1 false
}
"""


# A GPU is one of several: its number is a part of the key.
_DEVICE_PART = """\
  %f6 = call ptr @layout_ptr(i64 $get_index)
  %r6 = call i32 %f6(ptr %handle, ptr %int)
  %number6 = load i32, ptr %int, align 4
  %device6 = zext i32 %number6 to i64
  %high6 = shl i64 %device6, $device_shift
  %full6 = or i64 %kind, %high6
  store i64 %full6, ptr %detail, align 8
  %bad6 = icmp ne i32 %r6, 0
  br i1 %bad6, label %unknown, label %placed
placed:
"""


def read_ir(device_type: int) -> str:
    """`@read`, which the launcher calls for each argument, for arrays on one type of device."""
    names = LAYOUT | {
        "object": OBJECT, "const_int": CONST_INT, "const_float": CONST_FLOAT, "int": INT,
        "float": FLOAT, "bool": BOOL, "numpy": NUMPY, "numpy_read_only": NUMPY_READ_ONLY,
        "torch": TORCH, "most_dtypes": MOST_DTYPES, "divisible": DIVISIBLE,
        "is_constexpr": IS_CONSTEXPR, "is_specialized": IS_SPECIALIZED, "is_aligned": IS_ALIGNED,
        "below_alignment": ALIGNMENT - 1, "device_type": device_type, "device_shift": DEVICE_SHIFT,
    }  # fmt: skip
    part = "" if device_type == CPU else string.Template(_DEVICE_PART).substitute(names)
    return string.Template(_READ).substitute(names, device_part=part)
