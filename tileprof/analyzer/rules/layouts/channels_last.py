"""Convolutions, norms and poolings that the layout with channels first (NCHW) holds up.

Static: names of kernels: the layout that they take. Dynamic: their time beside the least time of
their work, blocks of a launch beside multiprocessors, and kernels that only change layouts for
convolutions. Held up are batch norms with a block per channel and fewer channels than
multiprocessors, poolings, depthwise and other convolutions without tensor cores, and products, as
convolutions of 1 x 1 are. Channels last (NHWC) has other kernels for each of them, and needs no
changes of layout. How near these kernels come to the least time was measured on four models of
other authors. Convolutions on tensor cores stay a lead (`convolution`).

Softmax and group norm take contiguous tensors on a GPU. Between convolutions they undo the layout:
PyTorch copies their input to channels first, and the next convolution copies it back. So changes of
layout stay, in the proportion of such operations to convolutions, and the copies come on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, listed, percent, plain
from tileprof.analyzer.fixes import CHANNELS_LAST
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import (
    has_a_block_per_channel,
    has_channels_first,
    has_short_types,
    is_plain_product,
    kernels_of_convolutions,
    layouts_of_convolutions,
    pools_channels_first,
    rounds_to_tf32,
)
from tileprof.analyzer.rules.numbers.memory import (
    CHANNELS_LAST_CONVOLUTIONS,
    CHANNELS_LAST_NARROW,
    CHANNELS_LAST_NORMS,
    CHANNELS_LAST_POOLINGS,
    CHANNELS_LAST_UNDONE,
)
from tileprof.analyzer.rules.program.eager_attention import written_out
from tileprof.analyzer.rules.program.numbers import CONVOLUTION_WELL
from tileprof.analyzer.shortfalls import rewritten

_Kind: TypeAlias = Literal["norms", "poolings", "convolutions"]
_GOES: dict[_Kind, tuple[float, float, float]] = {
    "norms": CHANNELS_LAST_NORMS,
    "poolings": CHANNELS_LAST_POOLINGS,
    "convolutions": CHANNELS_LAST_CONVOLUTIONS,
}
_CONVOLUTION = re.compile(r"aten::(cudnn_convolution|_?conv_depthwise|slow_conv)")
_CONTIGUOUS = re.compile(
    r"aten::(_(log_)?softmax|native_group_norm)$|(Softmax|NativeGroupNorm)Backward0$"
)
"""Operations whose kernels on a GPU take contiguous tensors alone."""
_LAST = (
    "Keep the model and its input in channels last: model.to(memory_format=torch.channels_last),"
    " and the input too. Compare by `tileprof try`: for some shapes its kernels are slower."
)
_WHICH: dict[_Kind, str] = {
    "norms": "norms with one block per channel, and fewer channels than multiprocessors,",
    "poolings": "poolings of channels first",
    "convolutions": "kernels of convolutions",
}


@dataclass(frozen=True, eq=False)
class _HeldUp:
    """A kernel of tensors with channels first that another layout makes shorter."""

    node: int
    kind: _Kind
    beyond: float
    """Its time in steps beyond that of its bytes and products, ns."""


@dataclass(frozen=True, eq=False)
class ChosenLayouts:
    """What a compiler's choice of layouts for convolutions takes away beside fusing."""

    nodes: tuple[int, ...]
    saved: tuple[float, float, float]
    """Time in steps, ns: at least, likely, at most."""

    @property
    def likely(self) -> float:
        """The likely one of these times, ns."""
        return self.saved[1]


