"""The names of `triton.language.extra.cuda`."""

from tilewright.lang.externs import (
    convert_custom_float8_sm70,
    convert_custom_float8_sm80,
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)
from tilewright.later import attributes as _attributes

__all__ = [
    "convert_custom_float8_sm70",
    "convert_custom_float8_sm80",
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "libdevice",
    "num_threads",
    "num_warps",
    "smid",
]
__getattr__ = _attributes(__name__, {"libdevice": f"{__name__}.libdevice"})
