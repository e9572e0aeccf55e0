"""What wgmma does, as LLVM IR functions for the simulator.

Products are made when they are begun. Descriptors are read as the hardware reads them: the part of
an address that they hold tells the rest, since shared memory has no more bytes than they can name.
"""

from __future__ import annotations

import re

from simulated_mma import BITS, Body, narrow, offer

WAIT_KIND = 8
WINDOW = (1 << 18) - 1  # bytes that the address in a descriptor can tell apart
PRODUCT = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+) "
    r"\{([^}]*)\}, (\{[^}]*\}|\$\d+), (\$\d+), (\w)([^;]*);"
)
NUMBER = re.compile(r"\$(\d+)")


def is_product(text: str) -> bool:
    return "wgmma.mma_async" in text


def is_wait(text: str) -> bool:
    return text.startswith("wgmma.wait_group")


def waits(name: str, result: str, count: int, kind: str) -> str:
    """The function of a wait that hands values on."""
    b = Body()
    held = "poison"
    for k in range(count):
        held = b.value(f"insertvalue {result} {held}, {kind} %a{k}, {k}")
    params = ", ".join(f"{kind} %a{k}" for k in range(count))
    head = f"define internal {result} {name}({params}, ptr %s) {{"
    return "\n".join([head, *b.lines, f"ret {result} {held}", "}"])


def products(
    name: str, result: str, text: str, constraints: str, kinds: list[str], shared: int
) -> tuple[str, dict[str, str]]:
    """The function of a piece of assembly with products, and the functions that it calls."""
    outputs = sum(c.startswith("=") for c in constraints.split(","))
    tied = {int(c): k for k, c in enumerate(constraints.split(",")[outputs:]) if c.isdigit()}
    total = result.strip("{} ").split(", ")[0]
    used: dict[str, str] = {"place": place_function(shared)}
    b = Body()
    zero = "0.0" if total == "float" else "0"
    sums = {k: f"%a{tied[k]}" if k in tied else zero for k in range(outputs)}
    own = b.value("call i32 @sim_word(ptr %s, i32 0)")
    lane, warp = b.value(f"and i32 {own}, 31"), b.value(f"and i32 {own}, 96")
    group, quad = b.value(f"lshr i32 {lane}, 2"), b.value(f"and i32 {lane}, 3")
    across = b.value(f"lshr i32 {warp}, 1")
    row, column = b.value(f"add i32 {across}, {group}"), b.value(f"shl i32 {quad}, 1")
    held = b.value("alloca [16 x i32]")
    for match in PRODUCT.finditer(text):
        width, inner, _, kind, _, listed, left, right, begun, ends = match.groups()
        numbers = [int(n) for n in NUMBER.findall(listed)]
        assert len(numbers) == int(width) // 2
        turned = [int(n) for n in re.findall(r"\d+", ends)]
        turned = turned[2 if total == "float" else 0 :]
        words = [f"%a{int(n) - outputs}" for n in NUMBER.findall(left)]
        in_registers = left.startswith("{")
        first, second = ([0] + turned if in_registers else turned or [0, 0]) or [0, 0]
        if in_registers:
            gather(b, words, held)
        helper = f"@sim_wgmma_{kind}_{'r' if in_registers else 's'}"
        used[helper] = element_function(helper, kind, int(inner), total, in_registers)
        a = "0" if in_registers else words[0]
        for j, number in enumerate(numbers):
            high, odd = j // 2 % 2, j % 2
            at = group if in_registers else row
            at = b.value(f"add i32 {at}, {8 * high}")
            to = b.value(f"add i32 {column}, {8 * (j // 4) + odd}")
            before = sums[number] if begun == "p" else zero
            sums[number] = b.value(
                f"call {total} {helper}({total} {before}, i32 {at}, i32 {to}, ptr {held}, "
                f"i64 {a}, i1 {first}, i64 %a{int(right[1:]) - outputs}, i1 {second})"
            )
    out = "poison"
    for k in range(outputs):
        out = b.value(f"insertvalue {result} {out}, {total} {sums[k]}, {k}")
    params = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
    head = f"define internal {result} {name}({params}, ptr %s) noinline {{"
    return "\n".join([head, *b.lines, f"ret {result} {out}", "}"]), used


def gather(b: Body, words: list[str], held: str) -> None:
    """The words of the four lanes that share rows, lane by lane."""
    number = offer(b, words, WAIT_KIND)
    own = b.value("call i32 @sim_own(ptr %s)")
    group = b.value(f"and i32 {own}, 28")
    for q in range(4):
        lane = b.value(f"or i32 {group}, {q}")
        for k in range(len(words)):
            word = b.value(f"call i32 @sim_theirs(ptr %s, i32 {lane}, i32 {k}, i64 {number})")
            to = b.value(f"getelementptr i32, ptr {held}, i32 {4 * q + k}")
            b.do(f"store i32 {word}, ptr {to}")


