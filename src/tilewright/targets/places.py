"""Where the accesses of compiled code stand in the user's source, as JSON beside the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.errors import Loc

FIELDS = ("file", "line", "col", "end_line", "end_col", "function")


def place_fields(loc: Loc) -> dict[str, Any]:
    """A place, and as `caller` the one that it was called from."""
    fields = {name: getattr(loc, name) for name in FIELDS}
    fields["caller"] = None if loc.caller is None else place_fields(loc.caller)
    return fields


def place_loc(site: dict[str, Any]) -> Loc:
    """The place that `place_fields` took apart."""
    caller = site.get("caller")
    return Loc(*(site[name] for name in FIELDS), None if caller is None else place_loc(caller))


def place_and_callers(site: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of a place and of all that it was called from."""
    here: dict[str, Any] | None = site
    while here is not None:
        yield here
        here = here.get("caller")
