"""What a kernel argument is: where its memory lies and what it holds, of any array library."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ArgumentOverflowError, ArgumentTypeError, LaunchError
from tilewright.ir import types as ir
from tilewright.runtime.dtypes import NUMPY_DTYPES, TORCH_DTYPES, dtype_advice, named_dtype
from tilewright.runtime.exports import PROTOCOLS, extent, read_export
from tilewright.runtime.messages import ACCEPTED, elsewhere, label, type_of
from tilewright.runtime.typed import TypedFloat, TypedInt
from tilewright.targets.base import for_device
from tilewright.targets.storage import Storage

Pointer = tuple[int, int, int, ir.DType, bool]  # address, low, high, dtype, writable
Layout = tuple[tuple[int, ...] | None, tuple[int, ...] | None]  # shape, strides in elements
UNKNOWN_EXTENT = (0, (1 << 63) - 1)  # of memory that only an address is known of


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a launch; a scalar has a `value`, an array memory at `address`.

    The launch may touch the bytes of [`low`, `high`): the storage the array is a view of.
    """

    name: str
    kind: str  # "array", "int", "float", "bool" or "none"
    dtype: ir.DType | None
    original: Any = field(repr=False)
    value: int | float | bool | None = None
    address: int = 0
    low: int = 0
    high: int = 0
    shape: tuple[int, ...] | None = ()
    strides: tuple[int, ...] | None = ()
    device: str = "cpu"
    writable: bool = False

    @property
    def keepalive(self) -> Any:
        """What to hold on to while the address is in use."""
        return self.original


class Family(NamedTuple):
    """How the arrays of one library are read."""

    pointer: Callable[[Any, str, str], Pointer]
    device: Callable[[Any, str], str]
    layout: Callable[[Any, str], Layout]


# Devices that are not there, and those that stand in for them (`compat.pretend`).
pretended: dict[str, str] = {}

_families: dict[type, Family] = {}
_kinds: dict[type, str] = {bool: "bool", int: "int", float: "float", type(None): "none"}
_torch_dtypes: dict[Any, ir.DType] = {}


def pointer(value: Any, name: str = "", device: str = "cpu") -> Pointer:
    """(address, low, high, dtype, writable) of an array on `device`; the way of a launch.

    Raises:
        ArgumentTypeError: for what is no array, or an array no kernel can take.
        LaunchError: for an array on another device.
    """
    family = _families.get(type(value)) or find_family(value, name)
    return family.pointer(value, name, device)


def device(value: Any, name: str = "") -> str:
    """Where an array is: "cpu", "cuda:0", ..."""
    family = _families.get(type(value)) or find_family(value, name)
    return family.device(value, name)


def kind(value: Any, name: str = "") -> str:
    """What a value is to a kernel: "array", "int", "float", "bool" or "none"."""
    found = _kinds.get(type(value))
    if found is None:
        found = _kinds[type(value)] = _scalar_kind(value) or _array_kind(value, name)
    return found


def scalar(value: Any, name: str = "") -> tuple[ir.DType | None, int | float | bool | None]:
    """The dtype that a scalar is passed as, and the plain Python value."""
    what = kind(value, name)
    if isinstance(value, TypedInt | TypedFloat):
        return value.dtype, int(value) if what == "int" else float(value)
    if what == "int":
        return integer_dtype(int(value), name), int(value)
    if what == "float":
        return ir.float32, float(value)
    if what == "bool":
        return ir.int1, bool(value)
    if what == "none":
        return None, None
    raise ArgumentTypeError(f"{label(name)}: wants a scalar, got an array ({type_of(value)})")


def integer_dtype(value: int, name: str = "") -> ir.DType:
    """The narrowest of int32, int64 and uint64 that holds a Python int."""
    if -(1 << 31) <= value < 1 << 31:
        return ir.int32
    if -(1 << 63) <= value < 1 << 63:
        return ir.int64
    if 0 <= value < 1 << 64:
        return ir.uint64
    raise ArgumentOverflowError(
        f"{label(name)}: an int of {value.bit_length()} bits fits neither int64 nor uint64; "
        f"pass it in parts, or as a float"
    )


def describe(value: Any, name: str = "") -> Argument:
    """Everything known about an argument; slower than `pointer` and `scalar`, for reports."""
    what = kind(value, name)
    if what != "array":
        dtype, plain = scalar(value, name)
        return Argument(name, what, dtype, value, plain)
    family = find_family(value, name)
    where = family.device(value, name)
    address, low, high, dtype, writable = family.pointer(value, name, where)
    shape, strides = family.layout(value, name)
    return Argument(
        name, what, dtype, value,
        address=address, low=low, high=high, shape=shape, strides=strides,
        device=where, writable=writable,
    )  # fmt: skip


