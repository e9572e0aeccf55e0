"""Arguments of a launch: where arrays of every library lie, and what is refused in which words."""

from __future__ import annotations

import ctypes
import enum
import subprocess
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.ir import types as ir
from tilewright.runtime import arrays
from tilewright.runtime.dtypes import NUMPY_DTYPES


def address_of(x):
    return x.__array_interface__["data"][0]


class Wrapper:
    """Same bytes, another dtype: what `triton.reinterpret` returns."""

    def __init__(self, base, dtype):
        self.base = base
        self.dtype = dtype

    def data_ptr(self):
        return arrays.pointer(self.base)[0]


class Interface:
    def __init__(self, array, name="__array_interface__", **changes):
        self.array = array
        setattr(self, name, {**array.__array_interface__, **changes})

    __array_interface__ = None
    __cuda_array_interface__ = None


class Exporter:
    """Nothing but DLPack."""

    def __init__(self, array, versioned=True):
        self.array = array
        self.versioned = versioned

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


# NumPy


@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=str)
def test_numpy_dtypes(dtype):
    x = np.zeros(3, dtype)
    start = address_of(x.view(np.uint8))
    expected = (start, start, start + x.nbytes, NUMPY_DTYPES[dtype], True)
    assert arrays.pointer(x, "x") == expected
    assert NUMPY_DTYPES[dtype].bytes == dtype.itemsize


def test_a_view_may_touch_its_whole_base():
    base = np.zeros((8, 10), np.int16)
    whole = (address_of(base), address_of(base) + 160)
    for view in (base[2:5, 1:], base[::-1, ::2], base.T, base[3, 4:5], base.view(np.int8)[1:]):
        address, low, high, _, _ = arrays.pointer(view)
        assert address == address_of(view)
        assert (low, high) == whole


def test_a_base_is_found_through_other_objects():
    base = np.zeros(10, np.float32)
    whole = (address_of(base), address_of(base) + 40)
    strided = np.lib.stride_tricks.as_strided(base[2:], (4,), (4,))
    assert arrays.pointer(strided)[1:3] == whole
    assert arrays.pointer(np.lib.stride_tricks.sliding_window_view(base, 3)[2:])[1:3] == whole
    wide = np.broadcast_to(base[1:], (3, 9))
    assert arrays.pointer(wide)[1:] == (*whole, ir.float32, False)


def test_an_array_over_a_buffer_is_its_own_root():
    buffer = bytearray(64)
    x = np.frombuffer(buffer, np.float32, 4, offset=8)
    assert arrays.pointer(x[1:]) == (
        address_of(x) + 4, address_of(x), address_of(x) + 16, ir.float32, True,
    )  # fmt: skip
    assert not arrays.pointer(np.frombuffer(bytes(16), np.int32))[4]


def test_numpy_subclasses_and_odd_shapes(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(16,))
    assert arrays.pointer(mapped[4:])[0] == address_of(mapped) + 16
    assert arrays.pointer(mapped[4:])[1:3] == (address_of(mapped), address_of(mapped) + 64)
    scalar = np.array(3.0)
    assert arrays.pointer(scalar)[1:3] == (address_of(scalar), address_of(scalar) + 8)
    empty = np.empty((0, 4))
    assert arrays.pointer(empty)[1] == arrays.pointer(empty)[2]


def test_describe_numpy():
    base = np.zeros((4, 6), np.float32)
    argument = arrays.describe(base[1:, ::-2], "x")
    assert (argument.name, argument.kind, argument.dtype) == ("x", "array", ir.float32)
    assert (argument.shape, argument.strides) == ((3, 3), (6, -2))
    assert argument.address == address_of(base) + 24 + 20
    assert (argument.low, argument.high) == (address_of(base), address_of(base) + 96)
    assert (argument.device, argument.writable) == ("cpu", True)
    assert argument.keepalive is argument.original


# torch


def test_torch_dtypes():
    torch = pytest.importorskip("torch")
    for dtype, expected in NUMPY_DTYPES.items():
        x = torch.zeros(3, dtype=getattr(torch, dtype.name))
        start = x.data_ptr()
        assert arrays.pointer(x) == (start, start, start + x.nbytes, expected, True)


