"""What the counts of a ledger mean: comparisons of kernels with array steps, in sentences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .ledger import Ledger
from .traffic import KernelRun, Region, Site

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
        """Time of the steps over that of the kernel, when both ran on this machine's CPU."""
        if self.kernel.target != "cpu" or not self.kernel.seconds or not self.region.seconds:
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
        lines += [_on_steps(c) for c in comparisons if c.kernel == run]
    lines += [
        f"{name} ({place(file, line)}) was never launched, so nothing is said about it."
        for name, file, line in ledger.never_launched
    ]
    return lines


def _on_kernel(run: KernelRun) -> list[str]:
    if not run.sites or not run.least_bytes:
        return [f"{run.name}: its memory accesses were not counted."]
    least, total = megabytes(run.least_bytes), megabytes(run.total_bytes)
    if run.total_bytes == run.least_bytes:
        lines = [f"{run.name} moves exactly the least possible bytes ({least})."]
    else:
        lines = [f"{run.name} asks for {total}, {run.over_least:.2f}x the least possible {least}."]
    if run.over_least > OVERHEAD_WORTH_SAYING:
        worst = max(run.sites, key=lambda s: s.bytes - s.unique_bytes)
        if worst.reload > OVERHEAD_WORTH_SAYING:
            lines.append(_on_reload(worst))
    idle = max(run.sites, key=lambda s: s.masked)
    if idle.masked_share >= MASKED_WORTH_SAYING:
        lines.append(
            f"{idle.masked_share:.0%} of the lanes of {shortened(idle)} "
            f"({place(idle.file, idle.line)}) are masked off and do no work."
        )
    return lines


def _on_reload(site: Site) -> str:
    extra = megabytes(site.bytes - site.unique_bytes)
    return (
        f"Most of the excess, {extra}, is {shortened(site)} ({place(site.file, site.line)}): "
        f"each of its bytes is asked for {site.reload:.2f} times; caches may serve the repeats."
    )


def _on_steps(comparison: Comparison) -> str:
    region, kernel = comparison.region, comparison.kernel
    text = (
        f"The {len(region.steps)} unfused steps of {region_name(region)} moved "
        f"{comparison.bytes_ratio:.2f}x the bytes of {kernel.name} "
        f"({megabytes(region.total_bytes)} against {megabytes(kernel.total_bytes)})"
        if len(region.steps) > 1
        else f"The single step {region.steps[0].name} of {region_name(region)} moved "
        f"{comparison.bytes_ratio:.2f}x the bytes of {kernel.name}"
    )
    speedup = comparison.measured_speedup
    if speedup is None:
        return text + "."
    calls = plural(region.calls, "call")
    return text + f" and took {speedup:.2f}x its time on this machine (median of {calls})."


def shortened(site: Site) -> str:
    """The expression of a site, cut to a length that a sentence can bear."""
    expression = " ".join(site.expression.split())
    return expression if len(expression) <= 40 else expression[:37] + "..."


def region_name(region: Region) -> str:
    """What a region is called: its function, or the script itself."""
    if region.name == "<module>":
        return f"the script ({place(region.file, region.line)})"
    return f"{region.name} ({place(region.file, region.line)})"


def place(file: str, line: int) -> str:
    """`name.py:12`, without the folders."""
    return f"{os.path.basename(file)}:{line}"


def megabytes(count: int) -> str:
    """Bytes in decimal units, three significant digits or so: `33.6 MB`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def plural(count: int, noun: str) -> str:
    """A number and its noun: `1 run`, `4,096 runs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
