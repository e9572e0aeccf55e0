"""What a kernel reads and writes, told as a walk over operations of Triton's IR.

PyTorch looks into that IR for the arguments that a kernel writes to, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tilewright.ir.inst import Kernel
from tilewright.passes.origins import read_params, written_params

_numbers = count(1)


@dataclass(eq=False)
class Item:
    """Something with a number of its own."""

    number: int = field(default_factory=_numbers.__next__)

    def id(self) -> int:
        return self.number


@dataclass(eq=False)
class Block(Item):
    """The only block of the kernel; its arguments are those of the kernel."""

    arguments: list[Item] = field(default_factory=list)
    region: Item = field(default_factory=Item)

    def get_num_arguments(self) -> int:
        return len(self.arguments)

    def get_argument(self, index: int) -> Item:
        return self.arguments[index]

    def get_parent(self) -> Item:
        return self.region


@dataclass(eq=False)
class Operation(Item):
    """One operation; none has results."""

    name: str = ""
    operands: list[Item] = field(default_factory=list)
    regions: list[Item] = field(default_factory=list)
    block: Block | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def get_name(self) -> str:
        return self.name

    def get_num_operands(self) -> int:
        return len(self.operands)

    def get_operand(self, index: int) -> Item:
        return self.operands[index]

    def get_num_results(self) -> int:
        return 0

    def get_num_regions(self) -> int:
        return len(self.regions)

    def get_region(self, index: int) -> Item:
        return self.regions[index]

    def get_block(self) -> Block | None:
        return self.block

    def get_str_attr(self, name: str) -> Any:
        return self.attributes.get(name)


class Module:
    """A kernel as the loads and stores of its arguments."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def __str__(self) -> str:
        return str(self.kernel)

    def verify(self) -> bool:
        return True

    def walk(self, visit: Callable[[Operation], Any]) -> None:
        """Visit the operations, inner before outer.

        Each store is told twice: PyTorch rewrites kernels that store once, which it reads itself.
        """
        block = Block(arguments=[Item() for _ in self.kernel.params])
        for index in sorted(read_params(self.kernel)):
            visit(Operation(name="tt.load", operands=[block.arguments[index]], block=block))
        for index in sorted(written_params(self.kernel)) * 2:
            visit(Operation(name="tt.store", operands=[block.arguments[index]], block=block))
        visit(Operation(name="tt.return", block=block))
        names = {"sym_name": self.kernel.name}
        visit(Operation(name="tt.func", regions=[block.region], attributes=names))


class Context:
    """Where Triton keeps its IR."""


class ir:
    """The names of `triton._C.libtriton.ir` that programs reach for."""

    context = Context

    @staticmethod
    def load_dialects(context: Any) -> None:
        """There is nothing to load."""


class libtriton:
    """`triton._C.libtriton`"""

    ir = ir


class native:
    """`triton._C`: names, and no module that could be imported."""

    libtriton = libtriton
