"""Forward passes that a backward pass runs again, as with `torch.utils.checkpoint`.

Static: none. Dynamic: work below the function of PyTorch's that runs a forward pass again, and in a
gradient of Python that calls the forward pass of a module which ran before; but for the gradients
that such a pass has inside it, and with the gaps before its launches. Without the checkpoint all of
that goes, with the host's time for it, if activations have room in memory.

What they need per step is at most what the operations that run again move, as each activation is
among it; likely two fifths of that. Where memory that was never taken has room for a part of it,
that part goes: of what is needed at most for sure, of what is needed likely as the likely one.
Where it has room for hardly any, the checkpoint is needed, as it is where nearly all memory was
taken and what it would keep is not known. Else half goes at least, as a smaller batch or fewer
checkpoints may be what fits.

On a host a checkpoint costs more than the operations that run again: its hooks at each activation,
and memory that is new each time; more than half as much was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import LATE, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, listed, percent
from tileprof.analyzer.fixes import NO_CHECKPOINTS
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.program.numbers import (
    RECOMPUTATION_FULL,
    RECOMPUTATION_KEPT,
    RECOMPUTATION_LEAST_ROOM,
    RECOMPUTATION_ON_HOST,
    RECOMPUTATION_SURE,
    RECOMPUTATION_SURE_WITH_ROOM,
)
from tileprof.once import cached_property
from tileprof.profile import DEVICE_WORK, Symbol
from tileprof.profile.training_facts import HOST, MemoryRoom, memory_rooms

_AGAIN = re.compile(r"(?:.*[.>])?(?:recompute_fn|CheckpointFunction\.backward)$")
"""Functions of `torch/utils/checkpoint.py`, as of PyTorch 2.13, 2026-11: of checkpoints with
`use_reentrant=False`, and with `use_reentrant=True`."""
_GRADIENT = re.compile(r".*(Backward\d*|AccumulateGrad)$")
_OF_PYTHON = re.compile(r".*Backward$")
"""Gradients of PyTorch's own end with a number."""
_FORWARD = re.compile(r"(.+)\.forward$")
_ADVICE = (
    "If memory allows, remove the checkpoint, or checkpoint fewer layers"
    " (gradient_checkpointing_disable() of transformers' models). Selective checkpoints"
    " (torch.utils.checkpoint.create_selective_checkpoint_contexts) keep the results of products"
    " and attention, and run only cheap operations again."
)
_NEEDED = (
    "Leave it: memory has no room for these results. Selective checkpoints"
    " (torch.utils.checkpoint.create_selective_checkpoint_contexts) keep a part of it."
)


def find(program: Program) -> Iterator[Draft]:
    """What all checkpoints of a program run again."""
    tree = Contexts(program)
    again = _Again(tree)
    if again.whole and again.work + again.late >= COLD * again.whole:
        yield again.draft()


