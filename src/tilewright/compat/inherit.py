"""Let the Python processes that a program starts have the stand-in too, by PYTHONPATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
STAND_IN = str(HERE / "children")  # a package `triton` that is Tilewright
PRETENCE = str(HERE / "children_on_cuda")


def pass_on(*, pretend_cuda: bool = False) -> None:
    """From now on, `import triton` gives Tilewright in child processes that run Python.

    They find it by PYTHONPATH, or, if they are handed a module path (as those of
    `multiprocessing` are), in that.
    """
    folders = [STAND_IN, PRETENCE] if pretend_cuda else [STAND_IN]
    before = os.environ.get("PYTHONPATH", "")
    known = before.split(os.pathsep)
    new = [f for f in folders if f not in known]
    os.environ["PYTHONPATH"] = os.pathsep.join([*new, *([before] if before else [])])
    sys.path[1:1] = [f for f in folders if f not in sys.path]
