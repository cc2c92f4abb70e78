"""Consecutive memory-bound kernels, each of which reads and writes whole tensors.

Static: names of kernels and the operations of PyTorch that launch them: products, attention, sorts,
what a compiler has fused already and kernels of the program's own are no part of it. Dynamic: times
of kernels between two products, in the order of the tree and within one pass (forward, backward,
optimizer). One kernel that does all of their work reads the inputs of the run and writes its
results; what the kernels hand to each other stays in registers. At best it takes as long as the
longest of them does in one visit, since that one has the most to read and write; less where that
kernel takes longer than its bytes do at the memory's measured rate, since a compiler writes another
one (`rewritten`). So a single kernel counts too that takes twice as long as that. A compiler leaves
a tile kernel as its author wrote it: one alone is no run, and in a run it keeps its time. A
backward pass wants some of the results in between, and a reduction has to end before its result is
used, so three quarters of the difference are likely, half of it is sure. At most, a compiler's
kernel comes to the memory's whole rate. Of the gaps before n launches (n - 1) / n go, half of that
for sure. A product that hardly multiplies, such as a batch of 3 × 3 matrices, is memory-bound work
too: its fused form is a multiplication and a sum, which takes as long as its bytes do. What nothing
reads (`unread-results`) is in no run, and a compiler leaves it out.

A compiler also chooses the layout of convolutions, channels last for most models: then kernels go
that only change layouts for them (`channels-last`). It keeps channels first for narrow, grouped and
some other convolutions, most of whose shapes a recording does not have.

Rows that are gathered and then added up by index are a run of their own (`gathered_rows`), and so
are Triton kernels that hand tensors to each other (`handed_over`).

Runs of short kernels (`small-kernels`) are told there: they wait for launches, not for memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import DEPENDENT, LATE, Column, Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, listed, percent
from tileprof.analyzer.fixes import compiled_at
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.reports import SHORTFALLS_REWRITTEN
from tileprof.analyzer.numbers.shared import COLD, HARDLY_MULTIPLIES
from tileprof.analyzer.program.convolutions import kernels_of_convolutions
from tileprof.analyzer.rules.layouts.channels_last import chosen_layouts
from tileprof.analyzer.rules.program import gathered_rows, handed_over
from tileprof.analyzer.rules.program.eager_attention import PRODUCT_NAMES, written_out
from tileprof.analyzer.rules.program.numbers import (
    FUSION_ALONE,
    FUSION_INFERRING,
    FUSION_LAYOUTS,
    FUSION_NAMED,
    FUSION_PARTS,
    FUSION_REWRITES,
    SMALL_KERNELS_SHORT,
)
from tileprof.analyzer.rules.source_text.unread_results import UnreadWork, unread_works
from tileprof.analyzer.shortfalls import rewritten
from tileprof.once import cached_property
from tileprof.profile import is_module

_APART = re.compile(
    rf"{PRODUCT_NAMES}|fmha|flash|attention|nccl|sort|fft|scan|embedding|index|gather|scatter"
    r"|triton_",
    re.IGNORECASE,
)
"""Kernels that work on a tile at a time, that move single rows, or that a compiler has fused."""
_OPTIMIZER = re.compile(r"multi_tensor|foreach|fused_adam|Optimizer", re.IGNORECASE)
_KNOWN_FORMS = (
    (re.compile(r"gelu", re.IGNORECASE),
     'torch.nn.functional.gelu (approximate="tanh" for the form written with tanh;'
     ' activation_function="gelu_pytorch_tanh" in Hugging Face models)'),
    (re.compile(r"rms_?norm", re.IGNORECASE), "torch.nn.functional.rms_norm"),
    (re.compile(r"layer_?norm", re.IGNORECASE), "torch.nn.functional.layer_norm"),
    (re.compile(r"softmax|cross_?entropy", re.IGNORECASE), "torch.nn.functional.cross_entropy"),
    (re.compile(r"silu|swish", re.IGNORECASE), "torch.nn.functional.silu"),
    (re.compile(r"rotary|rope", re.IGNORECASE), "one kernel for the rotary embedding"),
)  # fmt: skip
"""Functions that exist as one operation of PyTorch, by what writes them out is called."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Kernels that nothing but memory-bound work comes in between."""

    tree: Contexts
    nodes: list[int]
    rewritten: Column
    """By node, the time of a compiler's kernel for the same work, ns."""
    of_model: bool = True
    """Whether a module's call is around it, so that compiling the model reaches it."""

    @cached_property
    def time(self) -> float:
        """The devices' time of its kernels, ns."""
        return float(self.tree.time[self.nodes].sum())

    @cached_property
    def launches(self) -> float:
        """Launches of its kernels."""
        return float(self.tree.count[self.nodes].sum())

    @cached_property
    def longest(self) -> float:
        """Time that the longest kernel of a visit has to take, in all visits, ns."""
        return self._longest(self.rewritten)

    def _longest(self, times: Column) -> float:
        counts = self.tree.count[self.nodes]
        each = times[self.nodes] / np.maximum(counts, 1)
        return min(float(each.max()) * float(np.median(counts)), self.time)

    @cached_property
    def above(self) -> float:
        """Time above that of the longest kernel, ns: what one kernel would not take."""
        return self.time - self.longest

    @cached_property
    def by_rewriting(self) -> float:
        """Part of `above`, ns, that no fusing takes away: the longest kernel becomes shorter."""
        return self._longest(self.tree.time) - self.longest

    @cached_property
    def name(self) -> str:
        """The function or module that most of its time is right in."""
        times = dict.fromkeys(self._functions, 0.0)
        for name, node in zip(self._functions, self.nodes, strict=True):
            times[name] += float(self.tree.time[node])
        return max(times, key=lambda each: times[each])

    @property
    def place(self) -> int:
        """The longest of its kernels in that function."""
        held = [n for name, n in zip(self._functions, self.nodes, strict=True) if name == self.name]
        return max(held, key=lambda node: float(self.tree.time[node]))

    @cached_property
    def _functions(self) -> list[str]:
        """By kernel, the function or module that it is right in."""
        tree, found = self.tree, list[str]()
        for node in self.nodes:
            at = int(tree.functions[node])
            name = tree.program.shown[tree.profile.symbol[at]] if at >= 0 else tree.told(node)
            found.append(name)
        return found

    @cached_property
    def operations(self) -> list[str]:
        """Its operations, in order."""
        tree = self.tree
        return list(dict.fromkeys(tree.op(n) or tree.profile.names[n] for n in self.nodes))


