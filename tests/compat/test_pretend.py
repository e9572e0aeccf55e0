"""Pretending that there is a CUDA device: what PyTorch answers, and that nothing else changes."""

from __future__ import annotations

import copy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tilewright
import tilewright.language as tl

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def pretence():
    from tilewright.compat import pretend

    pretend.start()
    yield pretend
    pretend.stop()


def test_tensors_say_that_they_are_on_a_gpu():
    x = torch.zeros(3)
    assert x.is_cuda and x.device == torch.device("cuda", 0) and x.get_device() == 0
    made = [
        torch.zeros(3, device="cuda"), torch.arange(3, device="cuda:0"), torch.ones(2, device=0),
        torch.tensor([1.0], device=torch.device("cuda")), x.to("cuda"), x.to(0), x.cuda(),
        x.to(torch.device("cuda:0"), torch.float16), x.new_empty(2, device="cuda"),
        torch.empty(2, pin_memory=True), torch.empty_like(x, device="cuda"),
    ]  # fmt: skip
    assert all(y.is_cuda and y.is_cpu for y in made)
    assert made[7].dtype is torch.float16
    layer = torch.nn.Linear(3, 4, device="cuda").cuda()
    assert layer(x).device.type == "cuda"
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
    assert torch.zeros(1, device="meta").device.type == "meta"


def test_answers():
    cuda = torch.cuda
    assert cuda.is_available() and cuda.device_count() == 1 and cuda.current_device() == 0
    assert cuda.get_device_capability() == (8, 0)
    properties = cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == (8, 0)
    assert properties.multi_processor_count > 0
    with cuda.device(0), cuda.stream(cuda.Stream()):
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        end.record()
        cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    start, end = torch.Event("cuda", enable_timing=True), torch.Event(enable_timing=True)
    start.record(torch.Stream("cuda"))
    end.record()
    assert start.elapsed_time(end) >= 0
    cuda.current_stream().wait_stream(cuda.default_stream())
    assert torch.accelerator.current_accelerator().type == "cuda"
    with torch.accelerator.device_index(0), cuda.StreamContext(cuda.current_stream()):
        assert torch.accelerator.memory_stats() == {}
    states = cuda.get_rng_state_all()
    cuda.manual_seed(5)
    cuda.set_rng_state_all(states)
    assert torch.equal(cuda.get_rng_state(), states[0])
    cuda.set_sync_debug_mode("error")
    with cuda.nvtx.range("part"):
        assert cuda.memory_snapshot() == [] and not cuda.can_device_access_peer(0, 0)
    assert tilewright.runtime.driver.active.get_current_target().backend == "cuda"
    assert tilewright.runtime.driver.active.get_active_torch_device().type == "cuda"
    torch.manual_seed(7)
    assert cuda.default_generators[0].get_state().view(torch.int64).tolist() == [7, 0]


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.is_cuda else x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 if grad.is_cuda and torch.zeros(1, device="cuda").is_cuda else grad


def test_backward_functions_see_the_device_too():
    x = torch.ones(3, device="cuda", requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    (grad,) = torch.autograd.grad(Twice.apply(x).sum(), x)
    assert grad.tolist() == [2, 2, 2]


@tilewright.jit
def add_one(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) + 1)


@pytest.mark.parametrize("target", ["eager", pytest.param("cpu", marks=pytest.mark.cpu)])
def test_launch(target):
    class Wrapped:
        """As packages wrap tensors: with an address and the device that the tensor names."""

        def __init__(self, tensor):
            self.dtype, self.device, self.tensor = tensor.dtype, tensor.device, tensor
            self.data_ptr, self.shape, self.stride = tensor.data_ptr, tensor.shape, tensor.stride

    x = torch.zeros(8, device="cuda")
    with tilewright.options(target=target):
        add_one[(1,)](x, 8)
        add_one[(1,)](Wrapped(x), 8)
    assert x.tolist() == [2] * 8


