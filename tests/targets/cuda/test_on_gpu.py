"""Launches on a GPU: arrays of every library, streams, graphs, threads, modules."""

from __future__ import annotations

import gc
import threading

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError, OutOfBoundsError
from tilewright.runtime import arrays, compile
from tilewright.runtime.kernel import JITFunction
from tilewright.runtime.observers import unobserved
from tilewright.targets.cuda import driver, modules
from tilewright.targets.cuda.launch import check_all

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def nobody_looks():
    """Observers that other tests left behind would have Python do every launch."""
    with unobserved():
        yield


def add(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside) + scale * tl.load(y + i, mask=inside)
    tl.store(out + i, v, mask=inside)


def copy(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


def by_python(kernel: JITFunction) -> int:
    return sum(entry.launches for entry in kernel.entries.values())


def tensors(n: int = 1000):
    """Two of whole numbers, so that a fused multiply-add changes nothing, and one of zeros."""
    numbers = [torch.randint(1, 100, (n,), device="cuda").float() for _ in range(2)]
    return [*numbers, torch.zeros(n, device="cuda")]


def launch(kernel, x, y, out, n, scale=2.0):
    return kernel[(tw.cdiv(n, 128),)](x, y, out, n, scale, BLOCK=128)


def warm(kernel, *args) -> None:
    for _ in range(9):
        launch(kernel, *args)
    before = by_python(kernel)
    launch(kernel, *args)
    assert by_python(kernel) == before


def test_native_launches():
    kernel = tw.jit(add)
    x, y, out = tensors()
    warm(kernel, x, y, out, 1000)
    before = by_python(kernel)
    for scale in (0.5, -3.0, 1e39):
        out.zero_()
        launch(kernel, x, y, out, 1000, scale)
        assert torch.equal(out, x + torch.tensor(scale, device="cuda") * y)
    assert by_python(kernel) == before
    launch(kernel, x[1:], y[3:], out, 900)
    assert torch.equal(out[:900], x[1:901] + 2 * y[3:903])


class OnlyInterface:
    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


class OnlyDlpack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class OnlyPointer:
    def __init__(self, tensor):
        self.dtype, self.device, self.data_ptr = tensor.dtype, tensor.device, tensor.data_ptr
        self.tensor = tensor


@pytest.mark.parametrize("wrapped", [OnlyInterface, OnlyDlpack, OnlyPointer])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_arrays_of_other_libraries(wrapped, dtype):
    kernel = tw.jit(copy)
    x = (torch.randn(64, device="cuda") * 50).to(getattr(torch, dtype))
    out = torch.zeros_like(x)
    for a, b in ((x, wrapped(out)), (wrapped(x[16:]), out), (wrapped(x), wrapped(out[32:]))):
        out.zero_()
        size = 32
        for _ in range(6):
            kernel[(1,)](a, b, size)
        source = a if a is x else a.tensor
        target = b if b is out else b.tensor
        assert torch.equal(target[:size], source[:size])


@pytest.mark.parametrize("wrapped", [OnlyInterface, OnlyDlpack])
def test_bounds_of_arrays_of_other_libraries(wrapped):
    x, out = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    with pytest.raises(OutOfBoundsError, match=r"element \d+ of 32, \d+ elements? past the end"):
        tw.jit(copy)[(1,)](wrapped(x[:32]), out, 64)
        check_all()


def test_cupy():
    cupy = pytest.importorskip("cupy")
    kernel = tw.jit(add)
    x, y = cupy.random.rand(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
    out = cupy.zeros(1000, cupy.float32)
    for _ in range(9):
        launch(kernel, x, y, out, 1000)
    assert cupy.array_equal(out, x + 2 * y)
    launch(kernel, x, torch.from_dlpack(y), out, 1000, 3.0)
    assert cupy.array_equal(out, x + 3 * y)
    assert arrays.device(x) == f"cuda:{x.device.id}"


def test_pinned_memory_of_the_host():
    x = torch.randn(64).pin_memory()
    out = torch.zeros(64, device="cuda")
    kernel = tw.jit(add)
    y = torch.ones(64, device="cuda")
    for _ in range(6):
        launch(kernel, y, x, out, 64)
    assert torch.equal(out.cpu(), 1 + 2 * x)
    with pytest.raises(LaunchError, match="'y'"):
        launch(kernel, out, torch.zeros(64), y, 64)


def test_streams():
    kernel = tw.jit(add)
    x, y, out = tensors(1 << 22)
    warm(kernel, x, y, out, 1 << 22)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(20):
            y.mul_(1.01)
            launch(kernel, x, y, out, 1 << 22)
        wanted = x + 2 * y
    side.synchronize()
    torch.testing.assert_close(out, wanted)


@pytest.mark.parametrize("warmed", [False, True])
def test_graphs(warmed):
    kernel = tw.jit(add)
    x, y, out = tensors(1024)
    if warmed:
        warm(kernel, x, y, out, 1024)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(kernel, x, y, out, 1024)
    kernel.forget()
    compile._loaded.clear()
    del kernel
    gc.collect()
    other = tw.jit(copy)
    other[(1,)](x, y.clone(), 64)
    x.add_(1)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + 2 * y)


def test_threads():
    kernel = tw.jit(add)
    x, y, out = tensors(1 << 16)
    warm(kernel, x, y, out, 1 << 16)
    wrong = []

    def work(scale: float) -> None:
        try:
            mine = torch.zeros(1 << 16, device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(300):
                    launch(kernel, x, y, mine, 1 << 16, scale)
                assert torch.equal(mine, x + scale * y)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_faults_of_native_launches():
    kernel = tw.jit(copy)
    x, out = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    for _ in range(10):
        kernel[(1,)](x, out, 64)
    part = torch.zeros(40, device="cuda")
    with pytest.raises(OutOfBoundsError, match=r"outside x .* touches element \d+ of 40"):
        kernel[(1,)](part, out, 64)
        check_all()
    kernel[(1,)](x, out, 64)
    check_all()


def test_modules_are_unloaded():
    found = driver.driver()
    x, out = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    for size in (16, 32, 64):
        kernel = tw.jit(copy)
        for _ in range(10):
            kernel[(1,)](x, out, size)
        del kernel
        compile._loaded.clear()
        gc.collect()
        assert modules.retired
    records = len(found.free_records)
    tw.jit(add)[(1,)](x, x, out, 64, 1.0, BLOCK=128)
    assert not modules.retired and len(found.free_records) == records  # one back, one taken
    assert out.eq(2).all()


def test_what_the_driver_says():
    handle = tw.jit(add)[(1,)](*tensors(64), 64, 1.0, BLOCK=128)
    assert handle.metadata.warp_size == 32 and handle.metadata.target.backend == "cuda"
    assert 8 <= handle.n_regs <= 255 and handle.n_spills == 0
    assert handle.facts["programs"] >= 8
    assert ".visible .entry" in handle.asm["ptx"] and handle.asm["cubin"][:4] == b"\x7fELF"


def test_driver_in_force():
    active = tw.runtime.driver.active
    target = active.get_current_target()
    major, minor = torch.cuda.get_device_capability()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 10 * major + minor, 32)
    assert active.get_active_torch_device() == torch.device("cuda", 0)
    properties = active.utils.get_device_properties(0)
    known = torch.cuda.get_device_properties(0)
    assert properties["multiprocessor_count"] == known.multi_processor_count
    assert properties["max_shared_mem"] == known.shared_memory_per_block_optin
    with tw.options(target="cpu"):
        assert active.get_current_target().backend == "cpu"


def test_autotuned_kernels():
    configs = [
        tw.Config({"BLOCK": block}, num_warps=warps)
        for block, warps in ((64, 1), (1024, 4), (1024, 8), (1 << 16, 32))
    ]
    kernel = tw.autotune(configs, key=["n"])(tw.jit(add))
    x, y, out = tensors(1 << 20)
    for _ in range(10):
        kernel[lambda meta: (tw.cdiv(1 << 20, meta["BLOCK"]),)](x, y, out, 1 << 20, 2.0)
    assert torch.equal(out, x + 2 * y)
    assert len(kernel.configs_timings) == 4 and kernel.best_config.kwargs["BLOCK"] <= 1024
    before = x.clone()
    for _ in range(3):  # in place: trials are undone
        kernel[lambda meta: (tw.cdiv(1 << 19, meta["BLOCK"]),)](x, y, x, 1 << 19, 1.0)
    torch.testing.assert_close(x[: 1 << 19], (before + y + y + y)[: 1 << 19])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_two_devices():
    kernel = tw.jit(add)
    for _ in range(12):
        for device in (0, 1):
            x, y, out = (torch.randn(1000, device=f"cuda:{device}") for _ in range(3))
            launch(kernel, x, y, out, 1000)
            assert torch.equal(out, x + 2 * y)
            with torch.cuda.device(device):
                launch(kernel, y, x, out, 1000)
            assert torch.equal(out, y + 2 * x)
    assert torch.cuda.current_device() == 0
