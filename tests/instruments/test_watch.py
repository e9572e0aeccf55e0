"""Watched NumPy arrays: exact counts of operators, and values as of plain arrays."""

import pickle

import numpy as np
import pytest
from softmax_records import M, N, naive_softmax

from tilewright.instruments.ledger import Ledger
from tilewright.instruments.watch import Watched, watch

MN = M * N


def counted(function, *arrays):
    """Names, elements read and written of the steps of a call."""
    with Ledger() as ledger:
        function(*arrays)
    return [(s.name, s.read_elements, s.write_elements) for s in ledger.steps]


@pytest.fixture
def x():
    return watch(np.arange(32, dtype=np.float32).reshape(4, 8))


def test_naive_softmax():
    data = np.random.default_rng(0).standard_normal((M, N), dtype=np.float32)
    with Ledger() as ledger:
        y = naive_softmax(np, watch(data))
    steps = [(s.name, s.read_elements, s.write_elements) for s in ledger.steps]
    assert steps == [
        ("max", MN, M),
        ("subtract", MN + M, MN),
        ("exp", MN, MN),
        ("sum", MN, M),
        ("divide", MN + M, MN),
    ]
    (region,) = ledger.regions
    assert region.read_elements == 5 * MN + 2 * M
    assert region.write_elements == 3 * MN + 2 * M
    assert region.elements == 8 * MN + 4 * M
    assert region.total_bytes == 134_283_264
    assert ledger.steps[1].shapes == ((M, N), (M, 1))
    assert ledger.steps[1].dtype == "fp32"
    np.testing.assert_array_equal(y, naive_softmax(np, data))


def test_the_same_array_twice_is_read_once(x):
    assert counted(lambda: x * x) == [("multiply", 32, 32)]


def test_a_broadcast_view_counts_what_is_in_memory(x):
    row = np.broadcast_to(x[:1], (4, 8))
    assert counted(lambda: x + row) == [("add", 40, 32)]


def test_in_place_and_out(x):
    def update():
        y = x
        y += 1

    assert counted(update) == [("add", 32, 32)]
    assert counted(lambda: np.exp(x, out=x)) == [("exp", 32, 32)]
    out = watch(np.empty((4, 8), np.float32))
    assert counted(lambda: np.add(x, 1, out=out)) == [("add", 32, 32)]
    assert np.add(x, 1, out=out) is out


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[:, None],
        lambda x: x[1:3, ::2],
        lambda x: x.reshape(8, 4),
        lambda x: np.reshape(x, (2, 16)),
        lambda x: np.expand_dims(x, 0),
        lambda x: x.ravel(),
        lambda x: np.empty_like(x),
        lambda x: np.shape(x),
        lambda x: x[0, 0],
    ],
)
def test_views_and_questions_cost_nothing(x, view):
    assert counted(view, x) == []


@pytest.mark.parametrize(
    ("name", "call", "reads", "writes"),
    [
        ("copy", lambda x: x.copy(), 32, 32),
        ("astype", lambda x: x.astype(np.float64), 32, 32),
        ("argmax", lambda x: x.argmax(axis=1), 32, 4),
        ("argmax", lambda x: np.argmax(x, axis=1), 32, 4),
        ("concatenate", lambda x: np.concatenate([x, x + 0]), 64, 64),
        ("where", lambda x: np.where(x > 3, x, 0), 64, 32),
        ("matmul", lambda x: x @ x.T, 64, 16),
        ("cumsum", lambda x: np.cumsum(x, axis=1), 32, 32),
        ("zeros_like", lambda x: np.zeros_like(x), 0, 32),
        ("index", lambda x: x[np.array([0, 2])], 18, 16),
        ("sum", lambda x: x.sum(), 32, 1),
        ("max", lambda x: np.max(x, axis=0), 32, 8),
    ],
)
def test_operators_outside_of_ufuncs(x, name, call, reads, writes):
    steps = counted(call, x)
    assert steps[-1][1:] == (reads, writes)
    assert steps[-1][0].startswith(name) or name == "cumsum"


def test_assignment(x):
    def assign():
        x[1:3] = x[0]
        x[0, 0] = 5

    assert counted(assign) == [("assign", 8, 16), ("assign", 0, 1)]


def test_a_mean_is_its_operators(x):
    assert counted(lambda: x.mean(axis=1)) == [("sum", 32, 4), ("divide", 4, 4)]
    assert counted(lambda: np.mean(x, axis=1)) == [("sum", 32, 4), ("divide", 4, 4)]


def test_checks_are_not_recorded(x):
    def check():
        assert np.allclose(x, x)
        np.testing.assert_allclose(x, np.asarray(x))

    assert counted(check) == []


def test_behaves_as_a_plain_array(x):
    assert isinstance(x, np.ndarray)
    assert type(x + 1) is Watched
    assert type(np.concatenate([x, x])) is Watched
    assert type(x.sum()) is np.float32
    assert type(np.asarray(x)) is np.ndarray
    assert np.shares_memory(np.asarray(x), x)
    quotient, rest = np.divmod(x, 3)
    assert type(quotient) is type(rest) is Watched
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), x)
    plain = np.asarray(x)
    expected = np.add.reduce(plain, axis=0, where=plain > 3)
    np.testing.assert_array_equal(np.add.reduce(x, axis=0, where=x > 3), expected)


def test_scatter_by_ufunc_at(x):
    index = np.array([0, 0, 1])
    np.add.at(x, index, 1)
    assert x[0, 0] == 2.0


def test_watching_shares_the_data():
    data = np.zeros(4, np.float32)
    watch(data)[0] = 3
    assert data[0] == 3
