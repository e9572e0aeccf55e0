"""Print a Kernel as text and read it back."""

from __future__ import annotations

import ast
import re
from typing import Any

from tilewright.errors import InternalError
from tilewright.ir.inst import Block, Inst, Kernel, Param, Value
from tilewright.ir.op import OPS
from tilewright.ir.types import parse_type


class Printer:
    """Numbers values in order of appearance and writes one line an instruction."""

    def __init__(self, locations: bool):
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.locations = locations

    def name(self, value: Value) -> str:
        return self.names.setdefault(value, f"%{len(self.names)}")

    def block(self, block: Block, depth: int) -> None:
        for inst in block.insts:
            self.inst(inst, depth)

    def inst(self, inst: Inst, depth: int) -> None:
        pad = "  " * depth
        operands = ", ".join(self.name(x) for x in inst.operands)
        attrs = ", ".join(f"{k}={literal(v)}" for k, v in sorted(inst.attrs.items()))
        head = ", ".join(self.name(r) for r in inst.results)
        line = f"{pad}{head} = " if head else pad
        line += " ".join(part for part in (inst.op.name, operands) if part)
        if attrs:
            line += f" {{{attrs}}}"
        if inst.results:
            line += " : " + ", ".join(str(r.type) for r in inst.results)
        note = f"  ; line {inst.loc.line}" if self.locations and inst.loc else ""
        if not inst.blocks:
            self.lines.append(line + note)
            return
        for number, block in enumerate(inst.blocks):
            params = ", ".join(f"{self.name(p)}: {p.type}" for p in block.params)
            opening = f"({params}) [" if number == 0 else f"{pad}] ({params}) ["
            self.lines.append(f"{line} {opening}{note}" if number == 0 else opening)
            self.block(block, depth + 1)
        self.lines.append(f"{pad}]")


def literal(value: Any) -> str:
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def print_kernel(kernel: Kernel, locations: bool = False) -> str:
    """The kernel as text; with `locations`, each line names the user's source line."""
    printer = Printer(locations)
    params = []
    for param, value in zip(kernel.params, kernel.body.params, strict=True):
        fact = f" divisible {param.divisible}" if param.divisible != 1 else ""
        params.append(f"{printer.name(value)} {param.name}: {param.type}{fact}")
    printer.lines.append(f"kernel {kernel.name}({', '.join(params)}) [")
    printer.block(kernel.body, 1)
    printer.lines.append("]")
    return "\n".join(printer.lines) + "\n"


INST = re.compile(
    r"^(?:(?P<results>%[\w, %]+?) = )?(?P<op>\w+)(?: (?P<operands>%\d+(?:, %\d+)*))?"
    r"(?: \{(?P<attrs>.*?)\})?(?: : (?P<types>[^(]+?))?(?: \((?P<params>[^)]*)\) \[)?$"
)
NEXT_BLOCK = re.compile(r"^\] \((?P<params>[^)]*)\) \[$")
NOTE = re.compile(r"  ; line \d+$")
HEAD = re.compile(r"^kernel (?P<name>\S+?)\((?P<params>.*)\) \[$")


class Reader:
    """Reads what Printer writes."""

    def __init__(self, text: str):
        lines = (NOTE.sub("", line).strip() for line in text.splitlines())
        self.lines = [line for line in lines if line and not line.startswith(";")]
        self.at = 0
        self.values: dict[str, Value] = {}

    def kernel(self) -> Kernel:
        match = HEAD.match(self.lines[0])
        if match is None:
            raise InternalError(f"not a kernel: {self.lines[0]!r}")
        self.at = 1
        body, params = Block(), []
        for part in split(match["params"]):
            name, rest = part.split(" ", 1)
            label, kind = rest.split(": ")
            kind, _, fact = kind.partition(" divisible ")
            params.append(Param(label, parse_type(kind), int(fact or 1)))
            self.values[name] = body.add_param(params[-1].type)
        self.fill(body)
        return Kernel(match["name"], params, body)

    def fill(self, block: Block) -> None:
        while self.at < len(self.lines) and not self.lines[self.at].startswith("]"):
            self.inst(block)
        if self.at == len(self.lines):
            raise InternalError("the IR text ends inside a region")

    def inst(self, block: Block) -> None:
        line = self.lines[self.at]
        match = INST.match(line)
        if match is None or match["op"] not in OPS:
            raise InternalError(f"cannot read IR line {line!r}")
        self.at += 1
        names = split(match["operands"] or "")
        unknown = [n for n in names if n not in self.values]
        if unknown:
            raise InternalError(f"{', '.join(unknown)} not defined before IR line {line!r}")
        operands = tuple(self.values[n] for n in names)
        inst = Inst(OPS[match["op"]], operands, read_attrs(match["attrs"] or ""))
        if match["params"] is not None:
            inst.blocks = self.blocks(match["params"])
        types = [parse_type(t) for t in split(match["types"] or "")]
        inst.results = tuple(Value(t, inst=inst) for t in types)
        self.values.update(zip(split(match["results"] or ""), inst.results, strict=True))
        block.insts.append(inst)

    def blocks(self, params: str) -> tuple[Block, ...]:
        out = []
        while True:
            block = Block()
            for part in split(params):
                name, kind = part.split(": ")
                self.values[name] = block.add_param(parse_type(kind))
            self.fill(block)
            out.append(block)
            follows = NEXT_BLOCK.match(self.lines[self.at])
            self.at += 1
            if follows is None:
                return tuple(out)
            params = follows["params"]


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    return [p.strip() for p in re.split(r",(?![^\[]*\])", text) if p.strip()]


def read_attrs(text: str) -> dict[str, Any]:
    if not text:
        return {}
    call = ast.parse(f"f({text})", mode="eval").body
    return {k.arg: read_literal(k.value) for k in call.keywords}


def read_literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name):
        return -float(node.operand.id)
    return ast.literal_eval(node)


def parse_kernel(text: str) -> Kernel:
    """Read a kernel from the text that `print_kernel` gives."""
    return Reader(text).kernel()
