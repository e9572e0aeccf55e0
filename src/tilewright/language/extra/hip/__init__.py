"""The names of `triton.language.extra.hip`."""

from tilewright.lang.externs import memrealtime
from tilewright.later import attributes as _attributes

__all__ = ["libdevice", "memrealtime"]
__getattr__ = _attributes(__name__, {"libdevice": f"{__name__}.libdevice"})
