"""Roofs of this computer: multiply-adds a second, and bytes streamed a second.

The loops are LLVM IR through the same code generator as the kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from tilewright.codegen import llvm
from tilewright.targets.cpu import threads

ACCUMULATORS = 12  # enough to cover the latency of two units
UNROLL = 4
OPERANDS = {"add": 3, "copy": 2}
ROUNDS = 100_000  # of the multiply-adds, a few ms
STREAMED = 2**23  # floats of an array that no cache holds
REPEATS = 5

# For each dtype: the type of the sums and its lanes in 64 bytes, that of the factors, the
# operations of a lane, the function, and the feature that it needs.
PRODUCTS = {
    "fp32": ("float", 16, "float", 2, "llvm.fma.v{lanes}f32", ""),
    "fp64": ("double", 8, "double", 2, "llvm.fma.v{lanes}f64", ""),
    "bf16": ("float", 16, "bfloat", 4, "llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16"),
}


def products(machine: llvm.Machine) -> list[str]:
    """The dtypes whose products this computer has instructions for."""
    features = machine.features.split(",")
    return [name for name, (*_, needs) in PRODUCTS.items() if not needs or f"+{needs}" in features]


def lanes_of(dtype: str, machine: llvm.Machine) -> int:
    """Sums of one instruction."""
    return PRODUCTS[dtype][1] * machine.vector_bytes // 64


def product_flops(dtype: str, rounds: int, machine: llvm.Machine) -> int:
    """Operations of so many rounds of `product_ir`."""
    return PRODUCTS[dtype][3] * lanes_of(dtype, machine) * ACCUMULATORS * rounds


def product_ir(dtype: str, machine: llvm.Machine) -> str:
    """`void product(ptr, i64 rounds)`: a loop of independent multiply-adds."""
    sums, _, factors, _, function, _ = PRODUCTS[dtype]
    lanes = lanes_of(dtype, machine)
    kind = f"<{lanes} x {sums}>"
    factor = f"<{lanes * 2} x {factors}>" if factors == "bfloat" else kind
    name = function.format(lanes=lanes)
    takes_sum_first = factors == "bfloat"

    def step(k: int) -> str:
        operands = [f"{factor} %a", f"{factor} %b"]
        operands.insert(0 if takes_sum_first else 2, f"{kind} %c{k}")
        return f"  %d{k} = call {kind} @{name}({', '.join(operands)})"

    types = [factor, factor]
    types.insert(0 if takes_sum_first else 2, kind)
    each = range(ACCUMULATORS)
    return "\n".join([
        f"declare {kind} @{name}({', '.join(types)})",
        "define void @product(ptr %p, i64 %n) {",
        "entry:",
        f"  %a = load {factor}, ptr %p",
        f"  %b = load {factor}, ptr %p",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %c{k} = phi {kind} [zeroinitializer, %entry], [%d{k}, %loop]" for k in each),
        *map(step, each),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        *(f"  %q{k} = getelementptr {kind}, ptr %p, i64 {k}" for k in each),
        *(f"  store {kind} %d{k}, ptr %q{k}" for k in each),
        "  ret void",
        "}",
    ])  # fmt: skip


def stream_ir(lanes: int, operation: str) -> str:
    """`c = a + b` or `c = a` over n elements, a multiple of the step."""
    kind = f"<{lanes} x float>"
    body = []
    for u in range(UNROLL):
        body.append(f"  %i{u} = add i64 %i, {u * lanes}")
        for name in "abc":
            body.append(f"  %p{name}{u} = getelementptr float, ptr %{name}, i64 %i{u}")
        body.append(f"  %x{u} = load {kind}, ptr %pa{u}")
        if operation == "add":
            body.append(f"  %y{u} = load {kind}, ptr %pb{u}")
            body.append(f"  %z{u} = fadd {kind} %x{u}, %y{u}")
        body.append(f"  store {kind} %{'z' if operation == 'add' else 'x'}{u}, ptr %pc{u}")
    lines = [
        f"define void @{operation}(ptr %a, ptr %b, ptr %c, i64 %n) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *body,
        f"  %next = add i64 %i, {UNROLL * lanes}",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def native(text: str, name: str, arguments: int) -> tuple[Callable, object]:
    """The function of a module, and what keeps it loaded."""
    code = llvm.compile_object(text, llvm.host_machine())
    library = llvm.Library.load(code.bytes, [name])
    kinds = [ctypes.c_void_p] * (arguments - 1) + [ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *kinds)(library.address(name)), library


def shared_ir(function: str, arguments: int, text: str) -> str:
    """`entry` for the pool: each program is a call of a function with pointers of its own.

    Slots of `args`: the state, the arguments of `function`, and by how much pointers move from
    one program to the next.
    """
    lines = [text, "define void @entry(i64 %begin, i64 %end, ptr %args) {"]
    slots = [f"  %s{k} = getelementptr i64, ptr %args, i64 {k}" for k in range(1, arguments + 2)]
    values = [f"  %v{k} = load i64, ptr %s{k}" for k in range(1, arguments + 2)]
    lines += [*slots, *values, f"  %far = mul i64 %begin, %v{arguments + 1}"]
    for k in range(1, arguments):
        lines += [f"  %m{k} = add i64 %v{k}, %far", f"  %p{k} = inttoptr i64 %m{k} to ptr"]
    given = [*(f"ptr %p{k}" for k in range(1, arguments)), f"i64 %v{arguments}"]
    return "\n".join([*lines, f"  call void @{function}({', '.join(given)})", "  ret void", "}"])


def best_seconds(function: str, text: str, arguments: Sequence[int], step: int, team: int) -> float:
    """Seconds in which so many threads each call a function of an IR text: the best of some."""
    code = llvm.compile_object(shared_ir(function, len(arguments), text), llvm.host_machine())
    library = llvm.Library.load(code.bytes, ["entry"])
    entry = library.address("entry")
    state = (ctypes.c_int64 * (threads.STATE_BYTES // 8))()
    args = (ctypes.c_int64 * (len(arguments) + 2))(ctypes.addressof(state), *arguments, step)
    times = []
    for _ in range(REPEATS + 1):
        start = perf_counter()
        threads.parallel(entry, ctypes.addressof(args), team, 1, team)
        times.append(perf_counter() - start)
    return min(times[1:])


def product_peak(dtype: str, team: int) -> float:
    """Operations a second of so many threads."""
    machine = llvm.host_machine()
    step = 64 * ACCUMULATORS
    memory = np.zeros(step * team + 64, np.uint8)
    arguments = (memory.ctypes.data + -memory.ctypes.data % 64, ROUNDS)
    seconds = best_seconds("product", product_ir(dtype, machine), arguments, step, team)
    return team * product_flops(dtype, ROUNDS, machine) / seconds


def stream_peak(team: int) -> float:
    """Bytes a second that so many threads add from memory."""
    lanes = llvm.host_machine().vector_bytes // 4
    size = STREAMED // team // 64 * 64
    arrays = [np.ones(size * team + 16, np.float32) for _ in range(3)]
    arguments = (*(x.ctypes.data + -x.ctypes.data % 64 for x in arrays), size)
    seconds = best_seconds("add", stream_ir(lanes, "add"), arguments, 4 * size, team)
    return team * 4 * size * OPERANDS["add"] / seconds
