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
from tilewright.language.extra.cuda import libdevice

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
