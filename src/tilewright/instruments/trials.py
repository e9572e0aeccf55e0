"""Configurations of autotuned kernels under checks: each is checked, none is timed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from tilewright.errors import CompileError, OutOfResources
from tilewright.instruments.native import Saved
from tilewright.instruments.steps import writable_regions
from tilewright.runtime.autotune import Autotuner, distinct
from tilewright.runtime.call import Call
from tilewright.runtime.tuned import Config

SECONDS = 2.0  # after which no more configurations of one kernel are tried
MOST_BYTES = 256 << 20  # of the arrays of a launch that is only tried


class Trials:
    """Chooses the first configuration that compiles, after launches with the others."""

    def __init__(self) -> None:
        self.chosen: dict[tuple[Autotuner, tuple], Config] = {}
        self.is_trying = False

    def choose(self, tuner: Autotuner, key: tuple, args: tuple, kwargs: dict[str, Any]) -> Config:
        """The configuration to launch with, in place of the fastest."""
        if (tuner, key) not in self.chosen:
            self.chosen[tuner, key] = self.first(tuner, args, kwargs)
        return self.chosen[tuner, key]

    def first(self, tuner: Autotuner, args: tuple, kwargs: dict[str, Any]) -> Config:
        configs, failure = distinct(tuner.prune_configs(kwargs)), None
        end, first = monotonic() + SECONDS, None
        for config in configs:
            if first is not None and monotonic() > end:
                break
            try:
                tuner.check_conflicts(config, kwargs)
                tuner.ask_compiler(config, args, kwargs)
            except (OutOfResources, CompileError) as error:
                failure = failure or error
                continue
            if first is None:
                first = config
            else:
                self.attempt(tuner, config, args, kwargs)
        if first is None:
            raise failure
        return first

    def attempt(
        self, tuner: Autotuner, config: Config, args: tuple, kwargs: dict[str, Any]
    ) -> None:
        """A launch of which only the faults remain."""
        full = {**dict(zip(tuner.arg_names, args)), **kwargs, **config.all_kwargs()}
        self.is_trying = True
        try:
            if config.pre_hook is not None:
                config.pre_hook(full)
            tuner.pre_hook(full)
            tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            tuner.post_hook(full, exception=None)
            tuner.pre_hook(full, reset_only=True)
        finally:
            self.is_trying = False

    def look(self, call: Call, look: Callable[[], None]) -> None:
        """Look at a launch; where it is only tried, memory is as before then."""
        if not self.is_trying:
            look()
            return
        pieces = writable_regions(call) if call.device == "cpu" else set()
        if not pieces or sum(high - low for low, high in pieces) > MOST_BYTES:
            return
        saved = Saved(pieces)
        try:
            look()
        finally:
            saved.restore()
