"""The stand-in: every module that programs import, one object under two names, clear refusals."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright import compat
from tilewright.errors import UnsupportedError

ROOT = Path(__file__).parents[2]
LANGUAGE = (
    "core", "standard", "math", "random", "extra", "extra.libdevice", "extra.cuda",
    "extra.cuda.libdevice",
)  # fmt: skip
PACKAGE_NAMES = (
    "jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2", "constexpr_function",
    "language", "testing", "runtime", "JITFunction", "KernelInterface", "TensorWrapper",
    "reinterpret", "MockTensor", "OutOfResources", "CompilationError", "TritonError",
    "InterpreterError", "must_use_result", "set_allocator", "compile", "compiler", "knobs",
    "backends", "tools", "debug", "watch", "options",
)  # fmt: skip
GLUON = "triton.experimental.gluon"
NEEDS_TORCH = {"triton.tools.mxfp"}


@pytest.fixture(autouse=True)
def installed():
    before = compat.is_installed()
    compat.install()
    yield
    if not before:
        compat.uninstall()


def run(text, *args):
    """A program in a process of its own; what it printed."""
    result = subprocess.run(
        [sys.executable, *args, "-c", textwrap.dedent(text)],
        capture_output=True, text=True, timeout=60, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", [*compat.MODULES, *(f"triton.language.{m}" for m in LANGUAGE)])
def test_modules(name):
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    own = sys.modules[module.__name__]
    assert module is own
    assert module.__spec__.name == module.__name__
    assert module.__name__.startswith("tilewright")


def test_one_module_under_two_names():
    import triton
    import triton.language as tl
    from triton.runtime.jit import JITFunction

    assert triton is tilewright
    assert tl is tilewright.language
    assert JITFunction is tilewright.JITFunction is triton.runtime.JITFunction
    assert isinstance(triton.jit(lambda x: x), JITFunction)


def test_parts_are_there_without_being_imported():
    text = """
        from tilewright import compat
        compat.install()
        from triton.runtime import autotuner, interpreter
        from triton import compiler
        import triton
        print(autotuner.Heuristics.__name__, triton.runtime.autotuner is autotuner)
        print(triton.compiler.errors.CompilationError.__name__, triton.tools.tensor_descriptor)
        print(hasattr(triton.runtime, "nothing"))
        compat.uninstall()
        print(hasattr(triton, "backends_of_old"))
    """
    lines = run(text).splitlines()
    assert lines[0] == "Heuristics True" and lines[2:] == ["False", "False"]
    assert lines[1].startswith("CompileError <module 'tilewright.runtime.descriptor'")


def test_importing_parts_shadows_nothing():
    import triton.runtime.cache
    import triton.runtime.driver
    import triton.testing

    from tilewright.runtime import cache

    assert cache is sys.modules["tilewright.runtime.cache"] is triton.runtime.cache
    assert cache.DiskCache
    assert triton.runtime.cache.FileCacheManager
    assert importlib.import_module("tilewright.errors").LaunchError


@pytest.mark.parametrize(
    "name", ["triton._C.libtriton", "triton.experimental.tle", "triton.language.nothing"]
)
def test_missing_modules(name):
    with pytest.raises(ModuleNotFoundError, match="Tilewright stands in for triton"):
        importlib.import_module(name)


def test_nothing_is_installed_by_itself():
    text = """
        import sys, tilewright
        try:
            import triton
        except ModuleNotFoundError:
            print("none")
        from tilewright import compat
        compat.install()
        import triton, triton.language
        print(triton is tilewright)
        compat.uninstall()
        print("triton" in sys.modules, "triton.language" in sys.modules)
    """
    assert run(text).split() == ["none", "True", "False", "False"]


def test_stands_in_for_an_installed_triton(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("real = True\n")
    text = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from tilewright import compat
        compat.install()
        import triton
        print(hasattr(triton, "real"))
        compat.uninstall()
        import triton
        print(triton.real)
        try:
            compat.install()
        except ImportError as error:
            print(error)
    """
    first, second, third = run(text).splitlines()
    assert (first, second) == ("False", "True")
    assert third.startswith(f"triton was imported already, from {tmp_path}")


