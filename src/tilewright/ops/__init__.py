"""Every op of the language, defined once: rule, NumPy meaning, lane recipe, effect, access."""

from tilewright.ir.op import OPS
from tilewright.ops import atomic, control, debug, dot, math, memory, program, reduce, shape

__all__ = [
    "OPS", "atomic", "control", "debug", "dot", "math", "memory", "program", "reduce", "shape",
]  # fmt: skip
