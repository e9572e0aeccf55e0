# ruff: noqa: E501 - the texts of changes are lines of kernels
"""Planted faults in matrix products: tiled, split along k, with block pointers and descriptors."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(1)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


MATMUL = """
@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BM)
    num_pid_n = tl.cdiv(N, BN)
    in_group = GROUP * num_pid_n
    group_id = pid // in_group
    first_m = group_id * GROUP
    size_m = min(num_pid_m - first_m, GROUP)
    pid_m = first_m + ((pid % in_group) % size_m)
    pid_n = (pid % in_group) // size_m
    offs_am = (pid_m * BM + tl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * sam + offs_k[None, :] * sak)
    b_ptrs = b_ptr + (offs_k[:, None] * sbk + offs_bn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    c = acc.to(tl.float32)
    offs_cm = pid_m * BM + tl.arange(0, BM)
    offs_cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + scm * offs_cm[:, None] + scn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)
"""


def matmul(k, M=40, N=24, K=50, grid=6, out=None):
    a, b = floats(M, K), floats(K, N)
    c = np.empty((M, N), np.float32) if out is None else out
    k.matmul[(grid,)](a, b, c, M, N, K, K, 1, N, 1, N, 1, BM=16, BN=16, BK=32, GROUP=2)


matmul_family = Family(
    "matmul", MATMUL, matmul,
    (
        Fault("a without a mask of k", "bounds",
              change("a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0", "a_ptrs"),
              argument="a_ptr"),
        Fault("b without a mask of k", "bounds",
              change("b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0", "b_ptrs"),
              argument="b_ptr"),
        Fault("a without other", "masked",
              change("offs_k[None, :] < K - k * BK, other=0.0", "offs_k[None, :] < K - k * BK"),
              argument="a_ptr"),
        Fault("other=1 on both", "masked",
              change("offs_k[None, :] < K - k * BK, other=0.0",
                     "offs_k[None, :] < K - k * BK, other=1.0",
                     "offs_k[:, None] < K - k * BK, other=0.0",
                     "offs_k[:, None] < K - k * BK, other=1.0"), argument="a_ptr"),
        Fault("mask of k does not move", "bounds",
              change("offs_k[:, None] < K - k * BK", "offs_k[:, None] < K"), argument="b_ptr"),
        Fault("rows without % M", "bounds",
              change("(pid_m * BM + tl.arange(0, BM)) % M", "(pid_m * BM + tl.arange(0, BM))"),
              at="a = tl.load(", argument="a_ptr"),
        Fault("no mask of columns", "race", change(" & (offs_cn[None, :] < N)", ""),
              at="tl.store(c_ptrs", argument="c_ptr", also=("bounds",)),
        Fault("no mask of rows", "bounds",
              change("(offs_cm[:, None] < M) & (offs_cn[None, :] < N)", "(offs_cn[None, :] < N)"),
              at="tl.store(c_ptrs", argument="c_ptr", also=("masked",)),
        Fault("masks of each other's axis", "bounds",
              change("(offs_cm[:, None] < M) & (offs_cn[None, :] < N)",
                     "(offs_cm[:, None] < N) & (offs_cn[None, :] < M)"),
              at="tl.store(c_ptrs", argument="c_ptr", also=("race", "masked"),
              run=lambda k: matmul(k, M=24, N=40)),
        Fault("strides of c swapped", "race",
              change("scm * offs_cm[:, None] + scn * offs_cn[None, :]",
                     "scn * offs_cm[:, None] + scm * offs_cn[None, :]"),
              at="tl.store(c_ptrs", argument="c_ptr", also=("bounds",)),
        Fault("strides of b swapped", "bounds",
              change("offs_k[:, None] * sbk + offs_bn[None, :] * sbn",
                     "offs_k[:, None] * sbn + offs_bn[None, :] * sbk"),
              at="b = tl.load(", argument="b_ptr"),
        Fault("steps of a by BM", "bounds", change("a_ptrs += BK * sak", "a_ptrs += BM * BK * sak"),
              at="a = tl.load(", argument="a_ptr"),
        Fault("adds to what is empty", "undefined",
              change("c = acc.to(tl.float32)", "c = acc",
                     "tl.store(c_ptrs, c, mask=c_mask)",
                     "c += tl.load(c_ptrs, mask=c_mask)\n    tl.store(c_ptrs, c, mask=c_mask)"),
              at="c += tl.load(", argument="c_ptr", program=(0, 0, 0)),
    ),
)  # fmt: skip

SPLIT = """
@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    part = tl.program_id(1)
    rows = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(part * BLOCK, K, SPLIT * BLOCK):
        ks = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + ks, mask=(rows[:, None] < M) & (ks < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols, mask=(ks[:, None] < K) & (cols < N), other=0.0)
        acc += tl.dot(a, b)
    at = c_ptr + rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.atomic_add(at, acc, mask=mask)
