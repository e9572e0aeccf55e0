"""The types and values of many short kernels, which are those that Triton gives."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright

from .snippets import SNIPPETS, VALUES, noted_types, run

NAMED = pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"{s.group}-{s.name}" for s in SNIPPETS])


def test_there_are_many():
    assert len(SNIPPETS) > 500
    assert sum(map(len, VALUES.values())) > 400


def check(snippet, target):
    """Run a text; compare type and values with what is recorded of Triton's."""
    with tilewright.options(target=target):
        out, memory = run(snippet)
    assert noted_types(snippet) == (snippet.dtype, snippet.shape)
    expected = VALUES.get(snippet.group, {}).get(snippet.name)
    if expected is not None:
        wanted = [float(x) for x in expected[: max(snippet.size, 1)]]
        np.testing.assert_allclose(out, wanted, rtol=3e-6, atol=1e-30)
    return out, memory


@NAMED
def test_eager(snippet):
    check(snippet, "eager")


@pytest.mark.cpu
@NAMED
def test_compiled(snippet):
    out, memory = check(snippet, "cpu")
    with tilewright.options(target="eager"):
        again, memory_again = run(snippet)
    np.testing.assert_allclose(out, again, rtol=3e-6, atol=1e-30)
    for name, array in memory.items():
        np.testing.assert_array_equal(array, memory_again[name])
