"""Conditions beyond right values: counted accesses, decisions of the compiler, proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof.checker import check
from tileprof.checker.findings import PROPERTIES, Finding, Property
from tileprof.errors import TileprofError
from tileprof.remarks import Decision, Remark
from tileprof.remarks.copies import CpAsync, TmaLoad
from tileprof.remarks.layouts import GlobalAccess, SharedAccess
from tileprof.remarks.products import GemmInstruction

from .difference import indices
from .exercise import Failure
from .judges import Ran

TARGET = "sm_90a"
"""GPU for which kernels are compiled where a condition is about the compiler's decisions."""


@dataclass(frozen=True)
class ReadOnce:
    """No element of a tensor is read more often than given."""

    tensor: str
    times: int = 1

    @property
    def text(self) -> str:
        """The condition as a sentence."""
        often = "once" if self.times == 1 else f"at most {self.times} times"
        return f"each element of {self.tensor} is read {often}"

    def failure(self, ran: Ran) -> Failure | None:
        """Count the reads of each element, by the interpreter's stream of accesses."""
        traffic = ran.watch.tensors.get(self.tensor)
        if traffic is None or int(traffic.reads.max(initial=0)) <= self.times:
            return None
        most = int(traffic.reads.max())
        total, size = int(traffic.reads.sum()), len(traffic.reads)
        element = int(np.flatnonzero(traffic.reads == most)[0])
        return Failure(
            "condition",
            f"the values are right, but elements of {self.tensor} are read up to {most} times",
            None,
            f"Element {element} (row-major) is read {most} times; the {size:,} elements are read "
            f"{total:,} times in all. Keep what was read in a fragment or in shared memory.",
            ran.case,
            "interpreter",
        )


@dataclass(frozen=True)
class ReadsAtMost:
    """A tensor is read no more often, over all its elements, than a function of the case says."""

    tensor: str
    text: str
    most: Callable[[Ran], int]
    """Returns the number of reads of elements that are needed, over all blocks."""
    advice: str

    def failure(self, ran: Ran) -> Failure | None:
        """Count the reads of all elements together."""
        traffic = ran.watch.tensors.get(self.tensor)
        count = 0 if traffic is None else int(traffic.reads.sum())
        most = self.most(ran)
        if count <= most:
            return None
        return Failure(
            "condition",
            f"the values are right, but {count:,} elements of {self.tensor} are read, and "
            f"{most:,} are needed",
            None, self.advice, ran.case, "interpreter",
        )  # fmt: skip


@dataclass(frozen=True)
class OnlyArguments:
    """Global memory holds the arguments and results, and no intermediate tensor."""

    text: str = "no intermediate tensor in global memory"

    def failure(self, ran: Ran) -> Failure | None:
        """Compare the tensors that blocks accessed with the parameters."""
        returned = {ran.kernel.traced.params[at].name for at in ran.kernel.variant.traced.returned}
        for name, traffic in ran.watch.tensors.items():
            held = name in ran.kernel.arguments or name in returned
            if held and not (name in returned and traffic.reads.any()):
                continue
            what = "a result that is also read" if name in returned else "an intermediate tensor"
            size = len(traffic.reads)
            return Failure(
                "condition",
                f"the values are right, but {name} is {what}: {size:,} elements go through global "
                "memory",
                None,
                "Do both steps on one tile, while it lies in a fragment or in shared memory.",
                ran.case,
                "interpreter",
            )
        return None


