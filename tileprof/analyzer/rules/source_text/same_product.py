"""The same call twice: two consecutive statements that call one function with the same names.

Static: the text of the program, as the profile keeps it: both statements assign a call of the same
plain names, and those in between assign others. Dynamic: below both lines the same operations ran
equally often, products among them, and none draws random numbers or keeps statistics, so that a
second call would not return the same; their time. The shorter one of both goes, if the arguments
have not changed within the call: which the text cannot show, so nothing is sure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.program.calls import Twins, twins
from tileprof.analyzer.rules.program.numbers import SAME_PRODUCT_SHARE

_CHANGES = re.compile(r"rand|dropout|bernoulli|multinomial|normal_|uniform_|batch_norm")
"""Operations whose second result may be another one."""
_PRODUCTS = re.compile(r"mm$|linear|matmul|conv|einsum|attention", re.IGNORECASE)
"""Operations that a call is worth keeping for: a second tensor of zeros is there to be changed."""
_ADVICE = (
    "Call it once and use the result twice, if nothing that it reads has changed in between:"
    " {call}."
)


def find(program: Program) -> Iterator[Draft]:
    """Each such pair with enough of the time."""
    tree = Contexts(program)
    by_line = dict[tuple[int, str, int], list[int]]()
    for node in np.flatnonzero(tree.kind("frame")).tolist():
        place = tree.profile.locations[node]
        if place is not None and place.file in tree.texts:
            key = (int(tree.parents[node]), place.file, place.line)
            by_line.setdefault(key, []).append(node)
    for (above, file, line), first in by_line.items():
        for pair in twins(tree.texts[file]):
            second = by_line.get((above, file, pair.second))
            if pair.first == line and second is not None:
                yield from _find(tree, pair, first, second)


def _find(tree: Contexts, pair: Twins, first: list[int], second: list[int]) -> Iterator[Draft]:
    column, whole, whose = tree.worked
    parts = [tree.below(tree.of(nodes)) for nodes in (first, second)]
    one, other = (_operations(tree, part) for part in parts)
    if one != other or not any(_PRODUCTS.search(name) for name in one) or not whole:
        return
    # A product copies its bias into its result: only what is in no other operation counts.
    if any(name.endswith("_") for name in one):
        return
    if any(_CHANGES.search(name) for part in parts for name in _names(tree, part)):
        return
    times = sorted(float(column[part].sum()) for part in parts)
    share = times[0] / whole
    if share < SAME_PRODUCT_SHARE:
        return
    text = (
        f"both lines run the same {sum(one.values()):,.0f} operations, and take"
        f" {percent(times[1] / whole)} and {percent(share)} of {whose}"
    )
    source = Evidence("static", f"lines {pair.first} and {pair.second} both call {pair.call}")
    goes = min(share, LONGEST_SAVING)
    yield Draft(
        "suggestion", f"{pair.call} is called twice in a row at {tree.told(second[0])}",
        tree.place(second[0]), (source, Evidence("activities", text)),
        _ADVICE.format(call=pair.call), "", Saving(0, goes, goes), confidence="low",
    )  # fmt: skip


def _names(tree: Contexts, part: Mask) -> set[str]:
    """Names of all operations, those within others too."""
    return {tree.profile.names[node] for node in np.flatnonzero(tree.kind("op") & part).tolist()}


def _operations(tree: Contexts, part: Mask) -> Counter[str]:
    """Outermost operations of the forward pass by name: how often they ran."""
    found = Counter[str]()
    operations = tree.kind("op") & part & ~tree.backward
    for node in np.flatnonzero(tree.outermost(operations)).tolist():
        found[tree.profile.names[node]] += int(tree.count[node])
    return found


RULE = ProgramRule("same-product", find)
