"""The names of `triton.language.extra.hip`."""

from tilewright.lang.externs import memrealtime
from tilewright.language.extra.hip import libdevice

__all__ = ["libdevice", "memrealtime"]
