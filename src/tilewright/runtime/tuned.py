"""Around kernels: configurations to choose from, and meta-parameters that are computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.runtime.kernel import JITFunction, KernelInterface

WARP_FIELDS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
GIVEN = (*WARP_FIELDS, "ir_override")


class Config:
    """One choice of meta-parameters and launch options.

    `pre_hook` is called with all arguments by name before a launch with this configuration.
    """

    def __init__(
        self,
        kwargs: dict[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable | None = None,
        ir_override: str | None = None,
        **others: Any,
    ):
        self.kwargs = {**kwargs, **others}
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """Everything that a launch is given."""
        out = dict(self.kwargs)
        for name in GIVEN:
            value = getattr(self, name)
            if value is not None:
                out[name] = value
        return out

    @property
    def identity(self) -> tuple:
        """What tells configurations apart where warps mean nothing."""
        return (tuple(sorted((k, repr(v)) for k, v in self.kwargs.items())), self.pre_hook)

    def __str__(self) -> str:
        shown = [*self.kwargs.items(), *((name, getattr(self, name)) for name in WARP_FIELDS)]
        if self.ir_override is not None:
            shown.append(("ir_override", self.ir_override))
        return ", ".join(f"{k}: {v}" for k, v in shown)

    def __hash__(self) -> int:
        return hash((*self.all_kwargs().items(), self.pre_hook))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        mine, theirs = self.all_kwargs().items(), other.all_kwargs().items()
        return (*mine, self.pre_hook) == (*theirs, other.pre_hook)


class Wrapper(KernelInterface):
    """Something around a kernel that changes how it is launched."""

    def __init__(self, fn: Any, arg_names: Sequence[str]):
        self.fn = fn
        self.arg_names = list(arg_names)
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        self.__name__ = self.base_fn.__name__
        self.__doc__ = self.base_fn.__doc__
        self.__module__ = self.base_fn.__module__

    @property
    def kernel(self) -> JITFunction:
        """The kernel itself."""
        inner = self.fn
        while isinstance(inner, Wrapper):
            inner = inner.fn
        return inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A call from inside a kernel is a call of the function."""
        return self.kernel(*args, **kwargs)


class Heuristics(Wrapper):
    """A kernel some of whose meta-parameters are computed from its arguments."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable]):
        super().__init__(fn, arg_names)
        self.values = dict(values)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the computed values."""
        return self.fn.run(*args, **self.filled(args, kwargs))

    def warmup(self, *args: Any, **kwargs: Any) -> Any:
        """Compile with the computed values."""
        return self.fn.warmup(*args, **self.filled(args, kwargs))

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Raise what a compiler would say with the computed values."""
        self.fn.check(*args, **self.filled(args, kwargs))

    def filled(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        known = {**dict(zip(self.arg_names, args)), **kwargs}
        for name, compute in self.values.items():
            kwargs[name] = known[name] = compute(known)
        return kwargs


def heuristics(values: Mapping[str, Callable]) -> Callable[[Any], Heuristics]:
    """Decorator: compute meta-parameters from the arguments, e.g. `{"EVEN": lambda a: ...}`."""
    return lambda fn: Heuristics(fn, fn.arg_names, values)
