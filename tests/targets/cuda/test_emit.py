"""Kernels compiled for GPUs, run on the simulator, give what eager mode gives."""

from __future__ import annotations

import importlib.util
import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import cases
import inputs
import numpy as np
import pytest
import test_op_table as table
from simulator import Simulated, SimulatedTarget

import tilewright as tw
from tilewright import compat
from tilewright import language as tl
from tilewright.errors import DeviceAssertError, OutOfBoundsError, UnsupportedError
from tilewright.ir import types as t
from tilewright.ir.types import Type, pointer_to
from tilewright.lang.frontend import build_kernel
from tilewright.passes import pipeline
from tilewright.targets import base
from tilewright.targets.cuda.arch import find
from tilewright.targets.cuda.lower import lower

EXAMPLES = Path(__file__).parents[3] / "examples"
WIDTH = 64
ALL = cases.all_cases()
# Of all cases a part runs with each number of warps; tools/gpu_check.py runs all of them.
ORDERED = ("shifted in place", "through memory")  # seen only where threads do not wait
SHARES = ((1, "sm_75"), (4, "sm_80"), (8, "sm_90a"))


@pytest.fixture
def simulated(monkeypatch):
    """`with simulated(num_warps, arch):` launches run on the simulator."""

    def choose(num_warps: int = 4, arch: str = "sm_80"):
        target = SimulatedTarget(arch, num_warps)
        monkeypatch.setitem(base.TARGETS, "simulated", lambda: target)
        return tw.options(target="simulated", cache=False)

    return choose


@pytest.mark.parametrize(
    ("case", "share"),
    [
        pytest.param(case, SHARES[k % 3], id=case.name.replace(" ", "-"))
        for k, case in enumerate(ALL)
        if k % 5 == 0 or case.name in ORDERED
    ],
)
def test_case(case, share, simulated):
    with tw.options(target="eager"):
        want = case.run()
    with simulated(*share):
        case.kernel.forget()
        got = case.run()
        case.kernel.forget()
    cases.compare(case, got, want)


@pytest.mark.parametrize("dtype", [d for d in table.DTYPES if table.DTYPES[d]], ids=str)
def test_ops(dtype):
    """All ops of a dtype in one kernel."""
    chosen = table.DTYPES[dtype]
    values, results = [], []
    for op, dtypes, attrs in chosen:
        given = [
            np.ascontiguousarray(np.resize(x, 2 * WIDTH))
            for x in inputs.operands(dtypes, 2 * WIDTH)
        ]
        with np.errstate(all="ignore"):
            want = np.asarray(op.eager(*given, **attrs))
        values += [*given, np.zeros_like(want)]
        results.append((op, dtypes, attrs, given, values[-1], want))
    Simulated(table.kernel_of(chosen, WIDTH)).run((2,), values)
    for result in results:
        table.compare(*result, "nvptx")


def example(stem: str):
    """An example as a module, with Tilewright standing in for triton."""
    compat.install()
    name = f"example_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{stem}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize("stem", sorted(p.stem for p in EXAMPLES.glob("*.py")))
def test_example(stem, simulated):
    """The first two runs of each example."""
    for _, run in example(stem).cases()[:2]:
        with simulated():
            result, reference, tolerance = run()
        if tolerance == 0:
            np.testing.assert_array_equal(result, reference)
        else:
            wide = np.asarray(result).astype(np.float64)
            np.testing.assert_allclose(wide, reference, rtol=tolerance, atol=tolerance)


# --- faults


@tw.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@tw.jit
def checked_kernel(x, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.device_assert(value >= 0, "negative")


def test_outside_is_reported_and_not_written(simulated):
    memory = np.arange(600, dtype=np.float32)
    x, y = memory[:500].copy(), np.zeros(500, np.float32)
    with simulated(), pytest.raises(OutOfBoundsError) as found:
        copy_kernel[(2,)](x, y, 503, BLOCK=512)
    message = str(found.value).splitlines()[0]
    assert message.startswith("copy_kernel: load outside x at ")
    assert message.endswith("program (0, 0, 0) touches element 500 of 500, 1 element past the end")
    np.testing.assert_array_equal(y, x)


def test_before_the_start_is_reported(simulated):
    x, y = np.zeros(100, np.int32), np.zeros(600, np.int32)
    with simulated(), pytest.raises(OutOfBoundsError, match="1 element before the start"):
        tw.jit(shifted_kernel)[(1,)](x, y, BLOCK=64)


def shifted_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i - 1))


