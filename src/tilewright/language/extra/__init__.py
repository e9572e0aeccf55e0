"""The names of `triton.language.extra`."""

from tilewright.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
