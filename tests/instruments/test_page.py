"""The report as an HTML page: its pictures' geometry, the annotated source, one file only."""

from html.parser import HTMLParser

import numpy as np
import pytest
from softmax_records import M, N, naive_softmax, site, softmax_run

import tilewright as tw
import tilewright.language as tl
from tilewright.instruments.explain import explaining
from tilewright.instruments.hardware import Hardware, parse_hardware
from tilewright.instruments.ledger import Ledger
from tilewright.instruments.page import end_of, page
from tilewright.instruments.pictures import CELLS, movement, roofline, shares
from tilewright.instruments.watch import watch

T4 = parse_hardware("T4")
MEASURED = Hardware("here", 40e9, {"fp32": 250e9}, "measured")
VOID = {"meta", "br"}


@tw.jit
def shifted(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value * 2, mask=at < n)


class Balance(HTMLParser):
    """Checks that every element is closed where it should be."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(text):
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert parser.links == []
    assert "<script" not in text and "url(" not in text
    return " ".join("".join(parser.text).split())


@pytest.fixture(scope="module")
def launched():
    x, out = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
    with Ledger() as ledger, explaining(ledger, touches=True), tw.options(target="cpu"):
        shifted[(2,)](x, out, 100, BLOCK=64)
    assert out.tolist() == (2 * x).tolist()
    return ledger


def test_the_page_of_a_launch_holds_its_source_and_what_programs_touch(launched):
    text = read(page(launched, T4, "a/script.py"))
    assert "value = tl.load(x + at, mask=at < n)" in text
    assert "Roofline: T4" in text and "nothing was measured on it" in text
    assert "program (1, 0, 0) of grid (2, 1, 1)" in text
    assert "36 of 64" in text and "64 to 99" in text
    assert "moves exactly the least possible bytes (800 bytes)" in text


def test_what_a_program_touches_is_stepped_and_undone(launched):
    table = launched.kernels[0].touched
    assert [row.on for row in table.rows if row.program == (1, 0, 0)] == [tuple(range(36))] * 2


def test_text_is_escaped_and_steps_stand_beside_the_kernel():
    with Ledger() as ledger:
        naive_softmax(np, watch(np.zeros((M, N), np.float32)))
        ledger.add_kernel(softmax_run(sites=[site(expression="tl.load(x, mask=a<b)")]))
    text = page(ledger, MEASURED)
    assert "a&lt;b" in text and "a<b" not in text
    words = read(text)
    assert "Filled points were measured on this machine" in words
    for step in ("max", "subtract", "exp", "sum", "divide", "kernel softmax_kernel"):
        assert step in words


def test_an_empty_run_has_a_page():
    assert "Verdict" in read(page(Ledger(), T4))


def test_bars_share_a_scale():
    with Ledger() as ledger:
        naive_softmax(np, watch(np.zeros((M, N), np.float32)))
        ledger.add_kernel(softmax_run())
    steps, kernel = movement(ledger.entries)
    largest = max(steps, key=lambda b: b.bytes)
    assert largest.read + largest.written == pytest.approx(100)
    assert [b.bytes for b in kernel] == [8 * M * N]
    assert kernel[0].read + kernel[0].written == pytest.approx(100 * 8 * M * N / largest.bytes)


def test_the_roof_bends_where_bandwidth_and_peak_meet():
    run = softmax_run()
    plot = roofline([run], MEASURED)
    ((dtype, line),) = plot.roofs
    assert dtype == "fp32"
    assert line[0][0] == 0 and line[-1][0] == plot.width
    assert line[1][1] == pytest.approx(line[2][1])
    (point,) = plot.points
    assert point.reached
    assert point.flops_per_second == pytest.approx(run.flops / run.seconds)
    (predicted,) = roofline([run], T4).points
    assert not predicted.reached
    assert predicted.flops_per_second == pytest.approx(run.flop_per_byte * 320e9)
    assert roofline([softmax_run(flops=0)], T4) is None


def test_shares_of_cells():
    assert shares(range(32), 64) == [1.0] * 32 + [0.0] * 32
    assert len(shares([], 10)) == 10
    assert shares([0], 128) == [0.5] + [0.0] * (CELLS - 1)


@pytest.mark.parametrize(
    "lines, last",
    [
        (["@jit\n", "def f(\n", "    x,\n", "):\n", "    a\n", "\n", "    b\n", "\n", "c\n"], 7),
        (["def f(x):\n", "    a\n"], 2),
        (["def f(x):\n", "    a\n", "# note\n", "    b\n", "d\n"], 4),
    ],
)
def test_where_a_function_ends(lines, last):
    assert end_of(lines, 1) == last
