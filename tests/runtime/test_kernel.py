"""Launches: grids, binding, what arguments become, caches, faults, threads and handles."""

from __future__ import annotations

import importlib.util
import sys
import threading

import numpy as np
import pytest

import tilewright
import tilewright.language as tl
from tilewright.errors import (
    ArgumentTypeError,
    CompileError,
    DeviceAssertError,
    LaunchError,
    OutOfBoundsError,
)
from tilewright.runtime import grid as grids
from tilewright.runtime.closure import scan
from tilewright.runtime.descriptor import TensorDescriptor
from tilewright.runtime.handle import CompiledKernel, SteppedKernel
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import LaunchObserver, observing

CPU = pytest.param("cpu", marks=pytest.mark.cpu)
FACTOR = tl.constexpr(2)


@pytest.fixture(params=["eager", CPU])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@pytest.fixture
def cpu():
    with tilewright.options(target="cpu"):
        yield


@tilewright.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@tilewright.jit
def fill(out, value):
    tl.store(out + tl.program_id(0), value)


@tilewright.jit
def place(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    w = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + w, x + 10 * y + 100 * z)


def floats(n, first=0):
    return np.arange(first, first + n, dtype=np.float32)


# --- grids


@pytest.mark.parametrize(
    "grid",
    [4, (4,), [4], np.int64(4), (np.int32(4), 1), lambda meta: (-(-meta["n"] // meta["BLOCK"]),)],
    ids=["int", "tuple", "list", "numpy", "two", "function"],
)
def test_grid_forms(target, grid):
    x, y, out = floats(100), floats(100, 7), np.zeros(100, np.float32)
    for _ in range(2):
        out[:] = 0
        add[grid](x, y, out, 100, BLOCK=32)
        np.testing.assert_array_equal(out, x + y)


def test_parameters_named_as_builtins(target):
    @tilewright.jit
    def shadow(dict, zip, callable, int: tl.constexpr):
        tl.store(dict, zip + callable + int)

    out = np.zeros(1, np.float32)
    for _ in range(2):
        shadow[lambda meta: (meta["int"],)](out, 2, 3.0, int=1)
    assert out[0] == 6


def test_grid_of_three_axes(target):
    out = np.zeros(24, np.int32)
    place[2, 3, 4](out)
    z, y, x = np.meshgrid(np.arange(4), np.arange(3), np.arange(2), indexing="ij")
    np.testing.assert_array_equal(out, (x + 10 * y + 100 * z).ravel())


def test_empty_grid_launches_nothing(target):
    out = np.zeros(1, np.float32)
    fill[(0,)](out, 3.0)
    fill[(3, 0)](out, 3.0)
    assert out[0] == 0


@pytest.mark.parametrize(
    "grid, message",
    [
        ((-1,), "fill: the grid (-1,) has a negative size; "),
        ((1.5,), "fill: the grid (1.5,) holds 1.5, a float (write // or triton.cdiv, not /); "),
        ((True,), "fill: the grid (True,) holds True, a bool; "),
        ((1, 1, 1, 1), "fill: the grid (1, 1, 1, 1) has 4 sizes; "),
        ((), "fill: the grid () has 0 sizes; "),
        ("4", "fill: the grid ('4',) holds '4', a str; "),
    ],
)
def test_wrong_grids(target, grid, message):
    out = np.zeros(1, np.float32)
    with pytest.raises(LaunchError) as caught:
        fill[grid](out, 3.0)
    assert str(caught.value) == message + grids.EXPECTED
    assert out[0] == 0


def test_grid_limit():
    with pytest.raises(LaunchError, match="has 4294967296 programs, at most 2147483647"):
        grids.sizes((1 << 16, 1 << 16), "k")
    assert grids.sizes((1 << 16, 1 << 14), "k") == (1 << 16, 1 << 14, 1)


# --- binding


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((1, 2, 3), {}, "add: missing arguments 'n', 'BLOCK'; it is add(x, y, out, n, BLOCK)"),
        (
            (1, 2, 3, 4, 5, 6),
            {},
            "add takes 5 arguments, got 6; it is add(x, y, out, n, BLOCK)",
        ),
        (
            (1, 2, 3, 4),
            {"BLOK": 8},
            "add has no parameter 'BLOK', and it is no launch option; did you mean 'BLOCK'?\n"
            "it is add(x, y, out, n, BLOCK)",
        ),
        (
            (1, 2, 3, 4),
            {"BLOCK": 8, "num_warp": 8},
            "add has no parameter 'num_warp', and it is no launch option; "
            "did you mean 'num_warps'?\nit is add(x, y, out, n, BLOCK)",
        ),
    ],
)
def test_binding_errors(target, args, kwargs, message):
    with pytest.raises(LaunchError) as caught:
        add[(1,)](*args, **kwargs)
    assert str(caught.value) == message


def test_argument_given_twice(target):
    with pytest.raises((LaunchError, TypeError), match=r"add.*'x'"):
        add[(1,)](1, 2, 3, 4, x=5)


def test_wrong_kinds_of_arguments(target):
    x = floats(4)
    with pytest.raises(ArgumentTypeError, match="add: argument 'BLOCK': is a tl.constexpr, got"):
        add[(1,)](x, x, x, 4, BLOCK=x)
    with pytest.raises(ArgumentTypeError, match="add: argument 'n': a object is no kernel arg"):
        add[(1,)](x, x, x, object(), BLOCK=4)
    with pytest.raises(LaunchError, match="add: argument 'n': an int of 70 bits fits neither"):
        add[(1,)](x, x, x, 1 << 69, BLOCK=4)
    with pytest.raises(CompileError, match="needs pointers, got i32"):
        add[(1,)](7, x, x, 4, BLOCK=4)


def test_defaults_and_keywords(target):
    @tilewright.jit
    def scaled(out, scale=3.0, shift: tl.constexpr = 2):
        tl.store(out, scale + shift)

    out = np.zeros(1, np.float32)
    scaled[(1,)](out)
    assert out[0] == 5
    scaled[(1,)](shift=1, out=out)
    assert out[0] == 4
    scaled[(1,)](out, 1.0)
    assert out[0] == 3


@pytest.mark.cpu
def test_any_number_of_arguments(cpu):
    @tilewright.jit
    def total(out, *values):
        s = 0.0
        for i in tl.static_range(len(values)):
            s += values[i]
        tl.store(out, s)

    out = np.zeros(1, np.float32)
    total[(1,)](out, 1.5, 2, 3.0)
    assert out[0] == 6.5


# --- what arguments become


@pytest.mark.parametrize("value", [3, -3, 2**40, 2**63 + 1, True, 1, np.int64(9), np.uint8(200)])
def test_integers(target, value):
    out = np.zeros(1, np.uint64)
    for _ in range(2):
        fill[(1,)](out, value)
        assert out[0] == np.uint64(int(value) % 2**64)


@pytest.mark.parametrize("value", [0.1, -0.0, 1e300, float("nan"), np.float32(2.5), np.float64(1)])
def test_floats_are_fp32(target, value):
    out = np.full(1, 7, np.float64)
    with np.errstate(over="ignore"):
        expected = np.float32(value)
    for _ in range(2):
        fill[(1,)](out, value)
        np.testing.assert_array_equal(out[0], expected)
        assert np.signbit(out[0]) == np.signbit(expected)


def test_annotated_scalars(target):
    @tilewright.jit
    def typed(out, a: tl.float64, b: i64, c: tl.uint8):  # noqa: F821
        tl.static_assert(b.dtype == tl.int64)
        tl.static_assert(c.dtype == tl.uint8)
        tl.store(out, a + b + c)

    out = np.zeros(1, np.float64)
    typed[(1,)](out, 0.1, 1, 1)
    assert out[0] == 2.1
    with pytest.raises(LaunchError, match="typed: argument 'c': 256 does not fit uint8"):
        typed[(1,)](out, 0.1, 1, 256)


def test_constants_without_annotation(target):
    @tilewright.jit
    def twice(x):
        return x * 2

    @tilewright.jit
    def choose(out, bias, dtype, function, word):
        x = tl.full((), 3, dtype)
        if word == "twice":
            x = function(x)
        if bias is not None:
            x += tl.load(bias)
        tl.store(out, x)

    out = np.zeros(1, np.float32)
    choose[(1,)](out, None, tl.float32, twice, "twice")
    assert out[0] == 6
    choose[(1,)](out, np.ones(1, np.float32), tl.int32, twice, "no")
    assert out[0] == 4


def test_tuples(target):
    @tilewright.jit
    def pairs(out, items):
        tl.store(out, tl.load(items[0]) + items[1][0] * items[1][1])

    out = np.zeros(1, np.float32)
    pairs[(1,)](out, (floats(1, 5), (3, 2.0)))
    assert out[0] == 11


def test_descriptors(target):
    @tilewright.jit
    def corner(desc, out):
        i = tl.arange(0, 4)
        tl.store(out + i[:, None] * 4 + i[None, :], desc.load([6, 4]))

    x = floats(64).reshape(8, 8)
    out = np.full((4, 4), -1, np.float32)
    corner[(1,)](TensorDescriptor.from_tensor(tensor=x, block_shape=[4, 4]), out)
    np.testing.assert_array_equal(out, np.pad(x[6:, 4:], ((0, 2), (0, 0))))


def test_equal_constants_of_other_types(target):
    @tilewright.jit
    def show(out, C: tl.constexpr):
        if isinstance(C, bool):
            tl.store(out, 1)
        elif isinstance(C, float):
            tl.store(out, 2)
        else:
            tl.store(out, 3)

    out = np.zeros(1, np.int32)
    found = []
    for value in (1, True, 1.0, 1, True):
        show[(1,)](out, C=value)
        found.append(int(out[0]))
    assert found == [3, 1, 2, 3, 1]


def test_views(target):
    x = floats(20)
    fill[(3,)](x[5:], 9.0)
    np.testing.assert_array_equal(x[4:9], [4, 9, 9, 9, 8])


def test_torch(target):
    torch = pytest.importorskip("torch")
    x = torch.arange(100, dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    add[(4,)](x, x, out, 100, BLOCK=32)
    assert torch.equal(out, x + x)


@pytest.mark.cpu
def test_specialisation(cpu):
    @tilewright.jit
    def strided(x, out, step):
        tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0) * step))

    @tilewright.jit(do_not_specialize=["step"])
    def general(x, out, step):
        tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0) * step))

    x, out = floats(10), np.zeros(3, np.float32)
    for kernel, count in ((strided, 3), (general, 2)):
        for step in (1, 2, 3, 16):
            kernel[(3,)](x, out, step) if step < 5 else kernel[(1,)](x, out, 0)
            np.testing.assert_array_equal(out[0], 0)
        with pytest.raises(OutOfBoundsError):
            kernel[(1,)](x[1:], out, 2**40)
            kernel[(2,)](x, out, 2**40)
        assert len(kernel.entries) == count
    assert [p for p, _ in strided[(3,)](x, out, 1).compilation.metadata["params"]] == ["x", "out"]
    np.testing.assert_array_equal(out, [0, 1, 2])