"""


def split_k(k, c=None):
    a, b = floats(20, 60), floats(60, 12)
    c = np.zeros((20, 12), np.float32) if c is None else c
    k.split_k[(2, 3)](a, b, c, 20, 12, 60, SPLIT=3, BLOCK=16)


split_family = Family(
    "split k", SPLIT, split_k,
    (
        Fault("load, add, store", "race",
              change("tl.atomic_add(at, acc, mask=mask)",
                     "tl.store(at, tl.load(at, mask=mask) + acc, mask=mask)"), argument="c_ptr"),
        Fault("plain store", "race",
              change("tl.atomic_add(at, acc, mask=mask)", "tl.store(at, acc, mask=mask)"),
              argument="c_ptr", program=(0, 1, 0)),
        Fault("sums into empty", "undefined", at="tl.atomic_add", argument="c_ptr",
              run=lambda k: split_k(k, np.empty((20, 12), np.float32))),
        Fault("atomic without a mask", "bounds", change("acc, mask=mask)", "acc)"),
              argument="c_ptr"),
        Fault("rows of a not masked", "bounds", change("(rows[:, None] < M) & (ks < K)", "ks[None, :] < K"),
              at="a = tl.load", argument="a_ptr", program=(1, 0, 0)),
    ),
)  # fmt: skip

STREAM = """
@triton.jit
def stream_k(a_ptr, b_ptr, c_ptr, parts_ptr, flags_ptr, M, N, K, PARTS: tl.constexpr,
             BLOCK: tl.constexpr):
    part = tl.program_id(0)
    rows = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(part * BLOCK, K, PARTS * BLOCK):
        ks = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + rows[None, :])
        acc += tl.dot(a, b)
    tile = rows[:, None] * BLOCK + rows[None, :]
    if part < PARTS - 1:
        tl.store(parts_ptr + part * BLOCK * BLOCK + tile, acc)
        tl.debug_barrier()
        tl.atomic_xchg(flags_ptr + part, 1)
    else:
        for p in range(0, PARTS - 1):
            while tl.atomic_cas(flags_ptr + p, 1, 1) != 1:
                pass
            acc += tl.load(parts_ptr + p * BLOCK * BLOCK + tile)
        tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc)
"""


def stream_k(k):
    a, b, c = floats(16, 96), floats(96, 16), np.empty((16, 16), np.float32)
    parts, flags = np.empty((2, 16, 16), np.float32), np.zeros(2, np.int32)
    k.stream_k[(3,)](a, b, c, parts, flags, 16, 16, 96, PARTS=3, BLOCK=16)


stream_family = Family(
    "stream k", STREAM, stream_k,
    (
        Fault("nobody waits", "race",
              change("            while tl.atomic_cas(flags_ptr + p, 1, 1) != 1:\n"
                     "                pass\n", ""), at="acc += tl.load(", argument="parts_ptr",
              program=(2, 0, 0)),
        Fault("the first one waits", "deadlock",
              change("if part < PARTS - 1", "if part > 0",
                     "            while tl.atomic_cas(flags_ptr + p, 1, 1) != 1",
                     "            while tl.atomic_cas(flags_ptr + p + 0, 1, 1) != 1"),
              at="while tl.atomic_cas"),
        Fault("relaxed flag", "race",
              change("tl.atomic_xchg(flags_ptr + part, 1)",
                     'tl.atomic_xchg(flags_ptr + part, 1, sem="relaxed")'),
              at="acc += tl.load(", argument="parts_ptr"),
        Fault("flag for one program only", "race",
              change("tl.atomic_xchg(flags_ptr + part, 1)",
                     'tl.atomic_xchg(flags_ptr + part, 1, scope="cta")'),
              at="acc += tl.load(", argument="parts_ptr"),
        Fault("waits for the wrong flag", "race",
              change("atomic_cas(flags_ptr + p, 1, 1)", "atomic_cas(flags_ptr, 1, 1)"),
              at="acc += tl.load(", argument="parts_ptr"),
        Fault("parts in one place", "race",
              change("parts_ptr + part * BLOCK * BLOCK + tile", "parts_ptr + tile"),
              at="tl.store(parts_ptr", argument="parts_ptr", program=(1, 0, 0),
              also=("undefined",)),
    ),
)  # fmt: skip

BLOCKS = """
@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    a_at = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (m * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    b_at = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, n * BLOCK), (BLOCK, BLOCK), (1, 0))
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_at, boundary_check=(0, 1))
        b = tl.load(b_at, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(a, b)
        a_at = tl.advance(a_at, (0, BLOCK))
        b_at = tl.advance(b_at, (BLOCK, 0))
    c_at = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (m * BLOCK, n * BLOCK), (BLOCK, BLOCK), (1, 0))
    tl.store(c_at, acc, boundary_check=(0, 1))
