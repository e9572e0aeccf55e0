"""The disk cache: round trips, damage, hostile folders, eviction, many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tilewright import config
from tilewright.codegen import objects
from tilewright.runtime import cache
from tilewright.runtime.cache import DiskCache, default_cache, digest

KEY = digest("kernel")
FILES = {"code.o": b"\x00\x7fELF" * 100, "meta.json": b"{}", "empty": b""}


def test_what_was_put_is_got(tmp_path):
    DiskCache(tmp_path / "new" / "deep").put(KEY, FILES)
    assert DiskCache(tmp_path / "new" / "deep").get(KEY) == FILES
    assert DiskCache(tmp_path / "new" / "deep").get(digest("another")) is None


def test_a_put_replaces(tmp_path):
    store = DiskCache(tmp_path)
    store.put(KEY, FILES)
    store.put(KEY, {"code.o": b"new"})
    assert store.get(KEY) == {"code.o": b"new"}
    assert store.stats().entries == 1


def test_every_damaged_byte_is_noticed(tmp_path):
    store = DiskCache(tmp_path)
    store.put(KEY, {"a": b"payload"})
    (path,) = tmp_path.glob("*.tile")
    good = path.read_bytes()
    for i in range(len(good)):
        path.write_bytes(good[:i] + bytes([good[i] ^ 0x20]) + good[i + 1 :])
        assert store.get(KEY) is None
        assert not path.exists()
    path.write_bytes(good)
    assert store.get(KEY) == {"a": b"payload"}


def test_every_truncation_is_noticed(tmp_path):
    store = DiskCache(tmp_path)
    store.put(KEY, {"a": b"payload"})
    (path,) = tmp_path.glob("*.tile")
    good = path.read_bytes()
    for data in (*(good[:n] for n in range(len(good))), good + b"x"):
        path.write_bytes(data)
        assert store.get(KEY) is None
        assert not path.exists()


def test_an_entry_under_another_key_is_not_taken(tmp_path):
    store = DiskCache(tmp_path)
    store.put(KEY, FILES)
    other = digest("other")
    os.rename(tmp_path / f"{KEY}.tile", tmp_path / f"{other}.tile")
    assert store.get(other) is None


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "ABCDEF0123", "kernel", KEY + "\n"])
def test_a_key_is_a_hex_digest(tmp_path, key):
    with pytest.raises(ValueError, match="a cache key is a hex digest"):
        DiskCache(tmp_path).get(key)
    with pytest.raises(ValueError, match="a cache key is a hex digest"):
        DiskCache(tmp_path).put(key, FILES)


def test_a_folder_that_cannot_be_does_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DiskCache(tmp_path / "file")
    store.put(KEY, FILES)
    assert store.get(KEY) is None
    assert store.stats().entries == 0
    assert store.clear() == 0
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_still_gives_its_entries(tmp_path):
    DiskCache(tmp_path).put(KEY, FILES)
    tmp_path.chmod(0o500)
    try:
        DiskCache(tmp_path).put(digest("new"), FILES)
        assert DiskCache(tmp_path).get(KEY) == FILES
        assert DiskCache(tmp_path).get(digest("new")) is None
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_leaves_no_debris(tmp_path, monkeypatch):
    def full(*names):
        raise OSError(28, "No space left on device")

    store = DiskCache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    store.put(KEY, FILES)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    assert store.get(KEY) is None


def test_the_least_recently_used_go_first(tmp_path):
    store = DiskCache(tmp_path, limit=12_000)
    keys = [digest(str(i)) for i in range(9)]
    now = time.time()
    for age, key in enumerate(keys):
        store.put(key, {"a": bytes(1000)})
        when = now - 10_000 + age
        os.utime(tmp_path / f"{key}.tile", (when, when))
    assert store.get(keys[0]) is not None  # long unused, so this use is noted
    newest = digest("newest")
    store.put(newest, {"a": bytes(2000)})
    assert store.stats().bytes <= 9000
    assert store.get(keys[0]) is not None
    assert store.get(newest) is not None
    assert store.get(keys[1]) is None
    assert store.get(keys[8]) is not None


def test_sweeping_is_rare_and_takes_abandoned_writes(tmp_path, monkeypatch):
    sweeps = []
    sweep = DiskCache._sweep
    monkeypatch.setattr(DiskCache, "_sweep", lambda self: (sweeps.append(1), sweep(self)))
    abandoned = tmp_path / f"{cache.TEMPORARY}x.tmp"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (0, 0))
    mine = tmp_path / "notes.tmp"
    mine.write_bytes(b"not ours")
    os.utime(mine, (0, 0))
    store = DiskCache(tmp_path)
    for i in range(20):
        store.put(digest(str(i)), FILES)
    DiskCache(tmp_path).put(KEY, FILES)
    assert len(sweeps) == 1
    assert not abandoned.exists()
    assert mine.exists()


def test_clear_takes_only_what_is_ours(tmp_path):
    store = DiskCache(tmp_path)
    for i in range(3):
        store.put(digest(str(i)), FILES)
    (tmp_path / "README.txt").write_text("keep")
    assert store.stats() == cache.CacheStats(tmp_path, 3, store.stats().bytes, cache.GIB)
    assert store.stats().bytes > 3 * 500
    assert store.clear() == 3
    assert [p.name for p in tmp_path.iterdir()] == ["README.txt"]


def test_many_processes_write_the_same_entries(tmp_path):
    program = (
        "import sys\n"
        "from tilewright.runtime.cache import DiskCache, digest\n"
        "store = DiskCache(sys.argv[1])\n"
        "for turn in range(40):\n"
        "    for k in range(4):\n"
        "        key, files = digest(str(k)), {'a': bytes([k]) * 5000}\n"
        "        store.put(key, files)\n"
        "        assert store.get(key) == files\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    running = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert DiskCache(tmp_path).stats().entries == 4
    assert not list(tmp_path.glob(f"{cache.TEMPORARY}*"))


def test_digest_tells_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") != digest(b"a")
    assert digest("a", "") != digest("a")
    assert digest("a", b"b") == digest("a", b"b")
    assert len(digest("\ud800 in a source")) == 64


def test_the_default_follows_the_settings(tmp_path):
    with config.options(cache=True, cache_dir=str(tmp_path)):
        assert default_cache().folder == tmp_path
        assert default_cache() is default_cache()
    with config.options(cache=True, cache_dir="~/there"):
        assert default_cache().folder == cache.Path("~/there").expanduser()
    with config.options(cache=True, cache_dir=""):
        assert "tilewright" in str(default_cache().folder)
    with config.options(cache=False, cache_dir=str(tmp_path)):
        default_cache().put(KEY, FILES)
        assert default_cache().get(KEY) is None
        assert default_cache().stats().folder is None
        assert default_cache().clear() == 0
    assert list(tmp_path.iterdir()) == []


LAUNCH = """
import sys
import numpy as np
from tilewright import jit, language as tl