def snapshot(value: Any, name: str = "") -> Storage:
    """A copy of an array's whole storage, on the same machine."""
    where, low, size, _ = _extent(value, name)
    target = for_device(where)
    saved = target.storage(size, target.place(where, 0))
    saved.take(low)
    return saved


def restore(value: Any, saved: Storage, name: str = "") -> None:
    """Put the bytes that `snapshot` saved back."""
    _, low, size, writable = _extent(value, name)
    if size != saved.size:
        raise LaunchError(
            f"{label(name)}: the storage has {size} bytes now, the snapshot {saved.size}; "
            f"take a new snapshot after a resize"
        )
    if not writable:
        raise LaunchError(f"{label(name)}: is read-only and cannot be restored; pass a copy")
    saved.put(low)


def _extent(value: Any, name: str) -> tuple[str, int, int, bool]:
    """Where an array's storage is: device, address, size; and whether it may be written to."""
    where = device(value, name)
    _, low, high, _, writable = pointer(value, name, where)
    if (low, high) == UNKNOWN_EXTENT:
        raise LaunchError(
            f"{label(name)}: the size of the storage behind a {type_of(value)} is not known; "
            f"pass an object with shape and stride(), or a tensor"
        )
    return where, low, high - low, writable


# Which kind and family a type belongs to


def find_family(value: Any, name: str = "") -> Family:
    """How to read an array; remembered per type."""
    cls = type(value)
    if cls in _families:
        return _families[cls]
    masked = sys.modules.get("numpy.ma")  # np.ma would import it, which takes 15 ms
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise ArgumentTypeError(
            f"{label(name)}: a kernel cannot see the mask of a masked array; "
            f"pass x.filled(0), or x.data and the mask as two arguments"
        )
    if isinstance(value, np.ndarray):
        family = NUMPY
    elif is_torch(value):
        family = TORCH
    elif callable(getattr(value, "data_ptr", None)) and hasattr(value, "dtype"):
        family = WRAPPED
    elif not isinstance(value, np.generic | type) and any(hasattr(cls, p) for p in PROTOCOLS):
        family = EXPORTED
    else:
        raise ArgumentTypeError(
            f"{label(name)}: a {type_of(value)} is no kernel argument; {ACCEPTED}"
        )
    _families[cls] = family
    return family