def test_a_torch_view_may_touch_its_whole_storage():
    torch = pytest.importorskip("torch")
    base = torch.zeros(8, 10, requires_grad=True)
    for view in (base[2:5, 1:], base.t(), base.detach()[3], base[0, 0], torch.nn.Parameter(base)):
        address, low, high, dtype, writable = arrays.pointer(view)
        assert address == view.data_ptr()
        assert (low, high) == (base.data_ptr(), base.data_ptr() + 320)
        assert (dtype, writable) == (ir.float32, True)
    argument = arrays.describe(base[2:5, 1::3], "x")
    assert (argument.shape, argument.strides, argument.device) == ((3, 3), (10, 3), "cpu")


def test_numpy_over_torch_knows_the_storage():
    torch = pytest.importorskip("torch")
    base = torch.arange(10.0)
    view = base[4:].numpy()[1:]
    assert arrays.pointer(view)[0] == base.data_ptr() + 20
    assert arrays.pointer(view)[1:3] == (base.data_ptr(), base.data_ptr() + 40)


def test_torch_tensors_that_are_refused():
    torch = pytest.importorskip("torch")
    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    cases = [
        (
            torch.zeros(2, dtype=torch.complex64),
            "argument 'x': a torch tensor of dtype torch.complex64; "
            "there are no complex tiles; pass the real view, e.g. torch.view_as_real(x)",
        ),
        (
            torch.empty(2, device="meta"),
            "argument 'x': a torch tensor on the meta device has no memory; pass a real tensor",
        ),
        (
            torch.zeros(2, dtype=torch.complex64).conj().imag,
            "argument 'x': a torch tensor with a pending negation; pass x.resolve_neg()",
        ),
        (
            torch.eye(3).to_sparse(),
            "argument 'x': a torch tensor without memory of its own (torch.Tensor, "
            "torch.sparse_coo); pass a dense one, e.g. x.to_dense() or x.values()",
        ),
        (
            freed,
            "argument 'x': a torch tensor without memory (a fake one, or freed); pass a real one",
        ),
    ]
    for value, message in cases:
        with pytest.raises(LaunchError) as caught:
            arrays.pointer(value, "x")
        assert str(caught.value) == message


def test_another_device_is_refused():
    torch = pytest.importorskip("torch")
    message = "argument 'x': is on cpu, the launch runs on cuda:0; move it there first"
    for value in (torch.zeros(2), np.zeros(2), Wrapper(np.zeros(2), ir.float64)):
        assert arrays.device(value) == "cpu"
        with pytest.raises(LaunchError) as caught:
            arrays.pointer(value, "x", "cuda:0")
        assert str(caught.value) == message


def test_torch_is_not_imported():
    program = (
        "import sys, numpy\n"
        "from tilewright.runtime import arrays, timing\n"
        "from tilewright import testing\n"
        "arrays.describe(numpy.zeros(3), 'x'); arrays.kind(3)\n"
        "testing.assert_close(numpy.ones(3), [1, 1, 1])\n"
        "print(sorted({'torch', 'pandas', 'matplotlib'} & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")


# Wrappers and protocols


def test_a_wrapper_takes_the_extent_of_its_base():
    base = np.zeros(32, np.int8)
    start = address_of(base)
    wrapped = Wrapper(base[8:], ir.float8e4nv)
    assert arrays.pointer(wrapped) == (start + 8, start, start + 32, ir.float8e4nv, True)
    assert arrays.kind(wrapped) == "array"
    base.flags.writeable = False
    assert not arrays.pointer(Wrapper(base[8:], ir.float8e4nv))[4]


