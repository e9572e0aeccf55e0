"""Every setting: its name, environment variable, default and meaning, in one table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TRUE_WORDS = {"1", "true", "yes", "on"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it is read from, what it is when nobody set it, and what it means."""

    name: str
    env: str
    default: Any
    meaning: str

    def read(self, text: str) -> Any:
        if isinstance(self.default, bool):
            return text.strip().lower() in TRUE_WORDS
        if isinstance(self.default, int):
            return int(text)
        return text


SETTINGS = {
    s.name: s
    for s in (
        Setting("target", "TILEWRIGHT_TARGET", "", "eager, cpu or cuda; empty: by the arguments"),
        Setting("threads", "TILEWRIGHT_THREADS", 0, "CPU threads of a launch; 0: all cores"),
        Setting("bounds", "TILEWRIGHT_BOUNDS", True, "check every access against its argument"),
        Setting("cache", "TILEWRIGHT_CACHE", True, "keep compiled kernels on disk"),
        Setting("cache_dir", "TILEWRIGHT_CACHE_DIR", "", "where; empty: the user's cache folder"),
        Setting("dump", "TILEWRIGHT_DUMP", "", "stages to print: ir, llvm, asm, times (commas)"),
        Setting("verify", "TILEWRIGHT_VERIFY", False, "verify the IR after every pass"),
        Setting("features", "TILEWRIGHT_FEATURES", "", "CPU features instead of the host's"),
        Setting("seed", "TILEWRIGHT_SEED", 0, "eager order of programs; 0: ascending"),
        Setting("debug", "TILEWRIGHT_DEBUG", False, "assert, and stop integers that wrap around"),
        Setting("capability", "TILEWRIGHT_CAPABILITY", "8.0", "of a pretended CUDA device"),
    )
}

_overrides: list[dict[str, Any]] = []


def get(name: str) -> Any:
    """The value in force: innermost `options`, then the environment, then the default."""
    for layer in reversed(_overrides):
        if name in layer:
            return layer[name]
    setting = SETTINGS[name]
    text = os.environ.get(setting.env)
    if text is not None and text != "":
        return setting.read(text)
    if name == "target" and os.environ.get("TRITON_INTERPRET", "").lower() in TRUE_WORDS:
        return "eager"
    if name == "debug" and os.environ.get("TRITON_DEBUG", "").lower() in TRUE_WORDS:
        return True
    return setting.default


@contextlib.contextmanager
def options(**values: Any) -> Iterator[None]:
    """Settings for the launches inside a with-block, e.g. `with options(target="eager"):`.

    Raises:
        ValueError: for a name that is not a setting.
    """
    for name in values:
        if name not in SETTINGS:
            raise ValueError(f"no setting {name!r}; settings are {', '.join(sorted(SETTINGS))}")
    _overrides.append(values)
    try:
        yield
    finally:
        _overrides.remove(values)
