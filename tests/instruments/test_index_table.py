"""The table of offsets and masks of one-dimensional blocking."""

import pytest

from tilewright.cli.index_table import IndexTableError, index_table

WHOLE = """\
n = 10, block = 4: grid = cdiv(10, 4) = 3
offsets = pid * 4 + arange(0, 4)
mask = offsets < 10

pid  start      offsets  mask     lanes at work
  0      0      0 1 2 3  1 1 1 1  0-3 (all)
  1      4      4 5 6 7  1 1 1 1  0-3 (all)
  2      8   8  9 10 11  1 1 0 0  0-1 (2 of 4)

12 lanes, 10 at work, 2 masked off (16.7%)
"""


def test_a_small_table_is_whole():
    assert index_table(10, 4) == WHOLE


def test_a_large_table_loses_its_middle_but_not_its_totals():
    table = index_table(98432, 1024)
    assert max(map(len, table.splitlines())) <= 110
    assert len(table.splitlines()) == 16
    assert "grid = cdiv(98432, 1024) = 97" in table
    assert " 96  98304" in table
    assert "0-127 (128 of 1024)" in table
    assert "99328 lanes, 98432 at work, 896 masked off (0.9%)" in table


def test_edges():
    assert "grid = cdiv(0, 4) = 0" in index_table(0, 4)
    assert "0 (1 of 4)" in index_table(5, 4)
    assert "0 masked off" in index_table(8, 4)
    assert "3 is none" in index_table(5, 3)
    assert "(all)" in index_table(2, 1)


@pytest.mark.parametrize(("n", "block"), [(-1, 4), (3, 0)])
def test_impossible_sizes(n, block):
    with pytest.raises(IndexTableError, match="or more, not"):
        index_table(n, block)
