"""Copies on a device that only change the layout or the type of what is there already.

Static: none. Dynamic: the share of kernels and copies that are known by their operation (`copy_`,
`contiguous`, `to`) or by their name (`nchwToNhwc`, transposes of libraries). A layout that is kept
from end to end takes all of them away; a cast can be part of the kernel before it, or has to stay
where that one is a library's. What a library changes for its convolutions alone is told from 1 % of
the time on: another layout takes all of it away.

`channels-last` tells these changes together with kernels that channels first (NCHW) hold up: batch
norms with a block per channel and fewer channels than multiprocessors, poolings, depthwise and
other convolutions without tensor cores, and those of 1 x 1, which are products. Channels last
(NHWC) has other kernels for each of them. How near these come to the least time of the work was
measured on four models of other authors. Kernels on tensor cores stay a lead (`convolution`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, listed, percent, plain
from tileprof.analyzer.fixes import CHANNELS_LAST
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import (
    changes_layout,
    has_a_block_per_channel,
    has_channels_first,
    has_short_types,
    is_plain_product,
    kernels_of_convolutions,
    layouts_of_convolutions,
    pools_channels_first,
    rounds_to_tf32,
)
from tileprof.analyzer.rules import needless_pass
from tileprof.analyzer.rules.numbers.memory import (
    CHANNELS_LAST_PARTS,
    LAYOUT_COPIES_HOT,
    LAYOUT_NARROW,
    Slow,
)
from tileprof.analyzer.rules.program.numbers import CONVOLUTION_WELL
from tileprof.analyzer.shortfalls import rewritten

_OF_OPERATIONS = re.compile(r"transpose_?kernel|permute_?kernel", re.IGNORECASE)
"""Names that anybody's kernel may have: a copy only where an operation launches it."""
_COPY_KERNELS = re.compile(r"(direct|float16|bfloat16|float8)_copy_kernel")
_COPY_OPS = {"aten::copy_", "aten::_to_copy", "aten::to", "aten::contiguous", "aten::clone"}
_CASTS = {"aten::to", "aten::_to_copy", "aten::_autocast_to_reduced_precision",
          "aten::_autocast_to_full_precision"}  # fmt: skip
_LAYOUTS = {"aten::contiguous", "aten::clone", "aten::reshape"}
_BACKWARD = re.compile(r"(ToCopy|Copy|Clone|Contiguous)\w*Backward")
_ADVICE = {
    "layout": (
        "Keep one layout from end to end: memory_format=torch.channels_last for a convolutional"
        " model and its input; let kernels take strides in place of .contiguous(), and permute"
        " before the product that writes the tensor, not after."
    ),
    "cast": (
        "Cast once: keep weights and activations in the type that they are used in, let a cast be"
        " part of the kernel before it (torch.compile), and look for float32 inputs of an autocast"
        " region."
    ),
    "copy": "Write into the place where it is wanted (out=, preallocated views), and copy nothing.",
}
_LAST = (
    "Keep the model and its input in channels last: model.to(memory_format=torch.channels_last),"
    " and the input too. Compare by `tileprof try`: for some shapes its kernels are"
    " slower."
)
_WHICH: dict[Slow, str] = {
    "norms": "norms with one block per channel, and fewer channels than multiprocessors,",
    "poolings": "poolings of channels first",
    "convolutions": "kernels of convolutions",
}
_TITLES = {"layout": "changing layouts", "cast": "changing types", "copy": "copying on the device"}


def find(program: Program) -> Iterator[Draft]:
    """Copies of each kind that take more than a few percent; less, where a library makes them."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    copies = _copies(tree) & ~needless_pass.needless(tree)  # those are told by themselves
    copies &= ~tree.of(_with_channels_last(tree)[1])
    kinds = _kinds(tree, copies)
    for kind, mask in kinds.items():
        time = float(tree.time[mask].sum())
        by_libraries = float(tree.time[mask & tree.program.work.needless].sum())
        if tree.share(time) >= LAYOUT_COPIES_HOT or tree.share(by_libraries) >= COLD:
            yield _draft(tree, kind, mask, time)


def _copies(tree: Contexts) -> Mask:
    """Device work that copies, by the operation right around it or by its own name."""
    work = (tree.kind("kernel") | _within_device(tree)) & ~tree.compiling & (tree.time > 0)
    names = _named(tree)
    copy_names = tree.where(lambda symbol: bool(_COPY_KERNELS.search(symbol.name)))
    copying = tree.where(
        lambda symbol: symbol.kind == "op"
        and (symbol.name in _COPY_OPS or bool(_BACKWARD.match(symbol.name)))
    )  # fmt: skip
    innermost = np.where(tree.ops >= 0, copying[tree.ops], False)
    return work & (names | innermost | (copy_names & (tree.ops < 0)))


def _named(tree: Contexts) -> Mask:
    """Kernels whose name says that they change a layout."""
    by_library = tree.where(lambda symbol: changes_layout(symbol.name))
    by_operation = tree.where(lambda symbol: bool(_OF_OPERATIONS.search(symbol.name)))
    found: Mask = by_library | (by_operation & (tree.ops >= 0))
    return found


def _within_device(tree: Contexts) -> Mask:
    return tree.where(lambda symbol: symbol.kind == "memcpy" and symbol.name.startswith("DtoD"))


def _kinds(tree: Contexts, copies: Mask) -> dict[str, Mask]:
    """Each copy in the kind that the operations around it tell, up to the user's line."""
    lines = tree.nearest(tree.kind("frame", "scope"))
    casts, layouts = (_called_by(tree, names, lines) for names in (_CASTS, _LAYOUTS))
    named = _named(tree)
    backward = tree.where(lambda symbol: symbol.name.startswith("ToCopyBackward"))
    cast = copies & ~named & (casts | (backward[tree.ops] & (tree.ops >= 0)))
    layout = copies & ~cast & (named | layouts)
    return {"layout": layout, "cast": cast, "copy": copies & ~cast & ~layout}