def test_names_of_the_package():
    import triton

    missing = [name for name in PACKAGE_NAMES if not hasattr(triton, name)]
    assert not missing
    major, minor = triton.__version__.split(".")[:2]
    assert (int(major), int(minor)) >= (3, 0)


def test_own_version():
    project = (ROOT / "pyproject.toml").read_text()
    assert tilewright.version == re.search(r'^version = "(.*)"', project, re.MULTILINE)[1]


def test_driver():
    import triton

    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert (target.backend, target.warp_size) == ("cpu", 1)
    assert active.get_current_device() == 0
    properties = active.utils.get_device_properties(0)
    assert properties["multiprocessor_count"] >= 1
    assert all(properties[k] >= 1 for k in ("max_shared_mem", "max_num_regs", "warpSize"))
    assert active.get_benchmarker()(lambda: None, quantiles=[0.5])[0] >= 0
    torch = pytest.importorskip("torch")
    assert active.get_active_torch_device() == torch.device("cpu")
    triton.runtime.driver.set_active("other")
    assert triton.runtime.driver.active == "other"
    triton.runtime.driver.reset_active()


@pytest.mark.cpu
def test_compile():
    import triton
    import triton.language as tl
    from triton.compiler import ASTSource

    @triton.jit
    def scale(x, n, C: tl.constexpr):
        tl.store(x, n * C)

    source = ASTSource(scale, {"x": "*fp32", "n": "i32", "C": "constexpr"}, {(2,): 3})
    handle = triton.compile(source)
    assert "mul" in handle.asm["ttir"]
    x = np.zeros(1, np.float32)
    handle[(1,)](x, 5)
    assert x[0] == 15
    handle.run(1, 1, 1, 0, handle.function, handle.metadata, None, None, None, x, 7, 3)
    assert x[0] == 21
    with pytest.raises(UnsupportedError, match="triton.compile takes an ASTSource here, got str"):
        triton.compile("kernel.ttir")
    for arch, name in ((80, "sm_80"), (90, "sm_90a")):
        target = triton.backends.compiler.GPUTarget("cuda", arch, 32)
        assert f".target {name}" in triton.compile(source, target=target).asm["ptx"]


def test_back_ends():
    import triton
    from triton.compiler.compiler import make_backend

    assert triton.backends.backends["cpu"].driver.is_active()
    backend = make_backend(triton.runtime.driver.active.get_current_target())
    assert backend.hash() == backend.hash()
    assert backend.parse_options({"num_warps": 8}).num_warps == 8


@pytest.mark.cpu
def test_launch_hooks():
    import triton
    import triton.language as tl
    from triton import knobs

    @triton.jit
    def one(x):
        tl.store(x, 1)

    seen = []
    with knobs.runtime.scope(), tilewright.options(target="cpu"):
        knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata["name"]))
        knobs.runtime.launch_exit_hook = lambda metadata: seen.append("exit")
        one[(1,)](np.zeros(1, np.float32))
        knobs.runtime.launch_enter_hook.clear()
    assert seen == ["one", "exit"]
    assert knobs.runtime.launch_exit_hook == []


@pytest.mark.cpu
def test_hooks_slow_no_launches_unless_there_are_some():
    """Who reads the hooks, as TorchInductor does, leaves launches their short way."""
    import triton
    from triton import knobs

    from tilewright.runtime.observers import launch_observers

    @triton.jit
    def idle(x):
        pass

    with tilewright.options(target="cpu"):
        idle[(1,)](6)  # hooks that an earlier test had are given up
        chain = knobs.runtime.launch_enter_hook
        assert chain == [] == chain.calls and not launch_observers
        seen = []
        for add in (
            chain.append,
            chain.add,
            lambda f: chain.extend([f]),
            lambda f: chain.__iadd__([f]),
        ):
            add(seen.append)
            idle[(1,)](6)
            assert len(seen) == 1 and launch_observers
            chain.remove(seen.append)
            idle[(1,)](6)
            assert len(seen) == 1 and not launch_observers
            seen.clear()


