"""`tilewright debug`: pdb on the lines of kernels."""

import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import numpy as np
    import triton
    import triton.language as tl

    @triton.jit
    def doubled(v):
        return v * 2

    @triton.jit
    def kernel(
        x, n, BLOCK: tl.constexpr
    ):
        \"\"\"Doubles.\"\"\"
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n)
        w = doubled(v)
        tl.store(x + at, w, mask=at < n)

    @triton.jit
    def other(x):
        tl.store(x, 7.0)

    x = np.arange(10, dtype=np.float32)
    kernel[(3,)](x, 10, BLOCK=4)
    other[(1,)](x)
    print("after", x[:3])
    kernel[(3,)](x, 14, BLOCK=4)
"""


@pytest.fixture
def session(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT))

    def run(*args, commands=()):
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", "debug", *args, str(file)],
            input="\n".join([*commands, ""]),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_it_stops_at_the_first_line_of_the_program_asked_for(session):
    commands = ["n", "n", "p at", "s", "n", "p v", "q"]
    status, out, _ = session("--program", "2", "--kernel", "kernel", commands=commands)
    assert status == 0
    assert "-> at = tl.program_id(0) * BLOCK" in out
    assert "tensor(i32[4], [ 8 9 10 11])" in out
    assert "-> return v * 2" in out and "[8. 9. 0. 0.]" in out
    assert "after" not in out


def test_only_lines_of_kernels_are_shown(session):
    commands = ["p nothing", "s", "s", "s", "s", "w", "up", "up", "q"]
    _, out, _ = session("--kernel", "kernel", commands=commands)
    assert "*** NameError: name 'nothing' is not defined" in out
    assert "-> return v * 2" in out
    assert "*** Oldest frame" in out
    files = {line.split("(")[0] for line in out.splitlines() if line.startswith(("> ", "  /"))}
    assert {name.strip("> ").rpartition("/")[2] for name in files} == {"script.py"}


def test_every_launch_stops_and_effects_are_those_of_a_run(session):
    _, out, _ = session(commands=["c", "c", "q"])
    assert out.index("-> at = ") < out.index("-> tl.store(x, 7.0)") < out.index("after [7. 2. 4.]")


def test_an_error_opens_the_debugger_where_it_is_raised(session):
    status, out, err = session("--at-fault", commands=["p at", "c"])
    assert "after [7. 2. 4.]" in out
    assert "program (2, 0, 0) touches element 10 of 10" in out
    assert "-> v = tl.load(x + at, mask=at < n)" in out
    assert "tensor(i32[4], [ 8 9 10 11])" in out
    assert status == 1 and "OutOfBoundsError" in err


def test_mistakes_on_the_command_line_are_told(session):
    status, _, err = session("--program", "x")
    assert status == 2 and "write its ids as in 3 or 3,0,0" in err
    status, _, err = session("--kernel", "nothing")
    assert status == 1 and "it launched: kernel, other" in err
