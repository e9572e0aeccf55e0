"""Object code linked without LLVM: what it may contain, and what is left to LLVM."""

import ctypes
import os
import struct
import subprocess
import sys

import pytest

from tilewright.codegen import llvm, objects, processor

pytestmark = pytest.mark.skipif(not objects.is_possible(), reason="objects of x86-64 Linux")

COUNTER = """
@count = internal global i64 40, align 64
@table = internal constant [4 x i64] [i64 1, i64 2, i64 4, i64 8]
@zeros = internal global [100 x i64] zeroinitializer, align 64
define i64 @next(i64 %i) {
  %slot = getelementptr i64, ptr @table, i64 %i
  %step = load i64, ptr %slot
  %old = load i64, ptr @count
  %new = add i64 %old, %step
  store i64 %new, ptr @count
  %zero = load i64, ptr @zeros
  %sum = add i64 %new, %zero
  ret i64 %sum
}
"""
CALLER = """
declare i64 @next(i64)
declare i64 @far(i64)
declare i64 @labs(i64)
@PyBool_Type = external global i8
define i64 @run(i64 %i) {
  %a = call i64 @next(i64 %i)
  %b = call i64 @far(i64 %a)
  %c = sub i64 0, %b
  %d = call i64 @labs(i64 %c)
  ret i64 %d
}
define ptr @type() {
  ret ptr @PyBool_Type
}
"""
NUMBER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def image(text):
    return llvm.compile_object(text, llvm.host_machine()).bytes


def test_objects_call_one_another_this_process_and_what_is_given():
    far = NUMBER(lambda x: x + 1000)
    imports = {"far": ctypes.cast(far, ctypes.c_void_p).value}
    linked = objects.link([image(CALLER), image(COUNTER)], ["run", "type"], imports)
    run = NUMBER(linked["run"])
    assert [run(0), run(3)] == [1041, 1049]
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(linked["type"])() == id(bool)


def test_variables_are_each_library_s_own():
    code = image(COUNTER)
    kept = [objects.link([code], ["next"], {}) for _ in range(2)]
    first, second = (NUMBER(one["next"]) for one in kept)
    assert [first(0), first(0), second(0)] == [41, 42, 41]


def test_a_forked_child_has_variables_of_its_own():
    linked = objects.link([image(COUNTER)], ["next"], {})
    count = NUMBER(linked["next"])
    child = os.fork()
    if child == 0:
        os._exit(count(0))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
    assert count(0) == 41


@pytest.mark.parametrize(
    "text",
    [
        "define void @f() {\n call void @nobody()\n ret void\n}\ndeclare void @nobody()",
        "@v = thread_local global i64 1\ndefine ptr @f() {\n ret ptr @v\n}",
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
        "[{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]\ndefine void @f() {\n ret void\n}",
        "define internal i64 @g() {\n ret i64 1\n}\n@f = ifunc i64 (), ptr @h\n"
        "define ptr @h() {\n ret ptr @g\n}",
    ],
)
def test_what_is_left_to_llvm(text):
    assert objects.link([image(text)], ["f"], {}) is None


def test_names_that_are_missing_or_there_twice_are_left_to_llvm():
    code = image(COUNTER)
    assert objects.link([code], ["nothing"], {}) is None
    assert objects.link([code, code], ["next"], {}) is None


def test_damaged_objects_are_left_to_llvm():
    code = image(COUNTER)
    for cut in range(0, len(code), 7):
        assert objects.link([code[:cut]], ["next"], {}) is None
    other = bytearray(code)
    struct.pack_into("<H", other, 18, 183)  # of another machine
    assert objects.link([bytes(other)], ["next"], {}) is None


def test_code_is_not_writable():
    linked = objects.link([image(COUNTER)], ["next"], {})
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if begin <= linked["next"] < end:
                assert line.split()[1].startswith("r-x")
                return
    raise AssertionError("not mapped")


def test_the_processor_says_the_same_each_time():
    code = "from tilewright.codegen import processor; print(processor.identity())"
    said = {subprocess.check_output([sys.executable, "-c", code]) for _ in range(2)}
    assert said == {processor.identity().encode() + b"\n"}
    assert len(processor.identity()) > 50


def test_the_host_is_recalled():
    kept = {}

    def keep(name, make):
        assert processor.identity() in name
        return kept.setdefault(name, make())

    before = list(llvm._recalled)
    try:
        llvm._recalled.clear()
        asked = llvm._host()
        llvm.recall_host(keep)
        assert llvm._recalled == [asked]
        assert len(kept) == 1
    finally:
        llvm._recalled[:] = before
