"""Write LLVM IR for one lane group: a scalar or a short SIMD vector alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tilewright.codegen import convert
from tilewright.codegen.literals import Lane, literal, llvm_type, suffix
from tilewright.errors import InternalError
from tilewright.ir import types as ty
from tilewright.ir.types import DType
from tilewright.later import later

exact = later("tilewright.codegen.exact")

__all__ = ["Lane", "Lanes", "llvm_type"]

_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_FLOAT = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}

_TRUTH = {"true": True, "false": False, "splat (i1 true)": True, "splat (i1 false)": False}


HALVES = (ty.float16, ty.bfloat16)


class Lanes:
    """Instructions on lane groups, by dtype; operands of width 1 are splatted to the wider one.

    `write` appends one instruction, `fresh` gives a new SSA name (`%7`), `declare` adds a
    declaration or an internal function to the module unless that text is already there. `target`
    is "x86", "aarch64" or "nvptx", `features` the names of what that machine has.
    Floats narrower than f32 compute in f32 and round once per operation.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        fresh: Callable[[], str],
        declare: Callable[[str], None],
        target: str = "x86",
        features: frozenset[str] = frozenset(),
    ):
        self.write = write
        self.fresh = fresh
        self.declare = declare
        self.target = target
        self.features = features
        self._declared: set[str] = set()
        # By scalar integer: between which numbers it lies.
        self.ranges: dict[str, tuple[int, int]] = {}

    # Instructions, calls and functions.

    def value(self, text: str, dtype: DType, width: int) -> Lane:
        """Write an instruction with a result."""
        name = self.fresh()
        self.write(f"{name} = {text}")
        return Lane(name, dtype, width)

    def require(self, text: str) -> None:
        """Have a declaration or definition in the module."""
        if text not in self._declared:
            self._declared.add(text)
            self.declare(text)

    def call(self, name: str, dtype: DType, *args: Lane | str, width: int = 0) -> Lane:
        """Call a function on lanes (or typed literals); the result is as wide as the first."""
        width = width or args[0].width
        types, operands = [], []
        for arg in args:
            typed = arg if isinstance(arg, str) else arg.typed
            types.append(typed.rpartition(" ")[0] if isinstance(arg, str) else arg.type)
            operands.append(typed)
        result = llvm_type(dtype, width)
        self.require(f"declare {result} @{name}({', '.join(types)})")
        return self.value(f"call {result} @{name}({', '.join(operands)})", dtype, width)

    def intrinsic(self, base: str, x: Lane, *more: Lane | str) -> Lane:
        """Call `llvm.<base>`, overloaded on the type of `x` and giving that type."""
        return self.call(f"llvm.{base}.{suffix(x.dtype, x.width)}", x.dtype, x, *more)

    def outline(self, recipe: Callable[..., Lane], *args: Lane) -> Lane:
        """`recipe(self, *args)` through an internal function, written once per operand types."""
        args = self.match(*args)
        dtypes = tuple(a.dtype for a in args)
        made = _define(recipe, dtypes, args[0].width, self.target, self.features)
        for text in made.needs:
            self.require(text)
        operands = ", ".join(a.typed for a in args)
        result = llvm_type(made.result, args[0].width)
        return self.value(f"call {result} @{made.name}({operands})", made.result, args[0].width)

    # Making and moving lanes.

    def const(self, value: float | int | bool, dtype: DType, width: int = 1) -> Lane:
        return Lane(literal(value, dtype, width), dtype, width)

    def like(self, x: Lane, value: float | int | bool) -> Lane:
        """A constant of the dtype and width of `x`."""
        return Lane(literal(value, x.dtype, x.width), x.dtype, x.width)

    def iota(self, dtype: DType, width: int) -> Lane:
        """The lane numbers 0, 1, ..., as a constant."""
        if width == 1:
            return self.const(0, dtype)
        kind = llvm_type(dtype)
        return Lane(f"<{', '.join(f'{kind} {i}' for i in range(width))}>", dtype, width)

    def splat(self, x: Lane, width: int) -> Lane:
        if x.width == width:
            return x
        if x.width != 1:
            raise InternalError(f"cannot splat {x.width} lanes to {width}")
        if x.is_literal:
            return Lane(f"splat ({x.typed})", x.dtype, width)
        kind = llvm_type(x.dtype, width)
        one = self.value(f"insertelement {kind} poison, {x.typed}, i32 0", x.dtype, width)
        zeros = f"<{width} x i32> zeroinitializer"
        return self.value(f"shufflevector {one.typed}, {kind} poison, {zeros}", x.dtype, width)

    def match(self, *lanes: Lane) -> tuple[Lane, ...]:
        """All lanes at the width of the widest."""
        width = max(x.width for x in lanes)
        return tuple(self.splat(x, width) for x in lanes)

    def extract(self, x: Lane, index: int) -> Lane:
        """One lane of a vector."""
        if x.width == 1:
            return x
        return self.value(f"extractelement {x.typed}, i32 {index}", x.dtype, 1)

    def slice(self, x: Lane, start: int, width: int) -> Lane:
        """`width` neighbouring lanes."""
        if width == 1:
            return self.extract(x, start)
        mask = ", ".join(f"i32 {start + i}" for i in range(width))
        text = f"shufflevector {x.typed}, {x.type} poison, <{width} x i32> <{mask}>"
        return self.value(text, x.dtype, width)

    def fold(self, combine: Callable[[tuple, tuple], tuple], lanes: tuple[Lane, ...]) -> tuple:
        """Combine all lanes of a vector (of each vector in the tuple) into one, halving each time.

        `combine` must be associative and commutative; the width is a power of two.
        """
        while lanes[0].width > 1:
            half = lanes[0].width // 2
            low = tuple(self.slice(x, 0, half) for x in lanes)
            high = tuple(self.slice(x, half, half) for x in lanes)
            lanes = tuple(combine(low, high))
        return lanes

    def offset(self, ptr: Lane, index: Lane, element: DType | None = None) -> Lane:
        """`ptr` moved by `index` elements (of its own dtype, unless another is named)."""
        if index.dtype.bits < 64 and not index.dtype.is_signed:
            index = self.cast(index, ty.int64)
        if index.known == 0 and index.width <= ptr.width:
            return ptr
        element = element or ptr.dtype.element_ty
        size = "i8" if element.bits < 8 or element.kind == "void" else llvm_type(element)
        width = max(ptr.width, index.width)
        return self.value(f"getelementptr {size}, {ptr.typed}, {index.typed}", ptr.dtype, width)

    # Arithmetic.

    def _binary(self, name: str, x: Lane, y: Lane) -> Lane:
        return self.value(f"{name} {x.typed}, {y.text}", x.dtype, x.width)

    def _pair(self, x: Lane, y: Lane) -> tuple[Lane, Lane]:
        if x.dtype != y.dtype:
            raise InternalError(f"lanes of {x.dtype} and {y.dtype} meet without a cast")
        return (x, y) if x.width == y.width else self.match(x, y)

    def _narrow(self, method: Callable[..., Lane], *lanes: Lane) -> Lane:
        """Apply a method in f32 to floats narrower than that, and round the result once."""
        wide = method(*(self.cast(x, ty.float32) for x in lanes))
        return self.cast(wide, lanes[0].dtype) if wide.dtype is ty.float32 else wide

    def _arithmetic(self, of_int: str, of_float: str, x: Lane, y: Lane) -> Lane:
        x, y = self._pair(x, y)
        if not x.dtype.is_float:
            return self._folded(of_int, x, y) or self._binary(of_int, x, y)
        # NVIDIA's chips have arithmetic of fp16, which rounds the same.
        native = self.target == "nvptx" and x.dtype is ty.float16
        if x.dtype.bits < 32 and not native:
            return self._narrow(lambda p, q: self._binary(of_float, p, q), x, y)
        return self._binary(of_float, x, y)

    def _folded(self, name: str, x: Lane, y: Lane) -> Lane | None:
        """A sum, difference or product of integers that takes no instruction."""
        if name == "sub" and x.text == y.text:
            return self.like(x, 0)
        if name not in ("add", "sub", "mul") or not (x.is_literal or y.is_literal):
            return None
        a, b = x.known, y.known
        if a is not None and b is not None:
            return self.like(x, a + b if name == "add" else a - b if name == "sub" else a * b)
        if b == (name == "mul"):
            return x
        if name == "mul" and 0 in (a, b):
            return self.like(x, 0)
        return y if name != "sub" and a == (name == "mul") else None

    def add(self, x: Lane, y: Lane) -> Lane:
        return self._arithmetic("add", self._sum("fadd"), x, y)

    def sub(self, x: Lane, y: Lane) -> Lane:
        return self._arithmetic("sub", self._sum("fsub"), x, y)

    def _sum(self, name: str) -> str:
        """Sums that NVIDIA's assembler may see through.

        No product is joined with them, since products are not marked; but quotients by 1 + y do
        without the steps that are for tiny divisors.
        """
        return f"{name} contract" if self.target == "nvptx" else name

    def mul(self, x: Lane, y: Lane) -> Lane:
        return self._arithmetic("mul", "fmul", x, y)

    def div(self, x: Lane, y: Lane) -> Lane:
        """Float division, correctly rounded."""
        return self._arithmetic("sdiv", "fdiv", x, y)

    def quick_div(self, x: Lane, y: Lane) -> Lane:
        """Float division; on NVIDIA chips within 2 ulp in f32, elsewhere correctly rounded."""
        x, y = self._pair(x, y)
        if self.target != "nvptx" or x.dtype.bits > 32:
            return self.div(x, y)
        if x.dtype.bits < 32:
            return self._narrow(self.quick_div, x, y)
        return self.call("llvm.nvvm.div.full", x.dtype, x, y)

    def idiv(self, x: Lane, y: Lane) -> Lane:
        """Integer division as in C, without traps: x/0 is 0, and the least value over -1 wraps."""
        if y.known not in (None, 0, -1):
            return self._binary("sdiv" if x.dtype.is_signed else "udiv", *self._pair(x, y))
        if y.width == 1 < x.width and x.dtype.bits == 32:
            return self._quotient_by_one(x, y)
        x, y = self._pair(x, y)
        quotient = self._quotient(x, y)
        return self.select(self.eq(y, self.like(y, 0)), self.like(x, 0), quotient)

    def irem(self, x: Lane, y: Lane) -> Lane:
        """The remainder of `idiv`, with the sign of `x`; x%0 is x."""
        if y.known not in (None, 0, -1):
            return self._binary("srem" if x.dtype.is_signed else "urem", *self._pair(x, y))
        if y.width == 1 < x.width and x.dtype.bits == 32:  # the quotient by 0 is 0
            return self.sub(x, self.mul(self._quotient_by_one(x, y), y))
        x, y = self._pair(x, y)
        rest = self.sub(x, self.mul(self._quotient(x, y), y))
        return self.select(self.eq(y, self.like(y, 0)), x, rest)

    def _quotient(self, x: Lane, y: Lane) -> Lane:
        """x / y where y is neither 0 nor overflows; there x (both give the right remainder 0)."""
        bad = self.eq(y, self.like(y, 0))
        if x.dtype.is_signed:
            least = self.eq(x, self.like(x, -1 << (x.dtype.bits - 1)))
            bad = self.bit_or(bad, self.bit_and(least, self.eq(y, self.like(y, -1))))
        y = self.select(bad, self.like(y, 1), y)
        if x.width == 1 or x.dtype.bits > 32 or x.dtype is ty.int1:
            return self._binary("sdiv" if x.dtype.is_signed else "udiv", x, y)
        # SIMD units have no integer division. A float that holds both integers rounds their
        # quotient never up to the next integer: that is further away than its last place.
        wide = ty.float64 if x.dtype.bits == 32 else ty.float32
        exact = self.div(self.cast(x, wide), self.cast(y, wide))
        to_int = "fptosi" if x.dtype.is_signed else "fptoui"
        return self.value(f"{to_int} {exact.typed} to {x.type}", x.dtype, x.width)

    def _quotient_by_one(self, x: Lane, y: Lane) -> Lane:
        """The same for one divisor of many numbers of 32 bits: a product with its inverse.

        Half of a unit is added first, away from 0: that is no next quotient, and it is more than
        the product is off by. The divisor -1, whose quotients may not fit, is a case of its own.
        """
        one, minus = self.like(y, 1), self.like(y, -1)
        is_special = self.eq(y, self.like(y, 0))
        if x.dtype.is_signed:
            is_special = self.bit_or(is_special, self.eq(y, minus))
        by = self.cast(self.select(is_special, one, y), ty.float64)
        inverse = self.div(self.const(1.0, ty.float64), by)
        wide = self.cast(x, ty.float64)
        half = self.like(wide, 0.5)
        if x.dtype.is_signed:
            half = self.select(self.lt(x, self.like(x, 0)), self.like(wide, -0.5), half)
        product = self.mul(self.add(wide, half), inverse)
        to_int = "fptosi" if x.dtype.is_signed else "fptoui"
        quotient = self.value(f"{to_int} {product.typed} to {x.type}", x.dtype, x.width)
        special = self.const(0, x.dtype, x.width)
        if x.dtype.is_signed:
            special = self.select(self.eq(y, minus), self.neg(x), special)
        return self.select(is_special, special, quotient)

    def fmod(self, x: Lane, y: Lane) -> Lane:
        """C's `fmod` of floats, exactly."""
        x, y = self._pair(x, y)
        if x.dtype.bits < 32:
            return self._narrow(self.fmod, x, y)
        return self.outline(exact.fmod, x, y)

    def neg(self, x: Lane) -> Lane:
        if not x.dtype.is_float:
            return self.sub(self.like(x, 0), x)
        if x.dtype in HALVES:
            return self._of_bits(self.bit_xor, x, 0x8000)
        if x.dtype.bits < 32:
            return self._narrow(self.neg, x)
        return self.value(f"fneg {x.typed}", x.dtype, x.width)

    def abs(self, x: Lane) -> Lane:
        """The absolute value; that of the least integer wraps to itself."""
        if x.dtype.is_signed:
            return self.intrinsic("abs", x, "i1 false")
        if x.dtype in HALVES:
            return self._of_bits(self.bit_and, x, 0x7FFF)
        return self._unary("fabs", x) if x.dtype.is_float else x

    def _of_bits(self, method: Callable[..., Lane], x: Lane, mask: int) -> Lane:
        """Bits of a float of 16, without rounding."""
        bits = self.bitcast(x, ty.uint16)
        return self.bitcast(method(bits, self.like(bits, mask)), x.dtype)

    def _unary(self, name: str, *lanes: Lane) -> Lane:
        if lanes[0].dtype.bits < 32:
            return self._narrow(lambda *wide: self.intrinsic(name, *wide), *lanes)
        return self.intrinsic(name, *lanes)

    def floor(self, x: Lane) -> Lane:
        return self._unary("floor", x)

    def ceil(self, x: Lane) -> Lane:
        return self._unary("ceil", x)

    def trunc(self, x: Lane) -> Lane:
        return self._unary("trunc", x)

    def round_even(self, x: Lane) -> Lane:
        return self._unary("roundeven", x)

    def sqrt(self, x: Lane) -> Lane:
        return self._unary("sqrt", x)

    def quick_sqrt(self, x: Lane) -> Lane:
        """Square root; on NVIDIA chips within 1 ulp in f32, elsewhere correctly rounded."""
        if self.target != "nvptx" or x.dtype is not ty.float32:
            return self.sqrt(x)
        return self.call("llvm.nvvm.sqrt.approx.f", x.dtype, x)

    def fma(self, x: Lane, y: Lane, z: Lane) -> Lane:
        """x * y + z rounded once."""
        x, y, z = self.match(x, y, z)
        if x.dtype.bits < 32:
            return self.outline(exact.narrow_fma, x, y, z)
        return self.intrinsic("fma", x, y, z)

    def umulhi(self, x: Lane, y: Lane) -> Lane:
        """The upper half of the unsigned product of two integers."""
        x, y = self._pair(x, y)
        if x.width > 1 and x.dtype.bits == 64:
            x64, y64 = self.bitcast(x, ty.uint64), self.bitcast(y, ty.uint64)
            return self.bitcast(self.outline(exact.umulhi64, x64, y64), x.dtype)
        if x.width * x.dtype.bits == 512 and x.dtype.bits == 32:  # 10 % faster than what LLVM makes
            return exact.umulhi32(self, x, y)
        bits = x.dtype.bits
        wide = f"i{2 * bits}" if x.width == 1 else f"<{x.width} x i{2 * bits}>"
        shift = str(bits) if x.width == 1 else f"splat (i{2 * bits} {bits})"
        names = [self.fresh() for _ in range(4)]
        self.write(f"{names[0]} = zext {x.typed} to {wide}")
        self.write(f"{names[1]} = zext {y.typed} to {wide}")
        self.write(f"{names[2]} = mul {wide} {names[0]}, {names[1]}")
        self.write(f"{names[3]} = lshr {wide} {names[2]}, {shift}")
        return self.value(f"trunc {wide} {names[3]} to {x.type}", x.dtype, x.width)

    # Bits.

    def bit_and(self, x: Lane, y: Lane) -> Lane:
        return self._logical("and", *self._pair(x, y))

    def bit_or(self, x: Lane, y: Lane) -> Lane:
        return self._logical("or", *self._pair(x, y))

    def _logical(self, name: str, x: Lane, y: Lane) -> Lane:
        """What of two masks one is known takes no instruction."""
        for p, q in ((x, y), (y, x)):
            if p.text in _TRUTH:
                return q if _TRUTH[p.text] == (name == "and") else p
        return self._binary(name, x, y)

    def bit_xor(self, x: Lane, y: Lane) -> Lane:
        return self._binary("xor", *self._pair(x, y))

    def bit_not(self, x: Lane) -> Lane:
        if x.text in _TRUTH:
            return self.like(x, not _TRUTH[x.text])
        return self._binary("xor", x, self.like(x, -1))

    def shl(self, x: Lane, y: Lane) -> Lane:
        """x << y; 0 when y (read as unsigned) is not less than the number of bits."""
        return self._shift("shl", *self._pair(x, y))

    def shr(self, x: Lane, y: Lane) -> Lane:
        """x >> y, arithmetic for signed x; 0 or the sign when y is not less than the bits."""
        x, y = self._pair(x, y)
        if not x.dtype.is_signed:
            return self._shift("lshr", x, y)
        if y.known is None or not 0 <= y.known < x.dtype.bits:
            last = self.like(y, x.dtype.bits - 1)
            y = self.select(self._compare("ult", y, last), y, last)
        return self._binary("ashr", x, y)

    def _shift(self, name: str, x: Lane, y: Lane) -> Lane:
        if y.known is not None and 0 <= y.known < x.dtype.bits:
            return self._binary(name, x, y)
        # An oversized shift is poison, which `select` does not pass on from the arm not taken.
        inside = self._compare("ule", y, self.like(y, x.dtype.bits - 1))
        if self.target == "nvptx" and x.dtype.bits == 64:
            # LLVM drops the select, but PTX takes only the low half of the amount.
            y = self.select(inside, y, self.like(y, 0))
        return self.select(inside, self._binary(name, x, y), self.like(x, 0))

    # Comparison and choice.

    def _compare(self, predicate: str, x: Lane, y: Lane) -> Lane:
        kind = "fcmp" if x.dtype.is_float and x.dtype.bits > 8 else "icmp"
        return self.value(f"{kind} {predicate} {x.typed}, {y.text}", ty.int1, x.width)

    def _relation(self, name: str, x: Lane, y: Lane) -> Lane:
        if not x.dtype.is_float:
            x, y = self.match(x, y) if x.dtype.is_pointer else self._pair(x, y)
            if x.text == y.text:
                return self.const(name in ("le", "ge", "eq"), ty.int1, x.width)
            return self._compare((_SIGNED if x.dtype.is_signed else _UNSIGNED)[name], x, y)
        x, y = self._pair(x, y)
        if x.dtype.bits < 32:
            return self._narrow(lambda p, q: self._relation(name, p, q), x, y)
        return self._compare(_FLOAT[name], x, y)

    def lt(self, x: Lane, y: Lane) -> Lane:
        return self._relation("lt", x, y)

    def le(self, x: Lane, y: Lane) -> Lane:
        return self._relation("le", x, y)

    def gt(self, x: Lane, y: Lane) -> Lane:
        return self._relation("gt", x, y)

    def ge(self, x: Lane, y: Lane) -> Lane:
        return self._relation("ge", x, y)

    def eq(self, x: Lane, y: Lane) -> Lane:
        return self._relation("eq", x, y)

    def ne(self, x: Lane, y: Lane) -> Lane:
        return self._relation("ne", x, y)

    def is_nan(self, x: Lane) -> Lane:
        if x.dtype.bits < 32:
            return self._narrow(self.is_nan, x)
        return self._compare("uno", x, x)

    def select(self, mask: Lane, x: Lane, y: Lane) -> Lane:
        """x where the mask is set, else y; a mask of width 1 chooses between whole vectors."""
        if mask.width > 1:
            mask, x, y = self.match(mask, x, y)
        x, y = self._pair(x, y)
        if x.text == y.text:
            return x
        made = self.value(f"select {mask.typed}, {x.typed}, {y.typed}", x.dtype, x.width)
        one, two = self.range_of(x), self.range_of(y)
        if one is not None and two is not None:
            self.ranges[made.text] = min(one[0], two[0]), max(one[1], two[1])
        return made

    def range_of(self, x: Lane) -> tuple[int, int] | None:
        """Between which numbers a scalar integer lies, if that is known."""
        known = x.known if x.width == 1 else None
        return self.ranges.get(x.text) if known is None else (known, known)

    def minimum(self, x: Lane, y: Lane, propagate_nan: bool = False) -> Lane:
        return self._extreme("min", self.lt, x, y, propagate_nan)

    def maximum(self, x: Lane, y: Lane, propagate_nan: bool = False) -> Lane:
        return self._extreme("max", self.gt, x, y, propagate_nan)

    def _extreme(self, name: str, better: Callable, x: Lane, y: Lane, nan_wins: bool) -> Lane:
        """The better of two; of equals (as -0 and 0) the second, of a number and NaN as told."""
        x, y = self._pair(x, y)
        if x.dtype is ty.bfloat16 and self.target == "nvptx":
            wide = (self.cast(v, ty.float32) for v in (x, y))
            return convert.upper_half(self, self._extreme(name, better, *wide, nan_wins))
        if x.dtype.is_float and x.dtype.bits < 32:
            return self._narrow(lambda p, q: self._extreme(name, better, p, q, nan_wins), x, y)
        if x.dtype.is_float and self.target == "nvptx":
            return self.intrinsic(f"{name}imum" if nan_wins else f"{name}num", x, y)
        if x.width == 1 and x.dtype.is_signed and not x.dtype.is_float:
            return self._scalar_extreme(name, better, x, y)
        # A compare and a select are one vminps; llvm.minnum is three instructions or more.
        best = self.select(better(x, y), x, y)
        if not x.dtype.is_float:
            return best
        return self.select(self.is_nan(x if nan_wins else y), x, best)

    def _scalar_extreme(self, name: str, better: Callable, x: Lane, y: Lane) -> Lane:
        """The lesser or greater of two signed integers, which may be known from their ranges."""
        least, most = -1 << x.dtype.bits - 1, (1 << x.dtype.bits - 1) - 1
        (a, b), (c, d) = (self.range_of(i) or (least, most) for i in (x, y))
        if name == "max":
            a, b, c, d = -b, -a, -d, -c
        if b <= c or d <= a:
            return x if b <= c else y
        made = self.select(better(x, y), x, y)
        low, high = min(a, c), min(b, d)
        self.ranges[made.text] = (low, high) if name == "min" else (-high, -low)
        return made

    # Conversion.

    def cast(self, x: Lane, dtype: DType, rounding: str = "rtne") -> Lane:
        """The value of `x` in another dtype: `convert` says how."""
        if x.dtype == dtype:
            return x
        if x.is_literal and dtype.is_integer and dtype is not ty.int1 and x.known is not None:
            known = x.known if x.dtype.is_signed else x.known % (1 << x.dtype.bits)
            return self.const(known, dtype, x.width)
        return convert.cast(self, x, dtype, rounding)

    def bitcast(self, x: Lane, dtype: DType) -> Lane:
        """The bits of `x` as another dtype of the same size; int64 and pointers are one size."""
        if x.type == llvm_type(dtype, x.width):
            return Lane(x.text, dtype, x.width)
        word = "bitcast"
        if x.dtype.is_pointer:
            word = "ptrtoint"
        elif dtype.is_pointer:
            word = "inttoptr"
        kind = llvm_type(dtype, x.width)
        return self.value(f"{word} {x.typed} to {kind}", dtype, x.width)


@dataclass(frozen=True, slots=True)
class _Function:
    """An outlined recipe: its name and result, and what must be in the module (itself last)."""

    name: str
    result: DType
    needs: tuple[str, ...]


@lru_cache(maxsize=1024)
def _define(
    recipe: Callable[..., Lane],
    dtypes: tuple[DType, ...],
    width: int,
    target: str,
    features: frozenset[str],
) -> _Function:
    lines: list[str] = []
    needs: list[str] = []
    numbers = itertools.count()
    b = Lanes(lines.append, lambda: f"%v{next(numbers)}", needs.append, target, features)
    args = [Lane(f"%a{i}", d, width) for i, d in enumerate(dtypes)]
    out = recipe(b, *args)
    name = f"tw_{recipe.__name__}_{'_'.join(d.short for d in dtypes)}_{width}"
    params = ", ".join(a.typed for a in args)
    head = f"define internal {out.type} @{name}({params}) alwaysinline nounwind {{"
    text = "\n ".join([head, *lines, f"ret {out.typed}"]) + "\n}"
    return _Function(name, out.dtype, (*needs, text))
