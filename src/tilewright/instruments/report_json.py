"""The report as JSON: the keys that docs/json.md documents, and nothing else."""

from __future__ import annotations

from math import isfinite
from typing import Any

from .advice import advice
from .gpu_json import gpu_json
from .hardware import Hardware
from .ledger import Ledger
from .roofline import (
    Prediction,
    predict_kernel,
    predict_least,
    predict_region,
    predicted_speedup,
)
from .traffic import ArgumentInfo, KernelRun, Region, Site, Step
from .verdict import Comparison, compare, verdicts

SCHEMA = 1


def as_json(ledger: Ledger, hardware: Hardware | None = None) -> dict[str, Any]:
    """The whole report as plain dictionaries, lists, strings, numbers, booleans and None."""
    entries = ledger.entries
    kernels = [e for e in entries if isinstance(e, KernelRun)]
    regions = [e for e in entries if isinstance(e, Region)]
    comparisons = compare(ledger)
    return {
        "schema": SCHEMA,
        "kernels": [kernel_json(k) for k in kernels],
        "regions": [region_json(r) for r in regions],
        "order": [
            {"kernel": kernels.index(e)}
            if isinstance(e, KernelRun)
            else {"region": regions.index(e)}
            for e in entries
        ],
        "comparisons": [comparison_json(c, kernels, regions) for c in comparisons],
        "never_launched": [
            {"name": name, "file": file, "line": line} for name, file, line in ledger.never_launched
        ],
        "uncounted": dict(sorted(ledger.uncounted.items())),
        "verdict": verdicts(ledger, comparisons),
        "prediction": None
        if hardware is None
        else prediction_section(hardware, kernels, regions, comparisons),
    }


def kernel_json(run: KernelRun) -> dict[str, Any]:
    """One kernel and signature."""
    return {
        "name": run.name,
        "file": run.file,
        "line": run.line,
        "target": run.target,
        "grid": list(run.grid),
        "programs": run.programs,
        "launches": run.launches,
        "arguments": [argument_json(a) for a in run.arguments],
        "meta": {name: literal(value) for name, value in run.meta.items()},
        "compile": {
            "from_cache": run.from_cache,
            "seconds": run.compile_seconds,
            "stages": dict(run.compile_s),
        },
        "run": None
        if run.timing is None
        else {"median_seconds": run.timing.median, "repeats": run.timing.repeats},
        "sites": [site_json(s) for s in run.sites],
        "traffic": None if not run.sites else traffic_json(run),
        "flops": run.flops,
        "flop_per_byte": run.flop_per_byte,
        "effective_gbps": run.effective_gbps,
        "gflops": run.gflops,
        "gpu": None if run.gpu is None else gpu_json(run.gpu),
        "advice": [
            {"about": r.about, "file": r.file, "line": r.line, "sentence": r.sentence}
            for r in advice(run)
        ],
    }


def argument_json(argument: ArgumentInfo) -> dict[str, Any]:
    return {
        "name": argument.name,
        "kind": argument.kind,
        "dtype": argument.dtype,
        "shape": None if argument.shape is None else list(argument.shape),
        "strides": None if argument.strides is None else list(argument.strides),
        "value": literal(argument.value),
    }


def site_json(site: Site) -> dict[str, Any]:
    return {
        "file": site.file,
        "line": site.line,
        "col": site.col,
        "expression": site.expression,
        "kind": site.kind,
        "argument": site.argument,
        "dtype": site.dtype,
        "elements": site.elements,
        "bytes": site.bytes,
        "unique_bytes": site.unique_bytes,
        "masked": site.masked,
        "masked_share": site.masked_share,
        "reload": site.reload,
    }


def traffic_json(run: KernelRun) -> dict[str, Any]:
    """Bytes of one launch against the least possible."""
    return {
        **moved_json(run),
        "least_bytes": run.least_bytes,
        "over_least": run.over_least,
        "masked_share": run.masked_share,
        "minimum_bytes": {
            name: {"read": read, "written": written}
            for name, (read, written) in run.minimum_bytes.items()
        },
    }


def moved_json(thing: KernelRun | Region | Step) -> dict[str, int]:
    """The counts that kernels, regions and steps share."""
    return {
        "read_elements": thing.read_elements,
        "write_elements": thing.write_elements,
        "elements": thing.elements,
        "read_bytes": thing.read_bytes,
        "write_bytes": thing.write_bytes,
        "total_bytes": thing.total_bytes,
    }


def region_json(region: Region) -> dict[str, Any]:
    return {
        "name": region.name,
        "file": region.file,
        "line": region.line,
        "calls": region.calls,
        "seconds": region.seconds,
        **moved_json(region),
        "steps": [step_json(s) for s in region.steps],
    }


def step_json(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "file": step.file,
        "line": step.line,
        "shapes": [list(s) for s in step.shapes],
        "output_shapes": [list(s) for s in step.output_shapes],
        "dtype": step.dtype,
        "flops": step.flops,
        "device": step.device,
        "seconds": step.seconds,
        **moved_json(step),
    }


def comparison_json(
    comparison: Comparison, kernels: list[KernelRun], regions: list[Region]
) -> dict[str, Any]:
    return {
        "region": regions.index(comparison.region),
        "kernel": kernels.index(comparison.kernel),
        "bytes_ratio": comparison.bytes_ratio,
        "measured_speedup": comparison.measured_speedup,
    }


def prediction_section(
    hardware: Hardware,
    kernels: list[KernelRun],
    regions: list[Region],
    comparisons: list[Comparison],
) -> dict[str, Any]:
    """Everything that was computed for the described hardware and measured nowhere."""
    return {
        "hardware": {
            "name": hardware.name,
            "source": hardware.source,
            "bandwidth": hardware.bandwidth,
            "peaks": dict(hardware.peaks),
        },
        "kernels": [
            {
                "kernel": index,
                "requested": prediction_json(predict_kernel(run, hardware)),
                "least": prediction_json(predict_least(run, hardware)),
            }
            for index, run in enumerate(kernels)
            if run.sites
        ],
        "regions": [
            {"region": index, **prediction_json(predict_region(region, hardware))}
            for index, region in enumerate(regions)
        ],
        "speedups": [
            {
                "region": regions.index(c.region),
                "kernel": kernels.index(c.kernel),
                "speedup": predicted_speedup(
                    predict_region(c.region, hardware), predict_kernel(c.kernel, hardware)
                ),
            }
            for c in comparisons
        ],
    }


def prediction_json(prediction: Prediction) -> dict[str, Any]:
    return {
        "bytes": prediction.bytes,
        "flops": prediction.flops,
        "memory_seconds": prediction.memory_seconds,
        "compute_seconds": prediction.compute_seconds,
        "peak_dtype": prediction.peak_dtype,
        "seconds": prediction.seconds,
        "bound": prediction.bound,
    }


def literal(value: Any) -> Any:
    """A value as JSON can hold it; anything else as its text."""
    if isinstance(value, float):
        return value if isfinite(value) else repr(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return repr(value)
