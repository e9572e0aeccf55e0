"""Makes Python processes that a program under `--pretend-cuda` starts pretend as well.

PyTorch is what pretends, so nothing happens before it is imported. Another `sitecustomize` that
this one hides is run as ever.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)


class Torch(importlib.abc.MetaPathFinder):
    """Finds PyTorch once, and lets the pretence begin when it has been loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


class Loader(importlib.abc.Loader):
    """PyTorch's own, and the pretence after it."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        start()


def start():
    importlib.import_module("triton")  # Tilewright, by the folder beside this one
    importlib.import_module("tilewright.compat").install(pretend_cuda=True)


def run_hidden():
    """Run the `sitecustomize` that would be found without this one."""
    others = [p for p in sys.path if p != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, Torch())
run_hidden()
