"""The switch that takes the results of passes as the expected ones, and the random kernels."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))


def pytest_addoption(parser):
    parser.addoption("--accept", action="store_true", help="rewrite what passes should give")