def test_an_object_with_data_ptr():
    named = SimpleNamespace(data_ptr=lambda: 4096, dtype="torch.float8_e5m2")
    assert arrays.pointer(named) == (4096, *arrays.UNKNOWN_EXTENT, ir.float8e5, True)
    assert arrays.describe(named).shape is None
    shaped = SimpleNamespace(
        data_ptr=lambda: 4096, dtype=ir.int32, shape=(2, 3), stride=lambda: (4, 1)
    )
    assert arrays.pointer(shaped) == (4096, 4096, 4096 + 28, ir.int32, True)
    for dtype in ("torch.int1", ir.pointer_to(ir.int8), ir.void, "quaternion"):
        with pytest.raises(ArgumentTypeError, match="argument 'x': a types.SimpleNamespace of"):
            arrays.pointer(SimpleNamespace(data_ptr=lambda: 0, dtype=dtype), "x")


def test_array_interface():
    base = np.zeros((4, 6), np.float32)
    view = base[1:, ::-2]
    argument = arrays.describe(Interface(view), "x")
    assert argument.address == address_of(view)
    assert (argument.low, argument.high) == (address_of(base) + 24 + 4, address_of(base) + 96)
    assert (argument.shape, argument.strides) == ((3, 3), (6, -2))
    dense = arrays.describe(Interface(base))
    assert (dense.low, dense.high, dense.strides) == (
        address_of(base), address_of(base) + 96, (6, 1),
    )  # fmt: skip
    assert not arrays.describe(Interface(base, data=(64, True))).writable


def test_cuda_array_interface():
    x = Interface(np.zeros(4, np.int32), "__cuda_array_interface__", data=(1 << 40, False))
    start = 1 << 40
    assert arrays.device(x) == "cuda:0"
    assert arrays.pointer(x, "x", "cuda:0") == (start, start, start + 16, ir.int32, True)
    x.device = SimpleNamespace(id=3)
    with pytest.raises(LaunchError, match="is on cuda:3, the launch runs on cpu"):
        arrays.pointer(x, "x")


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(versioned):
    base = np.zeros((4, 6), np.uint16)
    argument = arrays.describe(Exporter(base[1:, 2:], versioned), "x")
    assert argument.address == address_of(base) + 16
    assert (argument.low, argument.high) == (address_of(base) + 16, address_of(base) + 48)
    assert (argument.shape, argument.strides, argument.dtype) == ((3, 4), (6, 1), ir.uint16)
    assert (argument.device, argument.writable) == ("cpu", True)
    if versioned:
        base.flags.writeable = False
        assert not arrays.pointer(Exporter(base))[4]


def test_dlpack_gives_the_export_back():
    base = np.zeros(4)
    before = sys.getrefcount(base)
    for _ in range(5):
        arrays.pointer(Exporter(base))
    assert sys.getrefcount(base) == before


def test_dlpack_of_small_floats():
    torch = pytest.importorskip("torch")
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "bool"):
        x = torch.zeros(5, dtype=getattr(torch, name))
        expected = NUMPY_DTYPES[np.dtype(getattr(ml_dtypes, name, name))]
        assert arrays.pointer(Exporter(x))[3] is expected
    with pytest.raises(ArgumentTypeError, match="DLPack code 5, 64 bits, 1 lanes"):
        arrays.pointer(Exporter(np.zeros(2, np.complex64)))


# Scalars


class Colour(enum.IntEnum):
    RED = 7


@pytest.mark.parametrize(
    "value, kind, dtype",
    [
        (True, "bool", ir.int1),
        (np.bool_(True), "bool", ir.int1),
        (0, "int", ir.int32),
        (2**31 - 1, "int", ir.int32),
        (-(2**31), "int", ir.int32),
        (2**31, "int", ir.int64),
        (-(2**31) - 1, "int", ir.int64),
        (2**63 - 1, "int", ir.int64),
        (-(2**63), "int", ir.int64),
        (2**63, "int", ir.uint64),
        (2**64 - 1, "int", ir.uint64),
        (Colour.RED, "int", ir.int32),
        (np.int8(-3), "int", ir.int32),
        (np.uint64(2**63), "int", ir.uint64),
        (1.5, "float", ir.float32),
        (np.float64(1.5), "float", ir.float32),
        (np.float16(1.5), "float", ir.float32),
        (ml_dtypes.bfloat16(1.5), "float", ir.float32),
        (None, "none", None),
    ],
    ids=repr,
)
def test_scalars(value, kind, dtype):
    assert arrays.kind(value) == kind
    found, plain = arrays.scalar(value, "n")
    assert found is dtype
    assert plain == value
    assert type(plain) in (bool, int, float, type(None))
    argument = arrays.describe(value, "n")
    assert (argument.kind, argument.dtype, argument.value) == (kind, dtype, plain)


