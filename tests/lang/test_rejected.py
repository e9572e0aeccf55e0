"""What is said about typical mistakes: what is wrong, where, what was found, what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from interpreted import compile_for, jit
from rejections import CASES

from tilewright.errors import CompileError
from tilewright.lang.jit import JITCallable

for path in sorted((Path(__file__).parent / "rejected").glob("*.py")):
    spec = importlib.util.spec_from_file_location(f"rejected_{path.stem}", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_message(case):
    assert case.found == case.expected


def test_there_are_many():
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_function_without_source_is_named():
    space = {}
    exec("def made(out): pass", space)
    with pytest.raises(CompileError, match=r"cannot read the source of made: it was defined by"):
        compile_for(JITCallable(space["made"]), out=np.zeros(1, np.float32))


def test_a_given_source_must_parse():
    kernel = jit(test_there_are_many)
    kernel._unsafe_update_src("def test_there_are_many():\n    x = = 3\n")
    with pytest.raises(CompileError) as caught:
        compile_for(kernel)
    assert str(caught.value) == (
        "cannot parse test_there_are_many: invalid syntax\n"
        "  <source of test_there_are_many>:2:9 in test_there_are_many\n"
        "        x = = 3\n"
        "            ^"
    )
