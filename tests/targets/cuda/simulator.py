"""Run the code that is made for GPUs on the CPU, thread by thread, so that tests need no GPU.

The LLVM IR of a kernel is rewritten: what only a GPU has becomes a call. Every thread of a program
is a coroutine (`swapcontext` of the C library) that gives way wherever threads wait for each other
or exchange values; all must do so at the same places.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import simulated_atomics
import simulated_casts
import simulated_copies
import simulated_mma
import simulated_wgmma
from native import slots_of

from tilewright.codegen import llvm
from tilewright.errors import LaunchError
from tilewright.ir.inst import Kernel
from tilewright.targets.base import Code
from tilewright.targets.cuda import launch as cuda_launch
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.launch import CONFIG_BYTES, CudaBinary
from tilewright.targets.cuda.target import CudaTarget
from tilewright.targets.storage import HostStorage

STACK_BYTES = 256 << 10
CONTEXT_BYTES = 8 << 10  # of a ucontext_t, more than any has
LINK, STACK_POINTER, STACK_SIZE = 8, 16, 32  # offsets in a ucontext_t, on x86-64 and aarch64
SHARED_BYTES = 256 << 10
MAP_32BIT = 0x40
MOST_ROUNDS = 200_000
# Words of a thread's state: numbers of thread and program, the grid, the kind of the last wait.
TID, CTAID, NCTAID, WAIT, ROUND, DONE, MAIN, OWN, SLOTS, ARGS = 0, 1, 4, 7, 8, 9, 10, 11, 12, 13
COPIES = 14
WORDS = 16
BARRIER = 1  # the kind of a wait for all threads of the program
WARP = 32

RUNTIME = """
declare i32 @swapcontext(ptr, ptr)
declare void @llvm.donothing()
define internal i32 @sim_word(ptr %s, i32 %k) {
  %p = getelementptr i64, ptr %s, i32 %k
  %v = load volatile i64, ptr %p
  %w = trunc i64 %v to i32
  ret i32 %w
}
define internal void @sim_wait(ptr %s, i64 %kind) noinline {
  %p = getelementptr i64, ptr %s, i32 7
  store volatile i64 %kind, ptr %p
  %r = getelementptr i64, ptr %s, i32 8
  %n = load volatile i64, ptr %r
  %m = add i64 %n, 1
  store volatile i64 %m, ptr %r
  %a = getelementptr i64, ptr %s, i32 11
  %own = load volatile ptr, ptr %a
  %b = getelementptr i64, ptr %s, i32 10
  %main = load volatile ptr, ptr %b
  call i32 @swapcontext(ptr %own, ptr %main)
  ret void
}
define internal ptr @sim_slot(ptr %s, i32 %thread, i64 %round) {
  %a = getelementptr i64, ptr %s, i32 12
  %slots = load volatile ptr, ptr %a
  %odd = and i64 %round, 1
  %far = shl i64 %odd, 10
  %t = zext i32 %thread to i64
  %i = add i64 %far, %t
  %p = getelementptr [16 x i32], ptr %slots, i64 %i
  ret ptr %p
}
define internal i32 @sim_shuffle(ptr %s, i32 %value, i32 %lane, i32 %clamp, i32 %kind) noinline {
  %tid = call i32 @sim_word(ptr %s, i32 0)
  %r = getelementptr i64, ptr %s, i32 8
  %round = load volatile i64, ptr %r
  %mine = call ptr @sim_slot(ptr %s, i32 %tid, i64 %round)
  store volatile i32 %value, ptr %mine
  %k = zext i32 %kind to i64
  call void @sim_wait(ptr %s, i64 %k)
  %own = and i32 %tid, 31
  %isup = icmp eq i32 %kind, 3
  %isxor = icmp eq i32 %kind, 4
  %flip = xor i32 %own, %lane
  %masked = and i32 %lane, 31
  %high = lshr i32 %clamp, 8
  %segment = and i32 %own, %high
  %before = sub i32 %own, %lane
  %fits = icmp sge i32 %before, %segment
  %up = select i1 %fits, i32 %before, i32 %own
  %one = select i1 %isxor, i32 %flip, i32 %masked
  %from = select i1 %isup, i32 %up, i32 %one
  %warp = and i32 %tid, -32
  %who = or i32 %warp, %from
  %theirs = call ptr @sim_slot(ptr %s, i32 %who, i64 %round)
  %out = load volatile i32, ptr %theirs
  ret i32 %out
}
define internal i32 @sim_match(ptr %s, i64 %value, i64 %kind, i1 %isvote) noinline {
  %tid = call i32 @sim_word(ptr %s, i32 0)
  %r = getelementptr i64, ptr %s, i32 8
  %round = load volatile i64, ptr %r
  %mine = call ptr @sim_slot(ptr %s, i32 %tid, i64 %round)
  store volatile i64 %value, ptr %mine
  call void @sim_wait(ptr %s, i64 %kind)
  %wanted = select i1 %isvote, i64 1, i64 %value
  %warp = and i32 %tid, -32
  br label %again
again:
  %k = phi i32 [0, %0], [%more, %again]
  %found = phi i32 [0, %0], [%out, %again]
  %who = or i32 %warp, %k
  %theirs = call ptr @sim_slot(ptr %s, i32 %who, i64 %round)
  %have = load volatile i64, ptr %theirs
  %same = icmp eq i64 %have, %wanted
  %one = zext i1 %same to i32
  %bit = shl i32 %one, %k
  %out = or i32 %found, %bit
  %more = add i32 %k, 1
  %done = icmp eq i32 %more, 32
  br i1 %done, label %end, label %again
end:
  ret i32 %out
}
define internal i32 @sim_ballot(ptr %s, i1 %value) {
  %wide = zext i1 %value to i64
  %out = call i32 @sim_match(ptr %s, i64 %wide, i64 7, i1 true)
  ret i32 %out
}
define internal i1 @sim_all(ptr %s, i1 %value, i32 %count) noinline {
  %tid = call i32 @sim_word(ptr %s, i32 0)
  %r = getelementptr i64, ptr %s, i32 8
  %round = load volatile i64, ptr %r
  %mine = call ptr @sim_slot(ptr %s, i32 %tid, i64 %round)
  %wide = zext i1 %value to i32
  store volatile i32 %wide, ptr %mine
  call void @sim_wait(ptr %s, i64 1)
  br label %again
again:
  %k = phi i32 [0, %0], [%more, %again]
  %found = phi i32 [1, %0], [%out, %again]
  %theirs = call ptr @sim_slot(ptr %s, i32 %k, i64 %round)
  %have = load volatile i32, ptr %theirs
  %out = and i32 %found, %have
  %more = add i32 %k, 1
  %done = icmp eq i32 %more, %count
  br i1 %done, label %end, label %again
end:
  %all = trunc i32 %out to i1
  ret i1 %all
}
define internal float @sim_rsqrt(float %x) {
  %r = call float @llvm.sqrt.f32(float %x)
  %q = fdiv float 1.0, %r
  ret float %q
}
define internal i16 @sim_bf16(float %x) {
  %bits = bitcast float %x to i32
  %nan = fcmp uno float %x, %x
  %up = lshr i32 %bits, 16
  %odd = and i32 %up, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %near = lshr i32 %sum, 16
  %quiet = or i32 %up, 64
  %out = select i1 %nan, i32 %quiet, i32 %near
  %code = trunc i32 %out to i16
  ret i16 %code
}
define internal <2 x float> @sim_wide(<2 x bfloat> %x) {
  %code = bitcast <2 x bfloat> %x to <2 x i16>
  %word = zext <2 x i16> %code to <2 x i32>
  %bits = shl <2 x i32> %word, <i32 16, i32 16>
  %wide = bitcast <2 x i32> %bits to <2 x float>
  ret <2 x float> %wide
}
declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)
define internal <2 x bfloat> @sim_fma(<2 x bfloat> %x, <2 x bfloat> %y, <2 x bfloat> %z) {
  %a = call <2 x float> @sim_wide(<2 x bfloat> %x)
  %b = call <2 x float> @sim_wide(<2 x bfloat> %y)
  %c = call <2 x float> @sim_wide(<2 x bfloat> %z)
  %r = call <2 x float> @llvm.fma.v2f32(<2 x float> %a, <2 x float> %b, <2 x float> %c)
  %first = extractelement <2 x float> %r, i32 0
  %last = extractelement <2 x float> %r, i32 1
  %p = call i16 @sim_bf16(float %first)
  %q = call i16 @sim_bf16(float %last)
  %one = insertelement <2 x i16> poison, i16 %p, i32 0
  %two = insertelement <2 x i16> %one, i16 %q, i32 1
  %out = bitcast <2 x i16> %two to <2 x bfloat>
  ret <2 x bfloat> %out
}
"""
KINDS = {"idx": 2, "up": 3, "bfly": 4}
SREG = re.compile(r"call (?:range\([^)]*\) )?i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.([xyz])\(\)")
QUOTIENT = re.compile(r"call float @llvm\.nvvm\.div\.full\(float (\S+), float (\S+)\)")
SHUFFLE = re.compile(r"call i32 @llvm\.nvvm\.shfl\.sync\.(\w+)\.i32\(i32 -1, (.*)\)")
ASM = re.compile(r'call (.+?) asm (?:sideeffect )?"([^"]*)", "([^"]*)"\((.*)\)(?: convergent)?$')
LDMATRIX = re.compile(
    r"call (\{.*?\}) @llvm\.nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.b16\.p3"
    r"\(ptr (\S+)\)"
)
ACCESS = re.compile(r"(?:@\$(?P<on>\d+) )?(?P<word>ld|st)[.\w:]*\.b(?P<bits>\d+) (?P<rest>.*);$")
PLACE = re.compile(r"\[\$(\d+)(?: \+ (-?\d+))?\]")


class Rewriter:
    """The text of a kernel for a GPU as text for this computer."""

    def __init__(self, text: str, shared: int):
        self.shared = shared
        self.functions: dict[str, str] = {}
        self.made: dict[tuple[str, str, str], str] = {}
        self.text = text
        self.threads = int(re.search(r'"nvvm\.maxntid"="(\d+)"', text)[1])

    def run(self, params: int) -> str:
        lines = [self.line(line) for line in self.text.splitlines()]
        needed = (f"declare float @llvm.{name}.f32(float)" for name in ("exp2", "sqrt"))
        declared = "\n".join(text for text in needed if text not in lines)
        return "\n".join(
            [
                *lines,
                *self.functions.values(),
                declared,
                RUNTIME,
                simulated_mma.HELPERS,
                simulated_copies.HELPERS,
            ]  # fmt: skip
        )

    def line(self, line: str) -> str:
        if line.startswith("declare") and "@llvm.nvvm." in line:
            return ""
        if line.startswith("@tw_shared"):
            return ""
        line = re.sub(
            r"ptrtoint ptr addrspace\(3\) @tw_shared to i32", f"add i32 {self.shared}, 0", line
        )
        line = re.sub(r"addrspacecast \(ptr addrspace\(1\) (@\w+) to ptr\)", r"\1", line)
        line = re.sub(r" addrspace\(\d\)", "", line)
        line = line.replace("addrspacecast", "bitcast")
        line = re.sub(r'syncscope\("\w+"\) ', "", line)
        line = re.sub(r"fptrunc float (\S+) to bfloat", r"call i16 @sim_bf16(float \1)", line)
        line = re.sub(r"bitcast bfloat", "bitcast i16", line)
        line = line.replace("call <2 x bfloat> @llvm.fma.v2bf16(", "call <2 x bfloat> @sim_fma(")
        if line.startswith("define ptx_kernel"):
            line = re.sub(r'"nvvm[^"]*"="[^"]*" ?', "", line).replace("ptx_kernel ", "internal ")
            return line.replace(") nounwind", ", ptr %sim) nounwind")
        line = re.sub(r"@llvm\.nvvm\.ex2\.approx\.(ftz\.)?f\(", "@llvm.exp2.f32(", line)
        line = line.replace("@llvm.nvvm.sqrt.approx.f(", "@llvm.sqrt.f32(")
        line = line.replace("@llvm.nvvm.rsqrt.approx.f(", "@sim_rsqrt(")
        line = QUOTIENT.sub(r"fdiv float \1, \2", line)
        line = SREG.sub(self.register, line)
        line = SHUFFLE.sub(self.shuffle, line)
        line = re.sub(r"call i32 @llvm\.nvvm\.match\.any\.sync\.i64\(i32 -1, (.*)\)",
                      r"call i32 @sim_match(ptr %sim, \1, i64 6, i1 false)", line)  # fmt: skip
        line = re.sub(r"call i32 @llvm\.nvvm\.vote\.ballot\.sync\(i32 -1, (.*)\)",
                      r"call i32 @sim_ballot(ptr %sim, \1)", line)  # fmt: skip
        line = re.sub(r"call i1 @llvm\.nvvm\.barrier\.cta\.red[.\w]*\(i32 0, (.*)\)",
                      rf"call i1 @sim_all(ptr %sim, \1, i32 {self.threads})", line)  # fmt: skip
        line = re.sub(r"call void @llvm\.nvvm\.barrier[.\w]*\(i32 0\)",
                      "call void @sim_wait(ptr %sim, i64 1)", line)  # fmt: skip
        line = re.sub(r"call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\)",
                      "call void @sim_wait(ptr %sim, i64 5)", line)  # fmt: skip
        line = LDMATRIX.sub(self.ldmatrix, line)
        line = simulated_copies.rewritten(line)
        line = simulated_casts.rewritten(line, self.functions)
        return ASM.sub(self.assembly, line)

    def ldmatrix(self, match: re.Match) -> str:
        kind, count, turned, pointer = match.groups()
        name = f"@sim_ldmatrix{count}{'t' if turned else ''}"
        text = simulated_mma.ldmatrix(name, int(count), bool(turned))
        self.functions.setdefault(name, text)
        return f"call {kind} {name}(ptr {pointer}, ptr %sim)"

    def register(self, match: re.Match) -> str:
        base = {"tid": TID, "ctaid": CTAID, "nctaid": NCTAID}[match[1]]
        return f"call i32 @sim_word(ptr %sim, i32 {base + 'xyz'.index(match[2])})"

    def shuffle(self, match: re.Match) -> str:
        return f"call i32 @sim_shuffle(ptr %sim, {match[2]}, i32 {KINDS[match[1]]})"

    # --- inline assembly

    def assembly(self, match: re.Match) -> str:
        result, text, constraints, operands = match.groups()
        name = f"@sim_asm{len(self.functions)}"
        if text.startswith("mma.sync"):
            name = "@sim_" + re.search(r"m\d+n8k[\w.]+", text)[0]
            if name not in self.functions:
                made = simulated_mma.wide_mma if ".f64" in name else simulated_mma.mma
                self.functions[name] = made(name, text)
            return f"call {result} {name}({operands}, ptr %sim)"
        if simulated_wgmma.is_product(text) or simulated_wgmma.is_wait(text):
            return f"call {result} {self.wgmma(match)}({operands}, ptr %sim)"
        if text.startswith("fence.proxy.async"):
            return "call void @llvm.donothing()"
        found = [n for n, body in self.functions.items() if n == (result, text, constraints)]
        kinds = [o.rpartition(" ")[0] for o in split(operands)]
        if not found:
            needs: dict[str, str] = {}
            made = self.function(name, result, text, constraints, kinds, needs)
            self.functions[result, text, constraints] = made
            self.functions.update(needs)
        else:
            name = f"@sim_asm{list(self.functions).index(found[0])}"
        return f"call {result} {name}({operands})"

    def wgmma(self, match: re.Match) -> str:
        """The name of the function of products, or of a wait for them."""
        result, text, constraints, operands = match.groups()
        key = result, text, constraints
        if key not in self.made:
            self.made[key] = name = f"@sim_wgmma{len(self.made)}"
            kinds = [o.rpartition(" ")[0] for o in split(operands)]
            if simulated_wgmma.is_wait(text):
                code, used = simulated_wgmma.waits(name, result, len(kinds), kinds[0]), {}
            else:
                code, used = simulated_wgmma.products(
                    name, result, text, constraints, kinds, self.shared
                )
            self.functions.update({**used, name: code})
        return self.made[key]

    def function(
        self,
        name: str,
        result: str,
        text: str,
        constraints: str,
        kinds: list[str],
        needs: dict[str, str],
    ) -> str:
        outputs = sum(c.startswith("=") for c in constraints.split(","))
        params = ", ".join(f"{k} %a{i}" for i, k in enumerate(kinds))
        head = f"define internal {result} {name}({params}) {{"
        operand = lambda n: f"%a{int(n) - outputs}"  # noqa: E731
        if text.startswith("{ .reg .b64 old"):
            body = ["%p = inttoptr i64 %a0 to ptr", "%o = load i64, ptr %p",
                    "%z = icmp eq i64 %o, 0", "%f = and i1 %z, %a3",
                    "br i1 %f, label %go, label %end", "go:",
                    "store i64 %a1, ptr %p", "%q = getelementptr i64, ptr %p, i32 1",
                    "store i64 %a2, ptr %q", "br label %end", "end:", "ret void"]  # fmt: skip
            return "\n".join([head, *body, "}"])
        if text.startswith("cvt.rna.tf32"):
            body = ["%i = bitcast float %a0 to i32", "%u = add i32 %i, 4096",
                    "%o = and i32 %u, -8192", "ret i32 %o"]  # fmt: skip
            return "\n".join([head, *body, "}"])
        if simulated_atomics.SUM.match(text):
            return simulated_atomics.function(name, result, text, kinds, needs)
        if simulated_casts.TO_INT.match(text):
            return simulated_casts.to_int(head, text)
        if text.startswith("@$2 red.shared.add.u32"):
            body = ["%p = inttoptr i32 %a0 to ptr",
                    "br i1 %a2, label %go, label %end", "go:",
                    "%o = atomicrmw add ptr %p, i32 %a1 monotonic", "br label %end", "end:",
                    "ret void"]  # fmt: skip
            return "\n".join([head, *body, "}"])
        match = ACCESS.match(text)
        if match is None:
            raise NotImplementedError(text)
        place = PLACE.search(match["rest"])
        if place is None:
            raise NotImplementedError(text)
        pointer = operand(place[1])
        lines = []
        if kinds[int(place[1]) - outputs] == "i64":
            lines.append(f"%base = inttoptr i64 {pointer} to ptr")
            pointer = "%base"
        lines.append(f"%place = getelementptr i8, ptr {pointer}, i64 {place[2] or 0}")
        bits = int(match["bits"])
        if match["on"] is not None:
            lines += [
                "br label %test",
                "test:",
                f"br i1 {operand(match['on'])}, label %go, label %off",
                "go:",
            ]
        if match["word"] == "ld":
            return "\n".join([head, *lines, *self.load(result, outputs, bits, match["on"]), "}"])
        inside = match["rest"][place.end() :]
        names = [operand(n) for n in re.findall(r"\$(\d+)", inside)]
        for k, value in enumerate(names):
            kind = kinds[int(value[2:])]
            lines.append(f"%p{k} = getelementptr i{bits}, ptr %place, i32 {k}")
            if bits == 8:
                lines.append(f"%n{k} = trunc {kind} {value} to i8")
                kind, value = "i8", f"%n{k}"
            lines.append(f"store {kind} {value}, ptr %p{k}, align {bits // 8 * len(names)}" if not k
                         else f"store {kind} {value}, ptr %p{k}, align {bits // 8}")  # fmt: skip
        lines.append("ret void")
        if match["on"] is not None:
            lines += ["off:", "ret void"]
        return "\n".join([head, *lines, "}"])

    def load(self, result: str, outputs: int, bits: int, on: str | None) -> list[str]:
        kinds = result.strip("{} ").split(", ")
        lines = []
        for k, kind in enumerate(kinds):
            lines.append(f"%p{k} = getelementptr i{bits}, ptr %place, i32 {k}")
            lines.append(f"%l{k} = load i{bits}, ptr %p{k}")
            if bits == 8:
                lines.append(f"%v{k} = zext i8 %l{k} to {kind}")
            else:
                lines.append(f"%v{k} = bitcast i{bits} %l{k} to {kind}")
        lines += returned(result, [f"%v{k}" for k in range(outputs)], kinds, "t")
        if on is not None:
            lines += ["off:", *returned(result, [f"%a{k}" for k in range(outputs)], kinds, "f")]
        return lines


def returned(result: str, values: list[str], kinds: list[str], stem: str) -> list[str]:
    if len(values) == 1:
        return [f"ret {kinds[0]} {values[0]}"]
    lines, held = [], "poison"
    for k, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        lines.append(f"%{stem}{k} = insertvalue {result} {held}, {kind} {value}, {k}")
        held = f"%{stem}{k}"
    return [*lines, f"ret {result} {held}"]


def split(text: str) -> list[str]:
    """Operands of a call; those of inline assembly hold no brackets with commas."""
    return [part.strip() for part in text.split(", ")] if text else []


class Threads:
    """The threads of one program, and memory for what they share."""

    def __init__(self, count: int):
        self.count = count
        self.libc = ctypes.CDLL(None)
        self.main = ctypes.create_string_buffer(CONTEXT_BYTES)
        self.contexts = [ctypes.create_string_buffer(CONTEXT_BYTES) for _ in range(count)]
        self.stacks = [ctypes.create_string_buffer(STACK_BYTES) for _ in range(count)]
        self.states = [(ctypes.c_int64 * WORDS)() for _ in range(count)]
        self.slots = (ctypes.c_int32 * (16 * 2048))()
        self.copies = [simulated_copies.queue() for _ in range(count)]

    def run(
        self,
        start: ctypes.c_void_p,
        program: Sequence[int],
        grid: Sequence[int],
        arguments: int,
    ) -> None:
        """Run all threads from a function to their ends, each from one wait to the next."""
        for number, (state, context, stack) in enumerate(
            zip(self.states, self.contexts, self.stacks, strict=True)
        ):
            ctypes.memset(state, 0, ctypes.sizeof(state))
            state[TID] = number
            state[CTAID : CTAID + 3] = program
            state[NCTAID : NCTAID + 3] = grid
            state[MAIN] = ctypes.addressof(self.main)
            state[OWN] = ctypes.addressof(context)
            state[SLOTS] = ctypes.addressof(self.slots)
            state[COPIES] = ctypes.addressof(self.copies[number])
            state[ARGS] = arguments
            ctypes.memset(self.copies[number], 0, 8 * simulated_copies.HEAD)
            self.libc.getcontext(context)
            words = ctypes.addressof(context)
            ctypes.c_uint64.from_address(words + LINK).value = ctypes.addressof(self.main)
            ctypes.c_uint64.from_address(words + STACK_POINTER).value = ctypes.addressof(stack)
            ctypes.c_uint64.from_address(words + STACK_SIZE).value = STACK_BYTES
            self.libc.makecontext(context, start, 1, ctypes.c_void_p(ctypes.addressof(state)))
        pairs = list(zip(self.contexts, self.states, strict=True))
        warps = [pairs[k : k + WARP] for k in range(0, len(pairs), WARP)]
        for _ in range(MOST_ROUNDS):
            ended = [self.run_warp(warp, program) for warp in warps]
            if all(ended):
                return
            if any(ended):
                raise AssertionError(f"some warps of {program} end where others wait")
        raise AssertionError(f"program {program} does not end")

    def run_warp(self, warp: Sequence[tuple], program: Sequence[int]) -> bool:
        """Run a warp until it waits for the others, or to its end: whether that was it."""
        swap = self.libc.swapcontext
        for _ in range(MOST_ROUNDS):
            for context, _ in warp:
                swap(self.main, context)
            ended = {state[DONE] for _, state in warp}
            kinds = {state[WAIT] for _, state in warp}
            if ended == {1}:
                return True
            if len(ended) > 1 or len(kinds) > 1:
                raise AssertionError(f"threads of {program} wait at different places: {kinds}")
            if kinds == {BARRIER}:
                return False
        raise AssertionError(f"a warp of program {program} does not end")


@cache
def team_of(count: int) -> Threads:
    """One program runs at a time, so all kernels may have the same memory."""
    return Threads(count)


class SimulatedBinary(CudaBinary):
    """A kernel whose launches run on this computer, one program after the other."""

    def __init__(self, image: bytes, metadata: dict[str, Any]):
        super().__init__(image, metadata)
        self.memory = mmap.mmap(
            -1, SHARED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT
        )
        shared = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        assert shared < 1 << 32
        text = Rewriter(image.decode(), shared).run(len(metadata["params"]))
        text += self.start_text(image.decode())
        machine = llvm.host_machine()
        self.text = text
        self.library = llvm.Library.load(llvm.compile_object(text, machine).bytes, ["sim_start"])
        self.start = ctypes.c_void_p(self.library.address("sim_start"))
        self.fault_memory = (ctypes.c_uint64 * 8)()
        self.record = ctypes.addressof(self.fault_memory)
        self.word = ctypes.c_uint64.from_address(self.record)

    def start_text(self, text: str) -> str:
        """The function that a thread starts in: it takes the arguments from the launch's buffer."""
        head = next(line for line in text.splitlines() if line.startswith("define ptx_kernel"))
        params = split(re.search(r"\((.*)\) nounwind", head)[1])
        kinds = [p.rpartition(" ")[0] for p in params]
        struct = "{ " + ", ".join(kinds) + " }"
        lines = [
            "define void @sim_start(ptr %s) {",
            f"%a = getelementptr i64, ptr %s, i32 {ARGS}",
            "%args = load ptr, ptr %a",
        ]
        for k, kind in enumerate(kinds):
            lines.append(f"%p{k} = getelementptr {struct}, ptr %args, i32 0, i32 {k}")
            lines.append(f"%v{k} = load {kind}, ptr %p{k}")
        values = ", ".join(f"{kind} %v{k}" for k, kind in enumerate(kinds))
        lines += [
            f"call void @{self.metadata['entry']}({values}, ptr %s)",
            f"%d = getelementptr i64, ptr %s, i32 {DONE}",
            "store i64 1, ptr %d",
            "ret void",
            "}",
        ]
        return "\n".join(["", *lines, ""])

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Any], place: int = -1, counters: int = 0
    ) -> None:
        number = self.history.next()
        buffer = cuda_launch.ParameterBuffer(self.history.size)
        head = (*grid, self.threads, 1, 1, self.shared, 0, 0, 0)
        own = (self.record, number, counters)
        pack = self.history.pack_into
        try:
            pack(buffer.memory, 0, *head, *own, *values)
        except OverflowError:
            pack(buffer.memory, 0, *head, *own, *self.rounded(values))
        self.history.remember(number, buffer.address)
        x, y, z = grid
        for number in range(x * y * z):
            program = (number % x, number // x % y, number // (x * y))
            team_of(self.threads).run(self.start, program, grid, buffer.address + CONFIG_BYTES)
        self.check()

    def facts(self) -> dict[str, int]:
        """Nothing is known: there is no machine code."""
        return {}


class SimulatedTarget(CudaTarget):
    """The CUDA target with a simulator in place of a driver."""

    name = "cuda-simulated"
    devices = "cpu"

    def __init__(self, named: str = "sm_80", num_warps: int = 4):
        super().__init__(named)
        self.num_warps = num_warps
        if find(named).shared_limit > SHARED_BYTES:
            raise LaunchError("the simulator has less shared memory than the architecture")

    def identity(self) -> str:
        return f"{super().identity()} {self.num_warps} warps"

    def lower(self, kernel, *, bounds: bool, counters: bool):
        kernel.meta["options"] = {"num_warps": self.num_warps} | kernel.meta.get("options", {})
        return super().lower(kernel, bounds=bounds, counters=counters)

    def assemble(self, code: Code) -> bytes:
        return code.text.encode()

    def load(self, object_bytes: bytes, metadata: dict[str, Any]) -> SimulatedBinary:
        return SimulatedBinary(object_bytes, metadata)

    def storage(self, size: int, place: int = -1) -> HostStorage:
        return HostStorage(size)

    def room(self, place: int = -1) -> int:
        return 1 << 30

    def is_recording(self, place: int = -1) -> bool:
        return False

    def clock(self, place: int = -1, cold: bool = False) -> None:
        """Launches are over when they return."""


class Simulated:
    """A kernel of the tile IR compiled for an architecture, run on NumPy arrays."""

    def __init__(self, kernel: Kernel, arch: str = "sm_80", num_warps: int = 1):
        target = SimulatedTarget(arch, num_warps)
        code = target.lower(kernel, bounds=True, counters=False)
        self.kernel = kernel
        self.binary = target.load(target.assemble(code), code.metadata)

    def run(self, grid: Sequence[int], values: Sequence[Any]) -> None:
        """Launch; the arrays are changed in place."""
        self.binary.launch((*grid, 1, 1)[:3], slots_of(values))
