"""Run a list of passes over a kernel, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.inst import Kernel
from tilewright.ir.rewrite import drop_dead
from tilewright.later import later
from tilewright.passes.carried import drop_carried
from tilewright.passes.carry import carry_scalars
from tilewright.passes.dots import fuse_accumulators
from tilewright.passes.fold import fold
from tilewright.passes.licm import licm
from tilewright.passes.masks import drop_true_masks

# What kernels that are not checked do without.
checking = later("tilewright.ir.verify")
held = later("tilewright.passes.held")

Pass = Callable[[Kernel], Kernel]

STANDARD: tuple[Pass, ...] = (
    fold,
    drop_dead,
    carry_scalars,
    drop_carried,
    licm,
    drop_true_masks,
    fuse_accumulators,
    drop_dead,
)


def with_all_loads(passes: Sequence[Pass]) -> list[Pass]:
    """The same passes, which leave loads that nobody needs."""
    return [
        one
        for step in passes
        for one in ((held.hold_loads, step) if step is drop_dead else (step,))
    ]


def run(
    kernel: Kernel,
    passes: Sequence[Pass] = STANDARD,
    *,
    verify: bool = False,
    dump: Callable[[str, Kernel], None] | None = None,
    record: Callable[[str, float], None] | None = None,
) -> Kernel:
    """The kernel after all passes.

    `verify` checks it after each, `dump` is shown each pass's name and the kernel after it,
    `record` each pass's name and seconds.
    """
    for one in passes:
        start = perf_counter()
        kernel = step(one, kernel)
        if record is not None:
            record(one.__name__, perf_counter() - start)
        if dump is not None:
            dump(one.__name__, kernel)
        if verify:
            check_after(one, kernel)
    return kernel


def step(one: Pass, kernel: Kernel) -> Kernel:
    try:
        return one(kernel)
    except TilewrightError as error:  # the user's kernel passed the rules before: this is ours
        raise InternalError(f"pass {one.__name__} on {kernel.name}: {error}") from error


def check_after(one: Pass, kernel: Kernel) -> None:
    try:
        checking.verify(kernel)
    except TilewrightError as error:
        raise InternalError(f"after {one.__name__}: {error}") from error
