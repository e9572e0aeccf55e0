# ruff: noqa: E501 - the texts of changes are lines of kernels
"""Planted faults in kernels of inference: paged attention, experts, packing, compaction, sampling."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(6)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


PAGED = """
@triton.jit
def decode(q_ptr, k_ptr, v_ptr, table_ptr, lens_ptr, acc_ptr, lse_ptr, stride_table,
           PAGE: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr):
    seq, split = tl.program_id(0), tl.program_id(1)
    n = tl.load(lens_ptr + seq)
    per = tl.cdiv(tl.cdiv(n, PAGE), SPLITS)
    first, last = split * per, tl.minimum((split + 1) * per, tl.cdiv(n, PAGE))
    d = tl.arange(0, D)
    slot = tl.arange(0, PAGE)
    q = tl.load(q_ptr + seq * D + d)
    m, l = float("-inf"), 0.0
    acc = tl.zeros((D,), tl.float32)
    for p in range(first, last):
        page = tl.load(table_ptr + seq * stride_table + p).to(tl.int64)
        inside = p * PAGE + slot < n
        at = (page * PAGE + slot)[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        s = tl.sum(q[None, :] * k, axis=1)
        s = tl.where(inside, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, axis=0))
        alpha = tl.exp(m - new)
        w = tl.exp(s - new)
        l = l * alpha + tl.sum(w, axis=0)
        acc = acc * alpha + tl.sum(w[:, None] * v, axis=0)
        m = new
    if last > first:
        tl.store(acc_ptr + (seq * SPLITS + split) * D + d, acc / l)
        tl.store(lse_ptr + seq * SPLITS + split, m + tl.log(l))
    else:
        tl.store(acc_ptr + (seq * SPLITS + split) * D + d, tl.zeros((D,), tl.float32))
        tl.store(lse_ptr + seq * SPLITS + split, float("-inf"))


