"""Results of products that are reduced along the index that lies across lanes and warps.

Static: exchanges of a loop of products, by the machine code (`machine/turned_results`). Dynamic:
samples at these exchanges, and of what waits for them, but for waits for global memory. Where the
product makes its result the other way round, a row is in four lanes, and next to nothing of that is
left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.machine.turned_results import turned_results
from tileprof.analyzer.numbers.shared import COOL

_AUTHOR = (
    "Let the product make its result the other way round, so that the index of the reduction is"
    " that of its columns: exchange its operands, and transpose neither them nor the result."
)
_COMPILER = "See which layout the reduction asks for, and whether the product's own would do."
_MEMORY = "long_scoreboard"


def reduced_across(case: KernelCase) -> Iterator[Draft]:
    """A loop of products whose results threads of several warps reduce together."""
    code = case.sampled
    turned = turned_results(code) if code else None
    if code is None or turned is None:
        return
    where = (*turned.lanes, *turned.warps)
    own = code.taken(code.rows(where) & ~code.rows(where, (_MEMORY,)))
    taken = np.maximum(own, code.waiting_for(where))
    if code.share(taken) < COOL:
        return
    text = (
        f"an iteration of a loop of products has {len(turned.lanes)} exchanges between lanes and"
        f" {len(turned.warps)} accesses and barriers of shared memory, where a reduction of a row"
        " of results takes 2 exchanges"
    )
    hot = code.hottest(where)
    assert hot is not None
    title = "results of a product are reduced across lanes and warps"
    cause = Cause(title, case.at(hot), (Evidence("static", text),), _AUTHOR, _COMPILER)
    seen = sampled(code, taken, "are at these exchanges or wait for them")
    yield cause.costs(eliminated(taken, code.whole), seen)
