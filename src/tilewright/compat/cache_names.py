"""What `triton.runtime.cache` has beside our own names: files by key in a folder."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tilewright.runtime.cache import default_cache
from tilewright.runtime.compile import toolchain


def default_cache_dir() -> str:
    """The folder of everything that is kept."""
    folder = default_cache().folder
    return str(folder) if folder is not None else tempfile.gettempdir()


default_dump_dir = default_override_dir = default_cache_dir


class FileCacheManager:
    """Files by name in a folder of their own for each key."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.key = key
        self.cache_dir = os.path.join(default_cache_dir(), "files", key)

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename: str) -> bool:
        return os.path.exists(self._make_path(filename))

    def get_file(self, filename: str) -> str | None:
        """The path of a file that was put there before."""
        return self._make_path(filename) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Write a file, whole or not at all; its path."""
        content = data if isinstance(data, bytes) else str(data).encode()
        os.makedirs(self.cache_dir, exist_ok=True)
        path = self._make_path(filename)
        handle, temporary = tempfile.mkstemp(dir=self.cache_dir)
        with open(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of files that were put as a group."""
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        paths = json.loads(Path(path).read_text())["child_paths"]
        return {name: p for name, p in paths.items() if os.path.exists(p)}

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}")


def get_cache_manager(key: str) -> FileCacheManager:
    """The files under a key, which is a hex digest."""
    return FileCacheManager(base32(key))


get_dump_manager = get_override_manager = get_cache_manager


def base32(key: str) -> str:
    return base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


def triton_key() -> str:
    """The state of the compiler, for keys of programs' own caches."""
    return toolchain()


__all__ = [
    "FileCacheManager", "default_cache_dir", "default_dump_dir", "default_override_dir",
    "get_cache_manager", "get_dump_manager", "get_override_manager", "triton_key",
]  # fmt: skip
