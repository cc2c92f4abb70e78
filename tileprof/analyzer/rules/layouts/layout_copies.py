"""Copies on a device that only change the layout or the type of what is there already.

Static: none. Dynamic: the share of kernels and copies that are known by their operation (`copy_`,
`contiguous`, `to`) or by their name (`nchwToNhwc`, transposes of libraries). A layout that is kept
from end to end takes all of them away; a cast can be part of the kernel before it, or has to stay
where that one is a library's. What a library changes for its convolutions alone is told from 1 % of
the time on: another layout takes all of it away.

Where other kernels gain by another layout too, `channels-last` tells what libraries change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.fixes import CHANNELS_LAST
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import changes_layout
from tileprof.analyzer.rules import needless_pass
from tileprof.analyzer.rules.layouts.channels_last import layouts_told
from tileprof.analyzer.rules.numbers.memory import LAYOUT_COPIES_HOT

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
_TITLES = {"layout": "changing layouts", "cast": "changing types", "copy": "copying on the device"}


def find(program: Program) -> Iterator[Draft]:
    """Copies of each kind that take more than a few percent; less, where a library makes them."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    copies = _copies(tree) & ~needless_pass.needless(tree)  # those are told by themselves
    copies &= ~tree.of(layouts_told(tree))
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


RULE = ProgramRule("layout-copies", find)
