"""Facts of a program's memory and optimizers, which its tree does not have.

In and out: the provenance of a profile, where the recorder leaves it as text that people can read.
Nothing can be said of profiles that were put together and differ in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MEMORY = "memory of "
_OPTIMIZERS = "optimizers"
_ROOM = re.compile(r"(\d+) of (\d+) bytes at most")
_OPTIMIZER = re.compile(r"(\w+): (\d+) bytes in (\d+) tensors( without other state)?")
HOST = "the host"


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """The most memory that a program had at a time, of what there is."""

    device: str
    """Its name, as `cuda:0`, or `HOST`."""
    peak: int
    """Bytes that tensors took at most; on the host, the process."""
    whole: int
    """Bytes that there are."""

    @property
    def left(self) -> int:
        """Bytes that were never taken."""
        return max(0, self.whole - self.peak)


@dataclass(frozen=True, slots=True)
class OptimizerFacts:
    """Parameters that an optimizer updated in its first step that was seen."""

    name: str
    """Name of its class."""
    bytes: int
    """Bytes of parameters with dense gradients."""
    tensors: int
    plain: bool
    """Whether it keeps no state and adds no decay, so that rows without a gradient stay as they
    are."""


def training_provenance(
    rooms: Iterable[MemoryRoom], optimizers: Iterable[OptimizerFacts]
) -> dict[str, str]:
    """Return these facts as texts for the provenance of a profile."""
    texts = {
        f"{_MEMORY}{each.device}": f"{each.peak} of {each.whole} bytes at most" for each in rooms
    }
    told = [
        f"{each.name}: {each.bytes} bytes in {each.tensors} tensors"
        + " without other state" * each.plain
        for each in optimizers
    ]
    return {**texts, **({_OPTIMIZERS: "; ".join(told)} if told else {})}


def memory_rooms(provenance: Mapping[str, str]) -> tuple[MemoryRoom, ...]:
    """Return what a profile's provenance says of memory, the tightest first."""
    found = [
        MemoryRoom(key.removeprefix(_MEMORY), int(told[1]), int(told[2]))
        for key, text in provenance.items()
        if key.startswith(_MEMORY) and (told := _ROOM.fullmatch(text))
    ]
    return tuple(sorted(found, key=lambda each: each.left))


def optimizer_facts(provenance: Mapping[str, str]) -> tuple[OptimizerFacts, ...]:
    """Return what a profile's provenance says of optimizers."""
    held = (_OPTIMIZER.fullmatch(text) for text in provenance.get(_OPTIMIZERS, "").split("; "))
    return tuple(
        OptimizerFacts(told[1], int(told[2]), int(told[3]), told[4] is not None)
        for told in held
        if told
    )
