"""What `triton` itself has beside our own names."""

from tilewright.compat.compiler import compile

__all__ = ["compile"]
