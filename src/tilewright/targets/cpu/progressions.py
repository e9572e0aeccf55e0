"""Index arithmetic on forms: progressions stay progressions, comparisons with them are prefixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.codegen.literals import Lane
from tilewright.ir import types as t
from tilewright.ir.inst import Inst
from tilewright.ir.types import parse_dtype
from tilewright.targets.cpu.forms import Form, Prefix, Steps, Uniform

if TYPE_CHECKING:
    from tilewright.targets.cpu.evaluate import Evaluator

UNKNOWN = object()  # no rule applies: compute lane by lane


def depth_of(*forms: Form) -> int:
    return max(f.depth for f in forms)


def stride_lane(e: Evaluator, stride: int | Lane) -> Lane:
    return stride if isinstance(stride, Lane) else e.const(stride)


def add_strides(e: Evaluator, x: int | Lane, y: int | Lane, depth: int) -> int | Lane:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if x == 0 or y == 0:
        return y if x == 0 else x
    return e.at(depth, lambda: e.b.add(stride_lane(e, x), stride_lane(e, y)))


def scale_stride(e: Evaluator, x: int | Lane, factor: Lane, depth: int) -> int | Lane:
    if isinstance(x, int) and factor.known is not None:
        return x * factor.known
    if x == 1:
        return e.at(depth, lambda: e.b.cast(factor, t.int64))
    return e.at(depth, lambda: e.b.mul(stride_lane(e, x), e.b.cast(factor, t.int64)))


def is_integer(form: Form) -> bool:
    return isinstance(form, (Uniform, Steps)) and form.dtype.is_integer


def base_of(form: Uniform | Steps) -> Lane:
    return form.lane if isinstance(form, Uniform) else form.base


def stride_of(form: Uniform | Steps) -> int | Lane:
    return 0 if isinstance(form, Uniform) else form.stride


def add(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    x, y = forms
    if not (is_integer(x) and is_integer(y)) or (isinstance(x, Uniform) and isinstance(y, Uniform)):
        return UNKNOWN
    depth = depth_of(x, y)
    base = e.at(depth, lambda: e.b.add(base_of(x), base_of(y)))
    return Steps(base, add_strides(e, stride_of(x), stride_of(y), depth), depth)


def sub(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    x, y = forms
    if not (is_integer(x) and is_integer(y)) or (isinstance(x, Uniform) and isinstance(y, Uniform)):
        return UNKNOWN
    if not isinstance(stride_of(y), int):
        return UNKNOWN
    depth = depth_of(x, y)
    base = e.at(depth, lambda: e.b.sub(base_of(x), base_of(y)))
    stride = add_strides(e, stride_of(x), -stride_of(y), depth)
    return Uniform(base, depth) if stride == 0 else Steps(base, stride, depth)


def neg(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    (x,) = forms
    if not isinstance(x, Steps) or not x.dtype.is_integer or not isinstance(x.stride, int):
        return UNKNOWN
    return Steps(e.at(x.depth, lambda: e.b.neg(x.base)), -x.stride, x.depth)


def mul(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    x, y = forms
    if isinstance(x, Uniform):
        x, y = y, x
    if not (isinstance(x, Steps) and isinstance(y, Uniform) and x.dtype.is_integer):
        return UNKNOWN
    depth = depth_of(x, y)
    base = e.at(depth, lambda: e.b.mul(x.base, y.lane))
    return Steps(base, scale_stride(e, x.stride, y.lane, depth), depth)


def shl(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    x, y = forms
    if not (isinstance(x, Steps) and isinstance(y, Uniform)) or y.lane.known is None:
        return UNKNOWN
    if not isinstance(x.stride, int) or not 0 <= y.lane.known < 32:
        return UNKNOWN
    base = e.at(x.depth, lambda: e.b.shl(x.base, y.lane))
    return Steps(base, x.stride << y.lane.known, x.depth)


def offset(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    p, i = forms
    if not isinstance(p, (Uniform, Steps)) or not isinstance(i, (Uniform, Steps)):
        return UNKNOWN
    if isinstance(p, Uniform) and isinstance(i, Uniform):
        return UNKNOWN
    depth = depth_of(p, i)
    size = e.const(inst.attrs["bytes"])
    base = e.at(depth, lambda: e.b.offset(base_of(p), base_of(i)))
    moved = scale_stride(e, stride_of(i), size, depth) if stride_of(i) != 0 else 0
    return Steps(base, add_strides(e, stride_of(p), moved, depth), depth)


def cast(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    (form,) = forms
    to = parse_dtype(inst.attrs["to"])
    if not isinstance(form, Steps) or not form.dtype.is_integer:
        return UNKNOWN
    if to.is_integer and to.bits >= 32 and not (to.bits > form.dtype.bits and wraps(e, form)):
        base = e.at(form.depth, lambda: e.b.cast(form.base, to))
        narrow = form.dtype if to.bits > form.dtype.bits and not ends_in_range(e, form) else None
        return Steps(base, form.stride, form.depth, narrow)
    return UNKNOWN


def wraps(e: Evaluator, form: Steps) -> bool:
    """Whether a progression may run over the end of its dtype; unsigned ones are made to."""
    far = isinstance(form.stride, int) and abs(form.stride) * e.row.length >> form.dtype.bits - 1
    return not form.dtype.is_signed or bool(far)


def ends_in_range(e: Evaluator, form: Steps) -> bool:
    """Whether a progression surely stays in its dtype."""
    if form.base.known is None or not isinstance(form.stride, int):
        return False
    return abs(form.base.known) + abs(form.stride) * e.row.length < 1 << form.dtype.bits - 1


def wide(e: Evaluator, lane: Lane) -> Lane:
    return e.b.cast(lane, t.int64)


def unless_wrapped(e: Evaluator, form: Steps, limit: Lane) -> Lane:
    """The limit of a mask; one that all lanes pass where 32-bit numbers wrap around in the row.

    Those that wrapped are small, so they are below the bound; what they then access is out of
    bounds, and is found there.
    """
    if form.dtype.bits > 32 or ends_in_range(e, form):
        return limit
    last = e.const((1 << form.dtype.bits - 1) - e.span, form.dtype)
    return e.b.select(e.b.gt(form.base, last), e.const(e.span), limit)


def comparison(less: bool, equal: bool) -> Callable:
    """x < y and its kin, where one side is a progression of step 1 and the other is uniform."""

    def rule(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
        x, y = forms
        smaller, larger = (x, y) if less else (y, x)
        if not (is_integer(smaller) and is_integer(larger)):
            return UNKNOWN
        if not (isinstance(smaller, Steps) and isinstance(larger, Uniform)):
            return UNKNOWN
        if smaller.stride != 1 or wraps(e, smaller):
            return UNKNOWN
        depth = depth_of(smaller, larger)

        def make() -> Lane:
            limit = e.b.sub(wide(e, larger.lane), wide(e, smaller.base))
            limit = e.b.add(limit, e.const(1)) if equal else limit
            limit = unless_wrapped(e, smaller, limit)
            if not e.whole:
                return limit
            return e.b.minimum(e.b.maximum(limit, e.const(0)), e.const(e.span))

        return Prefix(e.at(depth, make), depth)

    return rule


def bit_and(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    x, y = forms
    if inst.result.type.dtype is not t.int1:
        return UNKNOWN
    for p, q in ((x, y), (y, x)):
        if isinstance(p, Uniform) and p.lane.text in ("true", "false"):
            return q if p.lane.text == "true" else p
        if isinstance(p, Prefix) and isinstance(q, (Prefix, Uniform)):
            depth = depth_of(p, q)
            return Prefix(e.at(depth, lambda p=p, q=q: narrowed(e, p, q)), depth)
    return UNKNOWN


def narrowed(e: Evaluator, p: Prefix, q: Prefix | Uniform) -> Lane:
    if isinstance(q, Uniform):
        return e.b.select(q.lane, p.limit, e.const(0))
    if p.limit == q.limit:
        return p.limit
    return e.b.minimum(p.limit, q.limit)


def select(e: Evaluator, inst: Inst, forms: list[Form]) -> Form | object:
    mask, x, y = forms
    if isinstance(mask, Uniform) and mask.lane.text in ("true", "false"):
        return x if mask.lane.text == "true" else y
    if isinstance(mask, Prefix) and e.whole:
        e.row.limits[mask.limit.text] = mask  # so that the row has a part without it
    return UNKNOWN


RULES: dict[str, Callable] = {
    "add": add,
    "sub": sub,
    "neg": neg,
    "mul": mul,
    "shl": shl,
    "offset": offset,
    "cast": cast,
    "lt": comparison(less=True, equal=False),
    "le": comparison(less=True, equal=True),
    "gt": comparison(less=False, equal=False),
    "ge": comparison(less=False, equal=True),
    "bit_and": bit_and,
    "select": select,
    "hint": lambda e, inst, forms: forms[0],
}
