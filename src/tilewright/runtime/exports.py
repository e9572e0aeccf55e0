"""Read arrays that export their memory by a protocol: array interfaces and DLPack."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.ir import types as ir
from tilewright.later import later
from tilewright.runtime.dtypes import NUMPY_DTYPES, dtype_advice, named_dtype
from tilewright.runtime.messages import ACCEPTED, label, type_of

cuda = later("tilewright.targets.cuda.driver")

PROTOCOLS = ("__cuda_array_interface__", "__array_interface__", "__dlpack__")


class Export(NamedTuple):
    """An exported array: what `pointer` gives, and the rest."""

    address: int
    low: int
    high: int
    dtype: ir.DType
    writable: bool
    device: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_export(value: Any, name: str) -> Export:
    """Where an exported array is and what it holds.

    Raises:
        ArgumentTypeError: for elements that no kernel can hold, or memory without an address.
    """
    try:
        return _read(value, name)
    except LaunchError:
        raise
    except Exception as error:  # of the exporter, which is any code
        raise ArgumentTypeError(
            f"{label(name)}: a {type_of(value)} that fails to export its memory: "
            f"{type(error).__name__}: {error}"
        ) from error


def _read(value: Any, name: str) -> Export:
    interface = _offered(value, "__cuda_array_interface__")
    if interface is not None:
        number = getattr(getattr(value, "device", None), "id", None)
        if number is None and isinstance(interface.get("data"), tuple):
            number = cuda.device_of(interface["data"][0])
        return _from_interface(value, name, interface, f"cuda:{number}")
    interface = _offered(value, "__array_interface__")
    if interface is not None:
        return _from_interface(value, name, interface, "cpu")
    if not hasattr(value, "__dlpack__"):
        raise ArgumentTypeError(f"{label(name)}: a {type_of(value)} without memory; {ACCEPTED}")
    array = read_dlpack(value)
    if array.dtype is None:
        raise ArgumentTypeError(
            f"{label(name)}: a {type_of(value)} of {array.spelling}; {dtype_advice('')}"
        )
    steps = tuple(step * array.dtype.bytes for step in array.strides)
    low, high = extent(array.address, array.shape, steps, array.dtype.bytes)
    return Export(
        array.address, low, high, array.dtype, array.writable,
        array.device, array.shape, array.strides,
    )  # fmt: skip


def _offered(value: Any, protocol: str) -> dict[str, Any] | None:
    """The interface, or None: some libraries raise when this array cannot offer it."""
    try:
        return getattr(value, protocol, None)
    except (RuntimeError, TypeError):
        return None


def _from_interface(value: Any, name: str, interface: dict[str, Any], device: str) -> Export:
    kind = np.dtype(interface["typestr"])
    dtype = NUMPY_DTYPES.get(kind) or named_dtype(getattr(value, "dtype", None))
    data = interface.get("data")
    found = f"{label(name)}: a {type_of(value)}"
    if dtype is None:
        raise ArgumentTypeError(f"{found} of dtype {kind}; {dtype_advice(kind)}")
    if not isinstance(data, tuple):
        raise ArgumentTypeError(f"{found} gives no address; pass numpy.array(x)")
    if interface.get("mask") is not None:
        raise ArgumentTypeError(f"{found} has a mask, which a kernel cannot see; pass it apart")
    shape = tuple(interface["shape"])
    steps = interface.get("strides")
    if steps is None:
        steps = tuple(step * dtype.bytes for step in row_major(shape))
    low, high = extent(data[0], shape, steps, dtype.bytes)
    strides = tuple(step // dtype.bytes for step in steps)
    return Export(data[0], low, high, dtype, not data[1], device, shape, strides)


# DLPack

READ_ONLY = 1  # bit of a versioned tensor's flags
HOST, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
DEVICES = {HOST: "cpu", CUDA_HOST: "cpu", CUDA: "cuda", CUDA_MANAGED: "cuda"}
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
DTYPES = {
    (INT, 8): ir.int8, (INT, 16): ir.int16, (INT, 32): ir.int32, (INT, 64): ir.int64,
    (UINT, 8): ir.uint8, (UINT, 16): ir.uint16, (UINT, 32): ir.uint32, (UINT, 64): ir.uint64,
    (FLOAT, 16): ir.float16, (FLOAT, 32): ir.float32, (FLOAT, 64): ir.float64,
    (BFLOAT, 16): ir.bfloat16, (BOOL, 8): ir.int1,
    (10, 8): ir.float8e4nv, (11, 8): ir.float8e4b8, (12, 8): ir.float8e5, (13, 8): ir.float8e5b16,
}  # fmt: skip


class DlpackArray(NamedTuple):
    """What a capsule says; `dtype` is None when no kernel can take its elements."""

    address: int
    dtype: ir.DType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # elements
    device: str
    writable: bool
    spelling: str  # the dtype in DLPack's terms, for messages


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# Prototypes of our own: `ctypes.pythonapi`'s attributes are shared by the whole process.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def read_dlpack(value: Any) -> DlpackArray:
    """Where and what the array that `value` exports is; `value` keeps the memory alive."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter older than DLPack 1.0
        capsule = value.__dlpack__()
    # The capsule keeps its name, so its destructor gives the export back when it goes.
    name = _capsule_name(capsule)
    where = _capsule_pointer(capsule, name)
    if name == b"dltensor_versioned":
        versioned = _VersionedTensor.from_address(where)
        return _decode(versioned.tensor, writable=not versioned.flags & READ_ONLY)
    return _decode(_Tensor.from_address(where), writable=True)


def _decode(tensor: _Tensor, writable: bool) -> DlpackArray:
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else row_major(shape)
    device = DEVICES.get(tensor.device_type, f"dlpack:{tensor.device_type}")
    return DlpackArray(
        address=(tensor.data or 0) + tensor.byte_offset,
        dtype=DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None,
        shape=shape,
        strides=strides,
        device=device if device == "cpu" else f"{device}:{tensor.device_id}",
        writable=writable,
        spelling=f"DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes",
    )


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array of that shape."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def extent(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """The bytes [low, high) that a strided view covers; strides count bytes."""
    if 0 in shape:
        return address, address
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low = address + sum(step for step in steps if step < 0)
    return low, address + sum(step for step in steps if step > 0) + itemsize
