"""How the instructions of a machine take up products in the sums of a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.codegen.lanes import Lane, Lanes
from tilewright.codegen.llvm import Machine
from tilewright.errors import InternalError
from tilewright.ir import types as ty
from tilewright.ir.types import DType


@dataclass(frozen=True)
class Product:
    """How one vector of C takes up a group of rows of B: operand dtype, size of group, code.

    With a bias, the code takes bytes of A for unsigned ones, to which it has been added.
    """

    operand: DType
    k_group: int
    emit: Callable[[Lanes, Lane, Lane, Lane], Lane]
    bias: int = 0


def product_of(
    k: int, lanes: int, operand: DType, acc: DType, machine: Machine, native_bf16: bool
) -> Product:
    """How sums of `acc` take up `k` products of matrices that were `operand`."""
    pairs = machine.arch == "x86_64" and k >= 2 and lanes >= 4
    if acc is ty.int32 and operand.is_integer and operand.bits <= 32:
        if operand is ty.int8 and k >= 4 and lanes >= 4 and _has_byte_products(machine):
            return Product(ty.int8, 4, _byte_product, bias=-128)
        if pairs and operand.bits == 8:
            return Product(ty.int16, 2, _pair_product)
        return Product(ty.int32, 1, lambda b, c, x, y: b.add(c, b.mul(x, y)))
    if acc not in (ty.float32, ty.float64) or not operand.is_float or operand.bits > acc.bits:
        raise InternalError(f"no matrix product of {operand} in {acc}")
    native = native_bf16 and machine.has("avx512bf16") and machine.has("avx512vl")
    if native and pairs and operand is ty.bfloat16 and acc is ty.float32:
        return Product(ty.bfloat16, 2, _bf16_product)
    return Product(acc, 1, _fma if _has_fma(machine) else _multiply_add)


def _has_fma(machine: Machine) -> bool:
    return machine.arch != "x86_64" or machine.has("fma") or machine.has("avx512f")


def _has_byte_products(machine: Machine) -> bool:
    with_masks = machine.has("avx512vnni") and machine.has("avx512vl")
    return machine.arch == "x86_64" and (with_masks or machine.has("avxvnni"))


def _fma(b: Lanes, c: Lane, x: Lane, y: Lane) -> Lane:
    return b.fma(x, y, c)


def _multiply_add(b: Lanes, c: Lane, x: Lane, y: Lane) -> Lane:
    # Without the instruction, an fma is a call of the C library for every lane.
    return b.add(c, b.mul(x, y))


def _bf16_product(b: Lanes, c: Lane, x: Lane, y: Lane) -> Lane:
    kind = f"<{x.width} x bfloat>"
    pairs = [b.value(f"bitcast {v.typed} to {kind}", v.dtype, v.width) for v in (x, y)]
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * c.width}"
    return b.call(name, c.dtype, c, *[f"{kind} {p.text}" for p in pairs])


def _pair_product(b: Lanes, c: Lane, x: Lane, y: Lane) -> Lane:
    # Exact for signed and unsigned bytes; LLVM makes it one vpdpwssd where there is one.
    name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[c.width]
    return b.add(c, b.call(f"llvm.x86.{name}", ty.int32, x, y, width=c.width))


def _byte_product(b: Lanes, c: Lane, x: Lane, y: Lane) -> Lane:
    # Unsigned bytes of x times signed ones of y, exact.
    return b.call(f"llvm.x86.avx512.vpdpbusd.{32 * c.width}", ty.int32, c, x, y)
