"""A library's convolutions, taken together, that are far from their roof.

Static: names of kernels below operations of convolutions: their type, the layout that they take,
which gradient they compute. Dynamic: their time beside the least time of their work at measured
roofs, and blocks of a launch beside multiprocessors.

A library chooses a kernel for each shape by rules of thumb, and it alone knows which others it has.
So what a change brings is not known before it is tried: a lead says what stands in the way by what
is seen, the changes that are worth a trial, and what they bring at most, which is all above the
least time. A kernel that reaches 0.7 of its roof is left alone; products of 32-bit floats that a
setting would let use tensor cores are told by `precision`, unaligned ones by `alignment`, and what
only changes a layout by `layout-copies`.

One cause has a number: launches of fewer blocks than multiprocessors, of kernels that are too short
for a finding of their own (`small-grid`). With B blocks for M multiprocessors a part 1 - B / M of
the device has no work; half of that goes likely, and nothing below the least time of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, listed, percent, plain
from tileprof.analyzer.fixes import CHANNELS_LAST, CONVOLUTION_TRIALS, Autocast, Fix
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.reports import REPORT_LEAST_SHARE
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.convolutions import (
    changes_layout,
    gradient_of,
    has_channels_first,
    has_short_types,
    kernels_of_convolutions,
    multiplies,
    rounds_to_tf32,
)
from tileprof.analyzer.rules import precision, small_grid
from tileprof.analyzer.rules.program.alignment import is_narrow
from tileprof.analyzer.rules.program.numbers import (
    CONVOLUTION_FEW,
    CONVOLUTION_SHARE,
    CONVOLUTION_WELL,
)
from tileprof.analyzer.shortfalls import Shortfalls, in_words

_TRIALS = (
    "let cuDNN time its kernels for each shape and take the fastest"
    " (torch.backends.cudnn.benchmark = True, where shapes stay the same)"
)
_LAST = (
    "keep the model and its input in torch.channels_last, the layout that kernels for tensor cores"
    " take"
)
_TYPES = "run it under torch.autocast with bfloat16, if 8 bits of mantissa suffice"
_CHANNELS = "make channels multiples of 8, the pictures' 3 for one"
_FEW = (
    "Give the device more work at once: a larger batch, or one pass for several inputs. Where that"
    f" cannot be, {_TRIALS}: there may be one that cuts the sum into parts."
)


@dataclass(frozen=True, eq=False)
class _Slow:
    """A kernel at one place of the tree that is far from its roof; times in steps, ns."""

    node: int
    case: KernelCase
    time: float
    floor: float
    """At the roof of its own arithmetic."""
    least: float
    """The same, or on tensor cores, where those of the same program are allowed to round."""
    blocks: float
    """Of a launch, on average; 0 where not known."""

    @property
    def without(self) -> float:
        """Part of the multiprocessors that have no block, 0 to 1."""
        device = self.case.device_info
        every = device.multiprocessors if device else 0
        return max(0.0, 1 - self.blocks / every) if every and self.blocks else 0.0


def find(program: Program) -> Iterator[Draft]:
    """Those with few blocks; then all others as one lead."""
    tree = Contexts(program)
    convolutions = kernels_of_convolutions(program.profile) & (tree.time > 0) & ~tree.compiling
    if not convolutions.any():
        return
    slow = list(_slow(tree, convolutions))
    few = [each for each in slow if each.without and each.case.share < REPORT_LEAST_SHARE]
    told = {id(each) for each in slow if each.without and _is_told(each.case)}
    if few and tree.share(sum(each.time * each.without for each in few)) >= COLD:
        yield _of_few_blocks(tree, few)
        told |= {id(each) for each in few}
    left = [each for each in slow if id(each) not in told]
    beyond = sum(each.time - each.least for each in left)
    if left and tree.share(beyond) >= CONVOLUTION_SHARE:
        yield _lead(tree, convolutions, left)


def _slow(tree: Contexts, convolutions: Mask) -> Iterator[_Slow]:
    """Kernels below `CONVOLUTION_WELL` of their roof that no other rule tells of."""
    floors, blocks = Floors(tree), tree.program.whole_kernels("blocks")
    told = {case.name for case in precision.plain_products(tree.program)}
    cases = [case for case in tree.program.kernels if multiplies(case.name)]
    rounds = any(
        rounds_to_tf32(case.name) and convolutions[list(case.nodes)].any() for case in cases
    )
    for case in cases:
        if case.name in told or is_narrow(case.name):
            continue
        for node in case.nodes:
            time, floor = float(tree.time[node]), float(floors.floor[node])
            if not convolutions[node] or floors.limits.get(node) not in ("arithmetic", "memory"):
                continue
            least = min(floor, floors.on_tensor_cores(case, node)) if rounds else floor
            if least < CONVOLUTION_WELL * time:
                count = max(float(tree.count[node]), 1.0)
                each = float(np.nan_to_num(blocks[node])) / count
                yield _Slow(node, case, time, floor, least, each)


def _is_told(case: KernelCase) -> bool:
    """Return whether `small-grid` has a number for a kernel."""
    if case.share < REPORT_LEAST_SHARE:
        return False
    return any(draft.severity == "suggestion" for draft in small_grid.find(case))


def _of_few_blocks(tree: Contexts, few: list[_Slow]) -> Draft:
    time = sum(each.time for each in few)
    lost = sum(min(each.time * each.without, each.time - each.floor) for each in few)
    most = max(few, key=lambda each: each.time)
    mean = sum(each.blocks * each.time for each in few) / time
    text = (
        f"{_counted(few)} take {percent(tree.share(time))} of {tree.whose}, with {mean:,.0f} blocks"
        f" per launch on average; {percent(tree.share(lost))} is of multiprocessors without one"
    )
    return Draft(
        "suggestion", "convolutions have fewer blocks than the device has multiprocessors",
        tree.place(most.node), (Evidence("activities", text), *_kinds(tree, few)), _FEW, "",
        tree.saving(*(part * lost for part in CONVOLUTION_FEW)), confidence="low",
        nodes=tuple(each.node for each in few), fixes=(CONVOLUTION_TRIALS,),
    )  # fmt: skip


def _lead(tree: Contexts, convolutions: Mask, slow: list[_Slow]) -> Draft:
    time, least = (sum(getattr(each, of) for each in slow) for of in ("time", "least"))
    beyond = tree.share(time - least)
    first = [each for each in slow if has_channels_first(each.case.name)]
    copies = convolutions & tree.where(lambda symbol: changes_layout(symbol.name))
    copied = float(tree.time[copies].sum())
    plain_ones = [each for each in slow if each.least < each.floor]
    evidence = [
        Evidence(
            "activities",
            f"{_counted(slow)} take {duration(time)} in steps, {percent(tree.share(time))} of"
            f" {tree.whose}, where their work takes {duration(least)} at measured roofs",
        ),
        *_kinds(tree, slow),
    ]
    if first or copied:
        of_first = sum(each.time for each in first)
        told = f"{percent(of_first / time)} of that is of kernels for channels first (NCHW)"
        if copied:
            told += f"; kernels that change layouts for convolutions take {duration(copied)} more"
        evidence.append(Evidence("static", told))
    if plain_ones:
        of_plain = sum(each.time for each in plain_ones)
        told = (
            f"{percent(of_plain / time)} of that multiplies 32-bit floats without tensor cores,"
            " although others round to TF32: the library takes no such kernel for these shapes"
        )
        evidence.append(Evidence("static", told))
    known = Shortfalls(tree, Floors(tree)).of([each.node for each in slow])
    if known:
        evidence.append(Evidence("activities", f"known limits: {in_words(known)}"))
    evidence.append(Evidence("activities", f"at most {1 / (1 - beyond):.2f}× for the program"))
    wide = [each for each in slow if _is_of_floats(each.case.name)]
    ways = [
        *([_LAST] if first or copied else []), _TRIALS,
        *([_TYPES] if wide else []), *([_CHANNELS] if plain_ones else []),
    ]  # fmt: skip
    fixes: list[Fix] = [CHANNELS_LAST] if first or copied else []
    fixes += [CONVOLUTION_TRIALS, *([Autocast()] if wide else [])]
    most = max(slow, key=lambda each: each.time - each.least)
    unknown = sum(known.values()) < (time - least) / 2
    title = f"Convolutions reach {percent(least / time, 0)} of their roof"
    title += ", and no cause is known" if not known else ", mostly for unknown reasons" * unknown
    advice = "Try, one after the other: " + "; ".join(ways) + ". `tileprof try` times each."
    return Draft(
        "symptom", title, tree.place(most.node), tuple(evidence), advice, confidence="low",
        nodes=tuple(each.node for each in slow), fixes=tuple(fixes),
    )  # fmt: skip


def _kinds(tree: Contexts, slow: list[_Slow]) -> Iterator[Evidence]:
    """The time of each pass: forward, gradients of the data, of the weight; and the longest."""
    times = dict[str, list[_Slow]]()
    for each in slow:
        which = gradient_of(each.case.name)
        name = f"gradients of the {which}" if which else "forward"
        if not which and tree.backward[each.node]:
            name = "gradients"
        times.setdefault(name, []).append(each)
    told = [
        f"{name} {duration(sum(each.time for each in held))},"
        f" {percent(sum(each.least for each in held) / sum(each.time for each in held), 0)} of the"
        " roof"
        for name, held in sorted(times.items(), key=lambda item: -sum(e.time for e in item[1]))
    ]
    longest = sorted(slow, key=lambda each: -each.time)
    names = listed(list(dict.fromkeys(plain(each.case.name) for each in longest)))
    yield Evidence("activities", f"{'; '.join(told)}: {names}")


def _is_of_floats(name: str) -> bool:
    return not has_short_types(name)


def _counted(slow: list[_Slow]) -> str:
    count = len({each.case.name for each in slow})
    return f"{count} kernel{'s' * (count > 1)} of convolutions"


RULE = ProgramRule("convolution", find)
