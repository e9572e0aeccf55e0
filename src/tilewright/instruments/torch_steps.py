"""Record eager PyTorch operators in a ledger; torch is met only when the program imported it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from math import prod
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from .traffic import Operand, dtype_name, unique_elements

if TYPE_CHECKING:
    from .ledger import Ledger

# Operators that touch no data of their tensors.
FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
    "_local_scalar_dense", "is_same_size", "resize_", "set_", "record_stream", "is_pinned",
    "_unsafe_view", "_reshape_alias",
}  # fmt: skip
# Operators that use a tensor argument only for its shape and dtype.
SHAPE_ONLY = {
    "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_full",
}  # fmt: skip
# In-place operators that overwrite `self` without reading it.
OVERWRITE = {
    "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_",
    "cauchy_", "geometric_", "log_normal_",
}  # fmt: skip
# Operators that read only as much of their first tensor as they return.
GATHER = {"embedding", "gather", "index", "index_select", "take", "take_along_dim"}


class Watch:
    """The time of one call, by this computer's clock and by that of a GPU that torch uses.

    On a GPU the first call of an operator is not timed: it loads the operator's code.
    """

    known: ClassVar[set[Any]] = set()  # operators that have run on a GPU

    def __init__(self, torch: ModuleType, func: Any):
        self.func = func
        self.events: list[Any] = []
        if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            self.events[0].record()
        self.begin = perf_counter()
        self.host = 0.0

    def stop(self) -> None:
        self.host = perf_counter() - self.begin
        if self.events:
            self.events[1].record()

    def seconds(self, devices: set[str]) -> float | None:
        """The time of work on these devices; None where neither clock tells of it."""
        if devices == {"cpu"}:
            return self.host
        if devices != {"cuda"} or not self.events:
            return None
        if self.func not in self.known:
            self.known.add(self.func)
            return None
        start, end = self.events
        end.synchronize()
        return start.elapsed_time(end) / 1e3


def torch_recorder(ledger: Ledger) -> Any:
    """A TorchDispatchMode, to be entered, that adds each operator to the ledger."""
    torch = sys.modules["torch"]
    base = import_module("torch.utils._python_dispatch").TorchDispatchMode
    flop_formulas = import_module("torch.utils.flop_counter").flop_registry

    class Recorder(base):
        """Runs each operator as it is, between two looks at the clock."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            kwargs = kwargs or {}
            watch = Watch(torch, func)
            result = func(*args, **kwargs)
            watch.stop()
            if ledger.is_paused or func.is_view or func._opname in FREE:
                return result
            formula = flop_formulas.get(func._overloadpacket)
            flops = int(formula(*args, **kwargs, out_val=result)) if formula else 0
            record(ledger, torch, func, args, kwargs, result, watch, flops)
            return result

    return Recorder()


def record(
    ledger: Ledger,
    torch: ModuleType,
    func: Any,
    args: tuple,
    kwargs: dict,
    result: Any,
    watch: Watch,
    flops: int,
) -> None:
    """Add one operator: what it reads and what it writes, by its schema."""
    reads, writes = split_tensors(torch, func, args, kwargs, result)
    name = func._opname.removesuffix("_") if not func._opname.startswith("__") else func._opname
    if not writes:  # a check such as equal(): it makes no data
        return
    if any(t.layout is not torch.strided for t in (*reads, *writes)):
        ledger.add_uncounted(name)
        return
    devices = {t.device.type for t in (*reads, *writes)}
    read = [operand(t) for t in reads]
    written = [operand(t) for t in writes]
    if func._opname in GATHER and read:
        elements = min(read[0].elements, prod(written[0].shape))
        bytes_read = elements * reads[0].element_size()
        read[0] = replace(read[0], elements=elements, bytes=bytes_read)
    seconds = watch.seconds(devices)
    ledger.add_step(name, read, written, seconds, flops, writes[0].device.type)


def split_tensors(
    torch: ModuleType, func: Any, args: tuple, kwargs: dict, result: Any
) -> tuple[list[Any], list[Any]]:
    """The different tensors that an operator reads, and those that it writes."""
    reads: list[Any] = []
    writes = tensors(torch, result)
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        found = tensors(torch, value)
        if argument.alias_info is not None and argument.alias_info.is_write:
            writes += found
            if argument.is_out or func._opname in OVERWRITE:
                continue
        if func._opname not in SHAPE_ONLY:
            reads += found
    return distinct(reads), distinct(writes)


def tensors(torch: ModuleType, value: Any) -> list[Any]:
    """The tensors in a value, a list or a tuple."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for item in value for t in tensors(torch, item)]
    return []


def distinct(values: list[Any]) -> list[Any]:
    """Each object once, in order: `x * x` reads x once."""
    return list({id(v): v for v in values}.values())


def operand(tensor: Any) -> Operand:
    """A tensor as the elements that it has in memory."""
    elements = unique_elements(tuple(tensor.shape), tensor.stride())
    dtype = dtype_name(str(tensor.dtype).removeprefix("torch."))
    return Operand(tuple(tensor.shape), elements, elements * tensor.element_size(), dtype)
