"""Operations that go from buffer to buffer: scans, sorts, joins, gathers; and printing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import UnsupportedError
from tilewright.ir.inst import Inst

if TYPE_CHECKING:
    from tilewright.targets.cpu.lower import Lowering


def write_print(x: Lowering, inst: Inst) -> None:
    raise UnsupportedError("device_print runs in eager mode only for now", inst.loc)


RULES: dict = {}