@pytest.mark.cpu
def test_what_hooks_are_told():
    import triton
    from triton import knobs

    @triton.jit(launch_metadata=lambda grid, kernel, args: {"grid": grid, "value": args["x"]})
    def idle(x):
        pass

    seen, loaded = [], []
    with knobs.runtime.scope(), tilewright.options(target="cpu"):
        knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()))
        for chain in (knobs.runtime.kernel_load_start_hook, knobs.runtime.kernel_load_end_hook):
            chain.add(lambda module, function, name, group, hash: loaded.append((name, hash)))
        idle[lambda meta: (1, 3, 2)](6)
        idle[(1, 3, 2)](6)
        knobs.runtime.launch_enter_hook.clear()
        knobs.runtime.kernel_load_start_hook.clear()
        knobs.runtime.kernel_load_end_hook.clear()
    assert [(told["grid"], told["value"], told["name"]) for told in seen] == [
        ((1, 3, 2), 6, "idle")
    ] * 2
    assert len(loaded) == 2 and loaded[0] == loaded[1]


@pytest.mark.cpu
def test_compile_hooks():
    import triton
    import triton.language as tl
    from triton import knobs

    @triton.jit
    def two(x, C: tl.constexpr):
        tl.store(x, C)

    seen = []

    def note(*, fn, compile, already_compiled, **_):
        seen.append((fn.name, compile["signature"], compile["constants"], already_compiled))

    with knobs.runtime.scope(), tilewright.options(target="cpu"):
        knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = note
        x = np.zeros(1, np.float32)
        for _ in range(2):
            two[(1,)](x, C=4)
    assert seen == [("test_compile_hooks.<locals>.two", {"x": "*f32"}, {"C": 4}, False)] * 2


def test_knobs(monkeypatch):
    from triton import knobs

    from tilewright import config

    monkeypatch.delenv("TILEWRIGHT_DEBUG", raising=False)
    with knobs.runtime.scope():
        knobs.runtime.debug = True
        assert config.get("debug") is True
    assert config.get("debug") is False
    fresh = knobs.cache.copy().reset()
    assert fresh.dump_dir == ""


def test_unsupported_names_say_so():
    from triton.runtime.build import compile_module_from_src

    with pytest.raises(
        UnsupportedError, match="triton.runtime.build.compile_module_from_src is not supported"
    ):
        compile_module_from_src("int x;", "name")


def test_files_of_programs(tmp_path, monkeypatch):
    from triton.runtime.cache import get_cache_manager

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    manager = get_cache_manager("ab" * 32)
    assert manager.get_file("a.txt") is None
    path = manager.put("text", "a.txt", binary=False)
    assert manager.get_file("a.txt") == path
    assert Path(path).read_text() == "text"
    manager.put_group("all", {"a.txt": path})
    assert manager.get_group("all") == {"a.txt": path}


