"""Linear algebra over bits: a map is a tuple of columns, one integer for each bit it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Columns = Sequence[int]
Pivots = list[tuple[int, int, int]]  # (highest bit, vector, which columns it is the sum of)


def apply(columns: Columns, x: int) -> int:
    """The XOR of the columns of the bits set in x."""
    out = 0
    for k, column in enumerate(columns):
        if x >> k & 1:
            out ^= column
    return out


def reduce(vector: int, pivots: Pivots) -> tuple[int, int]:
    """What of a vector the pivots leave, and the sum of columns that they took away."""
    used = 0
    for bit, pivot, columns in pivots:
        if vector >> bit & 1:
            vector ^= pivot
            used ^= columns
    return vector, used


def pivots_of(columns: Iterable[int]) -> Pivots:
    """A triangular basis of the span; earlier columns are preferred."""
    pivots: Pivots = []
    for k, column in enumerate(columns):
        rest, used = reduce(column, pivots)
        if rest:
            pivots.append((rest.bit_length() - 1, rest, used ^ 1 << k))
    return pivots


def rank(columns: Iterable[int]) -> int:
    return len(pivots_of(columns))


def solve(columns: Columns, target: int) -> int | None:
    """Some x with apply(columns, x) == target, of the earliest columns; None if there is none."""
    rest, used = reduce(target, pivots_of(columns))
    return None if rest else used


def inverse(columns: Columns) -> tuple[int, ...]:
    """The map that undoes an invertible one."""
    pivots = pivots_of(columns)
    return tuple(reduce(1 << k, pivots)[1] for k in range(len(columns)))


def independent(columns: Iterable[int], over: Iterable[int] = ()) -> list[int]:
    """The columns that enlarge the span of `over` and of those before them, in order."""
    pivots = pivots_of(over)
    out = []
    for column in columns:
        rest, _ = reduce(column, pivots)
        if rest:
            pivots.append((rest.bit_length() - 1, rest, 0))
            out.append(column)
    return out


def intersection(x: Columns, y: Columns) -> list[int]:
    """A basis of what two spans have in common (Zassenhaus)."""
    width = max([v.bit_length() for v in (*x, *y)], default=0)
    rows = [v << width | v for v in x] + [v << width for v in y]
    return [vector for bit, vector, _ in pivots_of(rows) if bit < width]


def runs(columns: Columns) -> list[tuple[int, int, int]]:
    """A map as shifts: XOR over all (first, count, to) of `(x >> first & 2**count - 1) << to`."""
    ones = {(k, bit) for k, column in enumerate(columns) for bit in bits_of(column)}
    out = []
    for first, to in sorted(ones):
        if (first - 1, to - 1) in ones:
            continue
        count = 1
        while (first + count, to + count) in ones:
            count += 1
        out.append((first, count, to))
    return out


def bits_of(x: int) -> list[int]:
    """The numbers of the bits that are set, from the lowest."""
    return [k for k in range(x.bit_length()) if x >> k & 1]