def test_read_only(target):
    x, y, out = floats(8), floats(8), floats(8)
    x.flags.writeable = False
    add[(1,)](x, y, out, 8, BLOCK=8)
    before = out.copy()
    out.flags.writeable = False
    with pytest.raises(LaunchError, match="argument 'out' is read-only|out.* is read-only"):
        add[(1,)](x, y, out, 8, BLOCK=8)
    np.testing.assert_array_equal(out, before)


def test_devices():
    class Elsewhere:
        dtype, device, shape = "float32", "cuda:0", (4,)

        def data_ptr(self):
            return 64

        def stride(self):
            return (1,)

    x = floats(4)
    with pytest.raises(LaunchError, match="no NVIDIA driver is installed here"):
        fill[(1,)](Elsewhere(), 1.0)
    with pytest.raises(
        LaunchError, match="add: argument 'y': is on cuda:0, the launch runs on cpu"
    ):
        add[(1,)](x, Elsewhere(), x, 4, BLOCK=4)
    with (
        tilewright.options(target="quantum"),
        pytest.raises(LaunchError, match="no target .quantum.; targets are eager, cpu, cuda"),
    ):
        fill[(1,)](x, 1.0)


# --- faults


def test_out_of_bounds(target):
    x, out = floats(10), floats(64)
    with pytest.raises(OutOfBoundsError) as caught:
        add[(2,)](x, out, out, 20, BLOCK=16)
    message = str(caught.value)
    assert message.startswith("add: load outside x at ")
    assert "touches element 1" in message
    assert "of 10, " in message
    assert "past the end" in message
    assert "tl.load(x + i, mask=i < n)" in message
    add[(1,)](x, x, out, 10, BLOCK=16)  # the next launch is as any other
    np.testing.assert_array_equal(out[:10], x + x)


