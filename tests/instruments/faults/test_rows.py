"""Planted faults in kernels that work on rows: softmax, layer norm, cross entropy."""

import numpy as np
from planted import Family, Fault, cases, change

rng = np.random.default_rng(0)

SOFTMAX = """
@triton.jit
def softmax(x_ptr, y_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * stride + at, y, mask=mask)
"""


def softmax(k, rows=5, cols=50, grid=5, scale=1.0, shift=-200.0):
    x = (rng.standard_normal((rows, cols)) * scale + shift).astype(np.float32)
    k.softmax[(grid,)](x, np.empty_like(x), cols, cols, BLOCK=64)


LOAD = 'mask=mask, other=-float("inf"))'
softmax_family = Family(
    "softmax", SOFTMAX, softmax,
    (
        Fault("load without a mask", "bounds", change(f"at, {LOAD}", "at)"), argument="x_ptr",
              program=(4, 0, 0), also=("race",)),
        Fault("mask <=", "race", change("at < cols", "at <= cols"), at="tl.store", argument="y_ptr",
              also=("bounds", "nan")),
        Fault("store without a mask", "race", change("y, mask=mask)", "y)"), argument="y_ptr",
              also=("bounds", "race")),
        Fault("no other", "masked", change(LOAD, "mask=mask)"), argument="x_ptr",
              program=(0, 0, 0)),
        Fault("other=0", "masked", change(LOAD, "mask=mask, other=0.0)"), argument="x_ptr",
              also=("nan",)),
        Fault("one program too many", "bounds", run=lambda k: softmax(k, grid=6), at="x = tl.load",
              argument="x_ptr", program=(5, 0, 0)),
        Fault("no maximum taken away", "nan", change("x = x - tl.max(x, axis=0)", "x = x + 0.0"),
              at="tl.exp", argument="y_ptr", run=lambda k: softmax(k, shift=200.0)),
        Fault("stride of something else", "race", change("y_ptr + row * stride", "y_ptr + row"),
              argument="y_ptr"),
    ),
)  # fmt: skip

NORM = """
@triton.jit
def forward(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        a = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        acc += a
    mean = tl.sum(acc, axis=0) / N
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        square += x * x
    var = tl.sum(square, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def backward(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
             GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    lock_id = row % GROUP
    lock_ptr += lock_id
    count_ptr = lock_ptr + GROUP
    dw_ptr = dw_ptr + lock_id * N + cols
    db_ptr = db_ptr + lock_id * N + cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0)
    w = tl.load(w_ptr + cols, mask=mask)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.0)
    wdy = tl.where(mask, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + row * stride + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    dw, db = dy * xhat, dy
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr, mask=mask, other=0.0)
        db += tl.load(db_ptr, mask=mask, other=0.0)
    tl.store(dw_ptr, dw, mask=mask)
    tl.store(db_ptr, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def backward_weights(dw_ptr, db_ptr, out_w, out_b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    dw = tl.zeros((BM, BN), dtype=tl.float32)
    db = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(dw_ptr + offs, mask=mask, other=0.0)
        db += tl.load(db_ptr + offs, mask=mask, other=0.0)
    tl.store(out_w + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(out_b + cols, tl.sum(db, axis=0), mask=cols < N)
"""


def norm(k, rows=6, cols=50, group=2):
    x, dy = rng.standard_normal((2, rows, cols)).astype(np.float32) + 3
    w, b = (v.copy() for v in rng.standard_normal((2, cols)).astype(np.float32))
    y, mean, rstd = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
    k.forward[(rows,)](x, y, w, b, mean, rstd, cols, cols, 1e-5, BLOCK=32)
    dw, db = np.empty((group, cols), np.float32), np.empty((group, cols), np.float32)
    dx, out_w, out_b = np.empty_like(x), np.empty_like(w), np.empty_like(w)
    locks = np.zeros(2 * group, np.int32)
    k.backward[(rows,)](dx, dy, dw, db, x, w, mean, rstd, locks, cols, cols, GROUP=group, BLOCK=64)
    k.backward_weights[(4,)](dw, db, out_w, out_b, group, cols, BM=4, BN=16)


