"""Wrong changes beside `tileprof try`; writes results/wrong-changes.json.

    python -m benchmarks.wrong_changes [--mutants 60] [--only RE] [-o FILE]

Of every program so many mutants are drawn, evenly over operators.  What each really computes is
told in 64 bits by `truth`.  Then it takes the place of the changed program of a trial, and is
compared as a change that moves results by rounding, and as one that moves them by precision.  It
is wrong for a kind of change if in 64 bits a result is farther from the original's than
`FACTOR` times what docs/try.md allows, before any allowance for noise; harmless if none is farther
than what is allowed; and left out between the two, or where it fails in 64 bits.  A wrong mutant
whose comparison says "equal" would be accepted if it were faster.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

import tileprof
from benchmarks.wrong_changes.mutations import Mutant, mutants
from benchmarks.wrong_changes.programs import PROGRAMS, Program
from benchmarks.wrong_changes.truth import Outcome, apart, outcome
from tileprof.analyzer.fixes import Accuracy
from tileprof.files import replace_bytes
from tileprof.trying.comparing import DISTURBED, TOLERANCES, Comparison, Reference
from tileprof.trying.orders import Function, Orders, TriedProgram
from tileprof.trying.processes import Process, ProgramError, Run

RESULT = Path(__file__).parents[1] / "results" / "wrong-changes.json"
KEPT = 5
"""Steps that are compared, as `tileprof try` does."""
FACTOR = 3.0
OF_STEPS = 10.0
"""Gradients and updates may differ by so many times as much as values (docs/try.md)."""
ACCURACIES: tuple[Accuracy, ...] = ("rounding", "precision")
LIMIT_S = 60.0

Kind = Literal["wrong", "harmless", "between"]


def kind_of(shares: dict[str, float], tolerance: float) -> Kind:
    """Return whether differences are those of a wrong change."""
    allowed = {
        name: tolerance * (1.0 if name.endswith(("value", "values")) else OF_STEPS)
        for name in shares
    }
    if any(share > FACTOR * allowed[name] for name, share in shares.items()):
        return "wrong"
    return "harmless" if all(share <= allowed[n] for n, share in shares.items()) else "between"


@dataclass
class Tried:
    """One mutant: what it is, and what was said of it."""

    program: str
    mutant: Mutant
    shares: dict[str, float]
    verdicts: dict[Accuracy, str]
    """Answer by kind of change: `equal`, `different`, `not compared`, or `failed`."""
    told: dict[Accuracy, str]

    def as_json(self) -> dict[str, Any]:
        """Return what the result file holds of it."""
        return {
            "program": self.program,
            "operator": self.mutant.operator,
            "line": self.mutant.line,
            "before": self.mutant.before[:200],
            "after": self.mutant.after[:200],
            "apart": {n: s if s != float("inf") else None for n, s in self.shares.items()},
            "truth": {a: kind_of(self.shares, TOLERANCES[a]) for a in ACCURACIES},
            "verdict": dict(self.verdicts),
            "told": dict(self.told),
        }


class Originals:
    """The original of a program: its processes, and what it computes in 64 bits."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self._folder, self._made = program, folder, 0
        self.outcome = outcome(program.text, program.compared, KEPT)
        self.reference = Reference(self.run(program.text))
        again = self.reference.add(self.run(program.text))
        if not again.equal:
            raise SystemExit(f"two runs of {program.name} differ: {again}")
        if self.reference.trains:
            for accuracy in ACCURACIES:
                run = self.run(program.text, DISTURBED[accuracy])
                self.reference.disturbed(run, accuracy)

    def run(self, text: str, disturbed: float = 0.0) -> Run:
        """Run a text in a process, as a trial does."""
        self._made += 1
        folder = self._folder / str(self._made)
        script = folder / "program.py"
        folder.mkdir()
        script.write_text(text)
        name = self.program.compared
        function = Function(str(script), name) if name else None
        tried = TriedProgram("script", str(script), (), function, function)
        orders = Orders(tried, (), str(folder), KEPT, KEPT + 1, 0, disturbed)
        with Process(orders, LIMIT_S) as process:
            process.ready()
            return process.end()

    def tried(self, mutant: Mutant, truth: Outcome) -> Tried:
        """Try a mutant as a change of each kind."""
        found: dict[Accuracy, tuple[str, str]] = {}
        try:
            run = self.run(mutant.text)
        except ProgramError as error:
            found = dict.fromkeys(ACCURACIES, ("failed", error.message))
        else:
            for accuracy in ACCURACIES:
                comparison = self.reference.compared(run, TOLERANCES[accuracy], accuracy)
                found[accuracy] = _verdict(comparison), str(comparison)
        return Tried(
            self.program.name, mutant, apart(self.outcome, truth),
            {a: verdict for a, (verdict, _) in found.items()},
            {a: told for a, (_, told) in found.items()},
        )  # fmt: skip


def _verdict(comparison: Comparison) -> str:
    if not comparison.compared:
        return "not compared"
    return "equal" if comparison.equal else "different"


def drawn(program: Program, count: int) -> Iterator[tuple[Mutant, Outcome]]:
    """Draw mutants that run, evenly over operators, with what they compute."""
    by_operator = defaultdict(list)
    for each in mutants(program.text):
        by_operator[each.operator].append(each)
    draw = random.Random(0)
    for held in by_operator.values():
        draw.shuffle(held)
    found = 0
    while found < count and any(by_operator.values()):
        for held in by_operator.values():
            while held:
                mutant = held.pop()
                try:
                    truth = outcome(mutant.text, program.compared, KEPT)
                except Exception:  # a mutant that fails is refused by whoever runs it
                    continue
                found += 1
                yield mutant, truth
                break


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return counts by kind of change, and the wrong mutants that would be accepted."""
    made: dict[str, Any] = {}
    for accuracy in ACCURACIES:
        counts = Counter((row["truth"][accuracy], row["verdict"][accuracy]) for row in rows)
        made[accuracy] = {
            "wrong": sum(n for (kind, _), n in counts.items() if kind == "wrong"),
            "wrong_accepted": counts["wrong", "equal"],
            "wrong_not_compared": counts["wrong", "not compared"],
            "harmless": sum(n for (kind, _), n in counts.items() if kind == "harmless"),
            "harmless_refused": counts["harmless", "different"] + counts["harmless", "failed"],
            "between": sum(n for (kind, _), n in counts.items() if kind == "between"),
        }
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Try mutants, and write the results after each program."""
    parser = argparse.ArgumentParser("benchmarks.wrong_changes", description=__doc__.split("\n")[0])
    parser.add_argument("--mutants", type=int, default=60, help="of each program")
    parser.add_argument("--only", default="", help="regular expression on programs")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for program in PROGRAMS:
        if not re.search(options.only, program.name):
            continue
        with tempfile.TemporaryDirectory(prefix="tileprof-wrong-") as folder:
            original = Originals(program, Path(folder))
            for mutant, truth in drawn(program, options.mutants):
                row = original.tried(mutant, truth).as_json()
                rows.append(row)
                for accuracy in ACCURACIES:
                    if (row["truth"][accuracy], row["verdict"][accuracy]) == ("wrong", "equal"):
                        print(f"ACCEPTED as {accuracy}: {json.dumps(row)}", flush=True)
        held = {
            "schema": 1,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tileprof": tileprof.__version__,
            "summary": summary(rows),
            "rows": rows,
        }
        replace_bytes(options.output, (json.dumps(held, indent=1) + "\n").encode())
        print(program.name, json.dumps(held["summary"]), flush=True)


if __name__ == "__main__":
    main()
