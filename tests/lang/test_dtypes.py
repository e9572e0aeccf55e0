"""The dtype of every operation on every dtype, and pair of dtypes, is the one that Triton gives.

`triton_dtypes.txt` holds, for each expression, a letter for the dtype of its result on tiles x (and
y) of each dtype, taken from the frontend of Triton 3.4; a dot where Triton has no valid result.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.language as tl
from tilewright.ir import types as t
from tilewright.ir.inst import Block
from tilewright.ir.op import running
from tilewright.ir.types import Type
from tilewright.lang.frontend import Frontend
from tilewright.lang.tensor import tensor

DTYPES = (
    t.int1, t.int8, t.int16, t.int32, t.int64, t.uint8, t.uint16, t.uint32, t.uint64, t.float16,
    t.bfloat16, t.float32, t.float64, t.float8e5,
)  # fmt: skip
LETTERS = dict(zip("bcsilCSILhgfde", DTYPES, strict=True))
LINES = (Path(__file__).parent / "triton_dtypes.txt").read_text().splitlines()
CASES = dict(line.split("\t") for line in LINES)


def result_dtype(code, x: t.DType, y: t.DType) -> t.DType:
    """The dtype that an expression has for tiles of these dtypes."""
    frontend, block = Frontend({}), Block()
    names = {"tl": tl}
    with running(frontend), frontend.builder.inside(block):
        for name, dtype in (("x", x), ("y", y)):
            pointer = tensor(block.add_param(Type(t.pointer_to(dtype))))
            names[f"{name}p"] = pointer
            names[name] = tl.load(pointer + tl.arange(0, 16))
        names["i"] = tl.arange(0, 16)
        return eval(code, names).dtype


@pytest.mark.parametrize("expression", CASES)
def test_dtypes(expression):
    code = compile(expression, "<expression>", "eval")
    rows = CASES[expression].split(" ")
    others = DTYPES if len(rows) > 1 else (t.int32,)
    wrong = []
    for k, x in enumerate(DTYPES):
        letters = rows[k] if len(rows) > 1 else rows[0][k]
        for y, letter in zip(others, letters, strict=True):
            if letter == ".":
                continue
            found = result_dtype(code, x, y)
            if found is not LETTERS[letter]:
                wrong.append(f"{x}, {y}: {found} instead of {LETTERS[letter]}")
    assert not wrong


def test_there_are_many():
    assert sum(len(row) - row.count(".") - row.count(" ") for row in CASES.values()) > 4000
