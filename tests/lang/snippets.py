"""Kernels made of short texts in `snippets/`, each with the type that Triton gives its result.

A text sets `r`. It may use the tiles i8 ... f64 and b (bool), a scalar of each (si32, ...), the
pointers to them (i32p, ...), i (0 to 15), the arguments n7, n16 (int), x25 (float) and none, and
the constants W = 16, C5 = 5, H = 0.5. The types are those of the frontend of Triton 3.4 (in
`beyond`, of which Triton rejects half, our own), the values in `values.json` those of its
interpreter.
"""

from __future__ import annotations

import json
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np

import tilewright
import tilewright.language as tl

FOLDER = Path(__file__).parent / "snippets"
INTS = [0, 1, -1, 7, -7, 3, 100, -100, 127, -128, 2, 5, -5, 64, 12, -13]
FLOATS = [0, 1, -1, 2.5, -2.5, 0.1, 100.25, -3.75, 7, -7, 0.5, 1e-3, -0.0, 33.3, -12.6, 5]
UNSIGNED = [0, 1, -1, 7, -7, 3, 100, 156, 127, 128, 2, 5, -5, 64, 12, -13]  # modulo 2**bits
BITS = [1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0]
DTYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
    "bf": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


@dataclass(frozen=True)
class Snippet:
    """One text, its place, and the type and shape of its result in Triton."""

    group: str
    name: str
    code: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def source(self) -> str:
        """The kernel."""
        used = set(re.findall(r"\w+", self.code))
        loads = ["i = tl.arange(0, 16)", "b = tl.load(bp + i) != 0"]
        loads += [f"{d} = tl.load({d}p + i)" for d in DTYPES if d in used]
        loads += [f"s{d} = tl.load({d}p + 3)" for d in DTYPES if f"s{d}" in used]
        flat = f"tl.reshape(r, [{self.size}])" if self.shape else "r"
        places = f"tl.arange(0, {self.size})" if self.shape else "0"
        body = [*loads, *self.code.splitlines(), "note(r.dtype, r.shape)"]
        body.append(f"tl.store(out + {places}, {flat}.to(tl.float64))")
        pointers = ", ".join(f"{d}p" for d in DTYPES)
        constants = "W: tl.constexpr, C5: tl.constexpr, H: tl.constexpr"
        head = f"def kernel_{self.name}(out, bp, {pointers}, n7, n16, x25, none, {constants}):"
        return "\n".join(["@triton.jit", head, *("    " + line for line in body)])


def read(group: str) -> tuple[str, list[Snippet]]:
    """What stands before the texts of a file, and the texts."""
    before, *parts = re.split(r"^## ", (FOLDER / f"{group}.txt").read_text(), flags=re.M)
    snippets = []
    for part in parts:
        head, code = part.split("\n", 1)
        name, dtype, shape = re.fullmatch(r"(\w+): (\w+)\[(.*)\]", head).groups()
        sizes = tuple(int(n) for n in shape.split(",") if n)
        snippets.append(Snippet(group, name, code.rstrip(), dtype, sizes))
    return before, snippets


GROUPS = ("literals", "arithmetic", "memory", "structure", "library", "beyond")
SNIPPETS = [s for group in GROUPS for s in read(group)[1]]
VALUES = json.loads((FOLDER / "values.json").read_text())


def module_of(group: str) -> dict:
    """The kernels of a file, and the list in which they note the types of their results."""
    before, snippets = read(group)
    text = "\n\n\n".join([before, *(s.source() for s in snippets)]) + "\n"
    file = f"<snippets of {group}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType(f"snippets_{group}")
    names = vars(module)
    names["noted"] = noted = []
    names["note"] = tilewright.constexpr_function(lambda *what: noted.append(what))
    names |= {"triton": tilewright, "tl": tl, "libdevice": tl.extra.libdevice}
    exec(compile(text, file, "exec"), names)
    return names


MODULES = {group: module_of(group) for group in GROUPS}


def arrays() -> dict[str, np.ndarray]:
    """Fresh arrays for the pointers."""
    out = {}
    for name, dtype in DTYPES.items():
        numbers = {"i": INTS, "u": UNSIGNED}.get(name[0], FLOATS)
        out[name] = np.array(numbers).astype(dtype)
    out["i32"][8:10] = 2**31 - 1, -(2**31)
    out["i64"][8:10] = 2**62 + 12345, -(2**62)
    return out


def run(snippet: Snippet) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The result of a text in the target in force, and the arrays afterwards."""
    given = arrays()
    out = np.zeros(max(snippet.size, 1))
    kernel = MODULES[snippet.group][f"kernel_{snippet.name}"]
    bits = np.array(BITS, np.int32)
    kernel[(1,)](out, bits, *given.values(), 7, 16, 2.5, None, W=16, C5=5, H=0.5)
    return out, given


def noted_types(snippet: Snippet) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape that the last run or compilation noted."""
    noted = MODULES[snippet.group]["noted"]
    dtype, shape = noted[-1]
    noted.clear()
    return dtype.name, tuple(shape)
