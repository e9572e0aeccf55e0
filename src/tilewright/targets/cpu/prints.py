"""`device_print` in native code: values are handed to Python, which writes one line."""

from __future__ import annotations

import ctypes
import json
import sys
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tilewright.codegen.literals import Lane
from tilewright.eager.port import printed_line
from tilewright.ir import types as t
from tilewright.ir.inst import Inst, Value
from tilewright.ir.types import parse_type
from tilewright.ops.rules import numpy_dtype
from tilewright.targets.cpu.lane_memory import write_memory
from tilewright.targets.cpu.rows import chunks, flat, lanes_for, read, write

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering

PRINT = "tw_print"  # takes a record: arguments, program, text of the print, then its values
HEAD = 3
POINTER = t.pointer_to(t.int64)


def write_print(x: Lowering, inst: Inst) -> None:
    """Hand the addresses of the values, and what they are, to `tw_print`."""
    e, w = x.e, x.e.w
    x.imports[PRINT] = f"i64 @{PRINT}(ptr)"
    text = constant_text(x, inst)
    record = w.alloca("i64", HEAD + len(inst.operands))
    addresses = [held(x, value) for value in inst.operands]
    words = ["ptr %args", "i64 %pid", f"ptr {text}", *[f"ptr {a}" for a in addresses]]
    for k, word in enumerate(words):
        place = e.b.offset(Lane(record, POINTER), e.const(k))
        w.write(f"store {word}, ptr {place.text}")
    w.write(f"{w.fresh()} = call i64 @{PRINT}(ptr {record})")


def constant_text(x: Lowering, inst: Inst) -> str:
    """The name of a constant that says what is printed."""
    about = {
        "prefix": inst.attrs.get("prefix", ""),
        "hex": inst.attrs.get("hex", False),
        "types": [str(v.type) for v in inst.operands],
    }
    data = json.dumps(about).encode() + b"\0"
    name = f"@tw_text{x.e.w.fresh('')[1:]}"
    held = "".join(f"\\{byte:02X}" for byte in data)
    x.e.w.declare(f'{name} = private constant [{len(data)} x i8] c"{held}"')
    return name


def held(x: Lowering, value: Value) -> str:
    """The address of memory that holds a value, in its own dtype."""
    e = x.e
    if not value.type.shape:
        slot = e.w.alloca("i64", 1)
        write_memory(e.b, Lane(slot, POINTER), e.scalar(value).lane)
        return slot
    buffer = e.buffers[value]
    if buffer.reads_as is None:
        return buffer.name
    out, source = flat(x.new_buffer(value.type)), flat(buffer)
    size = value.type.size
    with chunks(e, size, lanes_for(x.machine.vector_bytes, size, source)) as c:
        write(e, out, read(e, source, c), c)
    return out.name


# --- the Python side


@cache
def callback() -> ctypes._CFuncPtr:
    """What native code calls; ctypes takes the GIL for it."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(show)


def print_address() -> int:
    """The address of `tw_print`."""
    return ctypes.cast(callback(), ctypes.c_void_p).value


def show(record: int) -> int:
    """Write the line of one print of one program; a single write, so that lines stay whole."""
    args, number, text = (ctypes.c_int64 * HEAD).from_address(record)
    about = json.loads(ctypes.string_at(text))
    kinds = [parse_type(kind) for kind in about["types"]]
    places = (ctypes.c_int64 * len(kinds)).from_address(record + 8 * HEAD)
    values = []
    for kind, place in zip(kinds, places, strict=True):
        dtype = numpy_dtype(kind.dtype)
        data = ctypes.string_at(place, kind.size * dtype.itemsize)
        values.append(np.frombuffer(data, dtype).reshape(kind.shape))
    x, y, _ = (ctypes.c_int64 * 3).from_address(args + 8)
    program = (number % x, number // x % y, number // (x * y))
    sys.stdout.write(printed_line(program, values, about["prefix"], about["hex"]))
    return 0