@dataclass(eq=False)
class _Again:
    """What runs again in a program."""

    tree: Contexts

    def __post_init__(self) -> None:
        tree = self.tree
        self.inside = _again(tree)
        column, self.whole, self.whose = tree.worked
        self.on_devices = bool(tree.time.any())
        kinds = tree.kind(*DEVICE_WORK) if self.on_devices else np.ones_like(self.inside)
        self.worked = self.inside & kinds & (column > 0)
        self.work = float(column[self.worked].sum())
        """Time of it, on devices or the host, ns."""
        self.gaps = self.inside & tree.idle(LATE) & ~tree.compiling
        self.late = tree.avoidable(self.gaps)

    @cached_property
    def longest(self) -> int:
        """What takes most of it."""
        column, _, _ = self.tree.worked
        return int(np.where(self.worked, column, -1.0).argmax())

    @cached_property
    def parts(self) -> tuple[float, float]:
        """Parts of it that go at least, and likely, 0 to 1."""
        if self.room is None:
            return RECOMPUTATION_SURE, 1.0
        if not self.needed:
            full = self.room.left < RECOMPUTATION_FULL * self.room.whole
            return (0.0, 0.0) if full else (RECOMPUTATION_SURE, 1.0)
        least, likely = (self.room.left / (kept * self.needed) for kept in RECOMPUTATION_KEPT)
        return min(RECOMPUTATION_SURE_WITH_ROOM, least), min(1.0, likely)

    @cached_property
    def room(self) -> MemoryRoom | None:
        """Memory of the kind that activations are in; None where nothing is known of it."""
        held = memory_rooms(self.tree.profile.tables.provenance)
        kind = [each for each in held if (each.device != HOST) == self.on_devices]
        return kind[0] if kind else None

    @cached_property
    def needed(self) -> float:
        """Bytes that a step's operations move which run again; 0 where that is not known."""
        training = self.tree.program.training
        if training is None or not self.on_devices:
            return 0.0
        exact, estimated = self.tree.own("bytes"), self.tree.own("op_bytes")
        moved = np.where(exact > 0, exact, estimated)[self.inside & self.tree.kind("op")]
        return float(moved.sum()) / training.count

    def draft(self) -> Draft:
        """Return what is said of it."""
        sure, likely = self.parts
        place, evidence = self.tree.place(self.longest), tuple(self._evidence())
        if likely < RECOMPUTATION_LEAST_ROOM:
            title = "the backward pass recomputes parts of the forward pass, because memory is full"
            return Draft("ignore", title, place, evidence, _NEEDED)
        return Draft(
            "suggestion", "the backward pass recomputes parts of the forward pass",
            place, evidence, _ADVICE, "", self._saving(sure, likely),
            confidence="high" if sure > RECOMPUTATION_SURE else "medium",
            nodes=nodes_of(self.worked) if self.on_devices else (), gaps=nodes_of(self.gaps),
            launches_go=True, fixes=(NO_CHECKPOINTS,),
        )  # fmt: skip

    def _saving(self, sure: float, likely: float) -> Saving:
        tree, work, late = self.tree, self.work, self.late
        if self.on_devices:
            gaps = likely * tree.unrecorded * late
            return tree.saving(sure * work, likely * work + gaps, work + late, gaps, late)
        share = likely * work / self.whole
        low, mid, high = (
            min(part * each * share, LONGEST_SAVING)
            for part, each in zip((sure, 1, 1), RECOMPUTATION_ON_HOST, strict=True)
        )
        return Saving(low, mid, high)

    def _evidence(self) -> Iterator[Evidence]:
        tree = self.tree
        count = float(tree.count[self.worked & tree.kind("op", *DEVICE_WORK)].sum())
        what = "kernels and copies" if self.on_devices else "operations"
        share = percent(self.work / self.whole)
        yield Evidence(
            "activities",
            f"{count:,.0f} {what} of forward passes run in backward passes: {duration(self.work)},"
            f" {share} of {self.whose}",
        )
        if names := _modules(tree, self.inside):
            yield Evidence("activities", f"recomputed: {listed(names)}")
        if self.late:
            lost = f"another {percent(tree.share(self.late))} is lost in gaps before them"
            yield Evidence("activities", lost)
            yield Evidence("activities", tree.recording)
        if self.room is not None:
            room, needed = self.room, self.needed
            text = (
                f"{room.left / 1e9:.3g} GB of {room.whole / 1e9:.3g} GB of memory of {room.device}"
                " were never taken"
            )
            kept = f"; keeping the results takes {needed / 1e9:.3g} GB per step at most"
            yield Evidence("activities", text + (kept if needed else ""))


def _again(tree: Contexts) -> Mask:
    """Nodes below what runs again, without the gradients of it."""
    again = tree.where(_runs_again) | _modules_again(tree)
    gradients = tree.where(
        lambda symbol: symbol.kind == "op" and bool(_GRADIENT.match(symbol.name))
    )
    # A pass that runs again does so in a gradient: only one further in is a gradient of its own.
    depth, inner = tree.nearest(again), tree.nearest(again | gradients)
    return (depth >= 0) & (inner == depth) if again.any() else np.zeros_like(again)


def _runs_again(symbol: Symbol) -> bool:
    place = symbol.location
    return (
        symbol.kind == "frame"
        and place is not None
        and place.file.replace("\\", "/").endswith("torch/utils/checkpoint.py")
        and bool(_AGAIN.match(symbol.name))
    )


def _modules_again(tree: Contexts) -> Mask:
    """Frames of modules' forward passes in gradients of Python that ran in a forward pass too."""
    of_python = tree.below(
        tree.where(lambda symbol: symbol.kind == "op" and bool(_OF_PYTHON.match(symbol.name)))
        & tree.backward
    )
    passes = tree.where(lambda symbol: symbol.kind == "frame" and bool(_FORWARD.match(symbol.name)))
    inside, outside = passes & of_python, passes & ~of_python & ~tree.backward
    if not inside.any() or not outside.any():
        return np.zeros_like(inside)
    known = {_function(tree, node) for node in nodes_of(outside)}
    found = np.zeros_like(inside)
    found[[node for node in nodes_of(inside) if _function(tree, node) in known]] = True
    return found


def _function(tree: Contexts, node: int) -> tuple[str, str]:
    place = tree.profile.locations[node]
    return tree.profile.names[node], place.file if place is not None else ""


def _modules(tree: Contexts, inside: Mask) -> list[str]:
    """Names of the outermost modules that run again, the most frequent first."""
    passes = inside & tree.where(
        lambda symbol: (
            symbol.kind == "frame"
            and bool(_FORWARD.match(symbol.name))
            and not _is_of_pytorch(symbol)
        )
    )
    names = dict[str, int]()
    for node in nodes_of(tree.outermost(passes)):
        found = _FORWARD.match(tree.profile.names[node])
        assert found is not None
        names[found[1]] = names.get(found[1], 0) + 1
    return sorted(names, key=lambda name: -names[name])


def _is_of_pytorch(symbol: Symbol) -> bool:
    place = symbol.location
    return place is not None and "/torch/" in place.file.replace("\\", "/")


RULE = ProgramRule("recomputation", find)
