"""One launch, before anything is compiled: its arguments as the target sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import LaunchError
from tilewright.later import later
from tilewright.runtime import arrays
from tilewright.runtime.compile import Compilation, Request, compile_kernel
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.grid import Grid, sizes
from tilewright.runtime.launcher import frozen
from tilewright.runtime.settings import Settings
from tilewright.runtime.signature import Leaf, Tree, as_type, inspect_arguments, leaves
from tilewright.targets import base
from tilewright.targets.base import Target
from tilewright.targets.storage import Storage

if TYPE_CHECKING:
    from tilewright.runtime.kernel import JITFunction

eager = later("tilewright.eager")

# What arrays have that may be elsewhere than on the CPU.
ON_DEVICE = ("data_ptr", "__cuda_array_interface__", "__dlpack_device__")
EAGER_FACTS = frozenset({"one"})  # as the CPU's, so that a kernel means the same on both


class Call:
    """One launch: its arguments as the target sees them. `target` is None for eager."""

    def __init__(
        self,
        jit: JITFunction,
        arguments: dict[str, Any],
        options: dict[str, Any],
        settings: Settings,
    ):
        self.jit = jit
        self.arguments = arguments
        self.options = options
        self.settings = settings
        jit.parameters.check_options(options)
        self.is_warmup = False
        self.device = self.find_device()
        self.target: Target | None = None
        if settings.target != "eager":
            named = settings.target
            self.target = base.find(named) if named else base.for_device(self.device)
        facts = EAGER_FACTS if self.target is None else self.target.facts
        self.trees = inspect_arguments(jit.parameters, arguments, facts, self.device)
        if self.target is not None:
            self.check_device(self.target)
        asked = jit.debug if options.get("debug") is None else options["debug"]
        self.debug = bool(asked or settings.debug)
        self.sanitize = self.debug and bool(options.get("sanitize_overflow", True))

    def on(self, target: Target) -> Call:
        """The same launch for another target, wherever its arrays are."""
        other = copy(self)
        other.target = target
        other.trees = inspect_arguments(
            self.jit.parameters, self.arguments, target.facts, self.device
        )
        return other

    def check_device(self, target: Target) -> None:
        """Raise unless the target that was asked for takes the arrays that are passed."""
        pointers = any(x.type is not None and x.type.dtype.is_pointer for x in self.leaves)
        if pointers and not self.device.startswith(target.devices):
            raise LaunchError(
                f"{self.jit.__name__}: the arrays are on {self.device} and the target is "
                f"{target.name}, which takes arrays on {target.devices}; move them, or take "
                "another target"
            )

    def find_device(self) -> str:
        """Where the first array is; the CPU when there is none."""
        for parameter in self.jit.params:
            value = self.arguments[parameter.name]
            if not parameter.is_constexpr:
                for item in value if isinstance(value, tuple) else (value,):
                    array = item.base if isinstance(item, TensorDescriptor) else item
                    if any(hasattr(array, name) for name in ON_DEVICE):
                        return self.device_of(array, parameter.name)
        return "cpu"

    def device_of(self, array: Any, name: str) -> str:
        try:
            return arrays.device(array, name)
        except LaunchError as error:
            raise type(error)(f"{self.jit.__name__}: {error}") from None

    def grid(self, grid: Any) -> Grid:
        if callable(grid):
            grid = grid({**self.options, **self.arguments})
        return sizes(grid, self.jit.__name__)

    @property
    def leaves(self) -> list[Leaf]:
        return [leaf for tree in self.trees.values() for leaf in leaves(tree)]

    @property
    def key(self) -> tuple:
        """What the code depends on, of this call."""
        parts: list[Any] = [self.settings.number, self.device, frozen(self.options)]
        for leaf in self.leaves:
            if leaf.type is not None:
                parts.append((leaf.type, leaf.divisible))
            else:
                parts.append(constant_key(leaf.value))
        return tuple(parts)

    @property
    def slots(self) -> tuple:
        """The values that compiled code takes."""
        return tuple(slot for leaf in self.leaves for slot in leaf.slots)

    @property
    def all_slots(self) -> tuple:
        """The same with the ints that are compiled in as 1, as `Entry.launch` takes them."""
        out: list[Any] = []
        for leaf in self.leaves:
            out += (1,) if leaf.is_one else leaf.slots
        return tuple(out)

    @property
    def writable(self) -> dict[str, bool]:
        return {leaf.name: leaf.is_writable for leaf in self.leaves}

    @property
    def types(self) -> dict[str, Any]:
        trees = self.trees.items()
        return {n: as_type(t) for n, t in trees if not isinstance(t, Leaf) or t.type is not None}

    @property
    def constants(self) -> dict[str, Any]:
        trees = self.trees.items()
        return {n: t.value for n, t in trees if isinstance(t, Leaf) and t.type is None}

    def request(self, **changes: Any) -> Request:
        """What `compile_kernel` takes for this call."""
        dump = tuple(s.strip() for s in self.settings.dump.split(",") if s.strip())
        facts = {leaf.name: leaf.divisible for leaf in self.leaves if leaf.divisible > 1}
        settings = self.settings
        options = {k: v for k, v in self.options.items() if k in self.target.options}
        request = Request(
            self.jit, self.types, self.constants, facts, self.target, options, self.debug,
            sanitize=self.sanitize, bounds=settings.bounds, verify=settings.verify, dump=dump,
        )  # fmt: skip
        return replace(request, **changes)

    def compile(self, **changes: Any) -> Compilation:
        """Compile for this call, e.g. with `counters=True`."""
        return compile_kernel(self.request(**changes))

    def run_eager(self, grid: Grid, observers: Iterable[Callable] = (), **options: Any) -> Any:
        """Step through the kernel's own Python; gives the machine that did it."""
        if 0 in grid:
            return None
        with self.copies() as copies:
            return self.step(grid, copies, observers, options)

    @contextmanager
    def copies(self) -> Iterator[dict[tuple[int, int], np.ndarray]]:
        """The memory of arrays that are on another device, by its bounds; put back at the end."""
        saved: dict[tuple[int, int], tuple[Leaf, Storage]] = {}
        for leaf in self.leaves if self.device != "cpu" else ():
            if leaf.type is not None and leaf.type.dtype.is_pointer and leaf.bounds not in saved:
                saved[leaf.bounds] = (leaf, arrays.snapshot(leaf.original, leaf.name))
        copies = {bounds: storage.read().view(np.ndarray) for bounds, (_, storage) in saved.items()}
        try:
            yield copies
        finally:
            for bounds, (leaf, storage) in saved.items():
                storage.write(copies[bounds])
                arrays.restore(leaf.original, storage, leaf.name)

    def step(
        self,
        grid: Grid,
        copies: dict[tuple[int, int], np.ndarray],
        observers: Iterable[Callable],
        options: dict[str, Any],
    ) -> Any:
        arguments = {
            name: eager_argument(tree, copies)
            for name, tree in self.trees.items()
            if name not in self.constants
        }
        options = {
            "order_seed": self.settings.seed, "debug": self.debug, "sanitize": self.sanitize,
            **options,
        }  # fmt: skip
        return eager.run_kernel(
            self.jit, grid, arguments, self.constants, observers=tuple(observers), **options
        )


def constant_key(value: Any) -> tuple:
    """A constant as a dictionary key that tells apart what Python calls equal."""
    if isinstance(value, (float, list, dict, set)):
        return (value.__class__, repr(value))
    if isinstance(value, tuple):
        return (value.__class__, *map(constant_key, value))
    try:
        hash(value)
    except TypeError:
        return (value.__class__, repr(value))
    return (value.__class__, value)


def eager_argument(tree: Tree, copies: dict[tuple[int, int], np.ndarray]) -> Any:
    """An argument as the eager machine takes it."""
    if not isinstance(tree, Leaf):
        items = [eager_argument(item, copies) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if tree.type is None:
        return tree.value
    dtype = tree.type.dtype
    if dtype.is_pointer:
        return eager.Buffer(
            tree.name, dtype.element_ty, tree.value, *tree.bounds, tree.is_writable, dtype.const,
            copies.get(tree.bounds),
        )  # fmt: skip
    return eager.Scalar(dtype, tree.value)