def find(program: Program) -> Iterator[Draft]:
    """All such runs together: compiling the model changes them all; then those of other kinds."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    yield from gathered_rows.find(tree)
    yield from handed_over.find(tree)
    unread = unread_works(tree)
    runs = [run for run in _runs(tree, unread) if tree.share(run.above) >= COLD]
    if not runs:
        return
    runs.sort(key=lambda run: -run.above)
    of_models = [run for run in runs if run.of_model]
    outside = [run for run in runs if not run.of_model] if of_models else []
    yield _draft(tree, of_models or runs, outside, unread)


def _runs(tree: Contexts, unread: list[UnreadWork]) -> Iterator[_Run]:
    """Runs of kernels of one pass, products and unread work left out; of one where a compiler's
    takes far less."""
    copies = tree.where(lambda symbol: symbol.kind == "memcpy" and symbol.name.startswith("DtoD"))
    kernels = (tree.kind("kernel") | copies) & (tree.time > 0) & (tree.count > 0) & ~tree.compiling
    of_models = tree.below(tree.where(is_module))
    for each in unread:
        kernels[list(each.nodes)] = False
    attention = tree.below(written_out(tree))  # which `attention` tells
    floors = Floors(tree)
    times, thin = rewritten(tree, floors), _hardly_multiplying(tree, floors)
    times[list(thin)] = np.minimum(list(thin.values()), times[list(thin)])
    for nodes in tree.runs(
        kernels,
        lambda node: (
            None
            if attention[node] or (node not in thin and _apart(tree, node))
            else bool(of_models[node])
        ),
    ):
        yield from _long_enough(_Run(tree, nodes, times, bool(of_models[nodes[0]])))


def _hardly_multiplying(tree: Contexts, floors: Floors) -> dict[int, float]:
    """Return what the bytes of products take that hardly multiply, ns, by their nodes.

    Convolutions by groups are none: compilers call the library's kernel for them. Neither are tile
    kernels, whose arithmetic is no product of a library.
    """
    found = dict[int, float]()
    convolutions = kernels_of_convolutions(tree.profile)
    for case in tree.program.kernels:
        if case.ir:
            continue
        peak = floors.roofs(case).peaks.get("fma_float32")
        for node in case.nodes:
            if convolutions[node]:
                continue
            multiplying = float(tree.flops[node]) / peak.value * 1e9 if peak else 0.0
            slow = 0 < multiplying < HARDLY_MULTIPLIES * float(tree.time[node])
            if slow and floors.limits.get(node) == "memory":
                found[node] = float(floors.floor[node])
    return found


def _apart(tree: Contexts, node: int) -> bool:
    names = (tree.profile.names[node], tree.op(node))
    # A kernel outside of any operation was written by hand: what it does is not known.
    return not names[1] or any(_APART.search(each) or _OPTIMIZER.search(each) for each in names)


def _long_enough(run: _Run) -> Iterator[_Run]:
    several = len(run.nodes) > 1 or run.time >= FUSION_ALONE * run.longest
    if several and run.time >= SMALL_KERNELS_SHORT * run.launches:
        yield run


def _draft(
    tree: Contexts, runs: list[_Run], outside: list[_Run], unread: list[UnreadWork]
) -> Draft:
    count = sum(len(run.nodes) for run in runs)
    time, above = (sum(getattr(run, what) for run in runs) for what in ("time", "above"))
    first = runs[0]
    text = (
        f"{count} kernel{'s' * (count > 1)} that read and write whole tensors take"
        f" {percent(tree.share(time))} of {tree.whose}; one kernel for each run of them would take"
        f" at best {percent(tree.share(time - above))}"
    )
    evidence = [Evidence("activities", text)]
    for run in runs[:FUSION_NAMED]:
        several = "s" * (len(run.nodes) > 1)
        told = (
            f"{run.name}: {len(run.nodes)} kernel{several},"
            f" {duration(run.time / run.launches)} a launch, {percent(tree.share(run.time))}"
            f" ({listed(run.operations)})"
        )
        evidence.append(Evidence("activities", told))
    forms = [form for pattern, form in _KNOWN_FORMS if pattern.search(first.name)]
    advice = "Compile the model, or the function of the largest part, with torch.compile"
    advice += (
        f"; for {first.name} there is {forms[0]}." if forms else ", or write it as one kernel."
    )
    what = f"{count} memory-bound kernels could be fused"
    if count == 1:
        what = "1 memory-bound kernel takes far longer than a compiler's would"
    title = f"{what}, most of their time in {first.name}" if count > 1 else f"{what}: {first.name}"
    between, most, exposed, unrecorded = _between(tree, runs)
    if tree.share(most) >= COLD:
        told = (
            f"another {percent(tree.share(most))} is lost in gaps before launches that would "
            f"disappear"
        )
        evidence += [Evidence("activities", told), Evidence("activities", tree.recording)]
    layouts = chosen_layouts(tree)
    if (likely := layouts.likely) and tree.share(likely) >= COLD:
        told = (
            f"the layout that the compiler likely chooses for convolutions (channels last) takes"
            f" away another {percent(tree.share(FUSION_LAYOUTS[1] * likely))}"
        )
        evidence.append(Evidence("activities", told))
    beyond = sum(run.above for run in outside)
    if outside:
        told = (
            f"runs outside of the model, as of a loss, take {percent(tree.share(beyond))} more than"
            " one kernel each would: compiling the model alone leaves them"
        )
        evidence.append(Evidence("activities", told))
    gone = sum(each.time for each in unread)
    if tree.share(gone) >= COLD:
        told = (
            f"torch.compile leaves out what nothing reads: {percent(tree.share(gone))} of the time"
        )
        evidence.append(Evidence("activities", told))
    rewriting = sum(run.by_rewriting for run in runs)
    rewrites = FUSION_REWRITES if tree.backward.any() else FUSION_INFERRING
    low, mid, high = (
        fused * (above - rewriting) + rewritten_part * rewriting + layout * layouts_go + gone
        for fused, rewritten_part, layout, layouts_go in zip(
            FUSION_PARTS, rewrites, FUSION_LAYOUTS, layouts.saved, strict=True
        )
    )
    high += (1 - SHORTFALLS_REWRITTEN) * sum(run.longest for run in runs if run.by_rewriting)
    high += beyond
    of_exposed = tree.exposed(layouts.nodes, likely)
    exposed = (exposed * above + of_exposed * likely + gone) / (above + likely + gone)
    unrecorded += gone + of_exposed * layouts.saved[-1]
    saving = tree.saving(low + between / 2, mid + between, high + most, between, most, unrecorded)
    place = tree.place(first.place)
    nodes = [*(node for run in runs for node in run.nodes), *layouts.nodes]
    nodes += [node for each in unread for node in each.nodes]
    return Draft(
        "suggestion", title, place, tuple(evidence), advice, "", saving,
        # What fusing brings has not been measured on enough programs yet.
        confidence="low", nodes=tuple(nodes), gaps=tree.ended_by(nodes, DEPENDENT, LATE),
        launches_go=True, exposed=exposed,
        fixes=compiled_at(place.location),
    )  # fmt: skip


def _between(tree: Contexts, runs: list[_Run]) -> tuple[float, float, float, float]:
    """Return gaps before launches that one kernel for each run would not make, ns: likely, without
    what recording adds to those before late launches, and at most; the part of the kernels' saved
    time by which the program becomes shorter, 0 to 1; and the most that goes of the time without a
    recording, ns."""
    kernels = tree.kind("kernel") & (tree.time > 0)
    gaps, all_late = (tree.gaps_before(kernels, reason) for reason in (DEPENDENT, LATE))
    likely, most, exposed, unrecorded = 0.0, 0.0, 0.0, 0.0
    for run in runs:
        left = min(1.0, float(np.median(tree.count[run.nodes])) / run.launches)
        dependent, late = (float(each[run.nodes].sum()) for each in (gaps, all_late))
        fewer = tree.fewer_launches(run.nodes, late, left, FUSION_PARTS[1] * run.above)
        likely += dependent * (1 - left) + fewer.gaps
        most += (dependent + late) * (1 - left)
        exposed += fewer.exposed * run.above
        all_go = tree.fewer_launches(run.nodes, late, 0.0, run.above)
        unrecorded += dependent * (1 - left) + all_go.gaps + all_go.exposed * run.above
    return likely, most, exposed / sum(run.above for run in runs), unrecorded


RULE = ProgramRule("fusion", find)
