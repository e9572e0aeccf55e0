"""The names of `triton.language.extra.cuda.libdevice`."""

from tilewright.lang.libdevice import *  # noqa: F403
from tilewright.lang.libdevice import __all__  # noqa: F401
