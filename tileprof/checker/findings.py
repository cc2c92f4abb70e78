"""Findings of a check, as typed facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tileprof.errors import Location

Code = Literal[
    "race-between-blocks",
    "race-in-block",
    "uninitialized-read",
    "out-of-bounds",
    "failed",
    "shared-memory-race",
    "missing-fence",
    "early-accumulator",
    "deadlock",
    "gpu-fault",
]
Property = Literal["races", "initialization", "bounds"]
"""Races between blocks; reads of what was not written; accesses outside of a buffer."""
PROPERTIES: tuple[Property, ...] = ("races", "initialization", "bounds")
Status = Literal["proved", "enumerated", "refuted", "explored", "unchecked"]
"""Proved for all inputs; for all inputs that have the integers of this run, which made every access
that they allow; refuted by a finding; no finding in a run; neither proved nor run."""
Why = Literal["data", "form", "order", "effort"]
"""Reason for a missing proof: an index depends on data; what is known of the indices does not
exclude the fault; no write of the whole buffer comes before; the limit of work was reached."""
Actor = Literal["thread", "cp.async", "TMA load", "bulk store", "wgmma"]
"""Agent that accesses memory in a block of the GPU's program: a thread, or what it started."""
PROPERTY_OF: Mapping[Code, Property] = {
    "race-between-blocks": "races",
    "uninitialized-read": "initialization",
    "out-of-bounds": "bounds",
}
"""Properties that a finding refutes."""


@dataclass(frozen=True, slots=True)
class FoundAccess:
    """One access of a counterexample."""

    kind: Literal["read", "write", "atomic", "wait"]
    location: Location | None
    index: tuple[int, ...]
    block: tuple[int, ...] | None
    """Indices of the block; None outside a launch."""
    point: tuple[tuple[str, int], ...] = ()
    """Loop variables of the `T.Parallel`s around, where they are known."""
    actor: Actor | None = None
    """Agent of the access, in a finding about the GPU's program; its block is a number."""
    thread: int | None = None
    """Thread that made the access, started it, or waits, in a finding about the GPU's program."""
    threads: int = 1
    """Number of threads that wait."""
    cuda_line: int = 0
    """Line of the emitted CUDA text, from 1; 0 where there is none."""
    what: str = ""
    """Reason why a thread waits, or its mistake."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order in which threads run and copies end, on the emulated GPU."""

    target: str
    seed: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, with the accesses that show it: two that race, or one that is wrong by itself."""

    code: Code
    kernel: str
    launch: int
    """Position of the `T.Kernel` in the kernel's program; -1 outside of any."""
    buffer: str
    accesses: tuple[FoundAccess, ...]
    message: str = ""
    """Sentence of the error that ended the run; '' for what a watched run found."""
    schedule: Schedule | None = None
    """Settings of a run that shows a fault inside a block again."""


@dataclass(frozen=True, slots=True)
class Unproved:
    """Accesses for which a property is not proved."""

    buffer: str
    locations: tuple[Location | None, ...]
    """Source of the access, or of both accesses of a pair."""
    why: Why


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one property of one launch."""

    status: Status
    unproved: tuple[Unproved, ...] = ()
    given: tuple[str, ...] = ()
    """Tensors of integers, scalars and extents that an enumeration took as this run had them."""


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """The results for the inside of a launch's blocks, as they are compiled for one GPU."""

    target: str
    races: Status
    """Accesses that no barrier, wait or fence orders."""
    deadlocks: Status
    blocks: tuple[int, ...] = ()
    """Numbers of the blocks that ran, in each of the schedules."""
    seeds: tuple[int, ...] = ()
    reason: str = ""
    """Why a result is `unchecked`."""


@dataclass(frozen=True, slots=True)
class LaunchVerdict:
    """The results for a launch of a kernel."""

    kernel: str
    launch: int
    """Position of the `T.Kernel` in the kernel's program."""
    location: Location | None
    verdicts: Mapping[Property, Verdict]
    inside: BlockVerdict | None = None
    """None where the inside of blocks was left out."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a check."""

    findings: tuple[Finding, ...]
    launches: tuple[LaunchVerdict, ...]
    stopped: bool = False
    """Whether an error ended the run, so that what comes after it was not explored."""

    @property
    def proved(self) -> float:
        """Share of the verdicts that are proofs, 0 to 1."""
        verdicts = [v for each in self.launches for v in each.verdicts.values()]
        return sum(v.status == "proved" for v in verdicts) / max(len(verdicts), 1)
