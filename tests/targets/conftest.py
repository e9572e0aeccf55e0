"""Modules that tests of targets share: their harness, the inputs of ops, the random kernels."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("targets", "ops", "fuzz")]
