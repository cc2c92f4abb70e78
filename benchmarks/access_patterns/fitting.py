"""Which candidate rules agree with the counters of all patterns.

    python -m benchmarks.access_patterns.fitting FILE [--only copies] [--also REGEX]

In: the JSON that `python -m benchmarks.access_patterns` wrote.  Out: for each body and counter the
models that agree with every pattern, or the nearest ones with patterns that they miss.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.access_patterns.catalogue import by_name, catalogue
from benchmarks.access_patterns.copy_models import copy_parts, copy_zeros, page_wavefronts
from benchmarks.access_patterns.models import models_of
from benchmarks.access_patterns.patterns import Pattern

Counters = Mapping[str, Mapping[str, float]]
"""Counters by name, by the name of the pattern."""
Numbers = NDArray[np.float64]
_NEAREST, _MISSES, _AGREEING = 3, 3, 6
"""How many models and missed patterns are shown where no model agrees, how many where some do."""


@dataclass(frozen=True)
class Fits:
    """Models beside what was counted, those that agree with most patterns first."""

    models: Sequence[str]
    patterns: Sequence[str]
    expected: Numbers
    """Counts that a model expects of a pattern: float64[models, patterns]."""
    counted: Numbers
    """Counts that the GPU gave for each pattern: float64[patterns]."""
    agrees: NDArray[np.int64]
    """With how many patterns each model agrees."""

    @property
    def agreeing(self) -> list[str]:
        """Models that agree with all patterns."""
        return [m for m, n in zip(self.models, self.agrees) if n == len(self.patterns)]

    def missed(self, at: int) -> Iterator[str]:
        """Yield what a model expects of each pattern that it misses, in words."""
        for column in np.flatnonzero(self.expected[at] != self.counted).tolist():
            expected, counted = self.expected[at, column], self.counted[column]
            yield f"{self.patterns[column]}: expects {expected:g}, counted {counted:g}"


def fits(models: Sequence[str], expected: Numbers, counted: Mapping[str, float]) -> Fits:
    """Return how models fit; short ones come first among those that agree with as many patterns.

    expected: float64[models, patterns]; counted: by pattern, in the same order.
    """
    values = np.array([*counted.values()])
    agrees = (expected == values).sum(axis=1)
    order = sorted(range(len(models)), key=lambda at: (-agrees[at], len(models[at])))
    return Fits([models[at] for at in order], [*counted], expected[order], values, agrees[order])


def expected_copies(patterns: Sequence[Pattern]) -> tuple[list[str], Numbers]:
    """Return the wavefronts of copies by every rule of how chunks share one and zeros add some:
    the models, and float64[models, patterns].

    Groups take one wavefront each, or as many as chunks of a group meet at one bank.
    """
    parts = [copy_parts(each) for each in patterns]
    zeros = [copy_zeros(each) for each in patterns]
    names = [f"{kind} by {rule}" for rule in parts[0] for kind in ("groups", "turns")]
    of_parts = np.array([[n for pair in each.values() for n in pair] for each in parts], float)
    of_zeros = np.array([[*each.values()] for each in zeros], float)
    expected = of_parts[:, :, None] + of_zeros[:, None, :]
    page = np.array([[page_wavefronts(each) for each in patterns]])
    models = [f"{name}; {more}" for name in names for more in zeros[0]]
    return ["page", *models], np.concatenate([page, expected.reshape(len(patterns), -1).T])


def report(
    counters: Mapping[str, Counters], only: Sequence[str] = (), also: str = ""
) -> Iterator[str]:
    """Yield lines of text: what holds, by group, body and counter.

    `also` is a regular expression: patterns whose names have it are judged by themselves, too.
    """
    known = by_name(catalogue().values())
    for group, held in counters.items():
        if only and group not in only:
            continue
        if strange := set(held) - set(known):
            yield f"{group}: {len(strange)} patterns are not in the catalogue any more"
        parts: dict[str, list[Pattern]] = defaultdict(list)
        for name in held:
            if name in known:
                parts[known[name].body].append(known[name])
                if also and re.search(also, name):
                    parts[f"{known[name].body}, {also}"].append(known[name])
        for body, patterns in parts.items():
            yield from _of_body(group, body, patterns, held)


def _of_body(group: str, body: str, patterns: Sequence[Pattern], held: Counters) -> Iterator[str]:
    for counter in held[patterns[0].name]:
        counted = {each.name: held[each.name][counter] for each in patterns}
        # A counter that never counts needs no model.
        if not any(counted.values()):
            continue
        if group == "copies" and counter == "wavefronts":
            names, expected = expected_copies(patterns)
        else:
            models = models_of(group, counter)
            names = list(models)
            expected = np.array([[rule(p) for p in patterns] for rule in models.values()], float)
        if names:
            yield from _text(f"{group}, {body}: {counter}", fits(names, expected, counted))


def _text(title: str, found: Fits) -> Iterator[str]:
    agreeing, count = found.agreeing, len(found.patterns)
    yield f"{title}: {len(agreeing)} of {len(found.models)} models agree with {count} patterns"
    for model in agreeing[:_AGREEING]:
        yield f"  holds: {model}"
    for at in range(0 if agreeing else min(_NEAREST, len(found.models))):
        yield f"  {found.agrees[at]} of {count}: {found.models[at]}"
        for text in islice(found.missed(at), _MISSES):
            yield f"    {text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print which models agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access_patterns.fitting")
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="groups, joined by commas")
    parser.add_argument("--also", default="", help="patterns to judge by themselves, too")
    args = parser.parse_args(arguments)
    told = json.loads(args.file.read_text())
    only = [each for each in args.only.split(",") if each]
    counters: dict[str, dict[str, Mapping[str, float]]] = defaultdict(dict)
    for row in told["rows"]:
        counters[row["group"]][row["pattern"]] = row["counters"]
    for line in report(counters, only, args.also):
        print(line)
    instructions = told.get("instructions", {})
    if instructions and (not only or "copies" in only):
        print("counted by instruction:")
        for line in report({"copies": {
            name: {"wavefronts": counts["shared_wavefronts_ideal"]}
            for name, counts in instructions.items()
        }}):  # fmt: skip
            print(f"  fewest {line}" if line.startswith("copies") else f"  {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
