"""The settings that launches obey, read anew only when one of them may have changed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from tilewright import config
from tilewright.targets.cpu.threads import default_threads, torch_counter, torch_threads

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


# The same as native launchers look at it: the number of the settings, the list of overrides and
# what was in it, the address of a C function that counts torch's threads (or 0) and what it gave,
# then (table, key, value) of each variable and of torch. Empty before the first reading.
seen: list[Any] = []
# What the settings were read from, and the settings; replaced as one.
_seen: tuple[tuple | None, list[dict[str, Any]], Settings | None] = (None, [], None)
_numbers: dict[Settings, int] = {}


def current() -> Settings:
    """The settings in force now."""
    variables = (torch_threads(), *map(_table.get, _KEYS))
    before, overrides, settings = _seen
    if variables != before or config._overrides != overrides:
        return read(variables)
    if overrides and overrides[-1] is not config._overrides[-1]:
        return read(variables)  # the same, but native launchers know it by identity
    return settings


def read(variables: tuple) -> Settings:
    global _seen
    overrides = list(config._overrides)
    values = {name: config.get(name) for name in NAMES if name != "threads"}
    settings = numbered(Settings(team=default_threads(), **values))
    _seen = (variables, overrides, settings)
    if type(_table) is dict:
        torch = sys.modules.get("torch")
        counter = torch_counter() if torch is not None and not config.get("threads") else 0
        watched = zip(repeat(_table), _KEYS, variables[1:])
        seen[:] = [
            settings.number, config._overrides, tuple(overrides), counter, variables[0],
            (sys.modules, "torch", torch), *watched,
        ]  # fmt: skip
    return settings


def numbered(settings: Settings) -> Settings:
    """The settings with the number that all equal ones have."""
    return replace(settings, number=_numbers.setdefault(settings, len(_numbers)))