"""


def blocks(k):
    a, b, c = floats(20, 40), floats(40, 24), np.empty((20, 24), np.float32)
    k.product[(2, 2)](a, b, c, 20, 24, 40, BLOCK=16)


block_family = Family(
    "block pointers", BLOCKS, blocks,
    (
        Fault("a checked along one axis", "bounds",
              change("a = tl.load(a_at, boundary_check=(0, 1))", "a = tl.load(a_at, boundary_check=(1,))"),
              argument="a_ptr", program=(1, 0, 0)),
        Fault("b checked along the wrong axis", "bounds",
              change("b = tl.load(b_at, boundary_check=(0, 1)", "b = tl.load(b_at, boundary_check=(1,)"),
              argument="b_ptr", program=(0, 0, 0)),
        Fault("padded with NaN", "masked", at="b = tl.load(b_at", argument="b_ptr",
              change=change('boundary_check=(0, 1), padding_option="zero"',
                            'boundary_check=(0, 1), padding_option="nan"')),
        Fault("store not checked", "bounds",
              change("tl.store(c_at, acc, boundary_check=(0, 1))", "tl.store(c_at, acc)"),
              argument="c_ptr", program=(1, 0, 0)),
        Fault("columns of the store not checked", "race",
              change("tl.store(c_at, acc, boundary_check=(0, 1))",
                     "tl.store(c_at, acc, boundary_check=(0,))"),
              argument="c_ptr", program=(0, 1, 0), also=("bounds",)),
        Fault("shape of the other one", "bounds",
              change("c_ptr, (M, N), (N, 1)", "c_ptr, (K, N), (N, 1)"), at="tl.store(c_at",
              argument="c_ptr"),
        Fault("strides swapped", "bounds",
              change("c_ptr, (M, N), (N, 1)", "c_ptr, (M, N), (1, N)"), at="tl.store(c_at",
              argument="c_ptr", program=(0, 1, 0)),
    ),
)  # fmt: skip

DESCRIPTOR = """
@triton.jit
def double(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y.store([m * BLOCK, n * BLOCK], 2 * x.load([m * BLOCK, n * BLOCK]))
"""


def descriptor(k):
    x = floats(20, 24)
    k.double[(2, 2)](x, np.empty_like(x), 20, 24, BLOCK=16)


descriptor_family = Family(
    "descriptors", DESCRIPTOR, descriptor,
    (
        Fault("too many rows", "bounds",
              change("tl.make_tensor_descriptor(x_ptr, [M, N]", "tl.make_tensor_descriptor(x_ptr, [2 * M, N]"),
              at="y.store(", argument="x_ptr", program=(1, 0, 0)),
        Fault("all rows of tiles in one place", "race",
              change("y.store([m * BLOCK, n * BLOCK]", "y.store([n * BLOCK, n * BLOCK]"),
              argument="y_ptr"),
    ),
)  # fmt: skip

ATTENTION = """
@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, N, scale, D: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr):
    start, head = tl.program_id(0), tl.program_id(1)
    q_ptr += head * N * D
    k_ptr += head * N * D
    v_ptr += head * N * D
    o_ptr += head * N * D
    rows = start * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=rows[:, None] < N, other=0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, N, BN):
        cols = n + tl.arange(0, BN)
        k = tl.load(k_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)
        v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)
        qk = tl.dot(q, tl.trans(k)) * scale
        qk = tl.where(cols[None, :] < N, qk, float("-inf"))
        new = tl.maximum(m, tl.max(qk, 1))
        p = tl.exp(qk - new[:, None])
        alpha = tl.exp(m - new)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v)
        m = new
    acc = acc / l[:, None]
    tl.store(lse_ptr + head * N + rows, m + tl.log(l), mask=rows < N)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc, mask=rows[:, None] < N)
"""


def attention(k, N=40):
    q, key, v = floats(2, N, 16), floats(2, N, 16), floats(2, N, 16)
    o, lse = np.empty_like(q), np.empty((2, N), np.float32)
    k.attention[(3, 2)](q, key, v, o, lse, N, 0.25, D=16, BM=16, BN=16)


attention_family = Family(
    "attention", ATTENTION, attention,
    (
        Fault("keys not masked", "masked",
              change('        qk = tl.where(cols[None, :] < N, qk, float("-inf"))\n', ""),
              at="k = tl.load(k_ptr", argument="k_ptr", says="changes the sum at"),
        Fault("k without other", "masked",
              change("k = tl.load(k_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)",
                     "k = tl.load(k_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N)",
                     '        qk = tl.where(cols[None, :] < N, qk, float("-inf"))\n', ""),
              argument="k_ptr"),
        Fault("v without other", "masked",
              change("v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)",
                     "v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N)"),
              argument="v_ptr"),
        Fault("v without a mask", "bounds",
              change("v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)",
                     "v = tl.load(v_ptr + cols[:, None] * D + d[None, :])"),
              argument="v_ptr", program=(0, 1, 0)),
        Fault("output not masked", "race",
              change("acc, mask=rows[:, None] < N)", "acc)"), argument="o_ptr", also=("bounds",)),
        Fault("heads share a row of lse", "race", change("lse_ptr + head * N + rows", "lse_ptr + rows"),
              argument="lse_ptr", program=(0, 1, 0)),
        Fault("first maximum is NaN", "nan", change("alpha = tl.exp(m - new)", "alpha = tl.exp(m - m)"),
              at="alpha = tl.exp(m - m)"),
    ),
)  # fmt: skip

test_twin, test_fault = cases(
    matmul_family, split_family, stream_family, block_family, descriptor_family, attention_family
)
