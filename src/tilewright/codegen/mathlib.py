"""Elementary functions as lane recipes: their names, and how accurate each is."""

from __future__ import annotations

from tilewright.later import attributes

_MODULES = {
    "explog": (
        "acosh", "asinh", "atanh", "cosh", "exp", "exp2", "expm1", "log", "log1p", "log2", "sinh",
        "tanh",
    ),
    "power": ("cbrt", "pow", "rsqrt"),
    "special": ("erf", "erfc"),
    "trig": ("acos", "asin", "atan", "atan2", "cos", "near_cos", "near_sin", "sin", "tan"),
}  # fmt: skip
_PLACES = {n: f"tilewright.codegen.{part}:{n}" for part, names in _MODULES.items() for n in names}
__getattr__ = attributes(__name__, _PLACES)
__all__ = ["ACCURACY", "NEAR", *_PLACES]

NEAR = 1.0e5  # the largest angle that `near_sin` and `near_cos` take

# The largest error found over a million or more arguments, in units in the last place of the
# exact result: function -> dtype -> ulp. 0.5 is a correctly rounded result.
ACCURACY = {
    "acos": {"fp32": 0.7, "fp64": 0.7},
    "acosh": {"fp32": 0.51, "fp64": 2.0},
    "asin": {"fp32": 0.7, "fp64": 0.7},
    "asinh": {"fp32": 0.51, "fp64": 1.7},
    "atan": {"fp32": 1.8, "fp64": 1.8},
    "atan2": {"fp32": 1.9, "fp64": 1.9},
    "atanh": {"fp32": 0.51, "fp64": 2.0},
    "cbrt": {"fp32": 0.51, "fp64": 0.51},
    "cos": {"fp32": 0.8, "fp64": 0.8},
    "cosh": {"fp32": 1.4, "fp64": 1.4},
    "erf": {"fp32": 1.1, "fp64": 1.1},
    "erfc": {"fp32": 0.51, "fp64": 3.6},
    "exp": {"fp32": 0.9, "fp64": 0.9},
    "exp2": {"fp32": 1.0, "fp64": 1.0},
    "expm1": {"fp32": 1.1, "fp64": 1.2},
    "log": {"fp32": 0.8, "fp64": 0.8},
    "log1p": {"fp32": 0.8, "fp64": 0.8},
    "log2": {"fp32": 0.75, "fp64": 0.75},
    "pow": {"fp32": 0.51, "fp64": 1.5},
    "rsqrt": {"fp32": 1.5, "fp64": 1.5},
    "sin": {"fp32": 0.8, "fp64": 0.8},
    "sinh": {"fp32": 1.7, "fp64": 1.7},
    "tan": {"fp32": 1.0, "fp64": 1.0},
    "tanh": {"fp32": 1.0, "fp64": 1.5},
}

# Where a machine has a unit for a function, or is given a quicker recipe, the error of that:
# target -> function -> dtype.
UNIT_ACCURACY = {
    "nvptx": {
        "exp": {"fp32": 60.0},
        "exp2": {"fp32": 2.5},
        "div": {"fp32": 2.0},
        "sqrt": {"fp32": 1.0},
        "rsqrt": {"fp32": 2.0},
        "sin": {"fp32": 1.6},
        "cos": {"fp32": 1.6},
        "log": {"fp32": 0.9},
    },
}


def accuracy(name: str, dtype: str, target: str = "") -> float | None:
    """The stated error of a function on a target, in ulp; None for what is correctly rounded."""
    unit = UNIT_ACCURACY.get(target, {}).get(name, {})
    return unit.get(dtype, ACCURACY.get(name, {}).get(dtype))