@pytest.mark.filterwarnings("ignore:.*other operators may also be overridden")
def test_operators_for_cuda_run_on_the_cpu():
    library = torch.library.Library("aten", "IMPL")

    def shifted(x, y, alpha=1):
        assert x.is_cuda
        return torch.full(x.shape, 7.0, device="cuda")

    library.impl("add.Tensor", shifted, "CUDA")
    x = torch.ones(3)
    assert (x + x).tolist() == [7.0] * 3
    library._destroy()
    assert (x + x).tolist() == [2.0] * 3

    @torch.library.custom_op("tilewright_test::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x * 2

    assert twice(x).tolist() == [2.0] * 3


def test_moving_copies():
    """Where a program would find two tensors, there are two."""
    plain = torch.ones(3)
    moved = [
        plain.cuda(), plain.to("cuda"), plain.to(device="cuda:0", dtype=torch.float32),
        plain.to(0, torch.float32, True), plain.to(torch.device("cuda"), torch.float32),
    ]  # fmt: skip
    for x in moved:
        assert x.is_cuda and x.to("cuda") is x and x.cuda() is x and x.to(torch.float32) is x
        back = x.cpu()
        x += 1
        assert back.cpu() is back and back.to("cpu") is back
        assert back.tolist() == [1.0] * 3
    assert plain.tolist() == [1.0] * 3
    made = torch.zeros(2, device="cuda")
    assert made.to("cuda") is made
    weight = torch.ones(2, requires_grad=True)
    (weight.cuda() * 3).sum().backward()
    assert weight.grad.tolist() == [3.0] * 2


@pytest.mark.parametrize("how", ["set", "with"])
def test_default_devices(how):
    """A default device makes tensors there, on a GPU as if it had been named."""

    def check(name):
        assert torch.get_default_device() == (torch.device("cuda", 0) if name == "cuda" else CPU)
        x = torch.randn(3, dtype=torch.float16)
        assert x.is_cpu and x.dtype is torch.float16
        assert (x.cuda().data_ptr() == x.data_ptr()) == (name == "cuda")
        assert (x.cpu().data_ptr() == x.data_ptr()) == (name == "cpu")

    for name in ("cuda", "cpu"):
        if how == "with":
            with torch.device(name):
                check(name)
        else:
            torch.set_default_device(name)
            check(name)
            torch.set_default_device(None)
    assert torch.get_default_device() == CPU


def test_capability_is_a_setting(pretence):
    with tilewright.options(capability="9.0"):
        assert torch.cuda.get_device_capability() == (9, 0)
        properties = torch.cuda.get_device_properties(0)
        assert (properties.major, properties.minor) == (9, 0)
        assert properties.shared_memory_per_block_optin == 227 << 10
        assert torch.cuda.get_arch_list() == ["sm_90"]
        assert tilewright.runtime.driver.active.get_current_target().arch == 90


def test_products_of_more_digits():
    a, b = (torch.randn(5, 5).bfloat16() for _ in range(2))
    wanted = a.float() @ b.float()
    assert torch.equal(torch.mm(a, b, out_dtype=torch.float32), wanted)
    out = torch.empty(5, 5)
    torch.addmm(wanted, a, b, out_dtype=torch.float32, out=out)
    assert torch.equal(out, wanted + wanted)
    assert torch.equal(torch.bmm(a[None], b[None], out_dtype=torch.float32)[0], wanted)


def test_tensors_without_memory_are_where_they_are_made():
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    x = mode.from_tensor(torch.randn(4, device="cuda"))
    with mode:
        made = torch.zeros(4, device="cuda") + torch.ones(4).to("cuda", torch.float32)
        both = torch.maximum(x, made) + torch.arange(4).cuda()
        assert both.device.type == "cuda" and both.is_cuda
        assert both.cpu().device.type == "cpu" and not torch.ones(4).is_cuda


def test_functions_compiled_before_are_traced_through_it(pretence):
    pretence.stop()
    traced = torch.compile(lambda x: (x * 2).sum(), fullgraph=True, backend="eager")
    pretence.start()
    assert traced(torch.ones(4, device="cuda")).item() == 8


def test_modules_of_devices():
    assert torch.get_device_module() is torch.get_device_module("cuda:0") is torch.cuda
    assert torch.get_device_module("cpu") is torch.cpu
    module = torch.get_device_module()
    assert module.get_device_properties(module.current_device()).major == 8


class Doubled(torch.Tensor):
    """A tensor around another one."""

    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(args[0].inner.clone())


def test_tensors_around_others():
    x = Doubled(torch.ones(4, device="cuda"))
    assert x.is_cuda and x.device.type == "cuda"
    with torch._C.DisableTorchFunction():
        assert x.device == CPU  # as the one inside, which has the memory
    assert torch.equal(copy.deepcopy(x).inner, x.inner)


def test_histograms_of_integers():
    x = torch.tensor([0, 2, 2, 5], dtype=torch.int32)
    found = torch.histc(x, bins=4, min=0, max=3)
    assert found.dtype == torch.int32 and found.tolist() == [1, 0, 2, 0]
    assert x.float().histc(2, 0, 6).tolist() == [3, 1]


def test_generators_of_tensors():
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device.type == "cuda" and torch.Generator().device.type == "cpu"
    assert isinstance(torch.default_generator, torch.Generator)
    first = torch.rand(4, device="cuda", generator=generator)
    assert torch.equal(first, torch.rand(4, generator=torch.Generator().manual_seed(3)))


def test_operators_that_know_the_cpu_keep_what_they_do_there():
    op = torch.library.custom_op(
        "tilewright_test::more", lambda x: x + 1, mutates_args=(), device_types="cpu",
        schema="(Tensor x) -> Tensor",
    )  # fmt: skip
    op.register_kernel("cuda", lambda x: x + 2)
    assert op(torch.zeros(1)).item() == 1


def test_the_end(pretence):
    x = torch.zeros(3, device="cuda")
    pretence.stop()
    assert not x.is_cuda and x.device.type == "cpu"
    assert torch.cuda.is_available.__module__ == "torch.cuda"
    assert tilewright.runtime.driver.active.get_current_target().backend == "cpu"


def test_command(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import torch
            import triton
            print(torch.ones(2, device="cuda").device, triton.__name__)
            """
        )
    )
    result = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", "--pretend-cuda", str(program)],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    assert result.stdout == "cuda:0 tilewright\n", result.stderr
