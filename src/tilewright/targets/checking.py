"""What checked code notes: by site and kind of fault, the first programs where one may be.

It notes too much rather than too little: what it notes is looked at again, step by step.
"""

from __future__ import annotations

KINDS = ("race", "undefined", "view", "nan", "overflow", "arithmetic", "masked", "assert",
         "deadlock", "hint")  # fmt: skip
RACE, UNDEFINED, VIEW, NAN, OVERFLOW, ARITHMETIC, MASKED, ASSERT, DEADLOCK, HINT = range(len(KINDS))

# The first word is the number that comes before those of this launch's programs in shadow memory.
FIRST_PARAM = 1
# Then for each parameter the addresses of the cells of its first element, which hold the last
# program that wrote it and the last that read it; what it spans itself, which may be a part of its
# memory; a map of the elements of that span that are its own (0: all are); and of memory that was
# allocated as empty a map of the bytes that were written (0: of other memory).
WRITERS, READERS, SPAN_LOW, SPAN_HIGH, OWN, WRITTEN = range(6)
PARAM_WORDS = 6
CELL = 4  # bytes
TOP = 1 << 31  # of a writer: it was an atomic operation; of a reader: others read it too
# Then for each kind at each site: how many programs, the last of them from 1, and pairs of a
# program and another that it met, from 0 (-1: none): the first four, and the last four.
PROGRAMS, LAST, PAIRS = range(3)
MOST_PAIRS = 8
RECORD_WORDS = 3 + 2 * MOST_PAIRS


def record_word(params: int, site: int, kind: int) -> int:
    """Where the record of a kind at a site begins."""
    return FIRST_PARAM + PARAM_WORDS * params + RECORD_WORDS * (len(KINDS) * site + kind)