def find(program: Program) -> Iterator[Draft]:
    """Convolutions' neighbours and changes of layout that another layout makes shorter."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    held_up, layouts = _with_channels_last(tree)
    if not held_up:
        return
    evidence = list[Evidence]()
    for kind in _GOES:
        if of_kind := [each for each in held_up if each.kind == kind]:
            evidence.append(_seen(tree, of_kind))
    if layouts:
        share = percent(tree.share(float(tree.time[layouts].sum())))
        text = f"kernels that only change layouts for convolutions take {share} of {tree.whose}"
        evidence.append(Evidence("activities", text))
    most = max(held_up, key=lambda each: each.beyond)
    nodes = (*(each.node for each in held_up), *layouts)
    yield Draft(
        "suggestion", "channels first (NCHW) holds up convolutions and what is around them",
        tree.place(most.node), tuple(evidence), _LAST, "",
        tree.saving(*_goes(tree, held_up, layouts, _undone(tree))),
        confidence="low", nodes=nodes, fixes=(CHANNELS_LAST,),
    )  # fmt: skip


def chosen_layouts(tree: Contexts) -> ChosenLayouts:
    """Return what goes where a compiler keeps channels last, norms and poolings left out.

    Inductor does not in training where no convolution has more than 64 channels, as norms tell by
    their blocks.
    """
    if tree.backward.any() and 0 < _widest(tree) <= CHANNELS_LAST_NARROW:
        return ChosenLayouts((), (0.0, 0.0, 0.0))
    held_up = [each for each in _held_up(tree) if each.kind == "convolutions"]
    layouts = _layouts(tree)
    nodes = (*(each.node for each in held_up), *layouts)
    # A compiler's own softmax and norms take any layout.
    return ChosenLayouts(nodes, _goes(tree, held_up, layouts, (0.0, 0.0)))


def _widest(tree: Contexts) -> float:
    """Return the largest number of channels that a norm with a block for each has; 0 for none."""
    norms = tree.where(lambda symbol: has_a_block_per_channel(symbol.name)) & (tree.time > 0)
    blocks = np.nan_to_num(tree.program.whole_kernels("blocks"))[norms]
    return float((blocks / np.maximum(tree.count[norms], 1)).max(initial=0.0))


def _held_up(tree: Contexts) -> list[_HeldUp]:
    """Return kernels that channels first holds up; none where nothing shows that layout."""
    found = list(_all_held_up(tree))
    # Products of convolutions of 1 x 1 have the same names in both layouts.
    if all(each.kind == "convolutions" for each in found) and not _layouts(tree):
        names = [tree.profile.names[each.node] for each in found]
        if not any(has_channels_first(name) for name in names):
            return []
    return found


def _all_held_up(tree: Contexts) -> Iterator[_HeldUp]:
    floors = Floors(tree)
    times, blocks = rewritten(tree, floors), tree.program.whole_kernels("blocks")
    convolutions = kernels_of_convolutions(tree.profile)
    for case in tree.program.kernels:
        device = case.device_info
        for node in case.nodes:
            time, floor = float(tree.time[node]), float(floors.floor[node])
            if not time or not floor or tree.compiling[node]:
                continue
            grid = float(blocks[node]) / max(float(tree.count[node]), 1.0)
            if has_a_block_per_channel(case.name):
                if device is not None and 0 < grid < device.multiprocessors:
                    yield _HeldUp(node, "norms", time - float(times[node]))
            elif pools_channels_first(case.name):
                yield _HeldUp(node, "poolings", time - float(times[node]))
            elif (
                convolutions[node]
                and (_without_tensor_cores(case.name) or is_plain_product(case.name))
                and floor < CONVOLUTION_WELL * time
            ):
                yield _HeldUp(node, "convolutions", time - floor)


def _without_tensor_cores(name: str) -> bool:
    """Return whether a convolution of channels first uses no tensor cores, by its name: those that
    do are not known to have faster ones beside them."""
    return has_channels_first(name) and not (rounds_to_tf32(name) or has_short_types(name))


def _layouts(tree: Contexts) -> list[int]:
    """Return the kernels that only change layouts for convolutions, in steps."""
    layouts = layouts_of_convolutions(tree.profile) & (tree.time > 0) & ~tree.compiling
    found: list[int] = np.flatnonzero(layouts).tolist()
    return found


def _goes(
    tree: Contexts, held_up: list[_HeldUp], layouts: list[int], undone: tuple[float, float]
) -> tuple[float, float, float]:  # fmt: skip
    """Return the time that goes with channels last, ns: at least, likely, at most."""
    changes, (part, copies) = float(tree.time[layouts].sum()), undone
    changed = (changes * (1 - part) / 2 - 2 * copies, changes * (1 - part) - copies, changes)
    low, mid, high = (
        max(0.0, layout + sum(_GOES[each.kind][at] * each.beyond for each in held_up))
        for at, layout in enumerate(changed)
    )
    return low, mid, high


def _undone(tree: Contexts) -> tuple[float, float]:
    """Return which part of convolutions gets contiguous tensors although the layout is channels
    last, 0 to 1, and the time of the operations that make these, ns.

    A copy before each of them moves as many bytes as it does.
    """
    outside = ~tree.below(written_out(tree))
    convolutions, contiguous = (
        outside & _operations(tree, name) for name in (_CONVOLUTION, _CONTIGUOUS)
    )
    often = float(tree.count[convolutions & ~tree.backward].sum())
    between = float(tree.count[contiguous & ~tree.backward].sum())
    # A single softmax is of the classes, after the last convolution.
    if not often or between < CHANNELS_LAST_UNDONE * often:
        return 0.0, 0.0
    return min(1.0, between / often), float(tree.time[tree.below(contiguous)].sum())


def _operations(tree: Contexts, name: re.Pattern[str]) -> Mask:
    """Return PyTorch's operations whose names match."""
    return tree.where(lambda symbol: symbol.kind == "op" and bool(name.match(symbol.name)))


def layouts_told(tree: Contexts) -> list[int]:
    """Return the kernels that only change layouts, of which this rule tells."""
    return _with_channels_last(tree)[1]


def _with_channels_last(tree: Contexts) -> tuple[list[_HeldUp], list[int]]:
    """Return what `channels-last` tells: nothing where only layouts are changed."""
    held_up = _held_up(tree)
    if tree.share(_goes(tree, held_up, [], (0.0, 0.0))[1]) < COLD:
        return [], []
    return held_up, _layouts(tree)


def _seen(tree: Contexts, held_up: list[_HeldUp]) -> Evidence:
    """Return what kernels of one kind take, beside what their work does."""
    nodes = [each.node for each in held_up]
    time, beyond = float(tree.time[nodes].sum()), sum(each.beyond for each in held_up)
    names = listed(list(dict.fromkeys(plain(tree.profile.names[node]) for node in nodes)))
    return Evidence(
        "activities",
        f"{_WHICH[held_up[0].kind]} take {percent(tree.share(time))} of {tree.whose}, of which"
        f" {percent(tree.share(beyond))} is beyond what their bytes and products need: {names}",
    )


RULE = ProgramRule("channels-last", find)
