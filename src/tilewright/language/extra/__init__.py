"""The names of `triton.language.extra`."""

from tilewright.language.extra import cuda, hip
from tilewright.later import attributes as _attributes

__all__ = ["cuda", "hip", "libdevice"]
__getattr__ = _attributes(__name__, {"libdevice": f"{__name__}.libdevice"})
