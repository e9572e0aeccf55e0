"""What tensor cores and ldmatrix do, as LLVM IR functions for the simulator."""

from __future__ import annotations

import re

LDMATRIX_WAIT, MMA_WAIT = 7, 6
HELPERS = """
define internal i32 @sim_theirs(ptr %s, i32 %lane, i32 %word, i64 %round) {
  %tid = call i32 @sim_word(ptr %s, i32 0)
  %warp = and i32 %tid, -32
  %who = or i32 %warp, %lane
  %slot = call ptr @sim_slot(ptr %s, i32 %who, i64 %round)
  %p = getelementptr i32, ptr %slot, i32 %word
  %v = load volatile i32, ptr %p
  ret i32 %v
}
define internal i32 @sim_own(ptr %s) {
  %tid = call i32 @sim_word(ptr %s, i32 0)
  %own = and i32 %tid, 31
  ret i32 %own
}
"""
NAME = re.compile(r"m16n8k(\d+)\.row\.col\.\w+\.(\w+)\.\w+\.(\w+)")
WIDE_NAME = re.compile(r"m(\d+)n8k(\d+)\.")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}


class Body:
    """Numbered instructions of one function."""

    def __init__(self, stem: str = "x") -> None:
        self.stem = stem
        self.lines: list[str] = []

    def value(self, text: str) -> str:
        name = f"%{self.stem}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(text)


def offer(b: Body, words: list[str], kind: int) -> str:
    """Put words where the other threads of the warp find them, and wait; gives the round."""
    place = b.value("getelementptr i64, ptr %s, i32 8")
    number = b.value(f"load volatile i64, ptr {place}")
    tid = b.value("call i32 @sim_word(ptr %s, i32 0)")
    slot = b.value(f"call ptr @sim_slot(ptr %s, i32 {tid}, i64 {number})")
    for k, word in enumerate(words):
        p = b.value(f"getelementptr i32, ptr {slot}, i32 {k}")
        b.do(f"store volatile i32 {word}, ptr {p}")
    b.do(f"call void @sim_wait(ptr %s, i64 {kind})")
    return number


def mma(name: str, text: str) -> str:
    """The function of one mma.sync: four sums, then the words of A and of B."""
    inner, kind, result = NAME.search(text).groups()
    inner, bits = int(inner), BITS[kind]
    pack = 32 // bits
    halves = inner // (4 * pack)
    total = "float" if result == "f32" else "i32"
    count_a, count_b = 2 * halves, halves
    params = [f"{total} %c{k}" for k in range(4)]
    params += [f"i32 %a{k}" for k in range(count_a)] + [f"i32 %b{k}" for k in range(count_b)]
    struct = "{" + ", ".join([total] * 4) + "}"
    b = Body()
    words = [f"%a{k}" for k in range(count_a)] + [f"%b{k}" for k in range(count_b)]
    number = offer(b, words, MMA_WAIT)
    own = b.value("call i32 @sim_own(ptr %s)")
    group = b.value(f"and i32 {own}, 28")
    first = b.value(f"and i32 {own}, 3")
    column = b.value(f"shl i32 {first}, 3")

    def theirs(lane: str, word: int) -> str:
        return b.value(f"call i32 @sim_theirs(ptr %s, i32 {lane}, i32 {word}, i64 {number})")

    left = {}
    right = {}
    for q in range(4):
        lane = b.value(f"or i32 {group}, {q}")
        for k in range(count_a):
            left[q, k] = theirs(lane, k)
        for c in range(2):
            lane = b.value(f"add i32 {column}, {4 * c + q}")
            for k in range(count_b):
                right[q, k, c] = theirs(lane, count_a + k)
    held = "poison"
    for k in range(4):
        low, c = k // 2, k % 2
        sum_ = f"%c{k}"
        for inside in range(inner):
            half, rest = divmod(inside, 4 * pack)
            q, place = divmod(rest, pack)
            x = element(b, left[q, 2 * half + low], place, kind)
            y = element(b, right[q, half, c], place, kind)
            if total == "float":
                product = b.value(f"fmul float {x}, {y}")
                sum_ = b.value(f"fadd float {sum_}, {product}")
            else:
                product = b.value(f"mul i32 {x}, {y}")
                sum_ = b.value(f"add i32 {sum_}, {product}")
        held = b.value(f"insertvalue {struct} {held}, {total} {sum_}, {k}")
    head = f"define internal {struct} {name}({', '.join(params)}, ptr %s) noinline {{"
    return "\n".join([head, *b.lines, f"ret {struct} {held}", "}"])