norm_family = Family(
    "layer norm", NORM, norm,
    (
        Fault("masked lanes in the variance", "masked",
              change("x = tl.where(cols < N, x - mean, 0.0)", "x = x - mean"),
              at="        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)",
              argument="x_ptr", says="changes the sum at"),
        Fault("no other in the sum", "masked",
              change("a = tl.load(x_ptr + cols, mask=cols < N, other=0.0)",
                     "a = tl.load(x_ptr + cols, mask=cols < N)"), argument="x_ptr"),
        Fault("no mask at the end", "bounds",
              change("w = tl.load(w_ptr + cols, mask=mask)\n        b",
                     "w = tl.load(w_ptr + cols)\n        b"), argument="w_ptr"),
        Fault("eps forgotten", "nan", change("var + eps", "var - eps - 1e9"), at="rstd = 1 /"),
        Fault("no lock", "race",
              change("    while tl.atomic_cas(lock_ptr, 0, 1) == 1:\n        pass\n", "",
                     "    tl.atomic_xchg(lock_ptr, 0)\n", ""), at="dw += ", argument="dw_ptr",
              also=("race", "race", "race", "race")),
        Fault("lock without a loop", "race",
              change("while tl.atomic_cas(lock_ptr, 0, 1) == 1:\n        pass",
                     "tl.atomic_cas(lock_ptr, 0, 1)"), at="dw += ", argument="dw_ptr",
              also=("race", "race", "race", "race")),
        Fault("relaxed release", "race",
              change("tl.atomic_xchg(lock_ptr, 0)", 'tl.atomic_xchg(lock_ptr, 0, sem="relaxed")'),
              at="dw += ", also=("race", "race", "race", "race")),
        Fault("lock never released", "deadlock", change("    tl.atomic_xchg(lock_ptr, 0)\n", ""),
              at="while tl.atomic_cas"),
        Fault("first sum read before it is there", "undefined",
              change("if count == 0:", "if count == 5:"), at="dw += ", argument="dw_ptr",
              program=(0, 0, 0), also=("undefined", "undefined")),
        Fault("partial sums never written", "undefined",
              change("    tl.store(dw_ptr, dw, mask=mask)\n", ""), at="dw += ",
              argument="dw_ptr", also=("undefined",)),
        Fault("mask of the other axis", "bounds",
              change("(rows[:, None] < M) & (cols[None, :] < N)",
                     "(rows[:, None] < N) & (cols[None, :] < N)"), at="dw += tl.load(dw_ptr + offs",
              argument="dw_ptr"),
    ),
)  # fmt: skip

LOSS = """
@triton.jit
def loss(logits_ptr, target_ptr, loss_ptr, stride, V, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    logits_ptr += row * stride
    target = tl.load(target_ptr + row)
    m = float("-inf")
    d = 0.0
    for i in range(0, V, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + at, mask=at < V, other=float("-inf"))
        new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new))
        m = new
    picked = tl.load(logits_ptr + target)
    tl.store(loss_ptr + row, m + tl.log(d) - picked)
    for i in range(0, V, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + at, mask=at < V)
        g = tl.exp(x - m) / d
        g = tl.where(at == target, g - 1.0, g)
        tl.store(logits_ptr + at, g, mask=at < V)
"""


def loss(k, targets=(0, 5, 40, 49)):
    x = (rng.standard_normal((4, 50)) - 30).astype(np.float32)
    targets = np.array(targets, np.int64)
    k.loss[(4,)](x, targets, np.empty(4, np.float32), 50, 50, BLOCK=32)


loss_family = Family(
    "cross entropy", LOSS, loss,
    (
        Fault("target out of range", "bounds", run=lambda k: loss(k, (0, 5, 7, 50)),
              at="picked = ", argument="logits_ptr", program=(3, 0, 0)),
        Fault("target that is ignored", "bounds", run=lambda k: loss(k, (-100, 5, 7, 50)),
              at="picked = ", argument="logits_ptr", program=(0, 0, 0)),
        Fault("other=0", "masked", change('other=float("-inf"))', "other=0.0)"),
              argument="logits_ptr"),
        Fault("store without a mask", "race", change("g, mask=at < V)", "g)"),
              argument="logits_ptr", also=("bounds", "race", "race", "masked")),
        Fault("all lanes of one word", "race", change("loss_ptr + row, m", "loss_ptr, m"),
              argument="loss_ptr", program=(1, 0, 0)),
    ),
)  # fmt: skip

test_twin, test_fault = cases(softmax_family, norm_family, loss_family)
