"""Switching the reading of counters on and off, and what is told of it.

In: what a session asks for.  Out: a plan, made before the program runs, in the native recorder; and
sentences: how many times kernels run, why counters are not read, what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from .host import CuptiFailure
from .instructions import InstructionPlan, make_instruction_plan
from .planning import Plan, make_plan
from .problems import NOT_READ, or_why_not, problem
from .requests import Asked, AskedInstructions


@dataclass(frozen=True, slots=True)
class Prepared:
    """Outcome of a session's request for counters before its program runs."""

    plan: Plan | None = None
    """Plan for counters of launches."""
    problem: str = ""
    """Why there is no plan."""
    instructions: InstructionPlan | None = None

    def sentence(self) -> str:
        """Return a notice for the user, '' for none. A problem is reported when the program
        ends."""
        plan = self.plan or self.instructions
        return plan.sentence() if plan is not None else ""

    def facts(self) -> dict[str, str]:
        """Return what provenance tells where counters are not read at all."""
        return {} if self.plan or self.instructions else {NOT_READ: self.problem}


def prepare(asked: Asked | AskedInstructions | None) -> Prepared | None:
    """Plan what a session asks for; UsageError for a metric that the device does not have.

    Where there is no device, or no CUPTI that can count, the session goes on without.
    """
    if asked is None:
        return None

    def planned() -> Prepared:
        if isinstance(asked, AskedInstructions):
            return Prepared(instructions=make_instruction_plan(asked))
        return Prepared(make_plan(asked))

    return or_why_not(planned, lambda why: Prepared(problem=why))


class CounterControl:
    """The counters of one process's recordings."""

    def __init__(self, recorder: ModuleType) -> None:
        self._native = recorder
        self._prepared: Prepared | None = None
        self._lost = 0
        self._failure: CuptiFailure | None = None

    @property
    def plan(self) -> Plan | None:
        """Plan of what is read, if anything."""
        return self._prepared.plan if self._prepared is not None else None

    def lose(self, launches: int, failure: CuptiFailure | None = None) -> None:
        """Note that counters of launches are not known: CUPTI did not say, or said more or less."""
        self._lost += launches
        self._failure = self._failure or failure

    def is_news(self, prepared: Prepared | None) -> bool:
        """Return whether somebody wants what is not read yet."""
        return prepared is not None and prepared.plan is not None and prepared.plan != self.plan

    def want(self, prepared: Prepared) -> None:
        """Read these from the next beginning on; while nothing is recorded."""
        self._prepared = prepared
        plan = prepared.plan
        if plan is not None:
            self._native.counters_configure(plan.chip, list(plan.asked.terms), plan.image)

    def stop(self) -> None:
        """Read none from the next beginning on."""
        self._prepared = None
        self._native.counters_configure("", [], b"")

    def facts(self) -> dict[str, str]:
        """Return what provenance tells."""
        plan = self.plan
        if plan is None:
            return {}
        status = self._native.counters_status()
        times = "once" if plan.passes == 1 else f"{plan.passes} times"
        told = [f"{', '.join(plan.asked.names)} on {plan.chip}, each kernel run {times}",
                _launches(status["launches"])]  # fmt: skip
        if lost := status["lost"] + self._lost + status["waited"]:
            told.append(f"{_launches(lost)} lost")
        facts = {"counters": "; ".join(told)}
        if status["code"]:
            facts[NOT_READ] = problem(self._native, status["code"], status["text"])
        elif self._failure is not None:
            facts[NOT_READ] = self._failure.message
        return facts


def _launches(count: int) -> str:
    return f"{count:,} launch{'' if count == 1 else 'es'}"