def test_device_assert(target):
    @tilewright.jit
    def positive(x):
        tl.device_assert(tl.load(x + tl.program_id(0)) > 0, "must be positive")

    x = np.array([1, 2, -3], np.int32)
    positive[(3,)](x)
    with pytest.raises(DeviceAssertError, match="must be positive") as caught:
        positive[(3,)](x, debug=True)
    assert "(2, 0, 0)" in str(caught.value)
    assert "tl.device_assert(" in str(caught.value)


# --- what was compiled, and when it is compiled again


def test_changed_global(target, monkeypatch):
    @tilewright.jit
    def scale(out):
        tl.store(out, FACTOR)

    out = np.zeros(1, np.int32)
    scale[(1,)](out)
    assert out[0] == 2
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", tl.constexpr(5))
    scale[(1,)](out)
    assert out[0] == 5


def load_module(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


MODULE = """\
import tilewright, tilewright.language as tl

@tilewright.jit
def helper(x):
    return x + 1

@tilewright.jit
def kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, helper(tl.load(x + i, mask=i < n)), mask=i < n)
"""


@pytest.mark.cpu
def test_disk_cache(cpu, tmp_path):
    def launch(name, text, n=4):
        module = load_module(tmp_path / name, text)
        x = np.zeros(4, np.float32)
        handle = module.kernel[(1,)](x, n, BLOCK=8)
        return x[0], handle.compilation.from_cache

    assert launch("one.py", MODULE) == (1, False)
    assert launch("two.py", MODULE) == (1, True)
    assert launch("three.py", MODULE.replace("x + 1", "x + 3")) == (3, False)
    moved = "# a comment\n\n" + MODULE
    assert launch("four.py", moved) == (1, True)
    with pytest.raises(OutOfBoundsError) as caught:
        launch("five.py", "\n" + moved, n=7)
    assert f"{tmp_path / 'five.py'}:13" in str(caught.value)


def test_closure_digest(tmp_path):
    text = MODULE + "\nclass Sizes:\n    wide = 3\n\nnames = Sizes()\nnames.other = 4\n"
    text = text.replace("x + 1", "x + Sizes.wide + names.other")

    def digest(name, text):
        return scan(load_module(tmp_path / name, text).kernel).digest

    base = digest("base.py", text)
    assert digest("same.py", "\n# moved\n" + text) == base
    assert digest("unused.py", text + "\nunused = 1\n") == base
    for old, new in (("wide = 3", "wide = 5"), ("other = 4", "other = 5"), ("i = tl", "i  = tl")):
        assert digest("changed.py", text.replace(old, new)) != base
    assert scan(add).is_stable
    assert not scan({"x": object()}).is_stable


@pytest.mark.cpu
def test_replaced_source(cpu):
    @tilewright.jit
    def template(x, n):
        tl.store(x, n + GENERATE_ME)  # noqa: F821

    kernel = JITFunction(template.fn)
    kernel._unsafe_update_src(kernel.src.replace("GENERATE_ME", "40"))
    x = np.zeros(1, np.int32)
    kernel[(1,)](x, 2)
    assert x[0] == 42
    kernel._unsafe_update_src(kernel.src.replace("40", "50"))
    kernel[(1,)](x, 2)
    assert x[0] == 52


@pytest.mark.cpu
def test_settings_are_seen(monkeypatch, capsys):
    x = np.zeros(1, np.float32)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert isinstance(fill[(1,)](x, 1.5), CompiledKernel)
    monkeypatch.setenv("TILEWRIGHT_TARGET", "eager")
    stepped = fill[(1,)](x, 2.5)
    assert isinstance(stepped, SteppedKernel)
    stepped[(1,)](x, 4.5)
    assert x[0] == 4.5
    with tilewright.options(target="cpu", dump="ir, times"):
        fill[(1,)](x, 3.5)
    shown = capsys.readouterr().err
    assert "; fill: ir\nkernel fill(" in shown
    assert " ms  assemble\n" in shown
    assert "; fill: llvm" not in shown
    assert x[0] == 3.5


# --- handles, hooks, observers, threads


@pytest.mark.cpu
def test_handle(cpu):
    x, y, out = floats(8), floats(8), floats(8)
    handle = add[(1,)](x, y, out, 8, BLOCK=8, num_warps=8)
    assert handle.metadata.num_warps == 8
    assert handle.metadata.name == handle.name == "add"
    assert handle.metadata.target.backend == "cpu"
    assert handle.asm["ttir"].startswith("kernel add(")
    assert "define" in handle.asm["llvm"]
    assert handle.asm["asm"]
    assert handle.asm["source"].startswith("def add(")
    assert "ptx" not in handle.asm
    with pytest.raises(KeyError, match="ptx: the cpu target makes none"):
        handle.asm["ptx"]
    handle._init_handles()
    again = add[(1,)](x, y, out, 8, BLOCK=8)
    assert again is not handle
    assert again.hash == handle.hash
    out[:] = 0
    handle[(1,)](x, y, out, 8)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.cpu
def test_warmup(cpu):
    kernel = JITFunction(add.fn)
    f32 = np.dtype(np.float32)
    handle = kernel.warmup(f32, f32, f32, 100, BLOCK=64, grid=(1,))
    assert handle.compilation.writes == {"out"}
    assert handle.compilation.reads == {"x", "y"}
    x, out = floats(4), floats(4)
    kernel[(1,)](x, x, out, 4, BLOCK=64)
    assert list(kernel.device_caches[0][0].values()) == [handle]
    kernel.device_caches.clear()
    assert not kernel.cache


def test_hooks_and_observers(target):
    seen = []

    class Observer(LaunchObserver):
        def define(self, jit):
            seen.append(("define", jit.__name__))

        def launch(self, launch):
            name, value = launch.jit.__name__, launch.arguments["value"]
            seen.append((name, launch.grid, value, launch.options))
            return launch.run()

    kernel = JITFunction(fill.fn)
    x = np.zeros(1, np.float32)
    kernel[(1,)](x, 2.0)
    with observing(Observer()):
        JITFunction(place.fn)
        kernel[(1,)](x, 3.0, num_warps=2)
    assert seen == [("define", "place"), ("fill", (1,), 3.0, {"num_warps": 2})]
    assert x[0] == 3
    calls = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: calls.append(args[1]))
    kernel.run(x, 4.0, grid=(1,), warmup=False)
    assert calls == [4.0]
    assert x[0] == 4