@dataclass(frozen=True)
class Proved:
    """Some properties hold, by the checker."""

    properties: tuple[Property, ...] = PROPERTIES
    by_proof: bool = False
    """Whether each property must be proved; otherwise a run without findings is enough."""

    @property
    def text(self) -> str:
        """The condition as a sentence."""
        return (
            f"`tileprof check` {'proves it' if self.by_proof else 'finds nothing'} "
            f"({', '.join(self.properties)})"
        )

    def failure(self, ran: Ran) -> Failure | None:
        """Check the case; a finding is the counterexample that the learner sees."""
        report = check(ran.function, *ran.args)
        if report.findings:
            finding = report.findings[0]
            place = finding.accesses[0].location if finding.accesses else None
            message = f"tileprof check finds: {finding.code} of {finding.buffer}"
            return Failure("condition", message, place, counterexample(finding), ran.case,
                           "interpreter")  # fmt: skip
        for launch in report.launches:
            for name in self.properties:
                verdict = launch.verdicts[name]
                if self.by_proof and verdict.status != "proved":
                    open_ = verdict.unproved[0]
                    return Failure(
                        "condition",
                        f"tileprof check cannot prove the property `{name}`",
                        open_.locations[0],
                        f"It is about {open_.buffer}: run `tileprof check` on the file.",
                        ran.case,
                        "interpreter",
                    )
        return None


def counterexample(finding: Finding) -> str:
    """Return the accesses of a finding, one a line."""
    lines = []
    for each in finding.accesses:
        index = ", ".join(map(str, each.index))
        block = f" by block {indices(each.block)}" if each.block is not None else ""
        line = f" in line {each.location.line}" if each.location else ""
        lines.append(f"  {each.kind} of {finding.buffer}[{index}]{block}{line}")
    return "\n".join([*lines, *([finding.message] if finding.message else [])])


@dataclass(frozen=True)
class Decided:
    """The compiler's decisions for a GPU, by its remarks; no GPU and no NVRTC are needed."""

    text: str
    test: Callable[[Sequence[Remark]], Remark | str | None]
    """Returns the remark that breaks the condition, or a sentence; None where it holds."""
    advice: str

    def failure(self, ran: Ran) -> Failure | None:
        """Compile the kernel for the extents of the first case."""
        if not ran.first:
            return None
        where = f"compiler for {TARGET}"
        try:
            remarks = ran.kernel.program.lowered(TARGET).remarks
        except TileprofError as error:
            return Failure("condition", error.message, error.location, error.hint, ran.case, where)
        found = self.test(remarks)
        if found is None:
            return None
        said = found
        place = None
        if isinstance(found, Remark):
            place = found.location
            said = f"{found.subject}: {found.decision}"
            if found.rejected:
                said += "".join(f"\n  not {each}" for each in found.rejected)
        return Failure(
            "condition",
            f"the values are right, but not the condition “{self.text}”",
            place,
            f"The compiler says for {TARGET}: {said}\n{self.advice}",
            ran.case,
            where,
        )


def scattered(remarks: Sequence[Remark]) -> Remark | None:
    """Return the first access of global memory that needs twice the sectors of its bytes."""
    for each in remarks:
        match each.decision:
            case GlobalAccess(sectors=sectors, needed=needed) if sectors >= 2 * needed:
                return each
    return None


def conflicting(remarks: Sequence[Remark]) -> Remark | None:
    """Return the first access of shared memory that has bank conflicts."""
    for each in remarks:
        match each.decision:
            case SharedAccess(wavefronts=wavefronts, needed=needed) if wavefronts > needed:
                return each
    return None


def synchronous(*buffers: str) -> Callable[[Sequence[Remark]], Remark | str | None]:
    """Return the test that tiles are loaded by asynchronous copies into each of these buffers."""

    def test(remarks: Sequence[Remark]) -> Remark | str | None:
        copies = [each for each in remarks if each.op == "copy"]
        for each in copies:
            loads = bool(each.names) and each.names[0] in buffers
            if loads and not isinstance(each.decision, TmaLoad | CpAsync):
                return each
        loaded = {each.names[0] for each in copies if each.names}
        missing = [name for name in buffers if name not in loaded]
        return f"no copy of {missing[0]} into a tile" if missing else None

    return test


def without_tensor_cores(remarks: Sequence[Remark]) -> Remark | str | None:
    """Return the first product that tensor cores do not compute."""
    products = [each for each in remarks if isinstance(each.decision, GemmInstruction)]
    for each in products:
        decision: Decision = each.decision
        if isinstance(decision, GemmInstruction) and decision.instruction == "fma":
            return each
    return None if products else "there is no matrix product (T.gemm)"
