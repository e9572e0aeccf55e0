"""The ledger: order, merging of repeats, regions, and what is not recorded."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from softmax_records import Timed, naive_softmax, site, softmax_run

from tilewright.instruments.ledger import Ledger, active
from tilewright.instruments.traffic import KernelRun, Region
from tilewright.instruments.watch import watch


def test_repeated_launches_are_one_entry():
    with Ledger() as ledger:
        ledger.add_kernel(softmax_run())
        ledger.add_kernel(softmax_run(sites=[], compile_s={}, from_cache=True))
        ledger.add_kernel(softmax_run(rows=8))
    assert [(k.programs, k.launches) for k in ledger.kernels] == [(4096, 2), (8, 1)]
    assert [k.title for k in ledger.kernels] == ["softmax_kernel (1)", "softmax_kernel (2)"]
    assert ledger.kernels[0].compile_s["llvm"] == 0.012
    assert ledger.kernels[0].total_bytes == 33_554_432


def test_a_scalar_alone_makes_no_new_entry_but_other_counts_do():
    run = softmax_run()
    other_value = [*run.arguments[:2], replace(run.arguments[2], value=7)]
    with Ledger() as ledger:
        ledger.add_kernel(run)
        ledger.add_kernel(replace(run, arguments=other_value))
        ledger.add_kernel(replace(run, sites=[site(masked=5), site("store")]))
    assert [k.launches for k in ledger.kernels] == [2, 1]


def test_counts_and_times_that_come_later_are_kept():
    with Ledger() as ledger:
        ledger.add_kernel(softmax_run(sites=[], timing=None, minimum_bytes={}))
        ledger.add_kernel(softmax_run(timing=Timed(5e-3, 3)))
    (run,) = ledger.kernels
    assert (run.total_bytes, run.least_bytes, run.seconds) == (33_554_432, 33_554_432, 5e-3)


def test_regions_end_at_kernels_and_at_calls():
    x = watch(np.ones((4, 8), np.float32))
    with Ledger() as ledger:
        naive_softmax(np, x)
        ledger.add_kernel(softmax_run())
        x + 1
    kinds = [type(e) for e in ledger.entries]
    assert kinds == [Region, KernelRun, Region]
    names = [r.name for r in ledger.regions]
    assert names == ["naive_softmax", "test_regions_end_at_kernels_and_at_calls"]
    assert [len(r.steps) for r in ledger.regions] == [5, 1]


def test_repeated_calls_are_one_region():
    x = watch(np.ones((4, 8), np.float32))
    with Ledger() as ledger:
        for _ in range(3):
            naive_softmax(np, x)
        ledger.add_kernel(softmax_run())
        for _ in range(2):
            naive_softmax(np, x)
    (region,) = ledger.regions
    assert region.calls == 5
    assert len(region.steps) == 5
    assert region.seconds > 0


def test_making_the_inputs_is_a_region_of_its_own():
    x = watch(np.ones((4, 8), np.float32))
    with Ledger() as ledger:
        y = np.zeros_like(x)
        y + x
    assert [[s.name for s in r.steps] for r in ledger.regions] == [["zeros_like"], ["add"]]


def test_steps_name_the_users_line():
    x = watch(np.ones(4, np.float32))
    with Ledger() as ledger:
        line = sys._getframe().f_lineno + 1
        np.mean(x)
    assert {(s.file, s.line) for s in ledger.steps} == {(__file__, line)}


def test_paused_and_inactive_ledgers_record_nothing():
    x = watch(np.ones(4, np.float32))
    with Ledger() as ledger:
        with ledger.paused():
            assert active() is None
            x + 1
        assert active() is ledger
    x + 1
    assert active() is None
    assert ledger.entries == []


def test_tilewrights_own_work_is_not_recorded():
    x = watch(np.ones(4, np.float32))
    inner = {"__name__": "tilewright.runtime.launch", "x": x}
    with Ledger() as ledger:
        exec("x + 1", inner)
        exec("x + 1", {"__name__": "__main__", "x": x})
    assert len(ledger.steps) == 1


def test_never_launched():
    with Ledger() as ledger:
        ledger.define("softmax_kernel", softmax_run().file, 8)
        ledger.define("helper", "a.py", 1)
        ledger.define("forgotten", "a.py", 5)
        ledger.add_helper("helper", "a.py", 1)
        ledger.add_kernel(softmax_run())
    assert ledger.never_launched == [("forgotten", "a.py", 5)]


LATE_IMPORT = """
import sys
from tilewright.instruments.ledger import Ledger
assert "torch" not in sys.modules
with Ledger() as ledger:
    import torch
    x = torch.ones(4, 8)
    torch.softmax(x, 1)
torch.softmax(x, 1)
assert not any(type(f).__name__ == "AfterImport" for f in sys.meta_path)
print([s.name for s in ledger.steps])
"""


def test_torch_imported_later_is_seen():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", LATE_IMPORT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['ones', '_softmax']\n"


def test_another_call_is_another_region():
    x = watch(np.ones((4, 8), np.float32))
    with Ledger() as ledger:
        naive_softmax(np, x)
        x + 1
    assert [len(r.steps) for r in ledger.regions] == [5, 1]
