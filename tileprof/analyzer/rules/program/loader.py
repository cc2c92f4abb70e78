"""A program without a GPU that loads its data between steps, in the thread that computes.

Static: PyTorch's scope around the next batch of a loader without workers. Dynamic: its share p of
the host's time. With n workers batches are made while steps compute: what is left is the longer one
of 1 - p and p / n. Two workers are for sure, four likely, and any number at most. Where the
computation already keeps all c processors busy, workers take time from it: 1 - 1 / c of p is saved.
Where a device waits, `launch-bound` tells it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.fixes import LoaderWorkers
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.rules.program.numbers import LOADER_SHARE, LOADER_WORKERS

_ADVICE = (
    "Give the DataLoader workers (num_workers=4, persistent_workers=True): processes that make the"
    " next batches while this one is computed; or make each item cheaper, once and not in each"
    " epoch."
)


def find(program: Program) -> Iterator[Draft]:
    """Loaders without workers, all together."""
    if program.kernel_time:
        return
    tree, host = Contexts(program), program.host
    loaders = tree.loaders
    if not loaders.any() or not host.whole:
        return
    time = float(host.column[tree.below(loaders)].sum())
    share = time / host.whole
    if share < LOADER_SHARE:
        return
    first = int(np.flatnonzero(loaders)[0])
    count = float(tree.count[loaders].sum())
    each = f", {count:,.0f} batches of {duration(time / count)}" if count else ""
    text = f"{percent(share)} of {host.whose} ({duration(host.whole)}){each}"
    low, mid, high = (
        min(1 - max(1 - share, share / workers), LONGEST_SAVING) for workers in LOADER_WORKERS
    )
    low = min(low, share * (1 - 1 / _processors(program)))
    yield Draft(
        "suggestion",
        f"The data loader takes {percent(share, 0)} of {host.whose}, while nothing else computes",
        tree.place(first), (Evidence("activities", text),), _ADVICE, "", Saving(low, mid, high),
        fixes=(LoaderWorkers(),),
    )  # fmt: skip


def _processors(program: Program) -> int:
    """Return the number of processors of the machine that recorded; 2 where it is not known."""
    told = program.profile.tables.provenance.get("cpus", "")
    return max(int(told), 1) if told.isdecimal() and len(told) < 6 else 2


RULE = ProgramRule("loader", find)
