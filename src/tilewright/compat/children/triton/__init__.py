"""What `import triton` finds in Python processes that a stood-in program starts: Tilewright."""

import sys
from pathlib import Path

try:
    import tilewright.compat
except ModuleNotFoundError:  # run from a folder of sources that the child does not look in
    sys.path.append(str(Path(__file__).parents[4]))
    import tilewright.compat

del sys.modules[__name__]  # whose place Tilewright takes
tilewright.compat.install()
