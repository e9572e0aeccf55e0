"""Modules that random tests share: the generators, and the harness for native code."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("fuzz", "targets")]
