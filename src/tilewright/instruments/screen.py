"""Find the faults of a launch at native speed: step through what checked code tells of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import monotonic

from tilewright.eager.kernel import programs
from tilewright.instruments.findings import Findings, Program
from tilewright.instruments.native import NativeLaunch, Note, NotNative, Saved
from tilewright.instruments.steps import MEMORY, MOST_SAVED, Steps, writable_regions
from tilewright.runtime.call import Call
from tilewright.runtime.grid import Grid

SECONDS = 2.0  # launches alike are stepped through that take no longer together
ENOUGH = 0.1  # seconds after which one sees how long a launch will take
MOST_PROGRAMS = 8192  # of such a launch
PARTLY_MASKED = 2  # programs with lanes masked off in a load that are stepped through
MOST_SAMPLES = 3  # launches alike of which such programs are stepped through
MOST_BETWEEN = 1024  # programs that are stepped through for an order between some of them
FEW_ROUNDS = 4096  # of a loop that does not end in native code
MEANT = {"nan", "overflow"}  # kinds of notes that may be of what a kernel does on purpose
SAME = {"inf": "nan"}  # kinds of findings by what checked code calls them
_long: set[tuple] = set()  # launches that take longer
_spent: Counter[tuple] = Counter()  # seconds in which launches were stepped through
_samples: Counter[tuple] = Counter()
_usual: Counter[tuple] = Counter()  # launches in a row whose notes were of what is meant


class TooLong(Exception):
    """Stepping through a launch would take long."""


def look(call: Call, grid: Grid, findings: Findings) -> None:
    """Run a launch under all checks: step through it if that is quick, else look natively."""
    key = (call.jit, call.key, grid)
    if key not in _long and call.device == "cpu":
        begin = monotonic()
        if is_stepped(call, grid, findings, SECONDS - _spent[key]):
            _spent[key] += monotonic() - begin
            return
        _long.add(key)
    try:
        launch = NativeLaunch(call, grid)
    except NotNative as reason:
        findings.remark(f"{call.jit.__name__} was stepped through in Python: {reason}")
        Steps(call, grid, findings).run_all()
        return
    Screen(launch, call, findings).run()


def is_stepped(call: Call, grid: Grid, findings: Findings, seconds: float) -> bool:
    """Whether a launch could be stepped through in a short time; else nothing has happened."""
    pieces = writable_regions(call)
    total = grid[0] * grid[1] * grid[2]
    if total > MOST_PROGRAMS or seconds <= 0:
        return False
    if sum(high - low for low, high in pieces) > MOST_SAVED:
        return False
    saved, found = Saved(pieces), Findings()
    steps, begin = Steps(call, grid, found), monotonic()

    def give_up_after(most: float) -> None:
        if monotonic() - begin > most and not steps.has_printed:
            raise TooLong

    def order() -> Iterator[Program]:
        for done, program in enumerate(programs(grid, call.settings.seed, None)):
            give_up_after(max(ENOUGH, seconds * done / total))
            yield program

    steps.tick = lambda: give_up_after(seconds)
    try:
        steps.run(order(), saved)
    except TooLong:
        saved.restore()
        return False
    except BaseException:
        findings.add_all(found)
        raise
    findings.add_all(found)
    return True


class Screen:
    """A launch in checked code, and the programs of it that are stepped through afterwards."""

    def __init__(self, launch: NativeLaunch, call: Call, findings: Findings):
        self.launch, self.call, self.findings = launch, call, findings

    def run(self) -> None:
        """Run it, and tell of the faults of programs that were noted and of a few others."""
        launch, found = self.launch, Findings()
        notes, fault = launch.run()
        kinds = {note.kind for note in notes}
        if fault is None and kinds <= {"masked", *MEANT} and not self.is_sampled(kinds):
            return
        try:
            steps = self.step(notes, fault, found)
            if steps.races.has_unordered and launch.has_order:
                # Programs that were not stepped through may have come between.
                launch.saved.restore()
                found = self.step_between(notes, found)
        finally:
            self.findings.add_all(found)
            is_meant = kinds & MEANT and not {*MEANT, "inf"} & {f.kind for f in found}
            _usual[self.key] = _usual[self.key] + 1 if is_meant else 0

    def step(self, notes: list[Note], fault: tuple[int, int] | None, found: Findings) -> Steps:
        """Step through the programs noted and a few others."""
        launch, kinds = self.launch, {note.kind for note in notes}
        steps = Steps(self.call, launch.grid, found, MEMORY & kinds)
        if "deadlock" in kinds:
            steps.patience = FEW_ROUNDS
        if fault is not None or launch.has_order or MEMORY & kinds:
            launch.saved.restore()
            numbers = chosen(notes, launch.total)
            if fault is not None:  # after it all are stepped through
                numbers = sorted({*numbers, *range(fault[1], launch.total)})
            steps.run(self.in_sequence(numbers, steps))
        else:
            after = launch.saved.again()
            launch.saved.restore()
            steps.run(map(launch.program, chosen(notes, launch.total)))
            after.restore()
        self.remark_on(notes, found)
        return steps

    @property
    def key(self) -> tuple:
        """What launches share that are alike."""
        return (self.launch.code.hash, self.launch.grid)

    def is_sampled(self, kinds: set[str]) -> bool:
        """Whether programs are stepped through though none may be at fault: in the first launches
        of a kind, for what checked code does not look for, which is hardly a matter of data.

        NaN, infinities and small integers that run over may be meant. Where those of several
        launches were, they are looked at again in fewer and fewer.
        """
        _samples[self.key] += 1
        count = _samples[self.key]
        if count <= MOST_SAMPLES:
            return True
        is_rare = count & (count - 1) == 0
        return bool(kinds & MEANT) and (is_rare or _usual[self.key] < MOST_SAMPLES)

    def step_between(self, notes: list[Note], found: Findings) -> Findings:
        """Step through programs that may race, and all others between them, which may put them
        in an order; gives that and what else was found before."""
        numbers, again = between(notes), Findings()
        if numbers:
            steps = Steps(self.call, self.launch.grid, again, frozenset({"race"}))
            steps.run(self.in_sequence(numbers, steps))
            again.keep({"race"})
            found.keep({f.kind for f in found} - {"race"})
            found.add_all(again)
            return found
        name = self.call.jit.__name__
        again.remark(f"{name} was stepped through in Python: its locks may order programs")
        Steps(self.call, self.launch.grid, again).run_all()
        return again

    def in_sequence(self, numbers: list[int], steps: Steps) -> Iterator[Program]:
        """The programs to step through; between them the others run natively."""
        launch = self.launch
        scratch, done = launch.table.copy(), 0
        for number in numbers:
            steps.races.settle()
            launch.run_part(range(done, number), scratch)
            yield launch.program(number)
            done = number + 1
        steps.races.settle()
        launch.run_part(range(done, launch.total), scratch)

    def remark_on(self, notes: list[Note], found: Findings) -> None:
        """Tell of notes that the programs stepped through do not explain, where there are more."""
        told = {SAME.get(finding.kind, finding.kind) for finding in found}
        if self.launch.has_order:
            told.add("race")  # which locks may prevent
        for note in notes:
            if note.kind not in (*told, "masked") and not note.is_whole:
                found.remark(
                    f"{self.call.jit.__name__}: {note.programs} programs may have a fault of kind "
                    f"{note.kind} at {note.loc}; those that were stepped through have none"
                )


def chosen(notes: list[Note], total: int) -> list[int]:
    """The first and last program, and of those noted some, with the ones that they met."""
    numbers = {0, total - 1}
    for note in notes:
        pairs = note.pairs[:PARTLY_MASKED] if note.kind == "masked" else note.pairs
        numbers.update(n for pair in pairs for n in pair if n >= 0)
    return sorted(numbers)


def between(notes: list[Note]) -> list[int]:
    """Some of the programs that may race, those that are close first, and all between them; none
    where there are very many."""
    pairs = (pair for note in notes if note.kind == "race" for pair in note.pairs)
    found: set[int] = set()
    for first, last in sorted(
        ((min(pair), max(pair)) for pair in pairs if min(pair) >= 0), key=lambda x: x[1] - x[0]
    ):
        more = found | set(range(first, last + 1))
        if len(more) > MOST_BETWEEN:
            break
        found = more
    return sorted(found)
