"""Knowledge of a search about each configuration, and what follows from all of it.

In: what trials and comparisons of times tell.  Out: configurations by rank, times, guesses, and the
`Looked` of an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .configurations import Configuration
from .guesses import Guess, guesses
from .model import Estimate
from .outcomes import Looked, Measured, Verdict
from .ruled_out import Failure
from .space import Space
from .timing import Batches, Comparison
from .trials import Refused, Trial


@dataclass(slots=True)
class Known:
    """Facts about a configuration."""

    trial: Trial | None = None
    estimate: Estimate | None = None
    refused: Refused | None = None
    because: Failure | None = None
    measured: Measured | None = None
    batches: Batches | None = None
    verdict: Verdict = "not-timed"
    reason: str = ""

    def refuse(self, why: Refused) -> None:
        """Note that it cannot be compiled, or cannot run."""
        self.refused, self.verdict, self.estimate = why, "refused", None


@dataclass(slots=True)
class Table:
    """Facts about the configurations of a space."""

    space: Space
    known: dict[Configuration, Known] = field(default_factory=dict)
    """Configurations in the order in which they were asked for."""

    def __contains__(self, configuration: Configuration) -> bool:
        return configuration in self.known

    def __getitem__(self, configuration: Configuration) -> Known:
        return self.known[configuration]

    def add(self, configuration: Configuration) -> Known:
        """Return the entry of a configuration that is new here."""
        held = self.known[configuration] = Known()
        return held

    def tried(self) -> list[Configuration]:
        """Return the configurations of which there is a trial."""
        return [c for c, known in self.known.items() if known.trial is not None]

    def predicted(self) -> dict[Configuration, float]:
        """Return the ns that the model expects, of those that it expects to run."""
        return {c: k.estimate.ns for c, k in self.known.items() if k.estimate is not None}

    def ranked(self) -> list[Configuration]:
        """Return the configurations that can be timed, the model's best first."""
        held = self.predicted()
        kept = [c for c in held if self.known[c].verdict not in ("spills", "wrong", "failed")]
        # Where all spill, the least evil of them is left.
        return sorted(kept or held, key=lambda c: held[c])

    def times(self) -> dict[Configuration, float]:
        """Return the ns of those that were timed."""
        return {c: k.measured.ns for c, k in self.known.items() if k.measured is not None}

    def guesses(self) -> Mapping[Configuration, Guess]:
        """Return what the model expects after a look at all times so far."""
        return guesses(self.predicted(), self.times(), self.space.steps)

    def is_open(self, configuration: Configuration) -> bool:
        """Return whether a configuration may still be timed."""
        known = self.known.get(configuration)
        return (
            known is not None and known.estimate is not None and known.measured is None
            and known.verdict == "not-timed"
        )  # fmt: skip

    def is_settled(self, one: Configuration, other: Configuration) -> bool:
        """Return whether two were compared, and it is sure which is faster."""
        measured = self.known[one].measured
        return measured is not None and measured.against == other and measured.decided

    def note(self, one: Configuration, other: Configuration, found: Comparison) -> None:
        """Note the times of a comparison; both were taken now, older ones maybe at another clock.

        The time of the first is that of the other, by the ratio of pairs.
        """
        held = self.known[other].measured
        assert held is not None
        ns = held.ns if held.rounds > 1 else found.other_ns
        self.known[other].measured = replace(held, ns=ns, rounds=held.rounds + found.rounds)
        earlier = self.known[one].measured
        position = earlier.position if earlier is not None else len(self.times()) + 1
        self.known[one].measured = Measured(
            ns * found.ratio.value, found.ratio, other, found.rounds, position, found.decided
        )

    def looked(self) -> list[Looked]:
        """Return all of it: the winner first, then by times, measured before expected ones."""
        expected = self.guesses()
        made = [_looked(c, known, expected.get(c)) for c, known in self.known.items()]
        return sorted(made, key=_order_of)


def _looked(configuration: Configuration, known: Known, guess: Guess | None) -> Looked:
    facts = known.trial.facts if known.trial else None
    registers = max((e.registers for e in facts.launches), default=0) if facts else 0
    return Looked(
        configuration, known.verdict, known.estimate, guess.ns if guess else None,
        bool(known.trial and known.trial.compiled), registers,
        facts.spilled if facts else 0, known.measured, known.refused, known.because,
        known.reason,
    )  # fmt: skip


def _order_of(each: Looked) -> tuple[int, float]:
    if each.verdict == "winner":
        return (0, 0.0)
    if each.measured is not None:
        return (1, each.measured.ns)
    return (2, each.expected_ns) if each.expected_ns is not None else (3, 0.0)
