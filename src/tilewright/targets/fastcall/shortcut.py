"""Launches that take about a microsecond: one native function from the call to the kernel."""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.codegen import llvm
from tilewright.targets.base import ShortcutSpec
from tilewright.targets.fastcall.frame import EXPORTS, MOST_PARAMETERS, Ending, launcher_ir
from tilewright.targets.fastcall.layouts import Layouts
from tilewright.targets.fastcall.match import MOST_OPTIONS
from tilewright.targets.fastcall.read import (
    INT,
    IS_ALIGNED,
    IS_CONSTEXPR,
    IS_SPECIALIZED,
    OBJECT,
    PASSED,
)

MOST_LINES = 64  # launches that a kernel's launcher knows; the key of each is compared in 10 ns
# Options of these types are known by identity.
PLAIN = (int, bool, float, str, type(None))
VERSIONS = ((3, 10), (3, 13))  # of Python, whose objects are read in place
METH_FASTCALL_KEYWORDS = 0x82


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def is_possible() -> bool:
    """Whether objects of this Python are laid out as native code takes for granted."""
    return (
        sys.implementation.name == "cpython"
        and VERSIONS[0] <= sys.version_info[:2] <= VERSIONS[1]
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and object.__basicsize__ == 16
    )


def takes(spec: ShortcutSpec) -> bool:
    """Whether there can be a native launcher for a kernel of this signature."""
    return is_possible() and 1 <= len(spec.names) <= MOST_PARAMETERS


def compile_launcher(ending: Ending) -> bytes:
    """The object code that `Native` takes, to be kept on disk."""
    # O2 would take 110 ms instead of 38 and save 15 of 480 ns.
    return llvm.compile_object(launcher_ir(ending), llvm.host_machine()).bytes


class Native:
    """The native function of a target, and what makes Python's functions of it."""

    def __init__(self, object_bytes: bytes, ending: Ending, imports: dict[str, int]):
        self.library = llvm.Library.load(object_bytes, (*EXPORTS, *ending.exports), imports)
        address = self.library.address
        self.layouts = Layouts(address("tw_layouts"), address("tw_itemsizes"))
        pointers = [ctypes.c_void_p] * 3
        self.key = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, *pointers)(
            address("tw_key")
        )
        self.method = _Method(b"launch", address("tw_launch"), METH_FASTCALL_KEYWORDS, None)
        prototype = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        self._make = prototype(("PyCFunction_NewEx", ctypes.pythonapi))

    def function(self, items: tuple) -> Callable:
        """A launcher with these `ITEMS`."""
        return self._make(ctypes.addressof(self.method), items, None)


class Shortcut:
    """`call(grid, *args, **kwargs)` does what was learnt, and else calls `spec.fallback`."""

    def __init__(self, native: Native, spec: ShortcutSpec, failed: Callable):
        self.native = native
        self.lines: list[tuple] = []
        # Names as calls hold them, which are compared by identity.
        self.names = tuple(map(sys.intern, spec.names))
        self.parameters = self.describe(spec)
        # Beside what native code looks at, the owners of all that it has the addresses of.
        self.call = native.function((
            self.parameters, spec.fallback, spec.sizes, failed, self.lines, spec.quiet,
            spec.settings, spec.watched, self.names, spec.defaults, native,
        ))  # fmt: skip

    def describe(self, spec: ShortcutSpec) -> bytes:
        """The parameters as native code reads them."""
        words = [len(self.names)]
        rows = zip(
            self.names, spec.defaults, spec.constexprs, spec.specialized, spec.aligned, strict=True
        )
        for name, default, constexpr, specialized, aligned in rows:
            flags = IS_CONSTEXPR * constexpr + IS_SPECIALIZED * specialized + IS_ALIGNED * aligned
            words += [id(name), 0 if default is spec.missing else id(default), flags]
        return struct.pack(f"={len(words)}Q", *words)

    def learn(
        self,
        values: Sequence[Any],
        options: dict[str, Any],
        fixed: Sequence[bool],
        settings: int,
        binary: Any,
        place: int,
        result: Any,
    ) -> None:
        """Do launches like this one from now on, if that can be.

        `fixed` tells which values are the same constants wherever they are the same objects.
        """
        if len(options) > MOST_OPTIONS or any(type(v) not in PLAIN for v in options.values()):
            return
        key = self.key(values, settings)
        if key is None:
            return
        kinds, details = key[1::2], key[2::2]
        if any(k == OBJECT and not f for k, f in zip(kinds, fixed, strict=True)):
            return
        taken = [
            i
            for i, (kind, detail) in enumerate(zip(kinds, details, strict=True))
            if kind in PASSED and not (kind == INT and detail == 1)
        ]
        plan = binary.plan(place, taken)
        if plan is None:
            return
        names = list(map(sys.intern, options))
        pairs = [id(item) for pair in zip(names, options.values()) for item in pair]
        key_bytes = struct.pack(f"={len(key) + len(pairs)}q", *key, *pairs)
        plan_bytes = struct.pack(f"={len(plan)}q", *plan)
        kept = (values_kept(values, kinds), names, list(options.values()))
        if all(line[0] != key_bytes for line in self.lines):
            self.lines.insert(0, (key_bytes, plan_bytes, result, binary, kept))
            del self.lines[MOST_LINES:]

    def key(self, values: Sequence[Any], settings: int) -> list[int] | None:
        """The key of a launch without its options; None when only Python can do it."""
        layouts = self.native.layouts
        layouts.find_torch()
        for value in values:
            layouts.admit(value)
        count = len(values)
        objects = (ctypes.py_object * count)(*values)
        key = (ctypes.c_int64 * (1 + 2 * count))()
        slots = (ctypes.c_int64 * (3 * count))()
        known = self.native.key(self.parameters, settings, objects, key, slots)
        return list(key) if known else None

    def clear(self) -> None:
        """Forget what was learnt."""
        self.lines.clear()


def values_kept(values: Sequence[Any], kinds: Sequence[int]) -> list[Any]:
    """The objects whose addresses are in a key: constants, and the dtypes of arrays."""
    kept = [value for value, kind in zip(values, kinds, strict=True) if kind == OBJECT]
    return kept + [getattr(value, "dtype", None) for value in values]
