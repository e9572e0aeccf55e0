"""`triton.knobs`: Triton's settings; those that mean something here are ours underneath."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from tilewright import config
from tilewright.compat.cache_names import FileCacheManager, default_cache_dir
from tilewright.runtime.autotune import tune_observers
from tilewright.runtime.observers import (
    Launch,
    LaunchObserver,
    compile_observers,
    launch_observers,
)
from tilewright.runtime.preload import describe

propagate_env = True


class HookChain(list):
    """Functions that are called one after the other."""

    filled: Callable[[], Any] = staticmethod(lambda: None)  # called when there is one more

    @property
    def calls(self) -> HookChain:
        """Under Triton's name."""
        return self

    def add(self, fn: Callable) -> None:
        if fn not in self:
            self.append(fn)

    def append(self, fn: Callable) -> None:
        self.insert(len(self), fn)

    def insert(self, place: Any, fn: Callable) -> None:
        super().insert(place, fn)
        self.filled()

    def extend(self, functions: Iterable[Callable]) -> None:
        for fn in functions:
            self.append(fn)

    def __iadd__(self, functions: Iterable[Callable]) -> HookChain:
        self.extend(functions)
        return self

    def remove(self, fn: Callable) -> None:
        if fn in self:
            super().remove(fn)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for fn in self:
            fn(*args, **kwargs)


class base_knobs:
    """A group of settings: attributes that a scope puts back."""

    defaults: dict[str, Any] = {}

    def __init__(self) -> None:
        self.reset()

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        return dict(self.defaults)

    @property
    def knobs(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.defaults}

    def reset(self) -> base_knobs:
        for name, value in self.defaults.items():
            setattr(self, name, value() if isinstance(value, type) else value)
        return self

    def copy(self) -> base_knobs:
        new = type(self)()
        new.__dict__.update(self.__dict__)
        return new

    @contextmanager
    def scope(self) -> Iterator[base_knobs]:
        """What is changed inside is put back at the end."""
        before = dict(self.__dict__)
        variables = {k: os.environ.get(k) for k in (s.env for s in config.SETTINGS.values())}
        try:
            yield self
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)
            for name, value in variables.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def setting(name: str) -> property:
    """An attribute that is one of Tilewright's settings, through its environment variable."""
    variable = config.SETTINGS[name].env

    def write(self: Any, value: Any) -> None:
        os.environ[variable] = str(int(value)) if isinstance(value, bool) else str(value)

    return property(lambda self: config.get(name), write)


class build_knobs(base_knobs):
    defaults = {
        "cc": None, "cudacrt_path": None, "cudart_path": None, "impl": None, "backend_dirs": set,
    }  # fmt: skip


class cache_knobs(base_knobs):
    defaults = {
        "manager_class": None, "remote_manager_class": None, "home_dir": "", "dump_dir": "",
        "override_dir": "",
    }  # fmt: skip
    dir = setting("cache_dir")

    def get_triton_dir(self, name: str) -> str:
        return os.path.join(default_cache_dir(), name)


class compilation_knobs(base_knobs):
    defaults = {
        "override": False, "dump_ir": False, "store_binary_only": False, "always_compile": False,
        "use_ir_loc": None, "enable_asan": False, "disable_line_info": False,
        "front_end_debugging": False, "allow_non_constexpr_globals": False,
        "enable_experimental_consan": False, "instrumentation_mode": "", "listener": None,
    }  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "listener" and value is not None:
            add_once(compile_observers, hooks.compilation)


class autotuning_knobs(base_knobs):
    defaults = {"cache": False, "warmup": 25, "rep": 100, "listener": None}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "listener" and value is not None:
            add_once(tune_observers, tuned)

    @property
    def print(self) -> bool:
        return os.environ.get("TRITON_PRINT_AUTOTUNING", "") == "1"

    @print.setter
    def print(self, value: bool) -> None:
        os.environ["TRITON_PRINT_AUTOTUNING"] = str(int(value))


class LaunchMetadata(dict):
    """What is known of a launch; `get()` adds what the kernel's `launch_metadata` tells."""

    def __init__(self, jit: Any, grid: Any, arguments: dict, options: dict):
        super().__init__(name=jit.__name__, grid=grid, **options)
        self.jit = jit
        self.arguments = arguments

    def get(self, *key_and_default: Any) -> Any:
        """All of it, as Triton's hooks ask, or one entry, as of any dict."""
        if key_and_default:
            return super().get(*key_and_default)
        grid = self["grid"]
        grid = grid({**self.arguments, **self}) if callable(grid) else grid
        told = self.jit.launch_metadata
        return {**self, **(told(grid, self.jit, self.arguments) if told else {})}


