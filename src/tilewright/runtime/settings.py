"""The settings that launches obey, read anew only when one of them may have changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright import config
from tilewright.targets.cpu.threads import default_threads

NAMES = ("target", "threads", "bounds", "debug", "features", "seed", "verify", "dump")
VARIABLES = (*(config.SETTINGS[n].env for n in NAMES), "TRITON_INTERPRET", "TRITON_DEBUG")

# Reading one variable through os.environ takes 0.7 us, all of them from its table 0.25 us.
_table: dict[Any, Any] = getattr(os.environ, "_data", os.environ)
_encode = getattr(os.environ, "encodekey", str)
_KEYS = tuple(_encode(name) for name in VARIABLES)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a launch needs to know of the configuration."""

    target: str
    team: int  # threads of a launch
    bounds: bool
    debug: bool
    features: str
    seed: int
    verify: bool
    dump: str
    number: int = field(default=0, compare=False)  # one for each value of all the others

    def on(self, target: str) -> Settings:
        """The same for another target."""
        return numbered(replace(self, target=target))


# What the settings were read from, and the settings; replaced as one.
_seen: tuple[tuple | None, list[dict[str, Any]], Settings | None] = (None, [], None)
_numbers: dict[Settings, int] = {}


def current() -> Settings:
    """The settings in force now."""
    variables = tuple(map(_table.get, _KEYS))
    seen, overrides, settings = _seen
    if variables == seen and config._overrides == overrides:
        return settings
    return read(variables)


def read(variables: tuple) -> Settings:
    global _seen
    overrides = list(config._overrides)
    values = {name: config.get(name) for name in NAMES if name != "threads"}
    settings = numbered(Settings(team=default_threads(), **values))
    _seen = (variables, overrides, settings)
    return settings


def numbered(settings: Settings) -> Settings:
    """The settings with the number that all equal ones have."""
    return replace(settings, number=_numbers.setdefault(settings, len(_numbers)))
