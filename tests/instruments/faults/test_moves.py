# ruff: noqa: E501 - the texts of changes are lines of kernels
"""Planted faults in kernels that move elements: copies, transposes, gathers, stencils, rope, conv."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(3)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


ADD = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    y = tl.load(y_ptr + at, mask=mask)
    tl.store(out_ptr + at, x + y, mask=mask)
"""


def add(k, n=100, grid=4, size=100, out=None):
    x, y = floats(size), floats(size)
    k.add[(grid,)](x, y, np.empty(size, np.float32) if out is None else out, n, BLOCK=32)


add_family = Family(
    "add", ADD, add,
    (
        Fault("mask <=", "bounds", change("at < n", "at <= n"), at="x = tl.load",
              argument="x_ptr", program=(3, 0, 0)),
        Fault("n of something else", "bounds", run=lambda k: add(k, n=112), at="x = tl.load",
              argument="x_ptr", program=(3, 0, 0)),
        Fault("mask of one load only", "bounds", change("y_ptr + at, mask=mask", "y_ptr + at"),
              argument="y_ptr", program=(3, 0, 0)),
        Fault("no mask of the store", "bounds", change("x + y, mask=mask", "x + y"),
              argument="out_ptr", program=(3, 0, 0), also=("masked",)),
        Fault("out is too short", "bounds", run=lambda k: add(k, out=np.empty(90, np.float32)),
              at="tl.store", argument="out_ptr", program=(2, 0, 0)),
        Fault("blocks that overlap", "race", change("pid * BLOCK +", "pid * BLOCK // 2 +",
                                                    "x + y", "x + y + pid"),
              at="tl.store", argument="out_ptr", program=(1, 0, 0)),
        Fault("starts before the array", "bounds", change("pid * BLOCK +", "(pid - 1) * BLOCK +"),
              at="x = tl.load", argument="x_ptr", program=(0, 0, 0), says="element -32"),
        Fault("input that nobody wrote", "undefined", change("y_ptr + at", "out_ptr + at"),
              argument="out_ptr", program=(0, 0, 0)),
        Fault("half of the mask is another", "masked",
              change("x = tl.load(x_ptr + at, mask=mask)", "x = tl.load(x_ptr + at, mask=at < n - 1)"),
              argument="x_ptr", program=(3, 0, 0)),
    ),
)  # fmt: skip

TRANSPOSE = """
@triton.jit
def transpose(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside)
    tl.store(y_ptr + n[None, :] * M + m[:, None], x, mask=inside)
"""


def transpose(k, grid=(2, 3)):
    x = floats(20, 40)
    k.transpose[grid](x, np.empty((40, 20), np.float32), 20, 40, BLOCK=16)


transpose_family = Family(
    "transpose", TRANSPOSE, transpose,
    (
        Fault("strides of the input", "race", change("n[None, :] * M + m[:, None]",
                                                     "m[:, None] * M + n[None, :]"),
              at="tl.store", argument="y_ptr", program=(0, 1, 0), also=("race",)),
        Fault("axes of the grid swapped", "bounds",
              change("m = tl.program_id(0)", "m = tl.program_id(1)",
                     "n = tl.program_id(1)", "n = tl.program_id(0)",
                     "(m[:, None] < M) & (n[None, :] < N)", "(n[None, :] < N)"),
              at="x = tl.load", argument="x_ptr", program=(0, 1, 0)),
        Fault("sizes of each other", "bounds",
              change("(m[:, None] < M) & (n[None, :] < N)", "(m[:, None] < N) & (n[None, :] < M)"),
              at="x = tl.load", argument="x_ptr"),
        Fault("only rows masked", "bounds",
              change("x, mask=inside)", "x, mask=m[:, None] < M)"),
              argument="y_ptr", program=(0, 2, 0), also=("masked",)),
    ),
)  # fmt: skip

