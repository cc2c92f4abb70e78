"""Batches whose rows are padded to one length: work on elements that are not needed.

Static: none. Dynamic: elements of batches of whole numbers that came from the host, as tokens and
masks do, and those of them that fill rows up (one value at the ends of rows, or at their
beginnings, that is hardly anywhere else in them); time of steps outside of optimizers. That goes in
proportion to the elements, that of attention to their square, but likely no launch takes less than
one that does nothing, and no operation of a host less than its own overhead.

Where texts of like lengths are in one batch, and each batch is as long as its longest, nearly all
padding goes; where batches stay as they are drawn, a part. The host launches as many kernels as
before: where it waits for results now, steps take at least as long as it works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Column, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.numbers.reports import FLOORS_LAUNCH_NS
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.program.numbers import (
    PADDING_GOES,
    PADDING_OPERATION_NS,
    PADDING_SHARE,
)
from tileprof.profile import Symbol
from tileprof.profile.node_names import LOADER_SCOPE, OPTIMIZER_SCOPE

_OUTSIDE = re.compile(rf"{OPTIMIZER_SCOPE}|{LOADER_SCOPE}|aten::_foreach_|aten::_fused_")
_ATTENTION = re.compile(r"attention|softmax|\bbmm|Bmm|baddbmm", re.IGNORECASE)
"""Operations on a square of each text's elements."""
_ADVICE = (
    "Batch texts of similar length, and make each batch as long as its longest text, not as long"
    " as the longest of all (padding=True and group_by_length=True of transformers' trainers; a"
    " sampler that sorts by length). Or pack texts one after the other without padding, with"
    " variable-length attention (torch.nn.attention.varlen, nested tensors)."
)


def find(program: Program) -> Iterator[Draft]:
    """The batches with most padding."""
    tree = Contexts(program)
    slots, padding = (
        np.where(tree.steps.inside, tree.own(metric), 0.0) for metric in ("slots", "padding")
    )
    column, whole, whose = tree.worked
    if not padding.any() or not whole:
        return
    most = int(padding.argmax())
    part = float(padding[most] / slots[most])
    if part < PADDING_SHARE:
        return
    on_devices = bool(tree.time.any())
    worked = _of_rows(tree, column)
    time = float(column[worked].sum())
    goes, most_goes = (
        time - float(_left(tree, column, 1 - part, least)[worked].sum())
        for least in (FLOORS_LAUNCH_NS if on_devices else PADDING_OPERATION_NS, 0.0)
    )
    if goes < COLD * whole:
        return
    evidence = [
        Evidence(
            "activities",
            f"{percent(part)} of the elements are padding, of"
            f" {slots[most] / max(tree.count[most], 1):,.0f} in a batch on average",
        ),
        Evidence(
            "activities",
            f"work on padding takes {duration(time)}, {percent(time / whole)} of {whose}",
        ),
    ]
    bound = tree.unrecorded_time - tree.host_least if on_devices else goes
    if on_devices and bound < goes:
        evidence.append(
            Evidence(
                "activities",
                f"the host works for {percent(tree.share(tree.host_least))} of {whose} and waits"
                " for the rest: no step becomes shorter than its work",
            )
        )
    title = f"{percent(part, 0)} of the elements in the batches at {tree.told(most)} are padding"
    yield Draft(
        "suggestion", title, tree.place(most), tuple(evidence), _ADVICE, "",
        _saving(tree, (goes, most_goes), bound, whole if not on_devices else 0.0), confidence="low",
        nodes=nodes_of(worked) if on_devices else (),
    )  # fmt: skip


def _saving(tree: Contexts, goes: tuple[float, float], bound: float, host: float) -> Saving:
    """What goes of that which likely does, and of that which does at most; of the `host`'s time
    where that is given, ns."""
    low, mid, high = (
        part * each for part, each in zip(PADDING_GOES, (goes[0], *goes), strict=True)
    )
    mid = min(mid, max(bound, 0.0))
    low = min(low, mid)
    if not host:
        return tree.saving(low, mid, high)
    least, likely, most = (min(each / host, LONGEST_SAVING) for each in (low, mid, high))
    return Saving(least, likely, most)


def _of_rows(tree: Contexts, column: Column) -> Mask:
    """What works on batches: all in steps but optimizers, loaders, gradients of whole tables."""
    kinds = tree.kind("kernel") if tree.time.any() else tree.kind("op")
    tables = tree.below(tree.own("table_bytes") > 0) & tree.backward
    outside = tree.below(tree.where(_is_outside)) | tables
    inside: Mask = kinds & tree.steps.inside & ~outside & ~tree.compiling & (column > 0)
    return inside


def _is_outside(symbol: Symbol) -> bool:
    """Whether a scope, or an operation, works on parameters or makes the batch."""
    return _OUTSIDE.match(symbol.name) is not None


def _left(tree: Contexts, column: Column, part: float, least: float) -> Column:
    """Time of each node where that part of the elements is left, and no visit takes less, ns."""
    squared = tree.below(tree.where(_is_attention))
    left = np.where(squared, part**2, part) * column
    return np.maximum(left, np.minimum(column, least * tree.count))


def _is_attention(symbol: Symbol) -> bool:
    return symbol.kind == "op" and _ATTENTION.search(symbol.name) is not None


RULE = ProgramRule("padding", find)