def test_run_of_a_program_s_own(target):
    seen = []

    class Logged(JITFunction):
        def run(self, *args, grid, **kwargs):
            seen.append(grid)
            return super().run(*args, grid=grid, **kwargs)

    x = np.zeros(1, np.float32)
    Logged(fill.fn)[(1,)](x, 2.0)
    kernel = JITFunction(fill.fn)
    inner = kernel.run
    kernel.run = lambda *args, **kwargs: (seen.append("mine"), inner(*args, **kwargs))
    kernel[(1,)](x, 3.0)
    assert seen == [(1,), "mine"]
    assert x[0] == 3


@pytest.mark.cpu
def test_threads(cpu):
    kernel = JITFunction(add.fn)
    wrong = []

    def work(seed):
        for n in range(40):
            x, out = floats(200, seed), np.zeros(200, np.float32)
            kernel[(-(-200 // 32),)](x, x, out, 200, BLOCK=32)
            if not np.array_equal(out, x + x):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(kernel.entries) == 1


def test_attributes():
    assert add.arg_names == ["x", "y", "out", "n", "BLOCK"]
    assert add.constexprs == [4]
    assert [p.name for p in add.params if p.is_constexpr] == ["BLOCK"]
    assert list(add.signature.parameters) == add.arg_names
    assert add.cache_key == JITFunction(add.fn).cache_key != fill.cache_key
    assert add.src.startswith("def add(")
    assert add.__name__ == "add"
    assert callable(add.fn)
    assert add.__globals__ is globals()
    partly = tilewright.jit(add.fn, do_not_specialize=["n"])
    assert [p.num for p in partly.params if p.do_not_specialize] == [3]
    assert [p.num for p in partly.params if p.do_not_specialize_on_alignment] == [3]
    assert not any(p.has_default or p.is_const for p in partly.params)

    @tilewright.jit
    def uses(x):
        tl.store(x, FACTOR)

    ((name, _), (value, names)), *others = uses.used_global_vals.items()
    assert (name, value, names is globals(), others) == ("FACTOR", FACTOR, True, [])
