"""What targets ask about a kernel: strides, divisors, ranges, and where pointers come from."""

from tilewright.passes.divisors import divisor
from tilewright.passes.origins import read_params, root_params, written_params
from tilewright.passes.ranges import interval
from tilewright.passes.strides import Strides, strides, strides_inside

__all__ = [
    "Strides", "divisor", "interval", "read_params", "root_params", "strides",
    "strides_inside", "written_params",
]  # fmt: skip
