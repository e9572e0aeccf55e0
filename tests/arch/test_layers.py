"""The shape of the code: who may import whom, where imports stand, and how long things get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright import config

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tilewright"
EXAMPLES = ROOT / "examples"

# A layer is a folder or a file of the package. Each may import itself and what stands here; the
# order of the table is the reading order, and every name in a row stands in a row above.
BASE = {"config", "errors", "later", "locks"}
IR = BASE | {"ir"}
OPS = IR | {"ops"}
TARGETS = OPS | {"lang", "eager", "passes", "codegen"}
RUNTIME = TARGETS | {"targets"}
INSTRUMENTS = RUNTIME | {"runtime"}
PUBLIC = INSTRUMENTS | {"instruments", "language", "testing", "debug"}
MAY_IMPORT = {
    "config": set(),
    "errors": set(),
    "locks": set(),
    "later": {"locks"},
    "ir": BASE,
    "ops": IR,
    "lang": OPS,
    "eager": OPS | {"lang"},  # promotion and the tensor class stand above the seam, in lang
    "passes": OPS,
    "codegen": OPS,
    "language": OPS | {"lang"},
    "targets": TARGETS,
    "runtime": RUNTIME | {"language"},
    "instruments": INSTRUMENTS,
    "testing": INSTRUMENTS | {"instruments"},
    "debug": INSTRUMENTS | {"instruments"},
    "__init__": PUBLIC,
    "compat": PUBLIC | {"__init__"},
    "cli": PUBLIC | {"__init__", "compat"},
    "__main__": {"cli"},
}
# Folders of one layer that do not know each other.
STRANGERS = [("targets/cpu", "targets/cuda")]

# Imports inside functions: packages that cost much and are met on first use. Modules of our own
# are put off by `later`, at the top of the file too.
LAZY_PACKAGES = {"llvmlite", "torch", "cuda", "matplotlib", "cupy", "jinja2", "rich", "IPython"}

FILE_LINES = 600
FUNCTION_LINES = 80


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer_of(path: Path) -> str:
    """The folder under the package, or the name of a file that stands in it directly."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(node: ast.Import | ast.ImportFrom | ast.Call, path: Path) -> list[str]:
    """Full names of the modules that a statement may load, of our own package or of others."""
    if isinstance(node, ast.Call):
        return [ast.literal_eval(node.args[0])]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        here = ("tilewright", *path.relative_to(PACKAGE).parent.parts)
        above = here[: len(here) - node.level + 1]
        base = ".".join((*above, base)).rstrip(".")
    return [f"{base}.{alias.name}" for alias in node.names]


def layer_imported(module: str) -> str | None:
    """The layer that a full name belongs to; `__init__` for names of the package itself."""
    first, *rest = module.split(".")
    if first != "tilewright":
        return None
    if rest and ((PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").is_file()):
        return rest[0]
    return "__init__"


def import_statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))


def put_off(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls of `later`, which name a module that is loaded when it is used."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    return (n for n in calls if isinstance(n.func, ast.Name) and n.func.id.strip("_") == "later")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def wrong_imports(path: Path, tree: ast.AST) -> list[str]:
    """Imports of `path` that its layer may not make."""
    layer = layer_of(path)
    found = []
    for node in (*import_statements(tree), *put_off(tree)):
        for module in imported(node, path):
            target = layer_imported(module)
            if target not in MAY_IMPORT[layer] | {layer, None}:
                found.append(f"{path}:{node.lineno}: {layer} imports {module}")
            found += [
                f"{path}:{node.lineno}: {mine} imports {module}"
                for pair in STRANGERS
                for mine, other in (pair, pair[::-1])
                if name_of(path).startswith(mine + "/")
                and f"{module}.".startswith(f"tilewright.{other.replace('/', '.')}.")
            ]
    return found


def hidden_imports(path: Path, tree: ast.AST) -> list[str]:
    """Imports inside functions that no list allows."""
    found = {}
    for function in functions(tree):
        for node in import_statements(function):
            for module in imported(node, path):
                package = module.split(".")[0]
                if package in LAZY_PACKAGES:
                    continue
                found[node.lineno, module] = f"{path}:{node.lineno}: {module} in {function.name}"
    return list(found.values())


def long_parts(path: Path, text: str, tree: ast.AST) -> list[str]:
    """The file if it is too long, and its functions that are."""
    found = []
    lines = text.count("\n")
    if lines > FILE_LINES:
        found.append(f"{path}: {lines} lines, at most {FILE_LINES}")
    for function in functions(tree):
        length = function.end_lineno - function.lineno + 1
        if length > FUNCTION_LINES:
            found.append(f"{path}:{function.lineno}: {function.name} has {length} lines")
    return found


def test_table_is_in_order():
    seen = set()
    for layer, allowed in MAY_IMPORT.items():
        later = allowed - seen
        assert not later, f"{layer} may import {later}, which stands below it"
        seen.add(layer)


def test_every_file_has_a_layer():
    assert files()
    assert {layer_of(path) for path in files()} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_file(path):
    """Imports point one way and stand at the top; nothing is too long; the first line says why."""
    text = path.read_text()
    tree = ast.parse(text)
    faults = wrong_imports(path, tree) + hidden_imports(path, tree) + long_parts(path, text, tree)
    assert not faults, "\n".join(faults)
    if tree.body:
        assert ast.get_docstring(tree), f"{path} says nowhere what it is for"


def test_faults_are_found():
    path = PACKAGE / "ir" / "sample.py"
    upward = ast.parse("from tilewright.runtime import cache\nfrom ..lang import promote\n")
    assert len(wrong_imports(path, upward)) == 2
    assert len(wrong_imports(path, ast.parse("from tilewright import jit"))) == 1
    assert len(wrong_imports(path, ast.parse("import tilewright.ops.math"))) == 1
    fine = ast.parse("import numpy\nfrom . import types\nfrom ..errors import want\n")
    assert not wrong_imports(path, fine)
    assert len(wrong_imports(path, ast.parse('cache = later("tilewright.runtime.cache")'))) == 1
    sibling = ast.parse("from tilewright.targets.cuda import layout\nfrom ..cuda.mma import x")
    assert len(wrong_imports(PACKAGE / "targets" / "cpu" / "sample.py", sibling)) == 2
    hidden = ast.parse("def f():\n    import json\n    import llvmlite.binding\n")
    assert len(hidden_imports(path, hidden)) == 1
    long = "def f():\n" + "    pass\n" * FILE_LINES
    assert len(long_parts(path, long, ast.parse(long))) == 2


def test_settings():
    names = [setting.env for setting in config.SETTINGS.values()]
    assert len(names) == len(set(names))
    for name, setting in config.SETTINGS.items():
        assert name == setting.name
        assert setting.env == f"TILEWRIGHT_{name.upper()}"
        assert setting.meaning


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_example(path):
    """What tests/examples and `tilewright run` expect of each example."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"cases", "main"} <= defined
    modules = {alias.name for node in import_statements(tree) for alias in node.names}
    assert {"triton", "triton.language"} <= modules
    assert isinstance(tree.body[-1], ast.If), "the file ends by calling main() if it is run"


def test_every_example_is_tested():
    """tests/examples takes all of the folder, so nothing may hide in a subfolder."""
    assert sorted(EXAMPLES.glob("*.py"))
    assert not [p for p in EXAMPLES.rglob("*.py") if p.parent != EXAMPLES]
    assert 'glob("*.py")' in (ROOT / "tests" / "examples" / "test_all.py").read_text()
