"""Keep compiled kernels on disk, safe with many processes, bounded, never in the user's way."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright import config
from tilewright.later import later

platformdirs = later("platformdirs")
tempfile = later("tempfile")

GIB = 1 << 30
MAGIC = b"TILEWRGT"
VERSION = 1
SUFFIX = ".tile"
TEMPORARY = ".writing-"
PREFIX = struct.Struct("<8sI32s")  # magic, version, sha256 of all that follows
HEADER_LENGTH = struct.Struct("<I")
KEY = re.compile(r"[0-9a-f]{8,128}")
TOUCH_AFTER = 3600.0  # seconds: a use is noted at most hourly, so a hit seldom writes
SWEEP_AFTER = 86400.0
ABANDONED_AFTER = 3600.0
KEEP_SHARE = 0.75  # what is left of the limit after an eviction
STAMP = "swept"


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache folder holds; `folder` is None when nothing is kept."""

    folder: Path | None
    entries: int
    bytes: int
    limit: int


class DiskCache:
    """Named files under a key, one file of the folder per key.

    A folder that cannot be read or written costs recompilation, never an exception.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int = GIB):
        self.folder = None if folder is None else Path(folder)
        self.limit = limit
        self._unswept: int | None = None  # bytes written since the last sweep, None: not looked

    def get(self, key: str) -> dict[str, bytes] | None:
        """The files stored under `key`, or None; a damaged entry is removed."""
        path = self._path(key)
        if path is None:
            return None
        try:
            with open(path, "rb") as stream:
                data = stream.read()
                used = os.fstat(stream.fileno()).st_mtime
        except OSError:
            return None
        files = unpack(data, key)
        if files is None:
            _remove(path)
            return None
        if abs(time.time() - used) > TOUCH_AFTER:
            with contextlib.suppress(OSError):
                os.utime(path)
        return files

    def put(self, key: str, files: dict[str, bytes]) -> None:
        """Store `files` under `key`, whole or not at all."""
        path = self._path(key)
        if path is None:
            return
        data = pack(key, files)
        try:
            os.makedirs(self.folder, exist_ok=True)
            _write_whole(path, data)
        except OSError:
            return
        self._bound(len(data))

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        removed = 0
        for path, _ in self._scan(SUFFIX):
            removed += _remove(path)
        for path, _ in self._scan(".tmp"):
            _remove(path)
        if self.folder is not None:
            _remove(self.folder / STAMP)
        return removed

    def stats(self) -> CacheStats:
        """Number and size of the entries."""
        sizes = [status.st_size for _, status in self._scan(SUFFIX)]
        return CacheStats(self.folder, len(sizes), sum(sizes), self.limit)

    def _path(self, key: str) -> Path | None:
        if not KEY.fullmatch(key):
            raise ValueError(f"a cache key is a hex digest, got {key!r}")
        return None if self.folder is None else self.folder / (key + SUFFIX)

    def _scan(self, suffix: str) -> Iterator[tuple[str, os.stat_result]]:
        """Our files of the folder that end so, with their status."""
        if self.folder is None:
            return
        try:
            with os.scandir(self.folder) as listing:
                found = [f for f in listing if f.name.endswith(suffix) and _is_ours(f.name)]
        except OSError:
            return
        for entry in found:
            try:
                status = entry.stat()
            except OSError:  # another process removed it meanwhile
                continue
            yield entry.path, status

    def _bound(self, written: int) -> None:
        """Sweep when this process wrote much, or when nobody swept for a day."""
        due = self._unswept is None and self._last_sweep_is_old()
        self._unswept = (self._unswept or 0) + written
        if due or self._unswept > self.limit // 16:
            self._sweep()
            self._unswept = 0

    def _last_sweep_is_old(self) -> bool:
        try:
            return time.time() - os.stat(self.folder / STAMP).st_mtime > SWEEP_AFTER
        except OSError:
            return True

    def _sweep(self) -> None:
        """Remove the least recently used entries beyond the limit, and abandoned writes."""
        with contextlib.suppress(OSError):
            (self.folder / STAMP).touch()
        for path, status in self._scan(".tmp"):
            if time.time() - status.st_mtime > ABANDONED_AFTER:
                _remove(path)
        entries = sorted(self._scan(SUFFIX), key=lambda entry: (entry[1].st_mtime_ns, entry[0]))
        total = sum(status.st_size for _, status in entries)
        if total <= self.limit:
            return
        for path, status in entries:
            if total <= self.limit * KEEP_SHARE:
                return
            _remove(path)
            total -= status.st_size


def pack(key: str, files: dict[str, bytes]) -> bytes:
    """One self-describing, checksummed block of bytes."""
    lengths = [[name, len(data)] for name, data in files.items()]
    header = json.dumps({"key": key, "files": lengths}).encode()
    body = b"".join((HEADER_LENGTH.pack(len(header)), header, *files.values()))
    return PREFIX.pack(MAGIC, VERSION, hashlib.sha256(body).digest()) + body


def unpack(data: bytes, key: str) -> dict[str, bytes] | None:
    """What `pack` put together, or None when anything about it is not as written."""
    if len(data) < PREFIX.size + HEADER_LENGTH.size:
        return None
    magic, version, checksum = PREFIX.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    if hashlib.sha256(memoryview(data)[PREFIX.size :]).digest() != checksum:
        return None
    (length,) = HEADER_LENGTH.unpack_from(data, PREFIX.size)
    at = PREFIX.size + HEADER_LENGTH.size + length
    header = json.loads(data[at - length : at])
    if header["key"] != key:
        return None
    files = {}
    for name, size in header["files"]:
        files[name] = data[at : at + size]
        at += size
    return files


def digest(*parts: str | bytes) -> str:
    """A key for a sequence of parts; where one part ends and the next begins counts."""
    state = hashlib.sha256()
    for part in parts:
        is_text = isinstance(part, str)
        data = part.encode("utf-8", "surrogatepass") if is_text else part
        state.update(b"%s%d:" % (b"s" if is_text else b"b", len(data)))
        state.update(data)
    return state.hexdigest()


def default_cache() -> DiskCache:
    """The cache that the settings `cache` and `cache_dir` ask for."""
    if not config.get("cache"):
        return _opened(None)
    chosen = config.get("cache_dir")
    return _opened(os.path.expanduser(chosen) if chosen else _user_folder())


@cache
def _opened(folder: str | None) -> DiskCache:
    return DiskCache(folder)


@cache
def _user_folder() -> str:
    return platformdirs.user_cache_dir("tilewright", appauthor=False)


def _is_ours(name: str) -> bool:
    return name.startswith(TEMPORARY) or KEY.fullmatch(name.removesuffix(SUFFIX)) is not None


def _write_whole(path: Path, data: bytes) -> None:
    """Write beside the target, then rename over it: readers see the old or the new file."""
    handle, temporary = tempfile.mkstemp(".tmp", TEMPORARY, path.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: str | Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
