"""Watched NumPy arrays: plain arrays whose operators are recorded in the active ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from time import perf_counter
from typing import Any

import numpy as np

from .ledger import Ledger, active
from .traffic import Operand, dtype_name, unique_elements

REDUCTIONS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
    "logical_and": "all",
    "logical_or": "any",
}
# Functions that use an array only for its shape and dtype, and those that touch no data.
SHAPE_ONLY = {"zeros_like", "ones_like", "full_like"}
FREE = {"empty_like"}
# Functions that compare results; what they do is no part of the program that is measured.
CHECKS = {"allclose", "array_equal", "array_equiv"}
# Array methods that NumPy runs without asking `__array_ufunc__`.
METHODS = (
    "argmax", "argmin", "argsort", "astype", "choose", "compress", "copy", "diagonal", "dot",
    "flatten", "nonzero", "partition", "ravel", "repeat", "reshape", "searchsorted", "sort",
    "take", "trace",
)  # fmt: skip
IN_PLACE = {"partition", "sort"}


def watch(x: Any) -> Watched:
    """The same data as an array whose operators an active ledger records.

    Results of operators on it are watched too; kernels take it as any other array.
    """
    return np.asarray(x).view(Watched)


class Watched(np.ndarray):
    """An ndarray that reports ufuncs, NumPy functions and indexing to the active ledger."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out") or ()
        if out:
            kwargs["out"] = tuple(plain(o) for o in out)
        if "where" in kwargs:
            kwargs["where"] = plain(kwargs["where"])
        operands = [plain(i) for i in inputs]
        begin = perf_counter()
        result = getattr(ufunc, method)(*operands, **kwargs)
        seconds = perf_counter() - begin
        ledger = active()
        if ledger is not None:
            name = REDUCTIONS.get(ufunc.__name__) if method == "reduce" else None
            name = name or ufunc.__name__ + ("" if method == "__call__" else f".{method}")
            writes = operands[0] if method == "at" else result
            reads = (inputs, kwargs.get("where"))
            ledger.add_step(name, operands_of(reads), operands_of(writes, True), seconds)
        if out:
            return out[0] if len(out) == 1 else out
        return watched(result)

    def __array_function__(self, func: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        ledger = active()
        if ledger is None:
            return watched(super().__array_function__(func, types, args, kwargs))
        if func.__name__ in CHECKS:
            with ledger.paused():
                return super().__array_function__(func, types, args, kwargs)
        before = ledger.count
        begin = perf_counter()
        result = super().__array_function__(func, types, args, kwargs)
        seconds = perf_counter() - begin
        # Functions made of ufuncs have already been recorded, operator by operator.
        if ledger.count == before and func.__name__ not in FREE:
            inputs = (args, *kwargs.values())
            out = kwargs.get("out")
            reads = () if func.__name__ in SHAPE_ONLY else without(inputs, out)
            writes = result if out is not None else new_arrays(result, inputs)
            _add(ledger, func.__name__, operands_of(reads), operands_of(writes, True), seconds)
        return watched(result)

    def __getitem__(self, key: Any) -> Any:
        begin = perf_counter()
        result = super().__getitem__(key)
        seconds = perf_counter() - begin
        ledger = active()
        if ledger is not None and isinstance(result, np.ndarray):
            written = operands_of(new_arrays(result, self))
            # A gather reads as many elements as it returns.
            reads = [
                *(Operand(self.shape, o.elements, o.bytes) for o in written),
                *operands_of(key),
            ]
            _add(ledger, "index", reads, written, seconds)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        begin = perf_counter()
        super().__setitem__(key, value)
        seconds = perf_counter() - begin
        ledger = active()
        if ledger is not None:
            written = operands_of(plain(self)[key], True)
            _add(ledger, "assign", operands_of((value, key)), written, seconds)


def _recorded(name: str) -> Callable:
    """A method of ndarray that also records itself."""
    method = getattr(np.ndarray, name)

    @wraps(method)
    def call(self: Watched, *args: Any, **kwargs: Any) -> Any:
        ledger = active()
        before = ledger.count if ledger is not None else 0
        begin = perf_counter()
        result = method(self, *args, **kwargs)
        seconds = perf_counter() - begin
        if ledger is not None and ledger.count == before:
            inputs = (self, *args, *kwargs.values())
            writes = self if name in IN_PLACE else new_arrays(result, inputs)
            _add(ledger, name, operands_of(inputs), operands_of(writes, True), seconds)
        return result

    return call


for _name in METHODS:
    setattr(Watched, _name, _recorded(_name))


def _add(
    ledger: Ledger, name: str, reads: list[Operand], writes: list[Operand], seconds: float
) -> None:
    """Add an operator that made or changed data; views and questions cost nothing."""
    if writes:
        ledger.add_step(name, reads, writes, seconds)


def plain(value: Any) -> Any:
    """The array itself, no longer watched; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def watched(result: Any) -> Any:
    """Results as watched arrays; scalars stay scalars."""
    if type(result) is np.ndarray:
        return result.view(Watched)
    if type(result) is tuple:
        return tuple(watched(r) for r in result)
    return result


def arrays(value: Any, scalars: bool = False) -> Iterator[Any]:
    """The arrays (and NumPy scalars, if asked) in a value, a list or a tuple."""
    if isinstance(value, np.ndarray) or (scalars and isinstance(value, np.generic)):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from arrays(item, scalars)


def without(value: Any, unwanted: Any) -> list[Any]:
    """The arrays in a value but for those in `unwanted`."""
    drop = {id(a) for a in arrays(unwanted)}
    return [a for a in arrays(value) if id(a) not in drop]


def new_arrays(result: Any, inputs: Any) -> list[Any]:
    """Arrays and scalars of a result that are no view of an input."""
    given = list(arrays(inputs))
    return [
        r
        for r in arrays(result, scalars=True)
        if isinstance(r, np.generic) or not any(np.may_share_memory(r, g) for g in given)
    ]


def operands_of(values: Any, scalars: bool = False) -> list[Operand]:
    """The different arrays in `values`, as the elements that each has in memory."""
    distinct: Iterable[Any] = {id(a): a for a in arrays(values, scalars)}.values()
    return [_operand(a) for a in distinct]


def _operand(array: Any) -> Operand:
    itemsize = array.itemsize
    strides = [stride // itemsize if itemsize else stride for stride in array.strides]
    elements = unique_elements(array.shape, strides)
    return Operand(array.shape, elements, elements * itemsize, dtype_name(array.dtype.name))
