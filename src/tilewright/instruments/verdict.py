"""What the counts of a ledger mean: comparisons of kernels with array steps, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .advice import advice
from .ledger import Ledger
from .traffic import KernelRun, Region, Site
from .wording import megabytes, place, plural, shortened

MASKED_WORTH_SAYING = 0.25
OVERHEAD_WORTH_SAYING = 1.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """Array steps beside a kernel that takes and gives arrays of the same shapes."""

    region: Region
    kernel: KernelRun

    @property
    def bytes_ratio(self) -> float:
        """Bytes that the steps move, over those of the kernel."""
        return self.region.total_bytes / self.kernel.total_bytes

    @property
    def measured_speedup(self) -> float | None:
        """Time of the steps over that of the kernel, when both were measured on one device."""
        if self.kernel.target != self.region.device:
            return None
        if not self.kernel.seconds or not self.region.seconds:
            return None
        return self.region.seconds / self.kernel.seconds


def compare(ledger: Ledger) -> list[Comparison]:
    """Each region of steps beside the nearest kernel of the same input and output shapes."""
    entries = ledger.entries
    found = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, Region):
            continue
        matches = [
            (abs(other - position), kernel)
            for other, kernel in enumerate(entries)
            if isinstance(kernel, KernelRun) and _same_shapes(entry, kernel)
        ]
        if matches:
            found.append(Comparison(entry, min(matches, key=lambda match: match[0])[1]))
    return found


def _same_shapes(region: Region, kernel: KernelRun) -> bool:
    if not kernel.total_bytes or not region.steps[-1].output_shapes:
        return False
    result = region.steps[-1].output_shapes[0]
    inputs = {shape for step in region.steps for shape in step.shapes}
    read = set(kernel.argument_shapes("read"))
    return result in kernel.argument_shapes("written") and bool(inputs & read)


def verdicts(ledger: Ledger, comparisons: Sequence[Comparison]) -> list[str]:
    """A sentence or two on each kernel, with the figures that they rest on."""
    lines = []
    for run in ledger.kernels:
        lines += _on_kernel(run)
        lines += [remark.sentence for remark in advice(run)]
        lines += [_on_steps(c) for c in comparisons if c.kernel == run]
    lines += [
        f"{name} ({place(file, line)}) was never launched, so nothing is said about it."
        for name, file, line in ledger.never_launched
    ]
    return lines


def _on_kernel(run: KernelRun) -> list[str]:
    if not run.sites or not run.least_bytes:
        return [f"{run.title}: its memory accesses were not counted."]
    least, total = megabytes(run.least_bytes), megabytes(run.total_bytes)
    if run.total_bytes == run.least_bytes:
        lines = [f"{run.title} moves exactly the least possible bytes ({least})."]
    else:
        lines = [f"{run.title} asks for {total}, {run.over_least:.2f}x the least possible {least}."]
    if run.over_least > OVERHEAD_WORTH_SAYING:
        worst = max(run.sites, key=lambda s: s.bytes - s.unique_bytes)
        if worst.reload > OVERHEAD_WORTH_SAYING:
            lines.append(_on_reload(worst))
    idle = max(run.sites, key=lambda s: s.masked)
    if idle.masked_share >= MASKED_WORTH_SAYING:
        lines.append(
            f"{idle.masked_share:.0%} of the lanes of {shortened(idle.expression)} "
            f"({place(idle.file, idle.line)}) are masked off and do no work."
        )
    return lines


def _on_reload(site: Site) -> str:
    extra = megabytes(site.bytes - site.unique_bytes)
    where = f"{shortened(site.expression)} ({place(site.file, site.line)})"
    return (
        f"Most of the excess, {extra}, is {where}: each of its bytes is asked for "
        f"{site.reload:.2f} times; caches may serve the repeats."
    )


def _on_steps(comparison: Comparison) -> str:
    region, kernel = comparison.region, comparison.kernel
    text = (
        f"The {len(region.steps)} unfused steps of {region_name(region)} moved "
        f"{comparison.bytes_ratio:.2f}x the bytes of {kernel.title} "
        f"({megabytes(region.total_bytes)} against {megabytes(kernel.total_bytes)})"
        if len(region.steps) > 1
        else f"The single step {region.steps[0].name} of {region_name(region)} moved "
        f"{comparison.bytes_ratio:.2f}x the bytes of {kernel.title}"
    )
    speedup = comparison.measured_speedup
    if speedup is None:
        return text + "."
    calls = plural(region.calls, "call")
    return text + f" and took {speedup:.2f}x its time on this machine (median of {calls})."


def region_name(region: Region) -> str:
    """What a region is called: its function, or the script itself."""
    if region.name == "<module>":
        return f"the script ({place(region.file, region.line)})"
    return f"{region.name} ({place(region.file, region.line)})"
