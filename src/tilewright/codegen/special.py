"""The error function and its complement, as lane recipes."""

from __future__ import annotations

from tilewright.codegen import erf_table
from tilewright.codegen.explog import exp
from tilewright.codegen.lanes import Lanes
from tilewright.codegen.literals import Lane
from tilewright.codegen.recipe import (
    at_most,
    copysign,
    elementary,
    horner,
    rounding_shift,
    through_f64,
)
from tilewright.codegen.tables import in_full, look_up, table_lanes
from tilewright.ir import types as ty

# erf(x) / x - 1 in x^2, on |x| <= 1.09 and 1.
ERF = {
    32: (
        0.12837916344832269, -0.37612608244600528, 0.11283370380686286, -0.026844372736203192,
        0.0051698007284453775, -0.00078441036724024178, 7.2993524000035742e-5,
    ),
    64: (
        0.12837916709551257, -0.37612638903183748, 0.11283791670954884, -0.026866170645077863,
        0.005223977624828333, -0.00085483269814207574, 0.00012055331132807185,
        -1.4925595769145756e-5, 1.6461008436566801e-6, -1.6350395854324982e-7,
        1.4660326646023797e-8, -1.1374949067447647e-9, 5.9606760733354789e-11,
    ),
}  # fmt: skip
# -log(erfc(x)) / x - 1, on [1.05, 4].
ERF_TAIL = (
    0.12872253127299421, 0.63486208512205272, 0.10669821074715014, -0.024146310672342645,
    0.0038185868493123986, -0.0003649021527200256, 1.5328570951619088e-5,
)  # fmt: skip
# erfc(x) e^(x^2) (1 + 2x) in (x - 4) / (x + 4), from x = 1/2 to where erfc underflows.
ERFC = (
    1.2329951186255525, -0.13962111684056176, 0.01537965210261311, 0.068097054254596624,
    -0.10103906603588767, 0.093732835001982965, -0.066330365822344787,
    0.037167515474308717, -0.016197733932848286, 0.0050319705835258631,
    -0.00075777417629790883, -0.00019926019649382922, 0.00015062554219728074,
    -2.4386455631208684e-5, -1.1232606648458099e-5, 5.6801434431206367e-6,
    3.1182397966072403e-7, -7.8274855486776506e-7, 5.6469490808169154e-8,
    7.4507460175053749e-8, -8.3713362977233904e-9,
)  # fmt: skip


def _near(b: Lanes, x: Lane) -> Lane:
    return b.fma(x, horner(b, b.mul(x, x), ERF[x.dtype.bits]), x)


def _tail(b: Lanes, x: Lane) -> Lane:
    """erfc(x) for x >= 1/2, in f64."""
    x = at_most(b, x, 28.0)
    q = b.div(b.sub(x, b.like(x, 4.0)), b.add(x, b.like(x, 4.0)))
    wide = b.fma(x, b.like(x, 2.0), b.like(x, 1.0))
    scaled = b.div(horner(b, q, ERFC), wide)
    # e^-(x^2), with what the square lost.
    square = b.mul(x, x)
    lost = b.fma(x, x, b.neg(square))
    scaled = b.fma(b.neg(scaled), lost, scaled)
    return b.mul(exp(b, b.neg(square)), scaled)


def _by_interval(b: Lanes, x: Lane) -> Lane:
    """erf by a polynomial for each of some intervals."""
    table = erf_table.FINE if table_lanes(b) == 16 else erf_table.COARSE
    size = at_most(b, b.abs(x), table.end)
    shift = b.like(x, rounding_shift(x))
    number = b.bitcast(b.fma(size, b.like(x, table.steps), shift), ty.int32)
    t = b.sub(size, look_up(b, number, table.middles))
    start, *powers = (look_up(b, number, column) for column in table.powers)
    value = powers[-1]
    for power in powers[-2::-1]:
        value = b.fma(value, t, power)
    start = b.select(b.lt(size, b.like(x, 0.5 / table.steps)), t, start)
    return copysign(b, b.fma(value, t, start), x)


@elementary
def erf(b: Lanes, x: Lane) -> Lane:
    """The error function."""
    size, one = b.abs(x), b.like(x, 1.0)
    if x.dtype.bits == 64:
        far = b.sub(one, _tail(b, size))
        return b.select(b.lt(size, one), _near(b, x), copysign(b, far, x))
    if table_lanes(b):
        return in_full(b, _by_interval, x)
    t = at_most(b, size, 4.0)
    power = b.fma(t, horner(b, t, ERF_TAIL), t)
    far = b.sub(one, exp(b, b.neg(power)))
    return b.select(b.lt(size, b.like(x, 0.99)), _near(b, x), copysign(b, far, x))


@through_f64
def erfc(b: Lanes, x: Lane) -> Lane:
    """1 - erf(x), accurate where it is small."""
    size, one = b.abs(x), b.like(x, 1.0)
    tail = _tail(b, size)
    far = b.select(b.lt(x, b.like(x, 0.0)), b.sub(b.like(x, 2.0), tail), tail)
    return b.select(b.lt(size, b.like(x, 0.5)), b.sub(one, _near(b, x)), far)
