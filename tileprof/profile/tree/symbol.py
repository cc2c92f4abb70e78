"""Identity of a node: its kind, name, place and phase."""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.errors import Location

KINDS = (
    "frame", "scope", "op", "api", "kernel", "memcpy", "memset", "sync", "idle", "site", "line",
)  # fmt: skip
"""Kinds of nodes."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Identity of a node, apart from its position in the tree."""

    kind: str
    name: str
    location: Location | None = None
    phase: str = ""
    """`forward`, `backward` or nothing."""
    module: str = ""
    """Name in the model of the module whose forward pass this is, as `transformer.h.*.mlp`; known
    in a tree that the frames of its calls were left out of, and no part of a file."""
    called: str = ""
    """The part of that name after the module around: `mlp`."""
    layers: int = 0
    """Number of layers of a container that `h.*` stands for, where single layers were recorded."""

    def key(self) -> tuple[str, str, str, str, int, str]:
        """Return what makes two siblings the same node: lines tell frames apart, nothing else."""
        place = self.location
        if place is None:
            return (self.kind, self.name, "", "", 0, self.phase)
        line = place.line if self.kind in ("frame", "line") else 0
        return (self.kind, self.name, place.file, place.function, line, self.phase)
