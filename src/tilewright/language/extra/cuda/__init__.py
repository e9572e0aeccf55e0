"""The names of `triton.language.extra.cuda`."""

from tilewright.language.extra.cuda import libdevice

__all__ = ["libdevice"]
