"""Every op of the language, defined once: rule, NumPy meaning, lane recipe, effect, access."""

from tilewright.ops import atomic, control, debug, dot, math, memory, program, reduce, shape
from tilewright.ir.op import OPS

__all__ = [
    "OPS", "atomic", "control", "debug", "dot", "math", "memory", "program", "reduce", "shape",
]  # fmt: skip
