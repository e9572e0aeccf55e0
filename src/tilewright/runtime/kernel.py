"""`@jit` kernels and their launches, `kernel[grid](...)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from tilewright.errors import CompileError
from tilewright.lang.jit import JITCallable
from tilewright.locks import Lock
from tilewright.runtime import background, launcher, preload
from tilewright.runtime import settings as settings_in_force
from tilewright.runtime.call import Call
from tilewright.runtime.closure import scan
from tilewright.runtime.compile import Compilation, compile_kernel, front_ir
from tilewright.runtime.entry import Entry
from tilewright.runtime.grid import sizes
from tilewright.runtime.handle import CompiledKernel, SteppedKernel
from tilewright.runtime.launcher import MISSING, Ways, is_fixed
from tilewright.runtime.observers import Launch, compile_observers, launch_observers
from tilewright.runtime.settings import Settings, current
from tilewright.runtime.signature import Parameter, Signature
from tilewright.runtime.wrapped import MockTensor
from tilewright.targets.base import Shortcut, ShortcutSpec, Target


class KernelInterface:
    """What can be launched as `x[grid](...)`."""

    run: Callable

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Compile for arguments, of which dtypes may stand for arrays."""
        given = [MockTensor.wrap_dtype(a) for a in args]
        return self.run(*given, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> Callable:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class JITFunction(JITCallable, KernelInterface):
    """A kernel, or a function that kernels call."""

    def __init__(
        self,
        fn: Callable,
        version: Any = None,
        do_not_specialize: Iterable | None = None,
        do_not_specialize_on_alignment: Iterable | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable | None = None,
        launch_metadata: Callable | None = None,
    ):
        super().__init__(fn)
        self.version = version
        self.debug = debug
        self.noinline = noinline
        self.launch_metadata = launch_metadata
        self.do_not_specialize = list(do_not_specialize or ())
        self.do_not_specialize_on_alignment = list(do_not_specialize_on_alignment or ())
        self.repr = (lambda _: self.__name__) if repr is None else (lambda x: repr(x))
        self.pre_run_hooks: list[Callable] = []
        self.table: dict[tuple, Callable] = {}
        self.met: set[tuple] = set()  # keys of the table for which there was one launch
        self.entries: dict[tuple, Entry] = {}
        self.watched: list[tuple[dict, str, Any]] = []
        self.lock = Lock()
        self._parameters: Signature | None = None
        self._launch: Callable | None = None
        self.shortcuts: dict[str, Shortcut | None] = {}  # by target
        for observer in launch_observers:
            observer.define(self)

    # --- launching

    def __getitem__(self, grid: Any) -> Callable:
        """`kernel[grid](*args, **kwargs)` launches; `grid` is 1 to 3 ints or a function."""
        if self.__class__ is not JITFunction or "run" in self.__dict__:
            return KernelInterface.__getitem__(
                self, grid
            )  # a program has put a `run` of its own in the way
        return partial(self._launch or self.first, grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch; with `warmup` only compile."""
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        return (self._launch or self.first)(grid, *args, **kwargs)

    def warmup(
        self, *args: Any, grid: Any = None, warmup: bool = True, **kwargs: Any
    ) -> CompiledKernel:
        """Compile without launching; a dtype stands for an array of it."""
        arguments, options = self.parameters.bind(args, kwargs)
        for name in arguments.keys() - self.constexpr_names:
            arguments[name] = MockTensor.wrap_dtype(arguments[name])
        call = self.compiled_call(arguments, options, current())
        call.is_warmup = True
        mode = background.active.get()
        if mode is None or call.key in self.entries:
            return self.entry(call).handle
        return mode.submit((self, call.key), call.compile, partial(self.finish, call))

    def finish(self, call: Call, compilation: Compilation) -> CompiledKernel:
        """What was compiled for a call elsewhere becomes its code."""
        return self.entry(call, compilation).handle

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise what a compiler would say of a launch with these arguments."""
        kwargs = {k: v for k, v in kwargs.items() if k not in ("grid", "warmup")}
        arguments, options = self.parameters.bind(args, kwargs)
        front_ir(self.prepare(arguments, options, current().on("cpu")).request())

    def add_pre_run_hook(self, hook: Callable) -> None:
        """Call `hook` with the arguments before each launch."""
        self.pre_run_hooks.append(hook)

    def preload(self, specialization_data: str) -> CompiledKernel:
        """Compile what the text tells, which a hook of compilations was given."""
        arguments, options = preload.arguments_of(self, specialization_data)
        return self.warmup(**arguments, **options)

    def first(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A launch by what `kernel[grid]` gave before there was a way to launch.

        Ways are written for what comes a second time: that takes longer than a launch.
        """
        __tracebackhide__ = True
        if self.entries:
            return (self._launch or self.make_launch())(grid, *args, **kwargs)
        return self.long(grid, *args, **kwargs)

    def make_launch(self) -> Callable:
        with self.lock:
            if self._launch is None:
                plain = all(p.name != self.parameters.rest for p in self.parameters.params)
                self._launch = launcher.outer(self.parameters, self.ways) if plain else self.long
            return self._launch

    @property
    def ways(self) -> Ways:
        return Ways(
            self.slow, self.find_values, self.learn, self.is_stale,
            self.table, self.watched, launch_observers, self.pre_run_hooks,
        )  # fmt: skip

    def slow(self, grid: Any, values: tuple, rest: tuple, options: dict[str, Any]) -> Any:
        """A launch that the short way does not know."""
        __tracebackhide__ = True
        names = self.parameters.names
        if rest:
            self.parameters.bind((*values, *rest), {})
        given = {n: v for n, v in zip(names, values, strict=True) if v is not MISSING}
        return self.long(grid, **given, **options)

    def long(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A launch step by step."""
        __tracebackhide__ = True
        arguments, options = self.parameters.bind(args, kwargs)
        for hook in self.pre_run_hooks:
            hook(*arguments.values(), **options)
        run = partial(self.direct, grid, arguments, options)
        for observer in launch_observers:
            launch = Launch(self, grid, arguments, options, run)
            run = partial(observer.launch, launch)
        return run()

    def direct(self, grid: Any, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
        """The launch itself, observed by nobody."""
        __tracebackhide__ = True
        settings = current()
        if self.is_stale():
            self.forget()
        call = self.prepare(arguments, options, settings)
        if call.target is None:
            call.run_eager(call.grid(grid))
            return SteppedKernel(self, call.types, call.constants, options)
        values = tuple(arguments.values())
        entry = self.entry(call)
        entry.check_writable(call.writable)
        classes = (settings.number, *(v.__class__ for v in values))
        if classes in self.table:  # made for arrays on another device
            if entry.is_due():
                self.learn(entry, values, options)
        elif classes not in self.met:
            self.met.add(classes)
        elif not self.parameters.rest:
            facts = call.target.facts
            made = launcher.inner(self.parameters, values, facts, call.device, self.ways)
            if made is not None:
                self.table[classes] = made
        return entry.launch(call.grid(grid), call.all_slots)

    # --- compiling

    def prepare(
        self, arguments: dict[str, Any], options: dict[str, Any], settings: Settings | None = None
    ) -> Call:
        """Everything about a launch that can be known before anything is compiled."""
        return Call(self, arguments, options, settings or current())

    def find(self, arguments: dict[str, Any], options: dict, settings: Settings) -> Entry:
        __tracebackhide__ = True
        return self.entry(self.compiled_call(arguments, options, settings))

    def compiled_call(self, arguments: dict[str, Any], options: dict, settings: Settings) -> Call:
        """A call for a compiler, whatever the target."""
        if self.is_stale():
            self.forget()
        call = self.prepare(arguments, options, settings)
        return self.prepare(arguments, options, settings.on("cpu")) if call.target is None else call

    def find_values(self, values: tuple, options: dict[str, Any]) -> Entry:
        __tracebackhide__ = True
        return self.find(dict(zip(self.parameters.names, values)), options, current())

    def entry(self, call: Call, compilation: Compilation | None = None) -> Entry:
        """The code for a call, compiled when it is the first of its kind."""
        __tracebackhide__ = True
        pending = background.pending((self, call.key)) if compilation is None else None
        if pending is not None:
            pending.result()
        with self.lock:
            found = self.entries.get(call.key)
            if found is None:
                for observe in compile_observers:
                    observe(self, call, None)
                try:
                    compilation = compilation or compile_kernel(call.request())
                except CompileError as error:
                    # It tells the line; where in the compiler it was found is of no use to users.
                    raise error.with_traceback(None) from error.__cause__
                if not self.watched:
                    self.watched += compilation.watched
                handle = CompiledKernel(self, compilation, call.options)
                for observe in compile_observers:
                    observe(self, call, handle)
                found = self.entries[call.key] = Entry(
                    handle, call.trees, call.target, call.settings, call.device
                )
            return found

    def learn(self, entry: Entry, values: tuple, options: dict[str, Any]) -> None:
        """Have a native launcher do launches like this one, where the target has one."""
        with self.lock:
            shortcut = self.shortcut(entry.target)
            # Another thread may have dropped the entry meanwhile.
            if shortcut is None or entry not in self.entries.values():
                return
            fixed = [is_fixed(p, v) for p, v in zip(self.params, values, strict=True)]
            shortcut.learn(
                values, options, fixed, entry.settings.number,
                entry.handle.compilation.binary, entry.place, entry.handle,
            )  # fmt: skip

    def shortcut(self, target: Target) -> Shortcut | None:
        """The native launcher for a target. What it does not know goes to that of the target
        before, and from the first to Python."""
        name = target.name
        if name not in self.shortcuts:
            made = self.shortcuts[name] = target.shortcut(self.shortcut_spec(target.facts))
            if made is not None:
                self._launch = made.call
        return self.shortcuts[name]

    def shortcut_spec(self, facts: frozenset[str]) -> ShortcutSpec:
        params, name = self.params, self.__name__
        empty = inspect.Parameter.empty
        return ShortcutSpec(
            tuple(p.name for p in params), tuple(p.default for p in params), empty,
            tuple(p.is_constexpr for p in params), tuple(p.specialize for p in params),
            tuple(p.align and "divisible" in facts for p in params),
            self.make_launch(), lambda grid: sizes(grid, name),
            (launch_observers, self.pre_run_hooks), settings_in_force.seen, self.watched,
        )  # fmt: skip

    def is_stale(self) -> bool:
        """Whether a global that was compiled in has another value now."""
        return any(names.get(name) is not value for names, name, value in self.watched)

    def forget(self) -> None:
        """Drop everything that was compiled."""
        with self.lock:
            self.table.clear()
            self.met.clear()
            for shortcut in self.shortcuts.values():
                if shortcut is not None:
                    shortcut.clear()
            self.entries.clear()
            self.watched.clear()

    def _unsafe_update_src(self, text: str) -> None:
        super()._unsafe_update_src(text)
        self.forget()

    # --- what programs read

    @property
    def parameters(self) -> Signature:
        if self._parameters is None:
            self._parameters = Signature(
                self, self.do_not_specialize, self.do_not_specialize_on_alignment
            )
        return self._parameters

    @property
    def params(self) -> list[Parameter]:
        return self.parameters.params

    def is_gluon(self) -> bool:
        """Whether it is written in Gluon."""
        return False

    @property
    def signature(self) -> Any:
        return self.python_signature

    @property
    def constexprs(self) -> list[int]:
        return [p.index for p in self.params if p.is_constexpr]

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything it uses."""
        return scan(self).digest

    @property
    def hash(self) -> str:
        return self.cache_key

    @hash.setter
    def hash(self, value: None) -> None:
        """Programs forget a hash so that it is made anew; here it always is."""

    def rewrite(self) -> Callable:
        """The function, which Triton's interpreter would rewrite before running it."""
        return self.fn

    @property
    def rewriter(self) -> SimpleNamespace:
        """Where the function's `def` stands in its file, as Triton's interpreter tells it."""
        return SimpleNamespace(def_file_lineno=self.source.node.lineno + self.source.shift)

    @property
    def used_global_vals(self) -> dict[tuple[str, int], tuple[Any, dict]]:
        """Globals that the function, or one it calls, reads as constants."""
        return {(name, id(names)): (value, names) for names, name, value in scan(self).watched}

    @property
    def cache(self) -> dict[Any, CompiledKernel]:
        """Handles by what they were compiled for."""
        return {str(key): entry.handle for key, entry in self.entries.items()}

    @property
    def device_caches(self) -> DeviceCaches:
        return DeviceCaches(self)

    def __repr__(self) -> str:
        return f"JITFunction({self.__module__}:{self.__qualname__})"


class DeviceCaches:
    """`device_caches[device]` is a tuple that begins with the handles compiled so far."""

    def __init__(self, jit: JITFunction):
        self.jit = jit

    def __getitem__(self, device: Any) -> tuple:
        return (self.jit.cache, {}, "cpu", None, None)

    def __iter__(self) -> Iterator[int]:
        return iter((0,))

    def __len__(self) -> int:
        return 1

    def values(self) -> list[tuple]:
        return [self[0]]

    def clear(self) -> None:
        self.jit.forget()


def jit(
    fn: Callable | None = None,
    *,
    version: Any = None,
    repr: Callable | None = None,
    launch_metadata: Callable | None = None,
    do_not_specialize: Iterable | None = None,
    do_not_specialize_on_alignment: Iterable | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Any:
    """Decorator that makes a kernel, or a function for kernels to call.

    `do_not_specialize` names parameters (or their positions) for whose value 1 no separate code
    is compiled; `debug` compiles `device_assert` in.
    """

    def decorate(fn: Callable) -> JITFunction:
        if isinstance(fn, JITFunction):
            fn = fn.fn
        return JITFunction(
            fn, version, do_not_specialize, do_not_specialize_on_alignment, debug, noinline,
            repr, launch_metadata,
        )  # fmt: skip

    return decorate if fn is None else decorate(fn)
