"""Text to object code to addresses: what LLVM is asked for, and what it says when it refuses."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from tilewright.codegen import llvm
from tilewright.errors import InternalError

TRIPLE_AND_PID = """
declare i32 @getpid()
define internal i32 @triple(i32 %x) alwaysinline {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @f(i32 %x) {
  %y = call i32 @triple(i32 %x)
  %p = call i32 @getpid()
  %z = add i32 %y, %p
  ret i32 %z
}
"""


def compile_and_load(text, *exports, imports=None):
    code = llvm.compile_object(text, llvm.host_machine())
    return llvm.Library.load(code.bytes, exports, imports)


def test_importing_does_not_load_llvm():
    code = "import sys, tilewright.codegen.llvm; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_compiled_code_runs_and_reaches_libc():
    library = compile_and_load(TRIPLE_AND_PID, "f")
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library.address("f"))
    assert function(14) == 42 + os.getpid()


def test_python_symbols_and_imports_resolve():
    text = """
    declare i64 @PyLong_AsLong(ptr)
    declare i64 @seven()
    define i64 @f(ptr %o) {
      %x = call i64 @PyLong_AsLong(ptr %o)
      %y = call i64 @seven()
      %z = add i64 %x, %y
      ret i64 %z
    }
    """
    seven = compile_and_load("define i64 @seven() {\n ret i64 7\n}", "seven")
    library = compile_and_load(text, "f", imports={"seven": seven.address("seven")})
    function = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object)(library.address("f"))
    assert function(35) == 42


def test_o0_still_inlines_what_must_be():
    text = llvm.emit_assembly(TRIPLE_AND_PID, llvm.host_machine())
    assert "triple" not in text
    assert "getpid" in text


def test_every_phase_is_timed():
    code = llvm.compile_object(TRIPLE_AND_PID, llvm.host_machine())
    assert list(code.times) == ["parse", "passes", "codegen"]
    assert all(seconds > 0 for seconds in code.times.values())


def test_a_parse_error_shows_the_line():
    text = "define i32 @f() {\n  %a = add i32 %b, 1\n  ret i32 %a\n}"
    with pytest.raises(InternalError) as error:
        llvm.compile_object(text, llvm.host_machine())
    assert "use of undefined value '%b'" in str(error.value)
    assert "line 2: %a = add i32 %b, 1" in str(error.value)


def test_a_verifier_error_shows_the_line():
    text = (
        "define i32 @f(i32 %x) {\na:\n  br label %c\nb:\n  %y = add i32 %x, 1\n"
        "  br label %c\nc:\n  ret i32 %y\n}"
    )
    with pytest.raises(InternalError) as error:
        llvm.compile_object(text, llvm.host_machine())
    assert "does not dominate all uses" in str(error.value)
    assert "line 5: %y = add i32 %x, 1" in str(error.value)


def test_damaged_or_incomplete_code_is_an_error(capfd):
    code = llvm.compile_object(TRIPLE_AND_PID, llvm.host_machine()).bytes
    with pytest.raises(InternalError, match="cannot load compiled code"):
        llvm.Library.load(code[:200], ["f"])
    with pytest.raises(InternalError, match="cannot load compiled code"):
        compile_and_load(
            "declare void @nobody()\ndefine void @f() {\n call void @nobody()\n ret void\n}", "f"
        )
    assert "nobody" in capfd.readouterr().err


def test_machines():
    wide = llvm.Machine("x86_64-linux-gnu", "x", "+avx2,+avx512bw,+avx512f,+avx512vl,-sse4a")
    assert wide.has("avx512f") and not wide.has("sse4a") and not wide.has("avx512")
    assert wide.vector_bytes == 64
    assert llvm.Machine("x86_64-linux-gnu", "x", "+avx2,+avx512f").vector_bytes == 32
    assert llvm.Machine("aarch64-linux-gnu", "generic", "+neon").vector_bytes == 16
    assert llvm.Machine("arm64-apple-darwin", "generic").arch == "aarch64"


@pytest.mark.skipif(llvm.host_machine().arch != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("level, register", [("sse", "xmm0"), ("avx2", "ymm0"), ("avx512", "zmm0")])
def test_levels_of_the_host(level, register):
    machine = llvm.host_machine(level)
    lanes = machine.vector_bytes // 4
    text = f"""
    define void @f(ptr %p) {{
      %x = load <{lanes} x float>, ptr %p, align 4
      %y = fadd <{lanes} x float> %x, %x
      store <{lanes} x float> %y, ptr %p, align 4
      ret void
    }}
    """
    assert register in llvm.emit_assembly(text, machine)


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="no feature level 'mmx'"):
        llvm.host_machine("mmx")


def test_assembly_for_other_machines():
    text = "define i64 @f(ptr %p) {\n  %x = load i64, ptr %p\n  ret i64 %x\n}"
    arm = llvm.emit_assembly(text, llvm.Machine("aarch64-linux-gnu", "neoverse-n1"))
    assert "ldr\tx0, [x0]" in arm
    ptx = llvm.emit_assembly(text, llvm.Machine("nvptx64-nvidia-cuda", "sm_80", "+ptx70"))
    assert ".target sm_80" in ptx
    # One access: the alignment that the text leaves out is the target's, not LLVM's default.
    assert "ld.b64" in ptx or "ld.u64" in ptx
    with pytest.raises(InternalError, match="no target 'nowhere'"):
        llvm.emit_assembly(text, llvm.Machine("nowhere", ""))


def test_threads_may_compile_at_once():
    results = {}

    def compile_constant(n):
        library = compile_and_load(f"define i64 @f() {{\n  ret i64 {n}\n}}", "f")
        results[n] = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("f"))()

    workers = [threading.Thread(target=compile_constant, args=(n,)) for n in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {n: n for n in range(16)}
