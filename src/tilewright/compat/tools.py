"""`triton.tools`: host-side descriptions of tensors and of packed floats."""

from tilewright.runtime import descriptor as tensor_descriptor

__path__: list[str] = []

__all__ = ["tensor_descriptor"]
