"""Every public name of `triton.language`, from 3.0 on, is here with the parameters it has there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import tilewright.language as tl
from tilewright.ir.op import Op

LINES = (Path(__file__).parent / "triton_names.txt").read_text().splitlines()
NAMES = dict(re.fullmatch(r"([\w.]+)\((.*)\)", line).groups() for line in LINES)


def find(name: str):
    """What a dotted name is in the language."""
    found = tl
    for part in name.split("."):
        found = getattr(found, part)
    return found


def parameters_of(value) -> dict[str, inspect.Parameter]:
    function = value.public if isinstance(value, Op) else value
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    value = find(name)
    wanted = [p for p in NAMES[name].split(", ") if p]
    if isinstance(value, type) or not callable(value) or not wanted:
        return
    known = parameters_of(value)
    star = any(p.kind is p.VAR_POSITIONAL and p.name == "_" for p in known.values())
    if star:  # of a function that only says why it is not there
        return
    if wanted[0] == "arg0":  # libdevice: Triton names none of them
        assert len(known) >= len(wanted) or any(p.kind is p.VAR_POSITIONAL for p in known.values())
        return
    assert set(wanted) <= set(known)
    in_order = [p for p in known if p in wanted]
    assert in_order == wanted


def test_there_are_many():
    assert len(NAMES) > 350
