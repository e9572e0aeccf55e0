"""Tests of the CUDA target share its simulator, and the op table with those of other targets."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
