"""Counted loops as text, composed when they close so that hoisted code stands before them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.codegen.literals import Lane
from tilewright.targets.cpu.writer import Writer


@dataclass(slots=True)
class Carried:
    """A value handed from one iteration to the next: its phi, where it starts, what follows."""

    phi: Lane
    start: Lane
    next: Lane | None = None


@dataclass(slots=True)
class Loop:
    """`for (i = low; i < high; i += step)`, tested at the top; phis hold the values at the exit."""

    writer: Writer
    low: str
    high: str
    step: str
    type: str = "i64"
    signed: bool = True
    downwards: bool = False
    mirror: str = ""  # all ones where the loop counts down, which shows at run time; `high` is so
    carried: list[Carried] = field(default_factory=list)
    counter: str = ""
    labels: tuple[str, str, str] = ("", "", "")

    def carry(self, start: Lane) -> Carried:
        """A value that starts so; set `next` before the loop closes."""
        entry = Carried(Lane(self.writer.fresh("phi"), start.dtype, start.width), start)
        self.carried.append(entry)
        return entry

    def open(self, counter: str = "") -> str:
        """Begin the body; gives the counter, which may be named."""
        w = self.writer
        self.counter = counter or w.fresh("i")
        self.labels = (w.new_label("head"), w.new_label("body"), w.new_label("exit"))
        w.open(self.labels[1])
        return self.counter

    def close(self) -> list[tuple]:
        """End the body; gives what is not known any more after it."""
        w = self.writer
        head, body, leave = self.labels
        following = w.fresh("n")
        w.write(f"{following} = add {self.type} {self.counter}, {self.step}")
        w.write(f"br label %{head}")
        scope = w.close()
        before = w.here
        w.write(f"br label %{head}")
        w.label(head)
        w.write(
            f"{self.counter} = phi {self.type} [{self.low}, %{before}], "
            f"[{following}, %{scope.label}]"
        )
        for c in self.carried:
            w.write(
                f"{c.phi.text} = phi {c.phi.type} [{c.start.text}, %{before}], "
                f"[{c.next.text}, %{scope.label}]"
            )
        test, counter = w.fresh("c"), self.counter
        if self.mirror:
            counter = w.fresh("m")
            w.write(f"{counter} = xor {self.type} {self.counter}, {self.mirror}")
        relation = ("sgt" if self.downwards else "slt") if self.signed else "ult"
        w.write(f"{test} = icmp {relation} {self.type} {counter}, {self.high}")
        w.write(f"br i1 {test}, label %{body}, label %{leave}")
        w.label(body)
        w.take(scope)
        w.label(leave)
        return scope.memo
