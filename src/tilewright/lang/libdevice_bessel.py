"""The Bessel functions of CUDA's libdevice, as Chebyshev series found with 40 digits."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from tilewright.errors import want
from tilewright.ir import types as t
from tilewright.lang import arithmetic as a
from tilewright.lang.conversion import cast
from tilewright.lang.libdevice_bits import named
from tilewright.lang.libdevice_special import in_double
from tilewright.lang.promote import to_tensor
from tilewright.lang.tensor import known, tensor
from tilewright.ops import math as m

SPLIT = 8.0  # series in x up to here, in 1 / x beyond
TWO_OVER_PI = 0.63661977236758134307553505349005744
MOST_ORDER = 64  # of jn and yn, whose recurrences are written out
MORE_TERMS = 40  # of the continued fraction, beyond the order

# In 2 (x / 8)^2 - 1: J0; J1 / x; Y0 - 2/pi log(x) J0; (Y1 - 2/pi (log(x) J1 - 1/x)) / x.
# In 2 (8 / x)^2 - 1: the amplitudes P and Q x / 8 of sqrt(2 / (pi x)) (P cos - Q sin).
# In x / 4 - 1 and 16 / x - 1: e^-x I0 and e^-x I1 / x; e^-x sqrt(x) I0 and e^-x sqrt(x) I1.
J0 = (
    0.15772797147489012, -0.0087234423528522213, 0.26517861320333681, -0.37009499387264978,
    0.15806710233209726, -0.034893769411408885, 0.0048191800694676045, -4.6062616620627505e-4,
    3.2460328821005081e-5, -1.7619469077621507e-6, 7.6081635924187819e-8, -2.6792535305576729e-9,
    7.8486963144794644e-11, -1.9438346867370166e-12, 4.1253205956343739e-14,
    -7.5885081254475463e-16, 1.2218515873961411e-17,
)  # fmt: skip
J1 = (
    0.081044846325658115, -0.14897514506765211, 0.1609992623572097, -0.082680491766817907,
    0.022213639654966035, -0.003646940600769276, 4.0503377283548218e-4, -3.2555548668572585e-5,
    1.9858774049915167e-6, -9.5219847567504362e-8, 3.6871337590971482e-9, -1.1780266226958848e-10,
    3.1601545803480033e-12, -7.2217552396517734e-14, 1.4232144003513942e-15,
    -2.4441972916190464e-17,
)  # fmt: skip
Y0 = (
    -0.033146113203284942, -0.27447430552974527, 0.17903431407718266, 0.26156734625504664,
    -0.17730201278114358, 0.047196689595763387, -0.0072879624795520792, 7.5311359325777423e-4,
    -5.632079141056987e-5, 3.206532537654801e-6, -1.4407233274018699e-7, 5.2487947873305161e-9,
    -1.5837552541812015e-10, 4.0263308183061208e-12, -8.7473412033107696e-14,
    1.6434898714919469e-15, -2.6977881152566836e-17,
)  # fmt: skip
Y1 = (
    0.0025380132357417817, -0.01608717304766875, -0.095912045360830742, 0.084451972596523458,
    -0.028328123944594366, 0.005289897544167113, -6.414551451326356e-4, 5.5059828733387438e-5,
    -3.5380800186893499e-6, 1.7707804556154403e-7, -7.1105500498992798e-9, 2.3443379059115164e-10,
    -6.4651518414115942e-12, 1.51429151205002e-13, -3.0511859694473253e-15,
    5.3466803857286701e-17,
)  # fmt: skip
P0 = (
    0.99946034934751867, -5.3652204681321174e-4, 3.0751847875194746e-6, -5.1705945376060977e-8,
    1.6306464635151383e-9, -7.86409137723707e-11, 5.1682623873491925e-12, -4.3045788699253912e-13,
    4.3265957431549406e-14, -5.0690340959352361e-15, 6.7480722157338737e-16,
    -1.0011513723467786e-16, 1.6305919233744185e-17,
)  # fmt: skip
Q0 = (
    -0.015555854605337009, 6.8385199426116496e-5, -7.4144984110606473e-7, 1.7972457247968992e-8,
    -7.27191593686632e-10, 4.2201219046687384e-11, -3.2067474209966347e-12,
    3.0061451253517063e-13, -3.336328185322427e-14, 4.2552250402454611e-15, -6.09993013164005e-16,
    9.6621289703032567e-17, -1.6686065214378146e-17, 3.1082440486738144e-18,
    -6.1911157873581449e-19,
)  # fmt: skip
P1 = (
    1.0009030408600137, 8.9898983308594086e-4, -3.9872843004889085e-6, 6.1776339606442985e-8,
    -1.8718907491063066e-9, 8.8168986595823389e-11, -5.7048636403956447e-12,
    4.6991955152305424e-13, -4.6842237839904892e-14, 5.4526748960447172e-15,
    -7.2211808422740179e-16, 1.0667689114335412e-16, -1.7312313216116335e-17,
)  # fmt: skip
Q1 = (
    0.046777787069535325, -9.6277235491570793e-5, 9.1386152579554541e-7, -2.0959781384083422e-8,
    8.2291933276505541e-10, -4.6863636881769452e-11, 3.5152187949686081e-12,
    -3.2643156743278999e-13, 3.5967765829165292e-14, -4.5612523950772972e-15,
    6.508282957783384e-16, -1.0269147531823243e-16, 1.7676355487764792e-17,
    -3.2834519872981615e-18, 6.5240811495892603e-19,
)  # fmt: skip
I0_NEAR = (
    0.33839763720473804, -0.3046826723431984, 0.17162090152220878, -0.094901097048047644,
    0.049305284239670708, -0.023737414805899469, 0.010546460394594998, -0.0043243099950505759,
    0.0016394756169413358, -5.7637557453858237e-4, 1.8850288509584166e-4, -5.7541950100821037e-5,
    1.6448448070728897e-5, -4.4167383584587506e-6, 1.1173875391201037e-6, -2.6707938539406117e-7,
    6.0469950225419189e-8, -1.300025009986248e-8, 2.6598237246823867e-9, -5.1897956016352629e-10,
    9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12,
    -4.8564467831119295e-13, 7.6761854986049356e-14, -1.1685332877993452e-14,
    1.715391285555133e-15, -2.4312798465479547e-16, 3.3307945188222381e-17,
    -4.4153416464793394e-18,
)  # fmt: skip
I0_FAR = (
    0.40224520550705442, 0.0033691164782556941, 6.889758346916824e-5, 2.8913705208347565e-6,
    2.0489185894690637e-7, 2.2666689904981781e-8, 3.3962320257083863e-9, 4.9406023882249696e-10,
    1.1889147107846438e-11, -3.1499165279632414e-11, -1.3215811840447713e-11,
    -1.7941785315068061e-12, 7.1801244513836662e-13, 3.8527783827421427e-13,
    1.5400862175214098e-14, -4.1505693472872221e-14, -9.5548466988283076e-15,
    3.8116806693526224e-15, 1.7725601330565264e-15, -3.4254856196772191e-16,
    -2.8276239805165835e-16, 3.4612228676974611e-17, 4.46562142029676e-17,
    -4.8305044859441821e-18, -7.233180487874754e-18,
)  # fmt: skip
I1_NEAR = (
    0.12629359322181683, -0.17641651835783406, 0.1026436586898471, -0.052945981208094991,
    0.024726449030626517, -0.010564084894626198, 0.0041564229443128882, -0.0015135724506312531,
    5.1228595616857577e-4, -1.6176081582589675e-4, 4.7815651075500542e-5, -1.3273163656039436e-5,
    3.4702513081376785e-6, -8.5687202646954547e-7, 2.0032947535521353e-7, -4.4450591287963281e-8,
    9.3815373864957718e-9, -1.8872497517228293e-9, 3.625590281552117e-10, -6.6634897235020277e-11,
    1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13,
    -5.0421855047279117e-14, 7.6006842947354069e-15, -1.1055969477353863e-15,
    1.5536319577362005e-16, -2.1114212143581661e-17, 2.7779141127610464e-18,
)  # fmt: skip
I1_FAR = (
    0.38928811750914006, -0.0097610974913614684, -1.1058893876262372e-4, -3.8825648088776904e-6,
    -2.5122362378702089e-7, -2.6314688468895195e-8, -3.835380385964237e-9,
    -5.5897434621965838e-10, -1.8974958123505412e-11, 3.2526035830154882e-11,
    1.4125807436613781e-11, 2.0356285441470895e-12, -7.1985517762459085e-13,
    -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
    1.0420276984128803e-14, -3.8144030724370078e-15, -1.8803547755107824e-15,
    3.3082023109209283e-16, 2.9626289976459501e-16, -3.209525921993424e-17,
    -4.6503053684893583e-17, 4.4143483230717079e-18, 7.5172963108421048e-18,
)  # fmt: skip


def series(u: tensor, coefficients: Sequence[float]) -> tensor:
    """A Chebyshev series at u, by Clenshaw's recurrence."""
    last, before = 0.0, 0.0
    for c in reversed(coefficients[1:]):
        last, before = c + (2 * u * last - before), last
    return coefficients[0] + (u * last - before)