@triton.jit
def combine(acc_ptr, lse_ptr, o_ptr, D: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    seq = tl.program_id(0)
    d, s = tl.arange(0, D), tl.arange(0, BLOCK)
    lse = tl.load(lse_ptr + seq * SPLITS + s, mask=s < SPLITS, other=float("-inf"))
    w = tl.exp(lse - tl.max(lse, axis=0))
    w = w / tl.sum(w, axis=0)
    at = (seq * SPLITS + s)[:, None] * D + d[None, :]
    acc = tl.load(acc_ptr + at, mask=(s < SPLITS)[:, None], other=0.0)
    tl.store(o_ptr + seq * D + d, tl.sum(acc * w[:, None], axis=0))


@triton.jit
def write_cache(x_ptr, cache_ptr, slots_ptr, D: tl.constexpr):
    token = tl.program_id(0)
    d = tl.arange(0, D)
    slot = tl.load(slots_ptr + token)
    if slot >= 0:
        tl.store(cache_ptr + slot * D + d, tl.load(x_ptr + token * D + d))
"""


def paged(k, lens=(13, 3), slots=(3, -1, 7, 0), pages=((2, 0, 5, 1), (4, 3, 0, 0))):
    table = np.array(pages, np.int32)
    q, key, v = floats(2, 8), floats(6, 4, 8), floats(6, 4, 8)
    acc, lse, o = np.empty((2, 3, 8), np.float32), np.empty((2, 3), np.float32), np.empty_like(q)
    k.decode[(2, 3)](q, key, v, table, np.array(lens, np.int32), acc, lse, 4, PAGE=4, D=8, SPLITS=3)
    k.combine[(2,)](acc, lse, o, D=8, SPLITS=3, BLOCK=4)
    k.write_cache[(4,)](floats(4, 8), key.reshape(24, 8), np.array(slots, np.int64), D=8)
    assert np.isfinite(o).all() or True


paged_family = Family(
    "paged", PAGED, paged,
    (
        Fault("page that is not there", "bounds", run=lambda k: paged(k, pages=((2, 0, 6, 1), (4, 3, 0, 0))),
              at="k = tl.load(k_ptr", argument="k_ptr", program=(0, 1, 0)),
        Fault("more tokens than pages", "bounds", run=lambda k: paged(k, lens=(13, 20)),
              at="page = tl.load", argument="table_ptr", program=(1, 2, 0)),
        Fault("negative slot", "bounds", change("if slot >= 0:", "if slot >= -1:"),
              at="tl.store(cache_ptr", argument="cache_ptr", program=(1, 0, 0)),
        Fault("one slot for two tokens", "race", run=lambda k: paged(k, slots=(3, -1, 3, 0)),
              at="tl.store(cache_ptr", argument="cache_ptr", program=(2, 0, 0), says="(0, 0, 0)"),
        Fault("empty splits not written", "undefined",
              change("        tl.store(lse_ptr + seq * SPLITS + split, float(\"-inf\"))\n", ""),
              at="lse = tl.load", argument="lse_ptr"),
        Fault("empty splits divided", "nan", change("if last > first:", "if True:"), argument="acc_ptr",
              at="acc / l"),
        Fault("tokens of the last page not masked", "masked",
              change('        s = tl.where(inside, s, float("-inf"))\n', ""),
              at="k = tl.load(k_ptr", argument="k_ptr"),
        Fault("lse of 0 for missing splits", "masked",
              change('mask=s < SPLITS, other=float("-inf")', "mask=s < SPLITS, other=0.0"),
              argument="lse_ptr"),
        Fault("splits of a sequence overlap", "race",
              change("(seq * SPLITS + split) * D + d, acc / l", "(seq + split) * D + d, acc / l"),
              argument="acc_ptr", also=("undefined", "race")),
    ),
)  # fmt: skip

EXPERTS = """
@triton.jit
def experts(x_ptr, w_ptr, out_ptr, ids_ptr, expert_ptr, weight_ptr, tokens, K, N, TOP: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    ids = tl.load(ids_ptr + m * BM + tl.arange(0, BM))
    valid = ids < tokens * TOP
    expert = tl.load(expert_ptr + m).to(tl.int64)
    cols = n * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_ptr + (ids // TOP)[:, None] * K + k + ks[None, :],
                    mask=valid[:, None] & (k + ks[None, :] < K), other=0.0)
        w = tl.load(w_ptr + expert * K * N + (k + ks)[:, None] * N + cols[None, :],
                    mask=(k + ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(x, w)
    weight = tl.load(weight_ptr + ids, mask=valid, other=0.0)
    acc *= weight[:, None]
    tl.store(out_ptr + ids[:, None] * N + cols[None, :], acc, mask=valid[:, None] & (cols[None, :] < N))
"""


def experts(k, ids=None, chosen=(0, 2)):
    ids = list(range(10)) if ids is None else ids
    ids = np.array(ids + [10] * (32 - len(ids)), np.int32)
    x, w, out = floats(5, 24), floats(3, 24, 20), np.zeros((10, 20), np.float32)
    k.experts[(2, 2)](x, w, out, ids, np.array(chosen, np.int32), floats(10), 5, 24, 20, TOP=2,
                      BM=16, BN=16, BK=16)  # fmt: skip


experts_family = Family(
    "experts", EXPERTS, experts,
    (
        Fault("padding is taken", "bounds", change("ids < tokens * TOP", "ids <= tokens * TOP"),
              at="x = tl.load", argument="x_ptr"),
        Fault("expert that is not there", "bounds", run=lambda k: experts(k, chosen=(0, 3)),
              at="w = tl.load", argument="w_ptr", program=(1, 0, 0)),
        Fault("one output for a token", "race", change("out_ptr + ids[:, None] * N", "out_ptr + (ids // TOP)[:, None] * N"),
              argument="out_ptr", says="lanes of one store"),
        Fault("k not masked in x", "bounds", change("valid[:, None] & (k + ks[None, :] < K)", "valid[:, None]"),
              at="x = tl.load", argument="x_ptr", program=(0, 0, 0)),
    ),
)  # fmt: skip

PACK = """
@triton.jit
def pack(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = tl.load(x_ptr + 2 * at, mask=2 * at < n, other=0)
    high = tl.load(x_ptr + 2 * at + 1, mask=2 * at + 1 < n, other=0)
    tl.store(out_ptr + at, (low & 15) | ((high & 15) << 4), mask=2 * at < n)


@triton.jit
def compact(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    keep = (x > 0) & (at < n)
    place = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), axis=0))
    tl.store(out_ptr + start + place, x, mask=keep)


@triton.jit
def group_norm(x_ptr, y_ptr, w_ptr, groups, size, channels, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total, square = 0.0, 0.0
    for i in range(0, size, BLOCK):
        x = tl.load(x_ptr + row * size + i + at, mask=i + at < size, other=0.0)
        total += tl.sum(x, axis=0)
        square += tl.sum(x * x, axis=0)
    mean = total / size
    scale = tl.rsqrt(square / size - mean * mean + eps)
    for i in range(0, size, BLOCK):
        inside = i + at < size
        x = tl.load(x_ptr + row * size + i + at, mask=inside, other=0.0)
        w = tl.load(w_ptr + (row % groups) * channels + (i + at) // (size // channels), mask=inside)
        tl.store(y_ptr + row * size + i + at, (x - mean) * scale * w, mask=inside)
"""


def packed(k):
    x = rng.integers(0, 16, 50).astype(np.uint8)
    k.pack[(2,)](x, np.empty(25, np.uint8), 50, BLOCK=16)
    x, out, count = floats(100), np.empty(100, np.float32), np.zeros(1, np.int32)
    k.compact[(4,)](x, out, count, 100, BLOCK=32)
    assert out[: count[0]].sum() > 0
    x = floats(2 * 3, 4 * 10)
    k.group_norm[(6,)](x, np.empty_like(x), floats(12), 3, 40, 4, 1e-5, BLOCK=32)


pack_family = Family(
    "packing", PACK, packed,
    (
        Fault("halves stored one by one", "race",
              change("tl.store(out_ptr + at, (low & 15) | ((high & 15) << 4), mask=2 * at < n)",
                     "tl.store(out_ptr + at // 2, (low & 15) | ((high & 15) << 4), mask=2 * at < n)"),
              argument="out_ptr", program=(0, 0, 0), says="lanes of one store"),
        Fault("nibble shifted out", "bounds", change("high = tl.load(x_ptr + 2 * at + 1, mask=2 * at + 1 < n", "high = tl.load(x_ptr + 2 * at + 1, mask=2 * at - 1 < n"),
              argument="x_ptr", program=(1, 0, 0)),
        Fault("count without atomics", "race",
              change("start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), axis=0))",
                     "start = tl.load(count_ptr)\n    tl.store(count_ptr, start + tl.sum(keep.to(tl.int32), axis=0))"),
              at="start = tl.load", argument="count_ptr", program=(1, 0, 0), also=("race",)),
        Fault("places not counted from 0", "unwritten",
              change("place = tl.cumsum(keep.to(tl.int32), axis=0) - 1", "place = tl.cumsum(keep.to(tl.int32), axis=0)",
                     "start + place, x", "start + place, x + tl.program_id(0)"),
              at="tl.store(out_ptr + start", argument="out_ptr", says="the first is element 0"),
        Fault("places all the same", "race",
              change("tl.store(out_ptr + start + place", "tl.store(out_ptr + start + place * 0"), argument="out_ptr",
              says="lanes of one store", also=("unwritten",)),
        Fault("groups by the wrong size", "race", change("y_ptr + row * size", "y_ptr + row * channels"),
              argument="y_ptr", program=(1, 0, 0)),
        Fault("weights of more groups", "bounds", change("(row % groups)", "row"), argument="w_ptr",
              at="w = tl.load", program=(3, 0, 0)),
        Fault("variance below 0", "nan", change("- mean * mean + eps", "- mean * mean - 10.0 * eps - 2"),
              argument="y_ptr", program=(0, 0, 0), at="scale = tl.rsqrt"),
        Fault("masked lanes of 1", "masked",
              change("x = tl.load(x_ptr + row * size + i + at, mask=i + at < size, other=0.0)",
                     "x = tl.load(x_ptr + row * size + i + at, mask=i + at < size, other=1.0)"),
              argument="x_ptr", program=(0, 0, 0)),
    ),
)  # fmt: skip

RAGGED = """
@triton.jit
def sequences(x_ptr, y_ptr, ends_ptr, BLOCK: tl.constexpr):
    seq = tl.program_id(0)
    start, end = tl.load(ends_ptr + seq), tl.load(ends_ptr + seq + 1)
    total = 0.0
    for i in range(start, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < end, other=0.0)
        y = total + tl.cumsum(x, axis=0)
        tl.store(y_ptr + at, y, mask=at < end)
        total += tl.sum(x, axis=0)


@triton.jit
def sparse(values_ptr, cols_ptr, rows_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start, end = tl.load(rows_ptr + row), tl.load(rows_ptr + row + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(start, end, BLOCK):
        at = i + tl.arange(0, BLOCK)
        inside = at < end
        cols = tl.load(cols_ptr + at, mask=inside, other=0)
        acc += tl.load(values_ptr + at, mask=inside, other=0.0) * tl.load(x_ptr + cols)
    tl.store(y_ptr + row, tl.sum(acc, axis=0))


@triton.jit
def pool(x_ptr, y_ptr, H, W, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for i in range(K):
        for j in range(K):
            r, c = row * K + i, col * K + j
            x = tl.load(x_ptr + r * W + c, mask=(r < H) & (c < W), other=float("-inf"))
            best = tl.maximum(best, x)
    tl.store(y_ptr + row * tl.cdiv(W, K) + col, best, mask=col < tl.cdiv(W, K))
"""


def ragged(k, ends=(0, 5, 5, 40), cols=None):
    x = floats(40)
    k.sequences[(3,)](x, np.empty_like(x), np.array(ends, np.int32), BLOCK=16)
    cols = rng.integers(0, 30, 40).astype(np.int32) if cols is None else cols
    rows = np.array([0, 10, 10, 40], np.int32)
    k.sparse[(3,)](x, cols, rows, floats(30), np.empty(3, np.float32), BLOCK=16)
    image = -np.abs(floats(5, 9)) - 1
    k.pool[(3,)](image, np.empty((3, 5), np.float32), 5, 9, K=2, BLOCK=8)


ragged_family = Family(
    "ragged", RAGGED, ragged,
    (
        Fault("end of another sequence", "race",
              change("x = tl.load(x_ptr + at, mask=at < end, other=0.0)\n        y", "x = tl.load(x_ptr + at, mask=at < end + 1, other=0.0)\n        y",
                     "y, mask=at < end)", "y, mask=at < end + 1)"),
              at="tl.store(y_ptr + at, y", argument="y_ptr", also=("bounds",)),
        Fault("ends past the array", "bounds", run=lambda k: ragged(k, (0, 5, 5, 44)), at="x = tl.load(x_ptr + at",
              argument="x_ptr", program=(2, 0, 0)),
        Fault("sequences that overlap", "race", run=lambda k: ragged(k, (0, 25, 5, 40)), at="tl.store(y_ptr + at, y",
              argument="y_ptr", program=(2, 0, 0)),
        Fault("column that is not there", "bounds", at="acc += tl.load", argument="x_ptr",
              run=lambda k: ragged(k, cols=np.arange(40, dtype=np.int32))),
        Fault("columns without other", "masked",
              change("mask=inside, other=0)", "mask=inside)"), at="cols = tl.load", argument="cols_ptr"),
        Fault("row pointer one short", "bounds", change("tl.load(rows_ptr + row + 1)", "tl.load(rows_ptr + row + 2)"),
              argument="rows_ptr", program=(2, 0, 0), also=("race",)),
        Fault("pool of 0", "masked", change('mask=(r < H) & (c < W), other=float("-inf")', "mask=(r < H) & (c < W), other=0.0"),
              argument="x_ptr"),
        Fault("pool past the last column", "view", change("(r < H) & (c < W)", "(r < H)"), argument="x_ptr",
              at="x = tl.load(x_ptr + r * W", run=lambda k: pool_slice(k), also=("bounds",)),
    ),
)  # fmt: skip


def pool_slice(k):
    image = floats(5, 12)[:, :9]
    k.pool[(3,)](image, np.empty((3, 5), np.float32), 5, 12, K=2, BLOCK=8)


test_twin, test_fault = cases(paged_family, experts_family, pack_family, ragged_family)
