"""Each pass gives what the files in `golden` say; `--accept` writes what it gives now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.ir.rewrite import drop_dead
from tilewright.ir.text import parse_kernel, print_kernel
from tilewright.ir.verify import verify
from tilewright.passes import pipeline
from tilewright.passes.carried import drop_carried
from tilewright.passes.carry import carry_scalars
from tilewright.passes.dots import fuse_accumulators
from tilewright.passes.fold import fold
from tilewright.passes.licm import licm
from tilewright.passes.masks import drop_true_masks

PASSES = {
    p.__name__: p
    for p in (fold, licm, carry_scalars, drop_carried, fuse_accumulators, drop_true_masks)
}
FILES = sorted((Path(__file__).parent / "golden").glob("*.tile"))
MARK = "---\n"


def after(text: str) -> str:
    """What the passes named in the first line give for the kernel before the mark."""
    names = text.splitlines()[0].removeprefix("; ").split()
    passes = pipeline.STANDARD if names == ["standard"] else [PASSES[n] for n in names]
    kernel = verify(parse_kernel(text.partition(MARK)[0]))
    return print_kernel(drop_dead(pipeline.run(kernel, passes, verify=True)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path, request):
    text = path.read_text()
    before, _, expected = text.partition(MARK)
    found = after(text)
    if request.config.getoption("--accept", default=False):
        path.write_text(before + MARK + found)
        return
    assert found == expected


def test_there_is_a_golden_for_each_pass():
    named = {n for path in FILES for n in path.read_text().splitlines()[0][2:].split()}
    assert named == {*PASSES, "standard"}
