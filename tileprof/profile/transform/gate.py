"""The expressions of `tileprof diff --fail-if`: when is a change of the whole program too much?

    expression = all { "or" all }
    all        = comparison { "and" comparison }
    comparison = METRIC ( ">" | ">=" | "<" | "<=" ) limit
    limit      = [ "+" | "-" ] NUMBER [ "%" | UNIT ]

With a sign, the limit is compared with the change from old to new (`time > +5%`: more than 5 %
slower; `cpu_time > +2ms`; `time < -10%`: more than 10 % faster). Without one, it is compared with
the new value (`count > 10`). A percentage is a share of the old value and needs a sign. METRIC is a
name of letters, digits and `_ . / -`, or any name in double quotes. UNIT is, for `ns`: ns, us, µs,
ms, s, min; for `bytes`: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB; for all others: k, M, G, T.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tileprof.errors import UsageError, suggestion
from tileprof.profile.metrics import STANDARD, Metric
from tileprof.profile.transform.diff import Change

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<compare>>=|<=|>|<)
      | (?P<number>[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<percent>%)
      | "(?P<quoted>[^"]+)"
      | (?P<word>[^\W\d][\w./-]*)
    )""",
    re.VERBOSE,
)
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TIME: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
_BYTES: Final = {
    "B": 1.0,
    **{f"{letter}B": 1000.0 ** (i + 1) for i, letter in enumerate("KMGT")},
    **{f"{letter}iB": 1024.0 ** (i + 1) for i, letter in enumerate("KMGT")},
}
_COUNT: Final = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Compared(Protocol):
    """Two states of a program: a `Diff`, or times of two functions."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metrics that either state has."""

    def whole(self, metric: str) -> Change:
        """Return what became of the whole program's number."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison, ready to be evaluated; `limit` is in the metric's unit, or a share."""

    metric: str
    compare: str
    limit: float
    of_change: bool
    relative: bool

    def holds(self, diff: Compared) -> bool:
        """Tell whether the comparison is true of the whole program; a missing value never is."""
        known = self.metric in diff.metrics
        change = diff.whole(self.metric) if known else Change(0, 0)
        value = _relative(change) if self.relative else change.delta
        return _COMPARE[self.compare](value if self.of_change else change.new, self.limit)


def fail_if(diff: Compared, expression: str) -> bool:
    """Tell whether an expression is true of a diff; the module says how one is written.

    Raises `UsageError`, with the place in the expression, where it is malformed or names a metric
    that neither profile has or that the whole program has no value of. A standard metric that is no
    time is 0 where neither has it.
    """
    return any(all(part.holds(diff) for part in group) for group in parse(expression, diff.metrics))


def parse(expression: str, metrics: dict[str, Metric]) -> list[list[Comparison]]:
    """Return the comparisons: one inner list, joined by `and`, for each part joined by `or`."""
    return _Parser(expression, metrics).expression()


def _relative(change: Change) -> float:
    if change.old:
        return change.delta / abs(change.old)
    return math.copysign(math.inf, change.delta) if change.delta else 0.0


class _Parser:
    """A recursive-descent parser; `at` is where the next token starts."""

    def __init__(self, text: str, metrics: dict[str, Metric]) -> None:
        self.text = text
        self.metrics = metrics
        self.at = 0

    def expression(self) -> list[list[Comparison]]:
        groups = [[self.comparison()]]
        while self.at < len(self.text.rstrip()):
            start = self.start()
            match self.take("word"):
                case "and":
                    groups[-1].append(self.comparison())
                case "or":
                    groups.append([self.comparison()])
                case _:
                    raise self.error("expected `and`, `or` or the end", start)
        return groups

    def comparison(self) -> Comparison:
        metric = self.metric()
        start = self.start()
        if (compare := self.take("compare")) is None:
            raise self.error("expected `>`, `>=`, `<` or `<=`", start)
        start = self.start()
        if (number := self.take("number")) is None:
            raise self.error("expected a number, like 10, +5% or +2ms", start)
        number = "".join(number.split())
        signed = number[0] in "+-"
        if relative := self.take("percent") is not None:
            if not signed:
                raise self.error(f"a percentage is a change: write +{number}%", start)
            return Comparison(metric.name, compare, float(number) / 100, signed, relative)
        return Comparison(metric.name, compare, float(number) * self.unit(metric), signed, False)

    def metric(self) -> Metric:
        start = self.start()
        name = self.take("quoted") or self.take("word")
        if name is None:
            raise self.error("expected the name of a metric", start)
        # A standard metric that nobody recorded is 0: `guarded > +0` must hold of clean runs too.
        # A time that nobody recorded is a mistake: a gate on it would let everything pass.
        metric = self.metrics.get(name) or STANDARD.get(name)
        if metric is None or (metric.unit == "ns" and name not in self.metrics):
            raise self.error(
                f"neither profile has a metric `{name}`",
                start,
                f"{suggestion(name, self.metrics)}Known: {', '.join(self.metrics)}.",
            )
        if metric.adds == "last":
            raise self.error(f"`{name}` belongs to single nodes, the program has none", start)
        return metric

    def unit(self, metric: Metric) -> float:
        start, units = self.start(), {"ns": _TIME, "bytes": _BYTES}.get(metric.unit, _COUNT)
        word = self.take("word")
        if word is None or word in ("and", "or"):
            self.at = self.at if word is None else start
            return 1.0
        if word not in units:
            raise self.error(
                f"`{word}` is not a unit of `{metric.name}`",
                start,
                f"Use one of {', '.join(units)}.",
            )
        return units[word]

    def start(self) -> int:
        return len(self.text) - len(self.text[self.at :].lstrip())

    def take(self, kind: str) -> str | None:
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.group(kind) is None:
            return None
        self.at = found.end()
        return found.group(kind)

    def error(self, sentence: str, start: int, hint: str = "") -> UsageError:
        shown = f"{sentence}\n    {self.text}\n    {' ' * start}^"
        return UsageError(shown, hint=hint or "Examples: time > +5%   cpu_time > +2ms   count > 10")
