"""Fragments that threads exchange through shared memory because two ops need them differently.

Static: the compiler's remark on the conversion, with the line that has the fragment otherwise.
Dynamic: samples at the stores, loads and barriers of that line, and of what waits for them; waits
for what is stored there are not the exchange's doing. Without it that time goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.errors import Location
from tileprof.profile import RemarkInfo

__all__ = ["RULE"]

_COLD = 0.01
_COMES_BACK = 0.85
"""Of that time: other instructions take some of the freed turns."""
_EXCHANGE = ("STS", "LDS", "STSM", "LDSM", "BAR")
_ELSEWHERE = "long_scoreboard"
_CONVERTED, _FILLED = "converted to ", "filled through shared memory"
_ADVICE = (
    "Let both ops want the fragment alike: the same order of indices in their `T.Parallel`, the"
    " exchange outside of the loop, or a copy of the fragment in shared memory where one of them"
    " reads across."
)
_ONCE = (
    "Let each element have one thread: fill a shared buffer, or make the fragment as large as the"
    " block has threads."
)
_COMPILER = (
    "Layouts are solved for the whole launch: see what fixes the other layout, and whether its op"
    " could take this one."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Exchanges that the compiler tells of, those of one line together.

    Of several that cost nothing the longest stands for all.
    """
    lines = dict[Location | None, list[RemarkInfo]]()
    for remark in case.remarks:
        if _is_exchange(remark):
            lines.setdefault(remark.location, []).append(remark)
    drafts = [_draft(case, together) for together in lines.values()]
    yield from (each for each in drafts if each.severity != "ignore")
    cold = [each for each in drafts if each.severity == "ignore"]
    if len(cold) == len(drafts):
        yield from sorted(cold, key=lambda each: -each.evidence[-1].samples)[:1]


def _is_exchange(remark: RemarkInfo) -> bool:
    converted = remark.chosen.startswith(_CONVERTED)
    through = remark.chosen.endswith("through shared memory")
    return remark.op.startswith("buffer ") and through and (converted or remark.chosen == _FILLED)


def _draft(case: KernelCase, together: list[RemarkInfo]) -> Draft:
    remark = together[0]
    names = dict.fromkeys(f"`{each.op.removeprefix('buffer ')}`" for each in together)
    verb = "is" if len(names) == 1 else "are"
    title = f"{' and '.join(names)} {verb} exchanged between threads through shared memory"
    against = ", ".join(f"{other} ({reason})" for other, reason in remark.rejected)
    static = Evidence("static", f"{remark.op}: {remark.chosen}, not {against}")
    advice = _ONCE if remark.chosen == _FILLED else _ADVICE
    code = case.sampled
    where = _at(case, code, remark) if code else []
    hot = code.hottest(where) if code else None
    if code is None or hot is None:
        place = case.place(remark.location, remark.op)
        return Draft("warning", title, place, (static,), advice, _COMPILER)
    place = case.place(remark.location, remark.op, (hot.offset, hot.offset))
    taken = _taken(code, where)
    share = float(taken.sum()) / code.whole
    text = f"{percent(share)} of the samples are at the exchange or wait for it"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share < _COLD:
        author = "Leave it: the exchange takes no time."
        return Draft("ignore", f"{title}, which costs nothing", place, evidence, author,
                     confidence="high")  # fmt: skip
    saving = eliminated(taken, code.whole, _COMES_BACK)
    return Draft("suggestion", title, place, evidence, advice, _COMPILER, saving)


def _at(case: KernelCase, code: KernelCode, remark: RemarkInfo) -> list[int]:
    """What the exchange can be made of in its line."""
    line = remark.location.line if remark.location else 0
    return [
        index
        for index in code.named(*_EXCHANGE)
        if (here := case.user_line(code.instructions[index].place)) and here.line == line
    ]


def _taken(code: KernelCode, where: list[int]) -> Weights:
    reasons = [each for each in code.by_reason(where) if each != _ELSEWHERE]
    at = code.taken(code.rows(where, reasons))
    return np.maximum(at, code.waiting_for(where))


RULE = KernelRule("layout-convert", find)
