"""Forward passes that a backward pass runs again, as `torch.utils.checkpoint` has it.

Static: none. Dynamic: work of devices below the function of PyTorch's that runs a forward pass
again, but for the gradients that a checkpoint of the older kind has inside it, and the gaps before
its launches. Without the checkpoint all of that goes, with the host's time for it, if activations
have room in memory, which a recording does not show. At least half of the work goes, as a smaller
batch or fewer checkpoints may be what fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import LATE, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.numbers import COLD
from tileprof.analyzer.program.masks import nodes_of
from tileprof.profile import DEVICE_WORK, Symbol

_AGAIN = re.compile(r"(?:.*[.>])?(?:recompute_fn|CheckpointFunction\.backward)$")
"""Functions of `torch/utils/checkpoint.py`, as of PyTorch 2.13, 2026-11: of checkpoints with
`use_reentrant=False`, and with `use_reentrant=True`."""
_GRADIENT = re.compile(r".*(Backward\d*|AccumulateGrad)$")
_ADVICE = (
    "Where memory allows, do without the checkpoint, or checkpoint fewer layers"
    " (gradient_checkpointing_disable() of transformers' models). Selective checkpoints"
    " (torch.utils.checkpoint.create_selective_checkpoint_contexts) keep the results of products"
    " and attention, and run only cheap operations again."
)


def find(program: Program) -> Iterator[Draft]:
    """What all checkpoints of a program run again."""
    tree = Contexts(program)
    inside = _again(tree)
    kernels = inside & tree.kind(*DEVICE_WORK) & (tree.time > 0)
    gaps = inside & tree.idle(LATE) & ~tree.compiling
    work, late = float(tree.time[kernels].sum()), tree.avoidable(gaps)
    if not kernels.any() or tree.share(work + late) < COLD:
        return
    nodes = nodes_of(kernels)
    longest = max(nodes, key=lambda node: float(tree.time[node]))
    likely = tree.unrecorded * late
    told = (
        f"{sum(tree.count[list(nodes)]):,.0f} kernels and copies of forward passes run in backward"
        f" passes: {duration(work)}, {percent(tree.share(work))} of {tree.whose}"
    )
    evidence = [Evidence("activities", told)]
    if late:
        lost = f"another {percent(tree.share(late))} is lost in gaps before them"
        evidence += [Evidence("activities", lost), Evidence("activities", tree.recording)]
    yield Draft(
        "suggestion", "the backward pass computes parts of the forward pass again",
        tree.place(longest), tuple(evidence), _ADVICE, "",
        tree.saving(work / 2, work + likely, work + late, likely, late),
        nodes=nodes, gaps=nodes_of(gaps), launches_go=True,
    )  # fmt: skip


def _again(tree: Contexts) -> Mask:
    """Nodes below what runs again, without the gradients of it."""
    again = tree.where(_runs_again)
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


RULE = ProgramRule("recomputation", find)
