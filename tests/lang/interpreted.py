"""Compile a kernel and run its IR with the NumPy meaning of each op, for tests of the frontend."""

from __future__ import annotations

import numpy as np

from tilewright.ir import types as t
from tilewright.ir.inst import Block, Inst, Kernel, Value
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.ir.types import Type
from tilewright.ir.verify import verify
from tilewright.lang.frontend import build_kernel
from tilewright.lang.jit import JITCallable
from tilewright.ops.rules import NUMPY, numpy_dtype

DTYPES = {array: dtype for dtype, array in NUMPY.items()}
SPACE = 1 << 32  # bytes between the addresses of two arrays
MAX_TURNS = 10_000

jit = JITCallable


class Memory:
    """The arrays of a run; an address is the array's number times SPACE plus a byte offset."""

    def __init__(self, program: int):
        self.program = program
        self.arrays: list[np.ndarray] = []
        self.printed: list[tuple] = []

    def add(self, array: np.ndarray) -> np.int64:
        self.arrays.append(array)
        return np.int64(len(self.arrays) * SPACE)

    def place(self, pointer):
        array = self.arrays[int(np.min(pointer)) // SPACE - 1]
        return array, (np.asarray(pointer) % SPACE) // array.itemsize

    def load(self, pointer, mask, other):
        chosen = np.ones(np.shape(pointer), bool) if mask is None else mask
        array, index = self.place(pointer)
        out = array[np.where(chosen, index, 0)]
        return np.where(chosen, out, np.zeros_like(out) if other is None else other)

    def store(self, pointer, value, mask):
        chosen = np.ones(np.shape(pointer), bool) if mask is None else mask
        array, index = self.place(pointer)
        array[index[chosen]] = np.asarray(value)[chosen]

    def program_id(self, axis):
        return np.int32(self.program if axis == 0 else 0)

    def num_programs(self, axis):
        return np.int32(self.program + 1 if axis == 0 else 1)

    def print(self, *xs, prefix="", hex=False):
        self.printed.append((prefix, *[x.tolist() for x in xs]))

    def check(self, condition, mask=None, message=""):
        assert np.all(condition), message


class Run:
    """One program of a kernel."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.values: dict[Value, np.ndarray] = {}

    def block(self, block: Block, args) -> tuple:
        """The values that the block yields."""
        for param, arg in zip(block.params, args, strict=True):
            self.values[param] = np.asarray(arg, numpy_dtype(param.type.dtype))
        for inst in block.insts:
            operands = [self.values[x] for x in inst.operands]
            if inst.op.name == "yield":
                return tuple(operands)
            out = self.inst(inst, operands)
            if len(inst.results) == 1:
                out = out if isinstance(out, tuple) else (out,)
            for value, array in zip(inst.results, out or ()):
                assert np.shape(array) == value.type.shape
                self.values[value] = np.asarray(array, numpy_dtype(value.type.dtype))
        return ()

    def inst(self, inst: Inst, operands):
        control = {"if": self.branch, "for": self.count, "while": self.repeat}.get(inst.op.name)
        if control is not None:
            return control(inst, operands)
        with np.errstate(all="ignore"):
            if inst.op.access or inst.op.effect in ("program", "debug"):
                return inst.op.eager(self.memory, *operands, **inst.attrs)
            if inst.blocks:
                region = inst.blocks[0]
                both = lambda xs, ys: self.whole(region, xs, ys)  # noqa: E731
                return inst.op.eager(*operands, region=both, **inst.attrs)
            return inst.op.eager(*operands, **inst.attrs)

    def whole(self, region: Block, xs, ys):
        """A combining function on arrays, element by element."""
        outs = [self.block(region, pair) for pair in zip(*map(np.ravel, (*xs, *ys)), strict=True)]
        return tuple(np.asarray(c).reshape(xs[0].shape) for c in zip(*outs, strict=True))

    def branch(self, inst, operands):
        return self.block(inst.blocks[0 if operands[0] else 1], ())

    def count(self, inst, operands):
        low, high, step = map(int, operands[:3])
        carried = tuple(operands[3:])
        for i in range(low, high, step):
            carried = self.block(inst.blocks[0], (i, *carried))
        return carried

    def repeat(self, inst, operands):
        carried = tuple(operands)
        for _ in range(MAX_TURNS):
            if not self.block(inst.blocks[0], carried)[0]:
                return carried
            carried = self.block(inst.blocks[1], carried)
        raise AssertionError("a while loop did not end")


def type_of(value) -> Type:
    """The type of an argument, as a launch would choose it."""
    if isinstance(value, np.ndarray):
        return Type(t.pointer_to(DTYPES[value.dtype]))
    if isinstance(value, np.generic):
        return Type(DTYPES[value.dtype])
    if isinstance(value, bool):
        return Type(t.int1)
    return Type(t.int32 if isinstance(value, int) else t.float32)


def split(jit: JITCallable, arguments: dict) -> tuple[dict, dict]:
    """Run-time types and constants of a call."""
    types, constants = {}, {}
    for name, value in arguments.items():
        known = name in jit.constexpr_names or not isinstance(
            value, (np.ndarray, np.generic, bool, int, float, tuple)
        )
        if known:
            constants[name] = value
        elif isinstance(value, tuple):
            items = [type_of(v) for v in value]
            types[name] = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        else:
            types[name] = type_of(value)
    return types, constants


def compile_for(jit: JITCallable, **arguments) -> Kernel:
    """The kernel for such arguments, verified, printed and read back."""
    types, constants = split(jit, arguments)
    kernel = verify(build_kernel(jit, types, constants, options={"debug": True}))
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    return kernel


def run(jit: JITCallable, program: int = 0, **arguments) -> Memory:
    """Run one program; arrays among the arguments are written to."""
    kernel = compile_for(jit, **arguments)
    memory = Memory(program)
    given = []
    for param in kernel.params:
        name, _, position = param.name.partition(".")
        value = arguments[name][int(position)] if position else arguments[name]
        given.append(memory.add(value) if isinstance(value, np.ndarray) else value)
    Run(memory).block(kernel.body, given)
    return memory


def results(jit: JITCallable, *, size: int = 8, dtype=np.float32, **arguments) -> list:
    """What a kernel with a first parameter `out` stores there, as Python numbers."""
    out = np.zeros(size, dtype)
    run(jit, out=out, **arguments)
    return out.tolist()


def ops_of(kernel: Kernel) -> list[str]:
    """The names of the ops of a kernel, in order."""
    return [inst.op.name for inst in kernel.walk()]