def near(x: tensor) -> tensor:
    """Where the series for small x are evaluated; far from them, at 1."""
    ratio = a.minimum(x, SPLIT) / SPLIT
    return 2 * ratio * ratio - 1


class Far:
    """The oscillation of order 0 or 1 for large x."""

    def __init__(self, x: tensor, order: int):
        x = a.maximum(x, SPLIT)
        ratio = SPLIT / x
        u = 2 * ratio * ratio - 1
        p, q = (series(u, c) for c in ((P0, Q0), (P1, Q1))[order])
        q = q * ratio
        sine, cosine = m.sin(x), m.cos(x)
        # The phase is x - pi / 4, and another pi / 2 less for order 1.
        c, s = cosine + sine, sine - cosine
        if order == 1:
            c, s = s, -c
        scale = m.sqrt(TWO_OVER_PI / x) * 0.70710678118654752440
        vanishes = x == float("inf")
        self.first = a.where(vanishes, 0.0, scale * (p * c - q * s))
        self.second = a.where(vanishes, 0.0, scale * (p * s + q * c))


def first_kind(x: tensor, order: int) -> tensor:
    """J0 or J1 for x >= 0."""
    small = series(near(x), (J0, J1)[order])
    small = small * x if order else small
    return a.where(x != x, x, a.where(x < SPLIT, small, Far(x, order).first))


