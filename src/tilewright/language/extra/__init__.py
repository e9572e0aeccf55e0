"""The names of `triton.language.extra`."""

from tilewright.language.extra import cuda, hip, libdevice

__all__ = ["cuda", "hip", "libdevice"]
