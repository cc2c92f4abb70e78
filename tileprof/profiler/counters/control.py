"""Switching the reading of counters on and off, and what is told of it.

In: what a session asks for.  Out: a plan, made before the program runs, in the native recorder; and
sentences: how many times kernels run, why counters are not read, what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from tileprof.errors import MissingDependencyError
from tileprof.profiler import native, permissions

from .asked import Asked
from .host import CuptiFailure
from .planning import Plan, make_plan

__all__ = ["CounterControl", "Prepared", "prepare"]

NOT_READ = "counters not read"
"""Key of the provenance for the reason."""
_REFUSED = 35
"""CUPTI's code where the driver lets administrators alone read counters."""
_UNSUPPORTED = {
    40: "a virtual GPU whose host does not allow it",
    41: "a GPU in confidential computing",
    42: "a GPU for mining",
    43: "a part of a GPU (MIG)",
    45: "Windows Subsystem for Linux",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of a session's wish for counters before its program runs."""

    plan: Plan | None
    problem: str = ""
    """Why there is no plan."""

    def sentence(self) -> str:
        """What a user should know now; '' for nothing. A problem is told when the program ends."""
        return self.plan.sentence() if self.plan is not None else ""

    def facts(self) -> dict[str, str]:
        """Return what provenance tells where counters are not read at all."""
        return {} if self.plan is not None else {NOT_READ: self.problem}


def prepare(asked: Asked | None) -> Prepared | None:
    """Plan what a session asks for; UsageError for a metric that the device does not have.

    Where there is no device, or no CUPTI that can count, the session goes on without.
    """
    if asked is None:
        return None
    if why := native.why_not():
        return Prepared(None, f"there is no native recorder: {why}")
    try:
        return Prepared(make_plan(asked))
    except MissingDependencyError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Prepared(None, f"{error.message}{hint}")


class CounterControl:
    """The counters of one process's recordings."""

    def __init__(self, recorder: ModuleType) -> None:
        self._native = recorder
        self._chip = recorder.GPU_CODES["other_chip"]
        self._prepared: Prepared | None = None
        self._lost = 0
        self._failure: CuptiFailure | None = None

    @property
    def plan(self) -> Plan | None:
        """What is read, if anything."""
        return self._prepared.plan if self._prepared is not None else None

    def lose(self, launches: int, failure: CuptiFailure | None = None) -> None:
        """Note that counters of launches are not known: CUPTI did not say, or said more or less."""
        self._lost += launches
        self._failure = self._failure or failure

    def is_news(self, prepared: Prepared | None) -> bool:
        """Whether somebody wants what is not read yet."""
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
            facts[NOT_READ] = self.problem(status["code"], status["text"])
        elif self._failure is not None:
            facts[NOT_READ] = self._failure.message
        return facts

    def problem(self, code: int, text: str) -> str:
        """One sentence on a failure, with a way out."""
        if code == _REFUSED:
            way = permissions.counters_remedy() or "run as root"
            return (
                "this process may not read counters"
                f" ({text}, {code}); {' '.join(way.split())}; `--instrument sample` needs no"
                " permission"
            )
        if code in _UNSUPPORTED:
            return f"CUPTI reads no counters of {_UNSUPPORTED[code]} ({text}, {code})"
        return text if code == self._chip else f"{text} ({code})"


def _launches(count: int) -> str:
    return f"{count:,} launch{'' if count == 1 else 'es'}"