def second_kind(x: tensor, order: int) -> tensor:
    """Y0 or Y1."""
    safe = a.where(x > 0, x, 1.0)
    wave = TWO_OVER_PI * m.log(safe) * first_kind(safe, order)
    rest = series(near(safe), (Y0, Y1)[order])
    small = wave + (rest * safe - TWO_OVER_PI / safe if order else rest)
    out = a.where(x < SPLIT, small, Far(x, order).second)
    out = a.where(x == 0, -float("inf"), out)
    return a.where((x < 0) | (x != x), float("nan"), out)


@in_double
def j0(x):
    """The Bessel function of the first kind of order 0."""
    return first_kind(m.abs(x), 0)


@in_double
def j1(x):
    """The Bessel function of the first kind of order 1."""
    return a.where(x < 0, -1.0, 1.0) * first_kind(m.abs(x), 1)


@in_double
def y0(x):
    """The Bessel function of the second kind of order 0."""
    return second_kind(x, 0)


@in_double
def y1(x):
    """The Bessel function of the second kind of order 1."""
    return second_kind(x, 1)


def modified(x: tensor, order: int) -> tensor:
    """The modified Bessel function I0 or I1 for x >= 0."""
    low, high = ((I0_NEAR, I0_FAR), (I1_NEAR, I1_FAR))[order]
    small = series(a.minimum(x, SPLIT) / 4 - 1, low)
    small = small * x if order else small
    beyond = a.maximum(x, SPLIT)
    large = series(16 / beyond - 1, high) / m.sqrt(beyond)
    half = m.exp(0.5 * x)  # twice, since e^x overflows before the function does
    out = half * (half * a.where(x <= SPLIT, small, large))
    return a.where(x == float("inf"), x, out)


@in_double
def cyl_bessel_i0(x):
    """The modified Bessel function of order 0."""
    return modified(m.abs(x), 0)


@in_double
def cyl_bessel_i1(x):
    """The modified Bessel function of order 1."""
    return a.where(x < 0, -1.0, 1.0) * modified(m.abs(x), 1)


# --- higher orders


def of_order(function: Any) -> Any:
    """The function of an order known at compile time and of floats, computed in fp64."""

    def call(n: Any, x: Any) -> tensor:
        n, x = known(n), to_tensor(x)
        want(
            isinstance(n, int) and 0 <= n <= MOST_ORDER,
            f"the order must be a number from 0 to {MOST_ORDER} known at compile time, got {n!r}",
        )
        want(x.dtype.is_float, f"needs floats, got {x.handle.type}; cast with .to(tl.float32)")
        return cast(function(n, cast(x, t.float64)), x.dtype)

    call.__signature__ = inspect.signature(function)
    return named(call, function.__name__, function.__doc__)


def upwards(n: int, x: tensor, zeroth: tensor, first: tensor) -> tensor:
    """Order n from orders 0 and 1, by the recurrence that all kinds share."""
    before, here = zeroth, first
    for k in range(1, n):
        before, here = here, 2 * k / x * here - before
    return here if n else zeroth


@of_order
def jn(n, x):
    """The Bessel function of the first kind of an order known at compile time."""
    size = m.abs(x)
    zeroth, first = first_kind(size, 0), first_kind(size, 1)
    safe = a.where(size > 0, size, 1.0)
    out = upwards(n, safe, zeroth, first)
    if n > 1:
        # The recurrence loses digits where n > x; there the ratios of neighbours are found
        # downwards, and multiplied onto the larger of the first two.
        ratio: Any = 0.0
        product = None
        for k in range(n + MORE_TERMS, 1, -1):
            ratio = 1 / (2 * k / safe - ratio)
            if k <= n:
                product = ratio if product is None else product * ratio
        from_first = m.abs(first) >= m.abs(zeroth)
        lowest = 1 / (2 / safe - ratio)
        start = a.where(from_first, first, zeroth * lowest)
        out = a.where(size < n, start * product, out)
        out = a.where(size == 0, 0.0, a.where(size == float("inf"), 0.0, out))
    return out * a.where(x < 0, -1.0, 1.0) if n % 2 else out


@of_order
def yn(n, x):
    """The Bessel function of the second kind of an order known at compile time."""
    safe = a.where(x > 0, x, 1.0)
    out = upwards(n, safe, second_kind(safe, 0), second_kind(safe, 1))
    out = a.where(x == 0, -float("inf"), out)
    return a.where((x < 0) | (x != x), float("nan"), out)
