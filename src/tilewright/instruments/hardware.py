"""Hardware for the roofline: memory bandwidth and arithmetic peaks, named, given or measured."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Literal

from tilewright.codegen import llvm
from tilewright.targets.cpu import roofs
from tilewright.targets.cpu.threads import default_threads

from ..errors import TilewrightError
from .wording import plural


class HardwareError(TilewrightError, ValueError):
    """A description of hardware that cannot be read."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Bandwidth in bytes a second, and for each dtype the peak in operations a second."""

    name: str
    bandwidth: float
    peaks: dict[str, float]
    source: Literal["named", "given", "measured"]

    def peak(self, dtype: str) -> tuple[str, float] | None:
        """The dtype whose peak counts for `dtype`, and that peak; fp32 stands in for others."""
        for name in (dtype, _family(dtype), "fp32"):
            if name in self.peaks:
                return name, self.peaks[name]
        return None


def _family(dtype: str) -> str:
    return "fp8" if dtype.startswith("fp8") else dtype


def _spec(name: str, bandwidth_gb: float, **peaks_tera: float) -> Hardware:
    peaks = {dtype: value * 1e12 for dtype, value in peaks_tera.items()}
    return Hardware(name, bandwidth_gb * 1e9, peaks, "named")


# Figures of NVIDIA's spec sheets: dense (no sparsity), at boost clock; 16-bit and smaller types on
# tensor cores with fp32 sums; tf32 has its own peak, fp32 and fp64 are without tensor cores.
NAMED = {
    h.name: h
    for h in (
        _spec("T4", 320, fp32=8.1, fp16=65),
        _spec("V100", 900, fp64=7.8, fp32=15.7, fp16=125),
        _spec("A100-40", 1555, fp64=9.7, fp32=19.5, tf32=156, fp16=312, bf16=312),
        _spec("A100-80", 2039, fp64=9.7, fp32=19.5, tf32=156, fp16=312, bf16=312),
        _spec("L4", 300, fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5),
        _spec("RTX3090", 936, fp32=35.6, tf32=35.6, fp16=71, bf16=71),
        _spec("RTX4090", 1008, fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3),
        _spec("H100-SXM", 3350, fp64=34, fp32=67, tf32=494.5, fp16=989.5, bf16=989.5, fp8=1979),
        _spec("H200", 4800, fp64=34, fp32=67, tf32=494.5, fp16=989.5, bf16=989.5, fp8=1979),
        _spec("B200", 8000, fp64=37, fp32=75, tf32=1125, fp16=2250, bf16=2250, fp8=4500),
    )
}
MEASURED = "measured"
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")


def parse_hardware(text: str) -> Hardware:
    """Read the name of a device, or figures as in `fp32=20e12,bandwidth=1e12`, or both.

    Figures are in bytes and operations a second; after a name they replace its own
    (`H200,bandwidth=4e12`). The name `measured` is this computer, whose roofs are measured now.

    Raises:
        HardwareError: naming what is known when a name, key or figure is not.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise HardwareError(f"no hardware given; {_choices()}")
    base = None
    if "=" not in parts[0]:
        base = _named(parts.pop(0))
        if not parts:
            return base
    figures = dict(_figure(part) for part in parts)
    bandwidth = figures.pop("bandwidth", base.bandwidth if base else None)
    if bandwidth is None:
        raise HardwareError(f"hardware {text!r} has no bandwidth; add bandwidth=BYTES_PER_SECOND")
    peaks = {**(base.peaks if base else {}), **figures}
    return Hardware(text.replace(" ", ""), bandwidth, peaks, "given")


def _named(text: str) -> Hardware:
    by_lower = {name.lower(): h for name, h in NAMED.items()}
    wanted = text.lower().replace(" ", "").replace("_", "-")
    if wanted == MEASURED:
        return measured()
    if wanted in by_lower:
        return by_lower[wanted]
    longer = [h for name, h in by_lower.items() if name.startswith(f"{wanted}-")]
    if len(longer) == 1:
        return longer[0]
    close = longer or [by_lower[x] for x in get_close_matches(wanted, by_lower, n=1)]
    hint = f" (did you mean {' or '.join(h.name for h in close)}?)" if close else ""
    raise HardwareError(f"no hardware named {text!r}{hint}; {_choices()}")


def measured() -> Hardware:
    """This computer: what all threads of a launch reach together, in half a second."""
    team = default_threads()
    peaks = {d: roofs.product_peak(d, team) for d in roofs.products(llvm.host_machine())}
    name = f"this computer, {plural(team, 'thread')}"
    return Hardware(name, roofs.stream_peak(team), peaks, "measured")


def _figure(part: str) -> tuple[str, float]:
    key, _, number = (piece.strip() for piece in part.partition("="))
    key = key.lower()
    known = ("bandwidth", *DTYPES)
    if key not in known:
        close = get_close_matches(key, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise HardwareError(f"no hardware figure {key!r}{hint}; figures are {', '.join(known)}")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not (isfinite(value) and value > 0):
        raise HardwareError(f"{key} needs a positive number a second such as 1e12, not {number!r}")
    return key, value


def _choices() -> str:
    return (
        f"known names are {', '.join(NAMED)}, {MEASURED} (this computer); or give figures, e.g. "
        f"fp32=20e12,bandwidth=1e12 (keys: bandwidth, {', '.join(DTYPES)})"
    )