def is_torch(value: Any) -> bool:
    """Is it a torch tensor? Torch is not imported to find out."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)  # absent while torch itself is being imported
    return tensor is not None and isinstance(value, tensor)


def _scalar_kind(value: Any) -> str | None:
    if isinstance(value, np.generic):
        dtype = NUMPY_DTYPES.get(value.dtype)
        if dtype is None:
            return None
        return "bool" if dtype.is_bool() else "float" if dtype.is_float else "int"
    for cls, name in ((int, "int"), (float, "float")):  # an IntEnum, say
        if isinstance(value, cls):
            return name
    return None


def _array_kind(value: Any, name: str) -> str:
    find_family(value, name)
    return "array"


# NumPy

# PyArrayObject starts with the object's head and the data pointer; reading it there takes
# 0.1 us, `x.ctypes.data` and `x.__array_interface__` take 0.75 us.
_DATA_OFFSET = object.__basicsize__
_read_word = ctypes.c_size_t.from_address


def _numpy_pointer(value: np.ndarray, name: str, device: str) -> Pointer:
    dtype = NUMPY_DTYPES.get(value.dtype)
    if dtype is None or device != "cpu":
        raise _numpy_error(value, name, device)
    address = _read_word(id(value) + _DATA_OFFSET).value
    base = value.base
    if base is None:
        return address, address, address + value.nbytes, dtype, value.flags.writeable
    if type(base) is np.ndarray and base.base is None:  # an ordinary view: 0.5 us, not 1.5
        low = _read_word(id(base) + _DATA_OFFSET).value
        return address, low, low + base.nbytes, dtype, value.flags.writeable
    low, high = _numpy_storage(value)
    return address, low, high, dtype, value.flags.writeable


def _numpy_storage(value: np.ndarray) -> tuple[int, int]:
    """The memory of the array that `value` is, in the end, a view of."""
    root = value
    base = value.base
    while base is not None:
        if isinstance(base, np.ndarray):
            root = base
        elif is_torch(base):
            return _torch_pointer(base, "", "cpu")[1:3]
        base = getattr(base, "base", None)
    address = _read_word(id(root) + _DATA_OFFSET).value
    return extent(address, root.shape, root.strides, root.itemsize)


def _numpy_error(value: np.ndarray, name: str, device: str) -> LaunchError:
    found = f"{label(name)}: a NumPy array"
    if value.dtype.newbyteorder("=") in NUMPY_DTYPES and not value.dtype.isnative:
        return ArgumentTypeError(
            f"{found} of the other byte order ({value.dtype}); "
            f"pass x.astype(x.dtype.newbyteorder('='))"
        )
    if value.dtype not in NUMPY_DTYPES:
        return ArgumentTypeError(f"{found} of dtype {value.dtype}; {dtype_advice(value.dtype)}")
    return elsewhere(name, "cpu", device)


def _numpy_layout(value: np.ndarray, name: str) -> Layout:
    return value.shape, tuple(step // value.itemsize for step in value.strides)


# torch


def _torch_pointer(value: Any, name: str, device: str) -> Pointer:
    dtype = _torch_dtypes.get(value.dtype)
    if dtype is None or device != "cpu" or not value.is_cpu or value.is_neg():
        dtype = _checked_torch_dtype(value, name, device)
    try:
        storage = value.untyped_storage()
        low = storage.data_ptr()
        address = value.data_ptr()
    except RuntimeError as error:
        raise ArgumentTypeError(
            f"{label(name)}: a torch tensor without memory of its own "
            f"({type_of(value)}, {value.layout}); pass a dense one, e.g. x.to_dense() or x.values()"
        ) from error
    if not address and value.numel():
        raise LaunchError(
            f"{label(name)}: a torch tensor without memory (a fake one, or freed); pass a real one"
        )
    return address, low, low + storage.nbytes(), dtype, True


def _checked_torch_dtype(value: Any, name: str, device: str) -> ir.DType:
    dtype = TORCH_DTYPES.get(str(value.dtype))
    found = f"{label(name)}: a torch tensor"
    if dtype is None:
        raise ArgumentTypeError(f"{found} of dtype {value.dtype}; {dtype_advice(value.dtype)}")
    _torch_dtypes[value.dtype] = dtype
    if value.device.type == "meta":
        raise ArgumentTypeError(f"{found} on the meta device has no memory; pass a real tensor")
    if value.is_neg():
        raise ArgumentTypeError(f"{found} with a pending negation; pass x.resolve_neg()")
    where = _torch_device(value, name)
    # Pinned memory of the host is a GPU's to read at the same address.
    if where != device and not (where == "cpu" and device != "cpu" and value.is_pinned()):
        raise elsewhere(name, where, device)
    return dtype


def _torch_device(value: Any, name: str) -> str:
    return "cpu" if value.is_cpu else str(value.device)


def _torch_layout(value: Any, name: str) -> Layout:
    return tuple(value.shape), tuple(value.stride())


# Objects with data_ptr() and dtype, as `triton.reinterpret` makes them


def _wrapped_pointer(value: Any, name: str, device: str) -> Pointer:
    dtype = named_dtype(value.dtype)
    if dtype is None:
        raise ArgumentTypeError(
            f"{label(name)}: a {type_of(value)} of dtype {value.dtype}; {dtype_advice(value.dtype)}"
        )
    where = _wrapped_device(value, name)
    if where != device:
        raise elsewhere(name, where, device)
    address = value.data_ptr()
    base = getattr(value, "base", None)
    if base is not None:
        _, low, high, _, writable = pointer(base, name, device)
        return address, low, high, dtype, writable
    shape, strides = _wrapped_layout(value, name)
    if shape is None:
        return address, *UNKNOWN_EXTENT, dtype, True
    steps = tuple(step * dtype.bytes for step in strides)
    return address, *extent(address, shape, steps, dtype.bytes), dtype, True


def _wrapped_device(value: Any, name: str) -> str:
    base = getattr(value, "base", None)
    if base is not None:
        return device(base, name)
    name = str(getattr(value, "device", "cpu"))
    return pretended.get(name, name)


def _wrapped_layout(value: Any, name: str) -> Layout:
    shape, strides = getattr(value, "shape", None), getattr(value, "stride", None)
    if shape is None or strides is None:
        return None, None
    return tuple(shape), tuple(strides() if callable(strides) else strides)


# Objects that export their memory by a protocol


def _export_pointer(value: Any, name: str, device: str) -> Pointer:
    export = read_export(value, name)
    if export.device != device:
        raise elsewhere(name, export.device, device)
    return export[:5]


def _export_device(value: Any, name: str) -> str:
    return read_export(value, name).device


def _export_layout(value: Any, name: str) -> Layout:
    export = read_export(value, name)
    return export.shape, export.strides


NUMPY = Family(_numpy_pointer, lambda value, name: "cpu", _numpy_layout)
TORCH = Family(_torch_pointer, _torch_device, _torch_layout)
WRAPPED = Family(_wrapped_pointer, _wrapped_device, _wrapped_layout)
EXPORTED = Family(_export_pointer, _export_device, _export_layout)