def _called_by(tree: Contexts, names: set[str], lines: np.ndarray) -> Mask:
    """Nodes in an operation of these names that no frame is between."""
    at = tree.nearest(tree.where(lambda symbol: symbol.kind == "op" and symbol.name in names))
    found: Mask = (at >= 0) & (lines == np.where(at >= 0, lines[at], -2))
    return found


def _draft(tree: Contexts, kind: str, mask: Mask, time: float) -> Draft:
    nodes = np.flatnonzero(mask)
    places = dict[str, float]()
    for node in nodes.tolist():
        told = tree.told(node)
        places[told] = places.get(told, 0.0) + float(tree.time[node])
    share = tree.share(time)
    ranked = sorted(places.items(), key=lambda item: -item[1])
    most = int(nodes[tree.time[nodes].argmax()])
    count = float(tree.count[mask].sum())
    text = f"{count:,.0f} kernels and copies take {percent(share)} of {tree.whose}"
    at = "; ".join(f"{percent(tree.share(each))} at {told}" for told, each in ranked[:3])
    evidence = (Evidence("activities", text), Evidence("activities", at))
    # A changed layout goes for good; of casts and copies some have to stay, nobody knows how many.
    low, mid = (time / 2, time) if kind == "layout" else (0, time / 2)
    return Draft(
        "suggestion", f"{percent(share, 0)} of {tree.whose} is spent on {_TITLES[kind]}",
        tree.place(most), evidence, _ADVICE[kind], "", tree.saving(low, mid, time),
        confidence="medium" if kind == "layout" else "low", nodes=tuple(nodes.tolist()),
        fixes=(CHANNELS_LAST,) if kind == "layout" else (),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _HeldUp:
    """A kernel of tensors with channels first that another layout makes shorter."""

    node: int
    kind: Slow
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


def chosen_layouts(tree: Contexts) -> ChosenLayouts:
    """Return what goes where a compiler keeps channels last, norms and poolings left out.

    Inductor does not where no convolution has more than 64 channels, as norms tell by their blocks.
    """
    held_up, layouts = _held_up(tree), _layouts(tree)
    if held_up and (widest := _widest(tree, held_up)) and widest <= LAYOUT_NARROW:
        return ChosenLayouts((), (0.0, 0.0, 0.0))
    held_up = [each for each in held_up if each.kind == "convolutions"]
    nodes = (*(each.node for each in held_up), *layouts)
    return ChosenLayouts(nodes, _goes(tree, held_up, layouts))


def _widest(tree: Contexts, held_up: list[_HeldUp]) -> float:
    """Return the largest number of channels that a norm with a block for each has; 0 for none."""
    norms = [each.node for each in held_up if each.kind == "norms"]
    blocks = tree.program.whole_kernels("blocks")[norms] / np.maximum(tree.count[norms], 1)
    return float(blocks.max()) if norms else 0.0


def _held_up(tree: Contexts) -> list[_HeldUp]:
    """Return kernels that channels first holds up; none where that costs next to nothing."""
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
    tree: Contexts, held_up: list[_HeldUp], layouts: list[int]
) -> tuple[float, float, float]:  # fmt: skip
    """Return the time that goes with channels last, ns: at least, likely, at most."""
    changes = float(tree.time[layouts].sum())
    low, mid, high = (
        layout * changes + sum(CHANNELS_LAST_PARTS[each.kind][at] * each.beyond for each in held_up)
        for at, layout in enumerate((0.5, 1.0, 1.0))
    )
    return low, mid, high


def _with_channels_last(tree: Contexts) -> tuple[list[_HeldUp], list[int]]:
    """Return what `channels-last` tells: nothing where only layouts are changed."""
    held_up = _held_up(tree)
    if tree.share(_goes(tree, held_up, [])[1]) < COLD:
        return [], []
    return held_up, _layouts(tree)


def _find_channels_first(program: Program) -> Iterator[Draft]:
    """Convolutions' neighbours and changes of layout that another layout makes shorter."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    held_up, layouts = _with_channels_last(tree)
    if not held_up:
        return
    evidence = list[Evidence]()
    for kind in CHANNELS_LAST_PARTS:
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
        tree.saving(*_goes(tree, held_up, layouts)),
        confidence="low", nodes=nodes, fixes=(CHANNELS_LAST,),
    )  # fmt: skip


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


RULE = ProgramRule("layout-copies", find)
CHANNELS = ProgramRule("channels-last", _find_channels_first)
