"""Every example, every case: the kernels give what NumPy gives, stepped and native."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright import compat

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
TARGETS = ("eager", pytest.param("cpu", marks=pytest.mark.cpu))


def load(path: Path):
    """The example as a module, with Tilewright standing in for triton."""
    compat.install()
    name = f"example_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def all_cases():
    """A parameter for each case; an example that cannot be imported fails its own test only."""
    for path in EXAMPLES:
        try:
            cases = load(path).cases()
        except Exception as error:
            cases = [("import", failing(error))]
        for name, run in cases:
            yield pytest.param(run, id=f"{path.stem}-{name.replace(' ', '_')}")


def failing(error: Exception):
    def run():
        raise error

    return run


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("run", list(all_cases()))
def test_case(run, target):
    with tilewright.options(target=target):
        result, reference, tolerance = run()
    assert np.shape(result) == np.shape(reference)
    check(result, reference, tolerance)


def check(result, reference, tolerance):
    """Equal where the tolerance is zero, else close, both relative and absolute."""
    if tolerance == 0:
        np.testing.assert_array_equal(result, reference)
        return
    wide = np.asarray(result).astype(np.float64)
    np.testing.assert_allclose(wide, reference, rtol=tolerance, atol=tolerance)


def test_check_can_fail():
    with pytest.raises(AssertionError):
        check(np.float32([1, 2]), np.array([1, 3]), 0)
    with pytest.raises(AssertionError):
        check(np.float32([1, np.nan]), np.array([1, 2]), 0.1)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_names_of_cases_are_unique(path):
    names = [name for name, _ in load(path).cases()]
    assert names
    assert len(names) == len(set(names))


@pytest.mark.cpu
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_main_prints_one_line(path, capsys):
    with tilewright.options(target="cpu"):
        load(path).main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{path.stem}: ")
