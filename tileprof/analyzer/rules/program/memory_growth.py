"""Device memory that grows from step to step.

Static: none. Dynamic: bytes that were allocated at a place and are alive at the end of a step. The
recorder compares the steps' ends, from the third on: what is made once, as optimizers' states, or
comes back, as activations, does not grow there. A place counts where it grew in a tenth of the
steps and in three at least, and ten times as often as it shrank. Memory that grows costs no time
until there is none left, so no gain is promised.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.rules.program.numbers import MEMORY_GROWTH_LEAST, MEMORY_GROWTH_PLACES
from tileprof.profile.units import format_value

_ADVICE = (
    "See what keeps these tensors: a loss that is added up or put in a list keeps its graph and all"
    " activations (keep loss.item() or loss.detach()); so do hooks, caches without a limit, and"
    " tensors in exceptions or closures. A cache that is meant to grow needs memory for its final "
    "size."
)


def find(program: Program) -> Iterator[Draft]:
    """All places together; the one that grew most is where the finding is."""
    tree = Contexts(program)
    growth, peak = tree.own("growth_bytes"), float(tree.own("peak_bytes").sum())
    whole = float(growth.sum())
    if not whole or whole < MEMORY_GROWTH_LEAST * peak:
        return
    steps = tree.own("grown_steps")
    nodes = np.flatnonzero(growth > 0)
    nodes = nodes[np.argsort(-growth[nodes], kind="stable")]
    a_step = format_value(float((growth[nodes] / steps[nodes]).sum()), "bytes")
    most = format_value(float(steps[nodes].max()), "1")
    places = dict[str, float]()
    for node in nodes.tolist():
        told = tree.told(node)
        places[told] = places.get(told, 0.0) + float(growth[node])
    largest = sorted(places, key=lambda told: -places[told])[:MEMORY_GROWTH_PLACES]
    named = "; ".join(f"{told}: {format_value(places[told], 'bytes')}" for told in largest)
    yield Draft(
        "warning", f"device memory grows from step to step, by {a_step} each time",
        tree.place(int(nodes[0])),
        (
            Evidence(
                "activities",
                f"{format_value(whole, 'bytes')} more were alive after the last step than after the"
                f" second, {percent(whole / peak)} of the peak; it grew in {most} steps",
            ),
            Evidence("activities", f"allocated at {named}"),
        ),
        _ADVICE, confidence="high",
    )  # fmt: skip


RULE = ProgramRule("memory-growth", find)
