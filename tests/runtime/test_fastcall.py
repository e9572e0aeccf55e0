"""The native launcher: the same launches as Python's, told apart as Python tells them apart."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import signal
import struct
import sys
import threading

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import ArgumentTypeError, LaunchError, OutOfBoundsError
from tilewright.runtime import arrays
from tilewright.runtime.handle import SteppedKernel
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import LaunchObserver, observing, unobserved
from tilewright.targets.fastcall import shortcut as fastcall

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(not fastcall.is_possible(), reason="launches are Python's here"),
]


@pytest.fixture(autouse=True)
def nobody_looks():
    """Observers that other tests left behind would have Python do every launch."""
    with unobserved():
        yield


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def fresh(fn) -> JITFunction:
    """A kernel that has learnt nothing yet."""
    return tilewright.jit(fn)


def put(out, a, b, c, N: tl.constexpr, NAME: tl.constexpr = None):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, N)


def copy(x, out, at, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + at + i))


def fill(out, value):
    tl.store(out + tl.program_id(0), value)


SCALE = 2


def scaled(out, n):
    tl.store(out, n * SCALE)


def store(out, value, N: tl.constexpr):
    tl.store(out, value)


def nothing(n):
    pass


def spin(out, rounds):
    n = 0
    while n < rounds:
        n += tl.load(out)


def programs(out, value):
    tl.atomic_add(out, value)


def by_python(kernel: JITFunction) -> int:
    """How many launches of a kernel the short way in Python did."""
    return sum(entry.launches for entry in kernel.entries.values())


def warm(kernel: JITFunction, grid, *args, **kwargs) -> None:
    """Launch until a launch like this is native."""
    for _ in range(9):
        kernel[grid](*args, **kwargs)
    before = by_python(kernel)
    kernel[grid](*args, **kwargs)
    assert by_python(kernel) == before


# --- what the native code reads


class Reader:
    """What native code reads of one argument: its part of the key, and what is passed."""

    def __init__(self):
        kernel = fresh(fill)
        out = np.zeros(2, np.float32)
        warm(kernel, (1,), out, 1.5)
        self.shortcut = kernel.shortcuts["cpu"]

    def __call__(self, value):
        native, one = self.shortcut.native, (value, 1.5)
        native.layouts.find_torch()
        objects = (ctypes.py_object * 2)(*one)
        key, slots = (ctypes.c_int64 * 5)(), (ctypes.c_int64 * 6)()
        if not native.key(self.shortcut.parameters, 0, objects, key, slots):
            return None
        return key[1], key[2], tuple(s % (1 << 64) for s in slots[:3])


@pytest.fixture
def read():
    return Reader()


def numpy_arrays():
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8", "i1", "u2", "i8", "?", "f2"):
        whole = np.zeros((6, 5, 4), dtype)
        yield whole
        yield np.asfortranarray(whole)
        yield whole.T
        yield whole[::-1, 1:3]
        yield whole[2:, ::2, 3]
        yield whole[5, 4, 3:]
        yield whole.reshape(-1)[7:11]
        yield whole[:, None, :2, 0]
        yield np.broadcast_to(whole[0], (9, 5, 4))
        yield whole.view(np.uint8)[1:]
        yield np.zeros(64 + 16, np.uint8)[3:67].view(np.float32)
        yield np.lib.stride_tricks.as_strided(whole, (3, 3), (whole.itemsize, 8))
        yield np.zeros((), dtype)
        yield np.zeros((0, 3), dtype)
        yield whole[3:3]
        for _ in range(10):
            view = whole
            for axis in range(3):
                low, high = sorted(rng.integers(0, view.shape[axis] + 1, 2))
                step = int(rng.choice([1, 2, -1]))
                view = np.moveaxis(np.moveaxis(view, axis, 0)[low:high][::step], 0, axis)
            yield view
    yield np.frombuffer(bytearray(64), np.float32)[3:]
    yield np.frombuffer(bytes(64), np.float32)
    yield np.zeros(3).view(np.recarray)


def test_extents_of_numpy_arrays(read):
    native = 0
    for array in numpy_arrays():
        got = read(array)
        if got is None:
            continue
        if got[0] == 1:
            assert type(array) is not np.ndarray
            continue
        address, low, high, _, writable = arrays.pointer(array)
        assert got == (7 if writable else 8, id(array.dtype), (address, low, high))
        native += 1
    assert native > 100


def torch_tensors(torch):
    for dtype in (torch.float32, torch.int8, torch.bfloat16, torch.bool, torch.float64):
        whole = torch.zeros(6, 5, 4, dtype=dtype)
        yield from (
            whole, whole.mT, whole[2:], whole[:, 1:3, ::2], whole[5, 4, 3],
            whole.expand(2, 6, 5, 4), whole.view(-1)[7:], whole.as_strided((3, 3), (1, 2), 5),
            whole.view(torch.uint8), torch.nn.Parameter(whole, requires_grad=False),
            whole[3:3], torch.zeros((), dtype=dtype),
        )  # fmt: skip
    storage = torch.zeros(100)
    yield storage.set_(storage.untyped_storage(), 10, (4, 5))
    yield torch.from_numpy(np.zeros(50, np.float32)[8:])
    yield torch.zeros(10, requires_grad=True)
    yield torch.zeros(100).resize_(3)
    yield torch.zeros(4, 4).to_sparse()
    yield torch.empty(4, device="meta")
    yield torch.zeros(4, dtype=torch.complex64).conj().imag
    yield torch.zeros(4, dtype=torch.complex64)


def test_extents_of_tensors(read, torch):
    native = 0
    for tensor in torch_tensors(torch):
        try:
            address, low, high, dtype, _ = arrays.pointer(tensor)
        except LaunchError:
            assert read(tensor) is None
            continue
        read.shortcut.native.layouts.admit(tensor)
        got = read(tensor)
        if got is not None:
            assert got[0] == 9 and got[2] == (address, low, high)
            native += 1
    assert native > 50


def test_dtypes_of_tensors_are_told_apart(read, torch):
    kinds = [torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.uint8, torch.int8]
    tensors = [torch.zeros(3, dtype=kind) for kind in kinds]
    for tensor in tensors:
        read.shortcut.native.layouts.admit(tensor)
    assert len({read(tensor)[1] for tensor in tensors}) == len(kinds)


def test_arrays_of_other_kinds_are_objects(read, torch):
    class Tensor(torch.Tensor):
        pass

    class Array(np.ndarray):
        pass

    tensor = torch.zeros(3).as_subclass(Tensor)
    for value in (tensor, np.zeros(3).view(Array), np.float32(3), None, "x", [1], fill):
        assert read(value) == (1, id(value), read(value)[2])


# --- what is passed


FLOATS = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1e39, -1e39, 1e-45, 3.4028235677973366e38]


def test_floats(torch):
    kernel = fresh(fill)
    out = torch.zeros(1)
    warm(kernel, (1,), out, 2.5)
    before = by_python(kernel)
    for value in FLOATS:
        kernel[(1,)](out, value)
        with np.errstate(over="ignore"):
            wanted = np.float32(value)
        assert struct.pack("f", out.item()) == wanted.tobytes() or math.isnan(value)
        assert math.isnan(value) == math.isnan(out.item())
    assert by_python(kernel) == before


INTS = [
    0,
    1,
    -1,
    2,
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
]


def test_ints_of_every_width():
    kernel = fresh(fill)
    out = np.zeros(1, np.int64)
    for _ in range(10):
        for value in INTS:
            kernel[(1,)](out, value)
            assert out[0] == np.array(value % 2**64, np.uint64).astype(np.int64)
    assert len(kernel.shortcuts["cpu"].lines) == 3  # 1, 32 and 64 bits; more are Python's
    with pytest.raises(LaunchError, match="65 bits"):
        kernel[(1,)](out, 2**64)


def test_one_is_another_kernel():
    kernel = fresh(fill)
    out = np.zeros(1, np.int32)
    for value in (5, 1, 7, 1, 5, 1, 1, 5, 9):
        handle = kernel[(1,)](out, value)
        assert out[0] == value
        assert ("value" in handle.compilation.constants) == (value == 1)


def test_one_of_a_parameter_that_is_not_specialised():
    kernel = tilewright.jit(fill, do_not_specialize=["value"])
    out = np.zeros(1, np.int32)
    warm(kernel, (1,), out, 5)
    before = by_python(kernel)
    for value in (1, 7, 1, 2):
        handle = kernel[(1,)](out, value)
        assert out[0] == value and not handle.compilation.constants
    assert by_python(kernel) == before


def test_launches_without_arrays_on_another_target():
    kernel = fresh(nothing)
    warm(kernel, (1,), 5)
    with tilewright.options(target="eager"):
        assert isinstance(kernel[(1,)](5), SteppedKernel)
    assert kernel[(1,)](5).name == "nothing"


def test_bools_ints_and_floats_are_told_apart():
    kernel = fresh(fill)
    out = np.zeros(1, np.float64)
    for _ in range(10):
        for value, wanted in ((True, 1), (3, 3), (0.5, 0.5), (False, 0), (1, 1), (np.int64(7), 7)):
            handle = kernel[(1,)](out, value)
            assert out[0] == wanted
            kind = {bool: "i1", float: "f32"}.get(type(value), "i32")
            assert handle.compilation.signature.get("value", "i32") == kind


def test_mixed_scalars():
    kernel = fresh(put)
    out = np.zeros(4, np.float64)
    for _ in range(10):
        for args in ((2, 0.5, True, 4), (1, 0.5, 2.0, 4), (2, 1, 1, 1), (False, 2**40, 1.0, 1000)):
            kernel[(1,)](out, *args)
            assert out.tolist() == [float(a) for a in args]
    before = by_python(kernel)
    kernel[(1,)](out, 1, 0.5, 2.0, int("4"))
    kernel[(1,)](out, False, 2**40, 1.0, int("1000"))  # constants by value, whatever the object
    assert by_python(kernel) == before
    assert out.tolist() == [0, 2.0**40, 1, 1000]


def test_dtypes_of_arrays(torch):
    kernel = fresh(fill)
    for _ in range(10):
        for dtype in (np.float32, np.float64, np.int32, np.uint8, np.float16, np.bool_):
            for out in (np.zeros(2, dtype), torch.from_numpy(np.zeros(2, dtype))):
                kernel[(2,)](out, True)
                assert out.tolist() == [1, 1]
    assert len(kernel.shortcuts["cpu"].lines) == 12


def test_equal_constants_of_other_types():
    kernel = fresh(put)
    out = np.zeros(4, np.float64)
    kinds = {}
    for _ in range(10):
        for value in (1, True, 1.0, -0.0, 0.0, 0, False):
            handle = kernel[(1,)](out, 2, 3, 4, value)
            assert math.copysign(1, out[3]) == math.copysign(1, value) and out[3] == value
            kinds[repr(value)] = handle
    assert len(set(map(id, kinds.values()))) == len(kinds)


def test_names_and_functions_as_constants():
    kernel = fresh(put)
    out = np.zeros(4, np.float64)
    handles = set()
    for _ in range(10):
        for name in (None, "a", "b", "".join(["a"]), "ab"[:1], tl.float32, tl.float16, fill):
            handles.add(kernel[(1,)](out, 2, 3, 4, 5, name))
    assert len(handles) == 6


# --- calls


def test_positions_keywords_and_defaults():
    kernel = fresh(put)
    out = np.zeros(4, np.float64)
    warm(kernel, (1,), out, 2, 3, 4, 5)
    before = by_python(kernel)
    kernel[(1,)](out, 2, 3, 4, N=5)
    kernel[(1,)](out, 2, N=5, c=9, b=8)
    kernel[(1,)](NAME=None, N=5, c=4, b=3, a=6, out=out)
    kernel.run(out, 6, 3, 4, 5, grid=(1,))
    assert by_python(kernel) == before
    assert out.tolist() == [6, 3, 4, 5]
    warm(kernel, (1,), out, 2, 3, 4, 5, num_warps=4, num_stages=2)
    before = by_python(kernel)
    handle = kernel[(1,)](out, 2, 3, 4, 5, num_warps=4, num_stages=2)
    assert by_python(kernel) == before
    assert handle.metadata.num_warps == 4
    assert kernel[(1,)](out, 2, 3, 4, 5, num_warps=8, num_stages=2).metadata.num_warps == 8
    assert kernel[(1,)](out, 2, 3, 4, 5, num_warps=4).metadata.num_stages == 3


def test_wrong_calls():
    kernel = fresh(fill)
    out = np.zeros(4, np.float32)
    warm(kernel, (1,), out, 2.0)
    with pytest.raises(LaunchError, match="missing argument 'value'"):
        kernel[(1,)](out)
    with pytest.raises(LaunchError, match="missing arguments 'out', 'value'"):
        kernel[(1,)]()
    with pytest.raises(LaunchError, match="takes 2 arguments, got 3"):
        kernel[(1,)](out, 2.0, 3)
    with pytest.raises(TypeError, match="multiple values"):
        kernel[(1,)](out, 2.0, value=3.0)
    with pytest.raises(LaunchError, match="has no parameter 'vlaue'"):
        kernel[(1,)](out, 2.0, vlaue=3.0)
    with pytest.raises(ArgumentTypeError):
        kernel[(1,)]([1.0], 2.0)
    with pytest.raises(TypeError):
        kernel.shortcuts["cpu"].call()


def test_grids():
    kernel = fresh(programs)
    out = np.zeros(1, np.int64)
    warm(kernel, (1,), out, 3)
    before = by_python(kernel)
    seen = []

    def given(meta):
        seen.append(meta)
        return (2, 3)

    grids = {
        5: 5, (2,): 2, (2, 3): 6, (2, 1, 4): 8, (0,): 0, (3, 0): 0, np.int64(3): 3,
        (np.int32(2), 3): 6, given: 6, (lambda meta: [2, np.int8(2)]): 4, (lambda meta: 7): 7,
    }  # fmt: skip
    for grid, wanted in grids.items():
        out[0] = 0
        handle = kernel[grid](out, 3)
        assert out[0] == 3 * wanted
        assert handle.name == "programs"
    out[0] = 0
    kernel[[2, 2]](out, value=3)
    assert out[0] == 12
    assert by_python(kernel) == before
    assert list(seen[0]) == ["out", "value"]
    assert seen[0]["out"] is out and seen[0]["value"] == 3


@pytest.mark.parametrize(
    "grid, message",
    [
        ((), "has 0 sizes"),
        ((1, 2, 3, 4), "has 4 sizes"),
        ((-1,), "negative size"),
        ((2.0,), "a float"),
        ((True,), "a bool"),
        ("x", "'x'"),
        ((1 << 31,), "programs"),
        ((1 << 40, 1 << 40, 1 << 40), "programs"),
        ((1 << 70,), "programs"),
        (lambda meta: None, "None"),
        (lambda meta: (-1,), "negative size"),
    ],
)
def test_wrong_grids(grid, message):
    kernel = fresh(programs)
    out = np.zeros(1, np.int64)
    warm(kernel, (1,), out, 3)
    with pytest.raises(LaunchError, match=message):
        kernel[grid](out, 3)


def test_grid_functions_that_raise():
    kernel = fresh(programs)
    out = np.zeros(1, np.int64)
    warm(kernel, (1,), out, 3)
    count = sys.getrefcount(out)
    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            kernel[lambda meta: 1 // 0](out, 3)
    gc.collect()
    assert sys.getrefcount(out) <= count + 1


def test_grid_functions_that_launch():
    kernel = fresh(programs)
    out = np.zeros(1, np.int64)
    warm(kernel, (1,), out, 3)
    out[0] = 0

    def nested(meta):
        kernel[(2,)](out, 4)
        kernel.forget()
        gc.collect()
        return (5,)

    kernel[nested](out, 3)
    assert out[0] == 23


def test_kept_from_before_the_first_launch():
    kernel = fresh(programs)
    out = np.zeros(1, np.int64)
    kept = kernel[(1,)]
    for _ in range(10):
        kept(out, 3)
    before = by_python(kernel)
    kept(out, 3)
    assert by_python(kernel) == before and out[0] == 33


def test_any_launch_finds_the_code_of_the_long_way(torch):
    kernel = fresh(store)
    rng = random.Random(0)
    pools = {
        "out": [np.zeros(1), torch.zeros(1), np.zeros(3)[1:]],
        "value": [1, 5, 2**40, 0.5, True, np.int32(1)],
        "N": [1, True, 2, None],
    }
    for round in range(1500):
        arguments = {name: rng.choice(pool) for name, pool in pools.items()}
        options = rng.choice([{}, {}, {"num_warps": 4}])
        names = list(arguments)
        rng.shuffle(names)
        if round % 2:
            handle = kernel[(1,)](*arguments.values(), **options)
        else:
            handle = kernel[(1,)](**{name: arguments[name] for name in names}, **options)
        assert handle is kernel.entry(kernel.prepare(arguments, options)).handle
        assert arguments["out"][0] == arguments["value"]
    assert 1500 - by_python(kernel) > 500  # np.int32 and what has not been learnt yet


def test_many_constants(monkeypatch):
    monkeypatch.setattr(fastcall, "MOST_LINES", 6)
    kernel = fresh(put)
    out = np.zeros(4, np.float64)
    for _ in range(6):
        for value in range(2, 14):
            kernel[(1,)](out, 2, 3, 4, value)
            assert out[3] == value
    assert len(kernel.shortcuts["cpu"].lines) == 6


# --- faults


def outcome(kernel, *args):
    try:
        kernel[(1,)](*args)
    except (OutOfBoundsError, LaunchError) as error:
        return str(error)
    return args[1].tolist()


def test_bounds_are_those_of_the_storage(torch):
    kernel = fresh(copy)
    whole = np.arange(32, dtype=np.float32)
    tensor = torch.from_numpy(whole.copy())
    views = [whole, whole[8:16], whole[::-1], whole[4:][::2], whole.reshape(4, 8)[1:, 2:]]
    views += [tensor, tensor[8:16], tensor.view(4, 8)[1:, 2:], tensor[31], torch.arange(32.0)]
    for x in views:
        out = np.zeros(4, np.float32)
        for at in (2, -2, 12, 20, 28, 32, -20, -40, 1 << 20):
            kernel.forget()
            wanted = outcome(kernel, x, out, at, 4)
            for _ in range(3):
                out[:] = 0
                assert outcome(kernel, x, out, at, 4) == wanted


def test_a_fault_does_not_last():
    kernel = fresh(copy)
    x, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    warm(kernel, (1,), x, out, 2, 4)
    before = by_python(kernel)
    for _ in range(50):
        with pytest.raises(OutOfBoundsError, match="program \\(0, 0, 0\\)"):
            kernel[(1,)](x, out, 6, 4)
        out[:] = 0
        kernel[(1,)](x, out, 3, 4)
        assert out.tolist() == [3, 4, 5, 6]
    assert by_python(kernel) == before


def test_read_only_arrays():
    kernel = fresh(copy)
    x, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    warm(kernel, (1,), x, out, 2, 4)
    out.flags.writeable = False
    for _ in range(10):
        with pytest.raises(LaunchError, match="'out' is read-only"):
            kernel[(1,)](x, out, 2, 4)
    out.flags.writeable = True
    x.flags.writeable = False
    warm(kernel, (1,), x, out, 2, 4)
    assert out.tolist() == [2, 3, 4, 5]


def test_tensors_that_cannot_be(torch):
    kernel = fresh(fill)
    warm(kernel, (1,), torch.zeros(4), 2.0)
    negated = torch.zeros(4, dtype=torch.complex64).conj().imag
    for wrong, message in (
        (torch.empty(4, device="meta"), "meta"),
        (torch.zeros(4).to_sparse(), "without memory"),
        (negated, "pending negation"),
        (torch.zeros(4, dtype=torch.complex64), "complex"),
    ):
        for _ in range(3):
            with pytest.raises(LaunchError, match=message):
                kernel[(1,)](wrong, 2.0)
    warm(kernel, (1,), torch.nn.Parameter(torch.zeros(4), requires_grad=False), 2.0)


# --- what launches obey


def test_settings(monkeypatch):
    kernel = fresh(copy)
    x, out = np.arange(64, dtype=np.float32), np.zeros(4, np.float32)
    part = x[:8].copy()
    warm(kernel, (1,), part, out, 2, 4)
    checked = kernel[(1,)](part, out, 2, 4)
    monkeypatch.setenv("TILEWRIGHT_BOUNDS", "0")
    unchecked = kernel[(1,)](part, out, 2, 4)
    assert unchecked is not checked
    warm(kernel, (1,), part, out, 2, 4)
    assert kernel[(1,)](part, out, 2, 4) is unchecked
    monkeypatch.delenv("TILEWRIGHT_BOUNDS")
    assert kernel[(1,)](part, out, 2, 4) is checked
    with tilewright.options(bounds=False):
        warm(kernel, (1,), part, out, 2, 4)
        assert kernel[(1,)](part, out, 2, 4) is unchecked
        with tilewright.options(target="eager"):
            assert isinstance(kernel[(1,)](part, out, 2, 4), SteppedKernel)
        assert kernel[(1,)](part, out, 2, 4) is unchecked
    assert kernel[(1,)](part, out, 2, 4) is checked
    for _ in range(3):
        with tilewright.options(bounds=False):
            kernel[(1,)](part, out, 2, 4)
            warm(kernel, (1,), part, out, 2, 4)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert isinstance(kernel[(1,)](part, out, 2, 4), SteppedKernel)


def test_hooks_and_observers():
    kernel = fresh(fill)
    out = np.zeros(1, np.float32)
    warm(kernel, (1,), out, 2.0)
    seen = []

    class Observer(LaunchObserver):
        def launch(self, launch):
            seen.append((launch.grid, list(launch.arguments)))
            return launch.run()

    with observing(Observer()):
        kernel[(1,)](out, 2.0)
    assert seen == [((1,), ["out", "value"])]
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(args))
    kernel[(1,)](out, 3.0)
    assert len(seen) == 2 and seen[1][0] is out
    kernel.pre_run_hooks.clear()
    warm(kernel, (1,), out, 2.0)
    assert len(seen) == 2


def test_changed_global(monkeypatch):
    kernel = fresh(scaled)
    out = np.zeros(1, np.int32)
    warm(kernel, (1,), out, 5)
    assert out[0] == 10
    monkeypatch.setitem(globals(), "SCALE", 3)
    kernel[(1,)](out, 5)
    assert out[0] == 15
    warm(kernel, (1,), out, 5)
    monkeypatch.undo()
    kernel[(1,)](out, 5)
    assert out[0] == 10


def test_without_a_native_launcher(monkeypatch):
    monkeypatch.setattr(fastcall, "is_possible", lambda: False)
    kernel = fresh(fill)
    out = np.zeros(3, np.float32)
    for value in range(6):
        kernel[(3,)](out, float(value))
        assert out.tolist() == [value] * 3
    assert kernel.shortcuts == {"cpu": None}
    assert by_python(kernel) == 4  # which begin with the third


# --- the process


def test_references(torch):
    kernel = fresh(put)
    grid, name, scale = (1,), "a name", 2.25
    out, other = np.zeros(4, np.float64), torch.zeros(4, dtype=torch.float64)
    warm(kernel, grid, out, 2**40, scale, True, 1000, NAME=name)
    warm(kernel, grid, other, 2**40, scale, True, 1000, NAME=name)
    function = lambda meta: grid  # noqa: E731
    kernel[function](out, 2**40, scale, True, 1000, NAME=name)
    handle = kernel[grid](out, 2**40, scale, True, 1000, NAME=name)
    shortcut = kernel.shortcuts["cpu"]
    counted = [
        grid, name, scale, out, other, handle, function, kernel, None, True, out.dtype,
        shortcut.lines, *shortcut.lines, shortcut.call, sys.intern("out"), (),
    ]  # fmt: skip
    gc.collect()
    before = [sys.getrefcount(x) for x in counted]
    for _ in range(25_000):
        kernel[grid](out, 2**40, scale, True, 1000, NAME=name)
        kernel[grid](other, 2**40, scale, True, 1000, NAME=name)
        kernel[function](out, 2**40, scale, True, 1000, NAME=name)
        kernel[[1]](out, 2**40, scale, True, 1000, NAME=name)
    gc.collect()
    after = [sys.getrefcount(x) for x in counted]
    assert [b - a for a, b in zip(before, after, strict=True)] == pytest.approx(
        [0] * len(counted), abs=20
    )


def test_arrays_are_not_kept(torch):
    kernel = fresh(fill)
    out, other = np.zeros(4, np.float32), torch.zeros(4)
    warm(kernel, (1,), out, 2.0)
    warm(kernel, (1,), other, 2.0)
    assert sys.getrefcount(out) == 2 and sys.getrefcount(other) == 2


def test_threads():
    kernel = fresh(copy)
    wrong = []

    def launch(first: int) -> None:
        x, out = np.arange(first, first + 64, dtype=np.float32), np.zeros(64, np.float32)
        for round in range(300):
            kernel[(16,)](x, out, 0, 4)
            if not np.array_equal(x, out):
                wrong.append(first)
            out[:] = 0
            if round % 50 == first % 50:
                kernel.forget()

    threads = [threading.Thread(target=launch, args=(1000 * i + 7 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_signal_handlers_may_launch_and_raise():
    kernel, inner = fresh(spin), fresh(programs)
    out, sums = np.ones(1, np.int32), np.zeros(1, np.int64)
    warm(kernel, (1,), out, 10)
    warm(inner, (4,), sums, 2)
    sums[0] = 0

    class Enough(Exception):
        pass

    def handler(number, frame):
        inner[(4,)](sums, 2)
        kernel[(1,)](out, 20)
        raise Enough

    previous = signal.signal(signal.SIGALRM, handler)
    before = by_python(kernel)
    try:
        for grid in ((1,), (3,)):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Enough):
                kernel[grid](out, 2**31 - 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert sums[0] == 16
    kernel[(1,)](out, 10)
    assert by_python(kernel) == before


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork():
    kernel = fresh(copy)
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    warm(kernel, (16,), x, out, 0, 4)
    child = os.fork()
    if child == 0:
        out[:] = 0
        for _ in range(20):
            kernel[(16,)](x, out, 0, 4)
        os._exit(0 if np.array_equal(x, out) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