GATHER = """
@triton.jit
def embed(ids_ptr, table_ptr, out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    ids = tl.load(ids_ptr + at, mask=at < n)
    rows = tl.load(table_ptr + ids[:, None] * D + d[None, :], mask=at[:, None] < n)
    tl.store(out_ptr + at[:, None] * D + d[None, :], rows, mask=at[:, None] < n)


@triton.jit
def embed_grad(ids_ptr, dy_ptr, dtable_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    ids = tl.load(ids_ptr + at, mask=at < n)
    dy = tl.load(dy_ptr + at[:, None] * D + d[None, :], mask=at[:, None] < n)
    tl.atomic_add(dtable_ptr + ids[:, None] * D + d[None, :], dy, mask=at[:, None] < n)


@triton.jit
def scatter(ids_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + at, mask=at < n)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + ids, x, mask=at < n)
"""


def gather(k, ids=None, targets=None):
    ids = np.array([3, 0, 7, 7, 1, 2] if ids is None else ids, np.int64)
    x, table = floats(6, 8), floats(8, 8)
    k.embed[(2,)](ids, table, np.empty_like(x), 6, D=8, BLOCK=4)
    k.embed_grad[(2,)](ids, x, np.zeros((8, 8), np.float32), 6, D=8, BLOCK=4)
    targets = np.array([3, 0, 7, 6, 1, 2] if targets is None else targets, np.int64)
    k.scatter[(2,)](targets, floats(6), np.zeros(8, np.float32), 6, BLOCK=4)


gather_family = Family(
    "gather", GATHER, gather,
    (
        Fault("id past the table", "bounds", run=lambda k: gather(k, [3, 0, 7, 7, 1, 8]),
              at="rows = tl.load", argument="table_ptr", program=(1, 0, 0)),
        Fault("negative id", "bounds", run=lambda k: gather(k, [3, 0, 7, -1, 1, 2]),
              at="rows = tl.load", argument="table_ptr", program=(0, 0, 0), says="before the start"),
        Fault("rows not masked", "masked",
              change("rows = tl.load(table_ptr + ids[:, None] * D + d[None, :], mask=at[:, None] < n)",
                     "rows = tl.load(table_ptr + ids[:, None] * D + d[None, :])"),
              at="    ids = tl.load(ids_ptr + at, mask=at < n)\n".strip(), argument="ids_ptr",
              program=(1, 0, 0)),
        Fault("sum without atomics", "race",
              change("tl.atomic_add(dtable_ptr + ids[:, None] * D + d[None, :], dy, mask",
                     "tl.store(dtable_ptr + ids[:, None] * D + d[None, :], dy, mask"),
              argument="dtable_ptr", program=(0, 0, 0), says="lanes of one store"),
        Fault("one target twice", "race", run=lambda k: gather(k, targets=[3, 0, 3, 6, 1, 2]),
              at="tl.store(out_ptr + ids", argument="out_ptr", program=(0, 0, 0),
              says="lanes of one store"),
        Fault("one target in two programs", "race",
              run=lambda k: gather(k, targets=[3, 0, 7, 6, 3, 2]), at="tl.store(out_ptr + ids",
              argument="out_ptr", program=(1, 0, 0), says="(0, 0, 0)"),
    ),
)  # fmt: skip

STENCIL = """
@triton.jit
def smooth(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + at - 1, mask=(at > 0) & (at < n), other=0.0)
    here = tl.load(x_ptr + at, mask=at < n, other=0.0)
    right = tl.load(x_ptr + at + 1, mask=at + 1 < n, other=0.0)
    tl.store(y_ptr + at, (left + here + right) / 3, mask=at < n)


@triton.jit
def roughness(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = tl.load(x_ptr + at, mask=at < n, other=0.0)
    left = tl.load(x_ptr + at - 1, mask=(at > 0) & (at < n), other=0.0)
    tl.store(out_ptr, tl.sum((here - left) * (here - left), axis=0))


@triton.jit
def conv(x_ptr, w_ptr, y_ptr, H, W, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(K):
        for j in range(K):
            r, c = row + i - K // 2, col + j - K // 2
            inside = (r >= 0) & (r < H) & (c >= 0) & (c < W)
            x = tl.load(x_ptr + r * W + c, mask=inside, other=0.0)
            acc += x * tl.load(w_ptr + i * K + j)
    tl.store(y_ptr + row * W + col, acc, mask=col < W)
"""


