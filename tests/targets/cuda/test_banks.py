"""Bank conflicts by the rank of a map are those that counting words bank by bank gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tilewright.targets.cuda import f2
from tilewright.targets.cuda.banks import SERVED, WORD, shared_use

BANKS = SERVED // WORD


def turns_by_counting(columns: list[int], bytes: int, idle: int) -> int:
    """The turns of one access of a warp: in each phase, the most words that one bank is asked."""
    unit = max(bytes, WORD)
    phase = SERVED // unit
    total = 0
    for first in range(0, 32, phase):
        lanes = [lane for lane in range(first, first + phase) if not lane & idle]
        if not lanes:
            continue
        words = set()
        for lane in lanes:
            address = f2.apply(columns, lane)
            words.update(range(address // WORD, (address + bytes - 1) // WORD + 1))
        total += max(Counter(word % BANKS for word in words).values())
    return total


@given(st.data())
def test_turns(data):
    bytes = data.draw(st.sampled_from((1, 2, 4, 8, 16)))
    steps = st.integers(0, 255).map(lambda k: k * bytes)
    columns = data.draw(st.lists(steps, min_size=5, max_size=5))
    idle = data.draw(st.integers(0, 31))
    use = shared_use("load", columns, bytes, 3, 2, idle)
    assert use.taken == 6 * turns_by_counting(columns, bytes, idle)
    assert use.requests == 6


def test_a_column_of_words_has_conflicts_and_padding_has_none():
    rows = [128 << k for k in range(5)]
    assert shared_use("store", rows, 4, 1, 1).ways == 32
    neighbours = [4 << k for k in range(5)]
    assert shared_use("store", neighbours, 4, 1, 1).ways == 1
    assert shared_use("load", [0] * 5, 4, 1, 1).ways == 1  # all read one word