def test_wrapped_tensors():
    torch = pytest.importorskip("torch")
    import triton
    import triton.language as tl
    from triton._internal_testing import numpy_random, to_numpy, to_triton, unwrap_tensor

    x = numpy_random((8,), "uint32")
    wrapped = to_triton(x, "cpu")
    assert isinstance(wrapped, triton.TensorWrapper)
    np.testing.assert_array_equal(to_numpy(wrapped), x)
    assert unwrap_tensor(wrapped).dtype == torch.int32
    assert triton.reinterpret(wrapped, torch.int32) is wrapped.base
    assert to_triton(numpy_random(4, "bfloat16"), "cpu", "bfloat16").dtype == torch.bfloat16
    assert to_triton(numpy_random((4, 8), "float32").T, "cpu").stride() == (1, 8)

    @triton.jit
    def halve(x):
        i = tl.arange(0, 8)
        tl.store(x + i, tl.load(x + i) // 2)

    halve[(1,)](wrapped)
    np.testing.assert_array_equal(to_numpy(wrapped), x // 2)


def test_packed_floats():
    torch = pytest.importorskip("torch")
    from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor

    values = torch.tensor([0.0, 0.25, 0.75, 2.5, 5.0, 7.0, -1.5, -0.5])
    codes = MXFP4Tensor(values)
    expected = torch.tensor([0.0, 0.0, 1.0, 2.0, 4.0, 6.0, -1.5, -0.5])
    assert torch.equal(codes.to(torch.float32), expected)
    packed = codes.to_packed_tensor(0)
    assert packed.shape == (4,)
    assert torch.equal(codes.unpack_packed_tensor(packed, 0, (8,)), codes.data)
    scales = MXScaleTensor(torch.tensor([0.5, 1.0, 8.0]))
    assert torch.equal(scales.to(torch.float32), torch.tensor([0.5, 1.0, 8.0]))
    drawn = MXScaleTensor(size=(100,)).random(0.5, 4.0).to(torch.float32)
    assert 0.5 <= drawn.min() <= drawn.max() <= 4.0


def test_importing_is_light():
    text = """
        import sys, tilewright
        print([m for m in ("llvmlite", "torch", "click", "rich", "jinja2") if m in sys.modules])
    """
    assert run(text).strip() == "[]"


def test_gluon_kernels_are_refused_at_their_launch():
    def program():
        from triton.experimental import gluon
        from triton.experimental.gluon import language as gl
        from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

        layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)

        @gluon.constexpr_function
        def doubled(n):
            return 2 * n

        @gluon.jit(do_not_specialize=["n"])
        def kernel(x: gl.tensor | None, n, layout: gl.constexpr):
            barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
            tma.async_copy_global_to_shared(x, [0, 0], barrier, layout)

        assert gl.float16 is gluon.language.float16 is tilewright.language.float16
        return kernel, layout, TensorDescriptor, doubled

    kernel, layout, descriptor, doubled = program()
    assert doubled(4) == 8
    assert tilewright.experimental.gluon.jit is importlib.import_module(GLUON).jit
    for call in (kernel[(1,)], partial(kernel.warmup, grid=(1,))):
        with pytest.raises(UnsupportedError, match="kernel is a Gluon kernel"):
            call(descriptor.from_tensor(np.ones(4)), 4, layout)


def test_what_tuners_ask_for():
    from triton.backends.nvidia.compiler import min_dot_size
    from triton.testing import _summarize_statistics

    assert min_dot_size(None)(tilewright.language.int8, tilewright.language.int8) == (16, 16, 32)
    assert min_dot_size(None)(tilewright.language.float16, None) == (16, 16, 16)
    assert _summarize_statistics([1.0, 3.0, 2.0], None, "median") == 2
    assert _summarize_statistics([1.0, 3.0, 2.0], [0.25, 1], "mean") == [1.5, 3]


def test_what_a_kernel_writes_to():
    from triton.compiler.compiler import ASTSource

    @tilewright.jit
    def kernel(x, n, y, total, B: tilewright.language.constexpr):
        place = y + 1 if n > 3 else y
        tilewright.language.store(place, tilewright.language.load(x))
        tilewright.language.atomic_add(total, 1)

    types = {"x": "*fp32", "n": "i32", "y": "*fp32", "total": "*i32", "B": "constexpr"}
    module = ASTSource(kernel, types, {"B": 2}).make_ir(None, None, None, None, None)
    told = []
    module.walk(told.append)
    arguments = [o.id() for o in told[0].get_block().arguments]
    found = {"tt.load": set(), "tt.store": set(), "tt.return": set(), "tt.func": set()}
    for op in told:
        for k in range(op.get_num_operands()):
            found[op.get_name()].add(arguments.index(op.get_operand(k).id()))
    assert (found["tt.load"], found["tt.store"]) == ({0, 3}, {2, 3})
    assert told[-1].get_str_attr("sym_name") == "kernel"
    assert told[-1].get_region(0) is told[0].get_block().get_parent()
