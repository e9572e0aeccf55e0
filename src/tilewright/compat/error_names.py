"""What `triton.errors` has beside our own errors."""

from tilewright.errors import TilewrightError as TritonError

__all__ = ["TritonError"]
