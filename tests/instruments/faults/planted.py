"""Kernels with planted faults: each fault is one change of text in a kernel that is right."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tilewright import compat
from tilewright.debug import checking
from tilewright.errors import KernelFault

HEAD = "import triton\nimport triton.language as tl\n"
numbers = itertools.count()


@dataclass(frozen=True)
class Fault:
    """What is changed in a kernel, or how it is launched, and what is to be found.

    `at` is a part of the line that must be named, by default of the changed one.
    """

    name: str
    kind: str
    change: tuple[tuple[str, str], ...] = ()
    at: str = ""
    argument: str | None = None
    program: tuple[int, int, int] | None = None
    run: Callable | None = None
    says: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A kernel as it should be, how it is launched, and its faults."""

    name: str
    source: str
    run: Callable[[ModuleType], object]
    faults: tuple[Fault, ...]


def change(*pairs: str) -> tuple[tuple[str, str], ...]:
    """Texts and what replaces them, by turns."""
    return tuple(zip(pairs[::2], pairs[1::2], strict=True))


def module(tmp_path: Path, source: str) -> ModuleType:
    """The kernels of a source text, as if imported from a file."""
    compat.install()
    path = tmp_path / f"kernels_{next(numbers)}.py"
    path.write_text(HEAD + source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


def findings_of(run: Callable, kernels: ModuleType) -> list:
    with checking() as findings:
        try:
            run(kernels)
        except KernelFault:
            assert len(findings)
    return list(findings)


def check_twin(family: Family, tmp_path: Path) -> None:
    found = findings_of(family.run, module(tmp_path, family.source))
    assert not found, "\n".join(map(str, found))


def check_fault(family: Family, fault: Fault, tmp_path: Path) -> None:
    source = family.source
    for old, new in fault.change:
        assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
        source = source.replace(old, new)
    kernels = module(tmp_path, source)
    found = findings_of(fault.run or family.run, kernels)
    text = "\n".join(map(str, found)) or "nothing was found"
    lines = Path(kernels.__file__).read_text().splitlines()
    at = fault.at or fault.change[0][1].strip().splitlines()[0]
    wanted = {i + 1 for i, line in enumerate(lines) if at in line}
    assert wanted, at
    hits = [
        f
        for f in found
        if f.kind == fault.kind
        and f.loc.line in wanted
        and fault.argument in (None, f.argument)
        and fault.program in (None, f.program)
        and fault.says in str(f)
    ]
    assert hits, f"wanted {fault.kind} of {fault.argument} at {at!r}\n{text}"
    assert {f.kind for f in found} <= {fault.kind, *fault.also}, text
    assert len(found) <= 2 + len(fault.also), text


def cases(*families: Family) -> tuple[Callable, Callable]:
    """The tests of some families: of the twins, and of the faults."""

    @pytest.mark.parametrize("family", families, ids=lambda f: f.name)
    def test_twin(family, tmp_path):
        check_twin(family, tmp_path)

    pairs = [(f, x) for f in families for x in f.faults]

    @pytest.mark.parametrize(
        ("family", "fault"), pairs, ids=[f"{f.name}-{x.name}" for f, x in pairs]
    )
    def test_fault(family, fault, tmp_path):
        check_fault(family, fault, tmp_path)

    return test_twin, test_fault