@jit
def twice(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

x = np.arange(64, dtype=np.float32)
for _ in range(5):
    twice[(1,)](x, BLOCK=64)
assert (x == 32 * np.arange(64)).all()
print([m for m in ("llvmlite.binding", "tilewright.targets.cpu.lower") if m in sys.modules])
"""


@pytest.mark.skipif(not objects.is_possible(), reason="linked by LLVM here")
def test_kernels_on_disk_run_without_llvm(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LAUNCH)
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path), "TILEWRIGHT_CACHE": "1"}
    command = [sys.executable, str(program)]
    said = [subprocess.check_output(command, env=environment, text=True) for _ in range(2)]
    assert said == ["['llvmlite.binding', 'tilewright.targets.cpu.lower']\n", "[]\n"]


COLLECTED = """
import gc
import numpy as np
from tilewright import jit, language as tl

@jit
def ones(x):
    tl.store(x, seen())

@tl.constexpr_function
def seen():
    return float(gc.isenabled())

x = np.full(1, 5, np.float32)
for enabled in (True, False):
    gc.enable() if enabled else gc.disable()
    ones[(1,)](x, num_warps=1 + enabled)
    assert gc.isenabled() == enabled
    print(x[0])
"""


def test_garbage_is_looked_for_after_a_compilation(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(COLLECTED)
    environment = {**os.environ, "TILEWRIGHT_CACHE": "0"}
    said = subprocess.check_output([sys.executable, str(program)], env=environment, text=True)
    assert said == "0.0\n0.0\n"
