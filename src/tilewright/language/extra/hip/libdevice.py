"""The names of `triton.language.extra.hip.libdevice`."""

# ruff: noqa: F401, F403 - the names are here to be imported from here

from tilewright.lang.libdevice import *
from tilewright.lang.libdevice import __all__