def stencil(k, inplace=False):
    x = floats(100)
    k.smooth[(4,)](x, x if inplace else np.empty_like(x), 100, BLOCK=32)
    k.roughness[(1,)](x, np.empty(1, np.float32), 100, BLOCK=128)
    image = floats(6, 20)
    k.conv[(6,)](image, floats(3, 3), np.empty_like(image), 6, 20, K=3, BLOCK=32)


stencil_family = Family(
    "stencil", STENCIL, stencil,
    (
        Fault("in place", "race", run=lambda k: stencil(k, True), at="left = tl.load",
              argument="x_ptr", program=(1, 0, 0), also=("race",)),
        Fault("left of the first", "bounds", change("mask=(at > 0) & (at < n), other=0.0)\n    here",
                                                    "mask=at < n, other=0.0)\n    here"),
              at="left = tl.load(x_ptr + at - 1, mask=at < n", argument="x_ptr",
              program=(0, 0, 0), says="1 element before the start"),
        Fault("right of the last", "bounds", change("mask=at + 1 < n", "mask=at < n"),
              argument="x_ptr", program=(3, 0, 0), says="1 element past the end"),
        Fault("rows of an image not checked", "bounds", change("(r >= 0) & (r < H) & ", ""),
              at="x = tl.load(x_ptr + r * W", argument="x_ptr", program=(0, 0, 0)),
        Fault("border of an image in use", "bounds", change("(r < H)", "(r <= H)"),
              at="x = tl.load(x_ptr + r * W", argument="x_ptr", program=(5, 0, 0)),
        Fault("kernel of the wrong size", "bounds", change("w_ptr + i * K + j", "w_ptr + i * BLOCK + j"),
              argument="w_ptr", program=(0, 0, 0)),
    ),
)  # fmt: skip

ROPE = """
@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, seq, heads, D: tl.constexpr):
    pos = tl.program_id(0)
    head = tl.program_id(1)
    half = tl.arange(0, D // 2)
    cos = tl.load(cos_ptr + pos * (D // 2) + half)
    sin = tl.load(sin_ptr + pos * (D // 2) + half)
    base = x_ptr + (pos * heads + head) * D
    a = tl.load(base + half)
    b = tl.load(base + half + D // 2)
    tl.store(base + half, a * cos - b * sin)
    tl.store(base + half + D // 2, b * cos + a * sin)
"""


def rope(k):
    x = floats(5, 3, 16)
    angle = floats(5, 8)
    k.rope[(5, 3)](x, np.cos(angle), np.sin(angle), 5, 3, D=16)


rope_family = Family(
    "rope", ROPE, rope,
    (
        Fault("head forgotten", "race", change("(pos * heads + head) * D", "pos * heads * D"),
              at="= tl.load(base", argument="x_ptr", program=(0, 1, 0), also=("race", "race")),
        Fault("heads for positions", "race", change("(pos * heads + head) * D",
                                                    "(pos + head) * D"),
              at="= tl.load(base", argument="x_ptr", also=("race", "race")),
        Fault("cos of whole rows", "bounds",
              change("cos_ptr + pos * (D // 2)", "cos_ptr + pos * D"), argument="cos_ptr",
              program=(3, 0, 0)),
    ),
)  # fmt: skip

PERSISTENT = """
@triton.jit
def scale(x_ptr, y_ptr, tiles, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(y_ptr + at, 2 * x, mask=at < n)


@triton.jit
def queue(x_ptr, next_ptr, tiles, n, BLOCK: tl.constexpr):
    tile = tl.atomic_add(next_ptr, 1)
    while tile < tiles:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)
        tile = tl.atomic_add(next_ptr, 1)
"""