class Hooks(LaunchObserver):
    """Calls a program's hooks around launches and compilations.

    Launches that somebody sees go the long way, so it looks on only while there are hooks.
    """

    def launch(self, launch: Launch) -> Any:
        metadata = LaunchMetadata(launch.jit, launch.grid, launch.arguments, launch.options)
        call(runtime.launch_enter_hook, metadata)
        result = launch.run()
        call(runtime.launch_exit_hook, metadata)
        if not (runtime.launch_enter_hook or runtime.launch_exit_hook):
            launch_observers[:] = [o for o in launch_observers if o is not self]
        return result

    def compilation(self, jit: Any, launch: Any, handle: Any) -> None:
        hook = runtime.jit_cache_hook if handle is None else runtime.jit_post_compile_hook
        signature = {name: str(kind) for name, kind in launch.types.items()}
        key = str(launch.key)
        call(
            hook,
            key=key,
            repr=f"{jit.__name__}({signature})",
            fn=SimpleNamespace(module=jit.__module__, name=jit.__qualname__, jit_function=jit),
            compile={
                "key": key, "signature": signature, "constants": launch.constants,
                "specialization_data": describe(launch), "is_warmup": launch.is_warmup,
                **{k: tuple(v.items()) if isinstance(v, dict) else v
                   for k, v in launch.options.items()},
            },
            is_manual_warmup=launch.is_warmup,
            already_compiled=False,
        )  # fmt: skip
        if handle is not None:
            tell_listener(handle)
            loaded = (None, handle.function, handle.name, {}, handle.hash)
            call(runtime.kernel_load_start_hook, *loaded)
            call(runtime.kernel_load_end_hook, *loaded)


def tell_listener(handle: Any) -> None:
    """Tell a program's listener of a compilation, with its steps in microseconds."""
    done = handle.compilation
    spent = {k: max(1, round(v * 1e6)) for k, v in done.times.items()}
    first = spent.pop("key", 1)
    lowering = [] if done.from_cache else list(spent.items())
    stored = 0 if done.from_cache else 1
    total_lowering = sum(v for _, v in lowering)
    call(
        compilation.listener,
        src=handle.src,
        metadata=handle.metadata._asdict(),
        metadata_group={},
        times=SimpleNamespace(
            ir_initialization=first, lowering_stages=lowering, store_results=stored,
            total_lowering=total_lowering, total=first + total_lowering + stored,
        ),
        cache_hit=done.from_cache,
    )  # fmt: skip


def tuned(tuner: Any, key: tuple, best: Any, is_known: bool) -> None:
    """Tell a program's listener which configuration was chosen."""
    call(
        autotuning.listener, fn=tuner.kernel, key=key, best_config=best,
        configs_timings=None if is_known else tuner.configs_timings,
        duration=None if is_known else tuner.bench_time, cache_hit=is_known,
    )  # fmt: skip


def call(hook: Any, *args: Any, **kwargs: Any) -> None:
    if hook:
        hook(*args, **kwargs)


AROUND_LAUNCHES = ("launch_enter_hook", "launch_exit_hook")
AROUND_COMPILATIONS = ("jit_cache_hook", "jit_post_compile_hook")
AROUND_LOADING = ("kernel_load_start_hook", "kernel_load_end_hook")


class runtime_knobs(base_knobs):
    defaults = {
        "launch_enter_hook": HookChain, "launch_exit_hook": HookChain,
        "kernel_load_start_hook": HookChain, "kernel_load_end_hook": HookChain,
        "jit_cache_hook": None, "jit_post_compile_hook": None,
        "add_stages_inspection_hook": None, "sanitize_overflow": True,
        "override_arch": None, "autotuning_cache": False,
    }  # fmt: skip
    debug = setting("debug")

    @property
    def interpret(self) -> bool:
        return config.get("target") == "eager"

    @interpret.setter
    def interpret(self, value: bool) -> None:
        os.environ["TILEWRIGHT_TARGET"] = "eager" if value else ""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HookChain):
            value.filled = partial(attend, name)
        if value:
            attend(name)


def attend(name: str) -> None:
    """From now on what this hook is told of asks for it."""
    if name in AROUND_LAUNCHES:
        add_once(launch_observers, hooks)
    if name in AROUND_COMPILATIONS or name in AROUND_LOADING:
        add_once(compile_observers, hooks.compilation)


hooks = Hooks()


def add_once(observers: list, observer: Any) -> None:
    """From now on what is observed asks the hooks."""
    if observer not in observers:
        observers.append(observer)


class language_knobs(base_knobs):
    defaults = {"fp32_default": None, "default_fp_fusion": True}


class redis_knobs(base_knobs):
    defaults = {"key_format": "triton:{key}:{filename}", "host": "localhost", "port": 6379}


class nvidia_knobs(base_knobs):
    defaults = {
        "disable_ptxas_opt": False, "mock_ptx_version": None, "dump_nvptx": False,
        "libdevice_path": None, "libcuda_path": None, "use_no_compile_launcher": False,
    }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """NVIDIA's tools, by their paths."""
        if name not in ("ptxas", "ptxas_blackwell", "cuobjdump", "nvdisasm"):
            raise AttributeError(f"there is no knob {name!r}")
        return SimpleNamespace(path=shutil.which(name.split("_")[0]), version=None)


class amd_knobs(base_knobs):
    defaults = {
        "use_buffer_ops": True, "dump_amdgcn": False, "libhip_path": None,
        "use_block_pingpong": None, "use_async_copy": None, "scalarize_packed_fops": False,
    }  # fmt: skip


class proton_knobs(base_knobs):
    defaults = {"disable": False, "cupti_lib_dir": None}


build = build_knobs()
cache = cache_knobs()
compilation = compilation_knobs()
autotuning = autotuning_knobs()
runtime = runtime_knobs()
language = language_knobs()
redis = redis_knobs()
nvidia = nvidia_knobs()
amd = amd_knobs()
proton = proton_knobs()


def refresh_knobs() -> None:
    """Settings are read when they are used; nothing to do."""


__all__ = [
    "FileCacheManager", "HookChain", "amd", "autotuning", "base_knobs", "build", "cache",
    "compilation", "language", "nvidia", "propagate_env", "proton", "redis", "refresh_knobs",
    "runtime",
]  # fmt: skip
