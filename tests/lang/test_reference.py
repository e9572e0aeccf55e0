"""docs/language.md says what the language is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page_is_up_to_date():
    path = ROOT / "tools" / "language_reference.py"
    spec = importlib.util.spec_from_file_location("language_reference", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    advice = "run python tools/language_reference.py"
    assert tool.PAGE.read_text() == tool.page(), advice
    assert "| `exp(x)` | fp32, fp64 | yes | yes | yes | e ** x. Also a method. |" in tool.page()