def wide_mma(name: str, text: str) -> str:
    """The function of one mma.sync of fp64: the sums, then the elements of A and of B."""
    rows, inner = map(int, WIDE_NAME.search(text).groups())
    uppers, steps = rows // 8, inner // 4
    count_a, count = uppers * steps, (uppers + 1) * steps
    params = [f"double %c{k}" for k in range(2 * uppers)]
    params += [f"double %x{k}" for k in range(count)]
    struct = "{" + ", ".join(["double"] * (2 * uppers)) + "}"
    b, words = Body("y"), []
    for k in range(count):
        bits = b.value(f"bitcast double %x{k} to i64")
        high = b.value(f"lshr i64 {bits}, 32")
        words += [b.value(f"trunc i64 {half} to i32") for half in (bits, high)]
    number = offer(b, words, MMA_WAIT)
    own = b.value("call i32 @sim_own(ptr %s)")
    group = b.value(f"and i32 {own}, 28")
    first = b.value(f"and i32 {own}, 3")
    column = b.value(f"shl i32 {first}, 3")

    def theirs(lane: str, k: int) -> str:
        low, high = (
            b.value(f"call i32 @sim_theirs(ptr %s, i32 {lane}, i32 {2 * k + h}, i64 {number})")
            for h in range(2)
        )
        parts = [b.value(f"zext i32 {half} to i64") for half in (low, high)]
        moved = b.value(f"shl i64 {parts[1]}, 32")
        whole = b.value(f"or i64 {parts[0]}, {moved}")
        return b.value(f"bitcast i64 {whole} to double")

    held = "poison"
    for k in range(2 * uppers):
        upper, c = divmod(k, 2)
        sum_ = f"%c{k}"
        for inside in range(inner):
            step, q = divmod(inside, 4)
            lane = b.value(f"or i32 {group}, {q}")
            x = theirs(lane, step * uppers + upper)
            lane = b.value(f"add i32 {column}, {4 * c + q}")
            y = theirs(lane, count_a + step)
            product = b.value(f"fmul double {x}, {y}")
            sum_ = b.value(f"fadd double {sum_}, {product}")
        held = b.value(f"insertvalue {struct} {held}, double {sum_}, {k}")
    head = f"define internal {struct} {name}({', '.join(params)}, ptr %s) noinline {{"
    return "\n".join([head, *b.lines, f"ret {struct} {held}", "}"])


def element(b: Body, word: str, place: int, kind: str) -> str:
    """One element of a word, as what is multiplied."""
    if kind == "tf32":
        cut = b.value(f"and i32 {word}, -8192")
        return b.value(f"bitcast i32 {cut} to float")
    bits = BITS[kind]
    moved = b.value(f"lshr i32 {word}, {bits * place}")
    small = b.value(f"trunc i32 {moved} to i{bits}")
    if kind == "f16":
        half = b.value(f"bitcast i16 {small} to half")
        return b.value(f"fpext half {half} to float")
    if kind == "bf16":
        wide = b.value(f"zext i16 {small} to i32")
        high = b.value(f"shl i32 {wide}, 16")
        return b.value(f"bitcast i32 {high} to float")
    if kind in ("e4m3", "e5m2"):
        return narrow(b, small, kind)
    return b.value(f"{'sext' if kind == 's8' else 'zext'} i8 {small} to i32")


def narrow(b: Body, code: str, kind: str) -> str:
    """A number of 8 bits by way of fp16, whose exponent counts from 8 further on than e4m3's."""
    wide = b.value(f"zext i8 {code} to i16")
    high = b.value(f"shl i16 {wide}, 8")
    if kind == "e5m2":
        half = b.value(f"bitcast i16 {high} to half")
        return b.value(f"fpext half {half} to float")
    sign = b.value(f"and i16 {high}, -32768")
    size = b.value(f"and i16 {wide}, 127")
    place = b.value(f"shl i16 {size}, 7")
    both = b.value(f"or i16 {sign}, {place}")
    half = b.value(f"bitcast i16 {both} to half")
    small = b.value(f"fpext half {half} to float")
    return b.value(f"fmul float {small}, 256.0")


def ldmatrix(name: str, count: int, turned: bool) -> str:
    """The function of one ldmatrix."""
    struct = "{ " + ", ".join(["i32"] * count) + " }"
    b = Body()
    address = b.value("ptrtoint ptr %p to i32")
    number = offer(b, [address], LDMATRIX_WAIT)
    own = b.value("call i32 @sim_own(ptr %s)")
    group = b.value(f"lshr i32 {own}, 2")
    first = b.value(f"and i32 {own}, 3")
    held = "poison"
    for k in range(count):
        if turned:
            double = b.value(f"shl i32 {first}, 1")
            parts = []
            for h in range(2):
                lane = b.value(f"add i32 {double}, {8 * k + h}")
                base = pointer(b, lane, number)
                p = b.value(f"getelementptr i16, ptr {base}, i32 {group}")
                value = b.value(f"load i16, ptr {p}")
                parts.append(b.value(f"zext i16 {value} to i32"))
            high = b.value(f"shl i32 {parts[1]}, 16")
            word = b.value(f"or i32 {parts[0]}, {high}")
        else:
            lane = b.value(f"add i32 {group}, {8 * k}")
            base = pointer(b, lane, number)
            p = b.value(f"getelementptr i32, ptr {base}, i32 {first}")
            word = b.value(f"load i32, ptr {p}")
        held = b.value(f"insertvalue {struct} {held}, i32 {word}, {k}")
    head = f"define internal {struct} {name}(ptr %p, ptr %s) noinline {{"
    return "\n".join([head, *b.lines, f"ret {struct} {held}", "}"])


def pointer(b: Body, lane: str, number: str) -> str:
    """The address that another lane gave."""
    word = b.value(f"call i32 @sim_theirs(ptr %s, i32 {lane}, i32 0, i64 {number})")
    wide = b.value(f"zext i32 {word} to i64")
    return b.value(f"inttoptr i64 {wide} to ptr")