@tw.jit
def backwards_kernel(x, y, n, BLOCK: tl.constexpr):
    """Reads what lies before the address that it is given."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x - i, mask=i < n), mask=i < n)


def test_memory_before_the_address_is_inside(simulated):
    """No test of scalars shows it, so each access is checked by itself."""
    memory, y = np.arange(600, dtype=np.float32), np.zeros(300, np.float32)
    with simulated():
        backwards_kernel[(3,)](memory[399:], y, 300, BLOCK=128)
    np.testing.assert_array_equal(y, memory[399:99:-1])


@tw.jit
def striding_kernel(x, y, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("length", [1000, 997])
def test_loops_stay_inside(length, simulated):
    """What is written beyond an array's end is dropped and reported, the rest is written."""
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    with simulated():
        if length == 1000:
            striding_kernel[(3,)](x, y, length, BLOCK=64)
        else:
            with pytest.raises(OutOfBoundsError, match="element 997 of 997"):
                striding_kernel[(1,)](x, y[:length].copy(), 1000, BLOCK=64)
            return
    np.testing.assert_array_equal(y, 2 * x)


def test_loops_are_tested_before_they_begin():
    pointer = Type(pointer_to(t.float32))
    types = {"x": pointer, "y": pointer, "n": Type(t.int32)}
    kernel = kernel_ir(striding_kernel, types, {"BLOCK": 512}, {})
    text = lower(kernel, find("sm_80"), bounds=True).text
    usual = text[text.index("\nsafe") : text.index("\ncareful")]
    assert "ld.global" in usual and "st.global" in usual
    assert "%record" not in usual and "!prof" not in usual


def test_equal_numbers_are_computed_once():
    """A mask that holds for all or none of a vector is one comparison for it."""
    text = copy_text(x=16, y=16, n=16)
    assert text.count("icmp slt") == 2
    assert copy_text(x=16, y=16).count("icmp slt") == 8


def test_inside_is_not_reported(simulated):
    """A tail whose tile reaches past the end is fine as long as the mask holds it back."""
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    with simulated():
        copy_kernel[(3,)](x, y, 1, BLOCK=1024)
    assert y[0] == 1


def test_assert(simulated):
    x = np.array([1, 2, -3, 4], np.int32)
    with simulated():
        checked_kernel[(1,)](x, BLOCK=4)  # asserts are compiled in only when asked for
        with pytest.raises(DeviceAssertError, match="negative"):
            checked_kernel[(1,)](x, BLOCK=4, debug=True)
        checked_kernel[(1,)](abs(x), BLOCK=4, debug=True)


# --- the text


def kernel_ir(function, types, constants, facts):
    return pipeline.run(build_kernel(function, types, constants, facts))


def copy_text(bounds: bool = False, **facts: int) -> str:
    types = {"x": Type(pointer_to(t.float32)), "y": Type(pointer_to(t.float32)), "n": Type(t.int32)}
    kernel = kernel_ir(copy_kernel, types, {"BLOCK": 1024}, facts)
    return lower(kernel, find("sm_80"), bounds=bounds).text


def test_vectors_are_as_wide_as_proven():
    assert copy_text(x=16, y=16, n=16).count("ld.global.v4.b32") == 2
    assert copy_text(x=16, y=16).count("ld.global.b32") == 8  # the mask may end anywhere
    assert copy_text(x=16, n=16).count("ld.global.v4.b32") == 2
    assert copy_text(x=16, n=16).count("st.global.b32") == 8


def test_neighbouring_accesses_share_one_address():
    text = copy_text(x=16, y=16, n=16)
    assert "[$8 + 2048];" in text
    assert text.count("addrspacecast") <= 4


def test_bounds_cost_nothing_when_they_are_not_asked_for():
    assert "%record" not in copy_text().replace("i64 %record", "", 1)
    assert "st.global.v2.b64" in copy_text(bounds=True)


def test_nothing_is_printed_while_compiling():
    with redirect_stdout(io.StringIO()) as out:
        copy_text()
    assert out.getvalue() == ""


@tw.jit
def too_large(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.gather(tl.load(x + i), tl.load(y + i), 0))


def test_too_much_shared_memory_is_refused():
    pointer = Type(pointer_to(t.int32))
    kernel = kernel_ir(too_large, {"x": pointer, "y": pointer}, {"N": 32768}, {})
    with pytest.raises(UnsupportedError, match="131072 bytes of shared memory, sm_75 has 65536"):
        lower(kernel, find("sm_75"))