def persistent(k):
    x = floats(200)
    k.scale[(3,)](x, np.empty_like(x), 7, 200, PROGRAMS=3, BLOCK=32)
    k.queue[(3,)](x, np.zeros(1, np.int32), 7, 200, BLOCK=32)


persistent_family = Family(
    "persistent", PERSISTENT, persistent,
    (
        Fault("steps of one", "race", change("tiles, PROGRAMS", "tiles, 1", "2 * x,",
                                             "2 * x + tl.program_id(0),"),
              at="tl.store(y_ptr", argument="y_ptr", program=(1, 0, 0)),
        Fault("one tile too many", "bounds", change("tl.program_id(0), tiles,",
                                                    "tl.program_id(0), tiles + 1,",
                                                    "x_ptr + at, mask=at < n)\n        tl.store(y",
                                                    "x_ptr + at)\n        tl.store(y"),
              at="x = tl.load(x_ptr + at)", argument="x_ptr"),
        Fault("queue without atomics", "race",
              change("    tile = tl.atomic_add(next_ptr, 1)\n    while",
                     "    tile = tl.load(next_ptr)\n    tl.store(next_ptr, tile + 1)\n    while",
                     "        tile = tl.atomic_add(next_ptr, 1)\n",
                     "        tile = tl.load(next_ptr)\n        tl.store(next_ptr, tile + 1)\n"),
              at="    tile = tl.load(next_ptr)", argument="next_ptr", program=(1, 0, 0),
              also=("race", "race")),
        Fault("queue tiles that overlap", "race",
              change("at = tile * BLOCK + tl.arange(0, BLOCK)\n        tl.store(x_ptr",
                     "at = tl.minimum(tile, 5) * BLOCK + tl.arange(0, BLOCK)\n        tl.store(x_ptr",
                     "tile = tl.atomic_add(next_ptr, 1)\n    while", "tile = 5 + 0 * tl.atomic_add(next_ptr, 1)\n    while",
                     "        tile = tl.atomic_add(next_ptr, 1)\n", "        tile = tiles\n"),
              at="tl.store(x_ptr", argument="x_ptr", program=(1, 0, 0)),
    ),
)  # fmt: skip

OPTIMIZER = """
@triton.jit
def adam(p_ptr, g_ptr, m_ptr, v_ptr, lr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    g = tl.load(g_ptr + at, mask=mask)
    m = 0.9 * tl.load(m_ptr + at, mask=mask) + 0.1 * g
    v = 0.99 * tl.load(v_ptr + at, mask=mask) + 0.01 * g * g
    p = tl.load(p_ptr + at, mask=mask) - lr * m / (tl.sqrt(v) + 1e-8)
    tl.store(m_ptr + at, m, mask=mask)
    tl.store(v_ptr + at, v, mask=mask)
    tl.store(p_ptr + at, p, mask=mask)
"""


def adam(k, state=None, same=False):
    p, g = floats(100), floats(100)
    g[3] = 0
    m = np.zeros(100, np.float32) if state is None else state
    v = m if same else np.zeros(100, np.float32)
    k.adam[(4,)](p, g, m, v, 1e-3, 100, BLOCK=32)


optimizer_family = Family(
    "optimizer", OPTIMIZER, adam,
    (
        Fault("state that is empty", "undefined", at="m = 0.9", argument="m_ptr",
              run=lambda k: adam(k, np.empty(100, np.float32)), program=(0, 0, 0),
              also=("nan",)),
        Fault("no eps", "nan", change("(tl.sqrt(v) + 1e-8)", "tl.sqrt(v)"), at="p = tl.load",
              argument="p_ptr", program=(0, 0, 0)),
        Fault("root of a negative number", "nan", change("+ 0.01 * g * g", "- 0.01 * g * g"),
              at="p = tl.load", argument="p_ptr"),
    ),
)  # fmt: skip

test_twin, test_fault = cases(
    add_family, transpose_family, gather_family, stencil_family, rope_family, persistent_family,
    optimizer_family,
)  # fmt: skip