def place_function(shared: int) -> str:
    """Where the element at a row (or column) and a place along K lies."""
    return f"""
define internal ptr @sim_wgmma_place(i64 %desc, i1 %turned, i32 %outer, i32 %k, i32 %bytes) {{
  %s = and i64 %desc, 16383
  %s4 = shl i64 %s, 4
  %l = lshr i64 %desc, 16
  %lm = and i64 %l, 16383
  %l4 = shl i64 %lm, 4
  %t = lshr i64 %desc, 32
  %tm = and i64 %t, 16383
  %t4 = shl i64 %tm, 4
  %start = trunc i64 %s4 to i32
  %leading = trunc i64 %l4 to i32
  %stride = trunc i64 %t4 to i32
  %mode64 = lshr i64 %desc, 62
  %mode = trunc i64 %mode64 to i32
  %less = sub i32 3, %mode
  %width = shl i32 32, %less
  %along = mul i32 %k, %bytes
  %pos = mul i32 %outer, %bytes
  %inrow = urem i32 %pos, %width
  %panel = udiv i32 %pos, %width
  %skip = mul i32 %panel, %leading
  %turnedrow = add i32 %inrow, %skip
  %inside = select i1 %turned, i32 %turnedrow, i32 %along
  %rows = select i1 %turned, i32 %k, i32 %outer
  %low = and i32 %rows, 7
  %high = lshr i32 %rows, 3
  %lowbytes = mul i32 %low, %width
  %highbytes = mul i32 %high, %stride
  %sum1 = add i32 %start, %inside
  %sum2 = add i32 %lowbytes, %highbytes
  %plain = add i32 %sum1, %sum2
  %moved = lshr i32 %plain, 3
  %mask = sub i32 %width, 16
  %flip = and i32 %moved, %mask
  %at = xor i32 %plain, %flip
  %far = sub i32 %at, {shared}
  %near = and i32 %far, {WINDOW}
  %address = add i32 %near, {shared}
  %wide = zext i32 %address to i64
  %p = inttoptr i64 %wide to ptr
  ret ptr %p
}}"""


def element_function(name: str, kind: str, inner: int, total: str, in_registers: bool) -> str:
    """One sum, after one instruction."""
    bits = BITS[kind]
    pack = 32 // bits
    b = Body()
    if in_registers:
        half = b.value(f"udiv i32 %k, {4 * pack}")
        rest = b.value(f"urem i32 %k, {4 * pack}")
        lane, place = b.value(f"udiv i32 {rest}, {pack}"), b.value(f"urem i32 {rest}, {pack}")
        low = b.value("lshr i32 %row, 3")
        low = b.value(f"and i32 {low}, 1")
        word = b.value(f"shl i32 {half}, 1")
        word = b.value(f"or i32 {word}, {low}")
        lanes = b.value(f"shl i32 {lane}, 2")
        index = b.value(f"add i32 {lanes}, {word}")
        at = b.value(f"getelementptr i32, ptr %held, i32 {index}")
        p = b.value(f"getelementptr i{bits}, ptr {at}, i32 {place}")
    else:
        p = b.value(f"call ptr @sim_wgmma_place(i64 %a, i1 %ta, i32 %row, i32 %k, i32 {bits // 8})")
    q = b.value(f"call ptr @sim_wgmma_place(i64 %b, i1 %tb, i32 %col, i32 %k, i32 {bits // 8})")
    x, y = loaded(b, p, kind), loaded(b, q, kind)
    f = "f" if total == "float" else ""
    product = b.value(f"{f}mul {total} {x}, {y}")
    added = b.value(f"{f}add {total} %c, {product}")
    lines = "\n".join(b.lines)
    return f"""
define internal {total} {name}({total} %c0, i32 %row, i32 %col, ptr %held, i64 %a, i1 %ta,
  i64 %b, i1 %tb) noinline {{
entry:
  br label %head
head:
  %k = phi i32 [0, %entry], [%next, %head]
  %c = phi {total} [%c0, %entry], [{added}, %head]
  {lines}
  %next = add i32 %k, 1
  %more = icmp ult i32 %next, {inner}
  br i1 %more, label %head, label %end
end:
  ret {total} {added}
}}"""


def loaded(b: Body, p: str, kind: str) -> str:
    """The element at a place, as what is multiplied."""
    if kind == "tf32":
        word = b.value(f"load i32, ptr {p}")
        cut = b.value(f"and i32 {word}, -8192")
        return b.value(f"bitcast i32 {cut} to float")
    if kind in ("s8", "u8"):
        small = b.value(f"load i8, ptr {p}")
        return b.value(f"{'sext' if kind == 's8' else 'zext'} i8 {small} to i32")
    if kind in ("e4m3", "e5m2"):
        return narrow(b, b.value(f"load i8, ptr {p}"), kind)
    small = b.value(f"load i16, ptr {p}")
    if kind == "f16":
        half = b.value(f"bitcast i16 {small} to half")
        return b.value(f"fpext half {half} to float")
    wide = b.value(f"zext i16 {small} to i32")
    high = b.value(f"shl i32 {wide}, 16")
    return b.value(f"bitcast i32 {high} to float")
