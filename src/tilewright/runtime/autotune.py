"""Choose the fastest of several configurations of a kernel, once for each key."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from tilewright import config as settings
from tilewright.errors import CompileError, OutOfResources, TilewrightError
from tilewright.runtime import cache
from tilewright.runtime.observers import launch_observers, unobserved
from tilewright.runtime.settings import current
from tilewright.runtime.timing import measure
from tilewright.runtime.trials import PLAIN, Trial, clear, device_of
from tilewright.runtime.tuned import Config, Heuristics, Wrapper, heuristics
from tilewright.targets import base

WARMUP_MS, REPEAT_MS = 5.0, 30.0  # on the CPU a run is seldom short and never waits for a queue
HOPELESS = 4.0  # a first run that is so many times the best median needs no more runs
QUANTILES = (0.5, 0.2, 0.8)

# Called as (tuner, key, configuration, whether it was known from another process) for a new key.
tune_observers: list[Callable[[Autotuner, tuple, Config, bool], None]] = []


class Autotuner(Wrapper):
    """A kernel that is launched with the configuration that was fastest for its key.

    Arguments that the kernel writes are put back between trials, so that kernels which work in
    place see the same data in every trial and in the launch that follows.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable | None = None,
        post_hook: Callable | None = None,
        prune_configs_by: dict[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable | None = None,
        cache_results: bool = False,
    ):
        super().__init__(fn, arg_names)
        self.configs = list(configs) or [Config({})]
        self.keys = list(key or ())
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        # Called as `pre_hook(arguments)` and `post_hook(arguments, exception=e)` around each run of
        # a trial, and once more as `pre_hook(arguments, reset_only=True)` after all of them.
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = pre_hook or self.reset
        self.post_hook = post_hook or (lambda arguments, exception=None: None)
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups = WARMUP_MS if warmup is None else warmup
        self.num_reps = REPEAT_MS if rep is None else rep
        self.use_cuda_graph = use_cuda_graph
        self.do_bench = do_bench
        self.cache_results = cache_results
        self.cache: dict[tuple, Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] | None = None
        self.bench_time = 0.0
        self.fastest = inf  # of the trials so far
        self.failures: dict[Config, Exception] = {}  # of the trials so far
        self.nargs: dict[str, Any] | None = None
        self.known_keys = [k for k in self.keys if k in self.arg_names]
        unknown = [k for k in self.keys if k not in self.arg_names]
        if unknown:
            warnings.warn(
                f"autotune of {self.__name__}: key names {unknown}, which are no parameters, "
                "decide nothing",
                stacklevel=3,
            )

    # --- launching

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration; the first launch for a key tries them all."""
        self.nargs = dict(zip(self.arg_names, args))
        try:
            config = self.best_config = self.choose(args, kwargs)
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = None

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile every configuration."""
        self.nargs = dict(zip(self.arg_names, args))
        configs = self.prune_configs(kwargs)
        self.nargs = None
        return [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in configs]

    def choose(self, args: tuple, kwargs: dict[str, Any]) -> Config:
        if len(self.configs) == 1:
            self.check_conflicts(self.configs[0], kwargs)
            return self.configs[0]
        stepped = current().target == "eager"
        arguments = {**self.nargs, **kwargs}
        key = self.key_of(arguments)
        where = "eager" if stepped else device_of(arguments)  # in eager mode nothing is measured
        key = key if where == "cpu" else (*key, where)
        for observer in launch_observers:
            chosen = observer.choose(self, key, args, kwargs)
            if chosen is not None:
                return chosen
        found = self.cache.get(key)
        if found is None:
            found = self.recall(key) if self.cache_results and not stepped else None
            is_known = found is not None
            if not is_known:
                with unobserved():
                    found = self.search(key, where, args, kwargs)
            self.cache[key] = found
            if is_known or self.configs_timings is not None:
                for observe in tune_observers:
                    observe(self, key, found, is_known)
        return found

    def key_of(self, arguments: dict[str, Any]) -> tuple:
        """What decides which configuration is best: values of the keys, dtypes of the arrays."""
        found = [hashable(arguments[k]) for k in self.known_keys if k in arguments]
        for name in self.arg_names:
            value = arguments.get(name)
            if value.__class__ not in PLAIN and hasattr(value, "dtype"):
                found.append(str(value.dtype))
        return tuple(found)

    # --- trials

    def search(self, key: tuple, where: str, args: tuple, kwargs: dict[str, Any]) -> Config:
        begin = time.perf_counter()
        configs = self.prune_configs(kwargs)
        self.configs_timings = None
        if len(configs) == 1:  # nothing to choose from
            self.check_conflicts(configs[0], kwargs)
            return configs[0]
        if not where.startswith("cuda"):  # but there warps and stages tell them apart
            configs = distinct(configs)
        timings: dict[Config, Any] = {}
        self.failures = {}
        self.fastest = inf
        for config in configs:
            timings[config] = self._bench(*args, config=config, **kwargs)
            self.fastest = min(self.fastest, median_of(timings[config]))
        if len(self.failures) == len(configs):
            if settings.get("target") == "eager":
                return configs[0]  # Python says itself what is wrong, if it is for Python
            raise next(iter(self.failures.values()))
        best = min(timings, key=lambda c: median_of(timings[c]))
        full = {**dict(zip(self.arg_names, args)), **kwargs, **best.all_kwargs()}
        self.pre_hook(full, reset_only=True)
        self.configs_timings = timings
        self.bench_time = time.perf_counter() - begin
        if self.cache_results and settings.get("target") != "eager":
            self.remember(key, best)
        if os.environ.get("TRITON_PRINT_AUTOTUNING", "") == "1":
            print(
                f"Triton autotuning for function {self.__name__},\nwith key as {key},\n"
                f"finished after {self.bench_time:.2f}s,\nbest config selected: {best};"
            )
        return best

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Milliseconds of a launch with one configuration, as quantiles 0.5, 0.2 and 0.8.

        Infinite for one that cannot be compiled or does not fit.
        """
        self.check_conflicts(config, meta)
        try:
            if settings.get("target") == "eager":
                if self.fastest > 0:  # none is faster than the first that a compiler takes
                    self.ask_compiler(config, args, meta)
                return [0.0, 0.0, 0.0]
            return self.run_trial(config, args, meta)
        except (OutOfResources, CompileError) as error:
            self.failures[config] = error
            return [inf, inf, inf]

    def ask_compiler(self, config: Config, args: tuple, meta: dict[str, Any]) -> None:
        """Raise what a compiler says of a configuration; others' wrappers cannot be asked."""
        if hasattr(self.fn, "check"):
            self.fn.check(*args, **meta, **config.all_kwargs())

    def check_conflicts(self, config: Config, meta: dict[str, Any]) -> None:
        conflicts = meta.keys() & config.kwargs.keys()
        if conflicts:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. "
                "Make sure that you don't re-define auto-tuned symbols."
            )

    def run_trial(self, config: Config, args: tuple, meta: dict[str, Any]) -> Any:
        trial = Trial(self, config, args, meta)
        failure: Exception | None = None
        try:
            return self.time(trial)
        except Exception as error:
            failure = error
            raise
        finally:
            trial.end(failure)

    def time(self, trial: Trial) -> Any:
        if self.do_bench is not None:

            def whole() -> None:
                trial.before()
                trial.run()

            return self.do_bench(whole, quantiles=QUANTILES)
        trial.before()
        once = trial.spent() * 1e-6
        if once > HOPELESS * self.fastest:
            return [once] * 3
        timing = measure(
            trial.run,
            warmup_s=self.num_warmups * 1e-3,
            repeat_s=self.num_reps * 1e-3,
            min_repeats=3,
            before=trial.before,
            clock=trial.clock,
        )
        return [timing.quantile(q) * 1e3 for q in QUANTILES]

    def reset(self, arguments: dict[str, Any], reset_only: bool = False) -> None:
        """Fill the arguments that are to be zero with zeros."""
        for name in self.reset_to_zero:
            if arguments[name] is not None:
                clear(arguments[name])

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations worth trying, by the user's functions."""
        configs = self.configs
        if self.early_config_prune is not None:
            configs = self.early_config_prune(configs, self.nargs, **kwargs)
            if not configs:
                raise TilewrightError(
                    "Autotuner error: No valid autotuner configs after pruning. "
                    "`early_config_prune` should return at least one config."
                )
        if self.perf_model is None:
            return list(configs)
        top = self.configs_top_k
        if isinstance(top, float) and top <= 1.0:
            top = max(1, int(len(self.configs) * top))
        if not isinstance(top, int):
            raise TypeError("top_k is a share of the configurations (float) or a number (int)")
        if len(configs) <= top:
            return list(configs)
        cost = {c: self.perf_model(**self.nargs, **kwargs, **c.all_kwargs()) for c in configs}
        return sorted(cost, key=cost.__getitem__)[:top]

    # --- results that outlive the process

    def disk_key(self, key: tuple) -> str:
        parts = [self.kernel.cache_key, repr(key), *(str(c) for c in self.configs)]
        if key and isinstance(key[-1], str) and key[-1].startswith("cuda"):
            parts.append(base.for_device(key[-1]).identity())
        return cache.digest("autotune", *parts)

    def recall(self, key: tuple) -> Config | None:
        files = cache.default_cache().get(self.disk_key(key))
        return None if files is None else self.configs[json.loads(files["best"])]

    def remember(self, key: tuple, best: Config) -> None:
        if best in self.configs:  # a pruning function may make configurations of its own
            number = json.dumps(self.configs.index(best)).encode()
            cache.default_cache().put(self.disk_key(key), {"best": number})


def hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def median_of(timing: Any) -> float:
    return timing[0] if isinstance(timing, Sequence) else timing


def distinct(configs: Iterable[Config]) -> list[Config]:
    """The first of those configurations that are the same code on the CPU."""
    found: dict[tuple, Config] = {}
    for config in configs:
        found.setdefault(config.identity, config)
    return list(found.values())


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: dict[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable | None = None,
    post_hook: Callable | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Decorator: launch with the configuration that is fastest for the values of `key`.

    Args:
        prune_configs_by: `perf_model` (cost of a configuration), `top_k` (how many of the
            cheapest to try) and `early_config_prune` (configs, arguments -> configs).
        reset_to_zero: Arguments that are filled with zeros before each run of a trial.
        restore_value: Arguments to put back besides those that the kernel is seen to write.
        do_bench: Measures a call instead of our clock, as `do_bench(call, quantiles=...)`.
        cache_results: Keep the choice on disk.
    """

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
            prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results,
        )  # fmt: skip

    return decorate


__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "autotune", "heuristics"]