def test_ints_beyond_64_bits():
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(LaunchError) as caught:
            arrays.scalar(value, "n")
        assert str(caught.value) == (
            f"argument 'n': an int of {value.bit_length()} bits fits neither int64 nor uint64; "
            "pass it in parts, or as a float"
        )


# Refusals


@pytest.mark.parametrize(
    "value, name",
    [([1, 2], "list"), ("text", "str"), (1j, "complex"), (object(), "object"),
     (np.complex64(1), "numpy.complex64"), (np.timedelta64(1), "numpy.timedelta64"),
     (np.str_("a"), "numpy.str_"), (np.longdouble(1), "numpy.longdouble"),
     (np.ndarray, "type")],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_what_is_no_argument(value, name):
    for ask in (arrays.kind, arrays.describe, arrays.pointer):
        with pytest.raises(ArgumentTypeError) as caught:
            ask(value, "x")
        assert (
            str(caught.value) == f"argument 'x': a {name} is no kernel argument; {arrays.ACCEPTED}"
        )


def test_numpy_arrays_that_are_refused():
    kinds = "a kernel takes bool, 8 to 64 bit integers, fp8, fp16, bf16, fp32 and fp64"
    cases = [
        (np.array([None]), f"a NumPy array of dtype object; {kinds}"),
        (np.array(["a"]), f"a NumPy array of dtype <U1; {kinds}"),
        (np.zeros(2, [("a", "f4")]), f"a NumPy array of dtype [('a', '<f4')]; {kinds}"),
        (
            np.zeros(2, ">f4"),
            "a NumPy array of the other byte order (>f4); pass x.astype(x.dtype.newbyteorder('='))",
        ),
        (
            np.ma.zeros(3),
            "a kernel cannot see the mask of a masked array; "
            "pass x.filled(0), or x.data and the mask as two arguments",
        ),
    ]
    for value, message in cases:
        with pytest.raises(ArgumentTypeError) as caught:
            arrays.pointer(value, "x")
        assert str(caught.value) == f"argument 'x': {message}"


def test_interfaces_that_are_refused():
    x = np.zeros(3)
    for changes, message in (
        ({"data": None}, "gives no address; pass numpy.array"),
        ({"typestr": "<c8"}, "of dtype complex64; there are no complex tiles"),
        ({"mask": x}, "has a mask, which a kernel cannot see"),
    ):
        with pytest.raises(ArgumentTypeError, match=message):
            arrays.pointer(Interface(x, **changes), "x")


# Snapshots


def test_snapshot_and_restore():
    base = np.arange(12, dtype=np.int32)
    view = base.reshape(3, 4)[1:, ::2]
    saved = arrays.snapshot(view)
    assert saved.read().tobytes() == base.tobytes()
    base[:] = -1
    arrays.restore(view, saved)
    assert base.tolist() == list(range(12))


def test_snapshot_of_torch_and_of_nothing():
    torch = pytest.importorskip("torch")
    base = torch.arange(6, dtype=torch.bfloat16)
    saved = arrays.snapshot(base[2:])
    base.zero_()
    arrays.restore(base[2:], saved)
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    empty = torch.empty(0)
    arrays.restore(empty, arrays.snapshot(empty))


def test_snapshots_that_do_not_fit():
    saved = arrays.snapshot(np.zeros(3))
    with pytest.raises(LaunchError, match="has 32 bytes now, the snapshot 24"):
        arrays.restore(np.zeros(4), saved, "x")
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(LaunchError, match="is read-only and cannot be restored"):
        arrays.restore(frozen, saved, "x")
    memory = ctypes.create_string_buffer(8)
    unknown = SimpleNamespace(data_ptr=lambda: ctypes.addressof(memory), dtype=ir.int8)
    with pytest.raises(LaunchError, match="the size of the storage .* is not known"):
        arrays.snapshot(unknown, "x")
