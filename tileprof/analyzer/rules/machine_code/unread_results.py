"""Results that a Triton kernel stores and that nothing reads: a part of `redundant-traffic`.

Static: the program's text (`program/host_passes`): a function makes a tensor and gives it to a
launch of a kernel that only stores to it, and to nothing else. Dynamic: its bytes, beside what
memory gives and what the kernel moves in all; samples at the lines that store it.

Without these stores memory has that much less to do, which shortens the kernel by the part of its
time that memory takes. Where something else takes the time, a part of the samples at the stores
goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.numbers.kernels import MEMORY_USE_COPY
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.program.host_passes import Unread
from tileprof.analyzer.rules.machine_code.numbers import UNREAD_RESULTS, UNREAD_RESULTS_LINES
from tileprof.errors import Location

_AUTHOR = (
    "Leave out the store and the argument, as `{tensor}` is gone when the function that makes it"
    " returns. Keep it behind a constexpr flag if it is for debugging."
)


def unread_results(case: KernelCase) -> Iterator[Draft]:
    """Tensors that a kernel stores for nobody."""
    return (_draft(case, each) for each in case.unread)


def _draft(case: KernelCase, unread: Unread) -> Draft:
    text = (
        f"the function that launches it (line {unread.launch[0]}) makes `{unread.tensor}`, and uses"
        " it for nothing else; the kernel only stores to it"
    )
    cause = Cause(
        f"`{unread.tensor}` is stored, and nothing reads it",
        case.place(Location(unread.file, unread.stores[0])), (Evidence("static", text),),
        _AUTHOR.format(tensor=unread.tensor),
    )  # fmt: skip
    peak, code = case.roofs.mixed_rate(MEMORY_USE_COPY), case.sampled
    if not peak or not case.time or not (unread.size or code):
        return cause.warning()
    write = unread.size * case.launches / peak * 1e9 / case.time
    busy = min(1.0, (case.total("bytes") / peak) * 1e9 / case.time)
    least, likely, most = UNREAD_RESULTS
    low, mid, high = least * busy * write, likely * busy * write, most * write
    moved = f"{unread.size / 1e6:,.3g} MB per launch, which take memory {percent(min(write, 1.0))}"
    evidence = [Evidence("activities", f"{moved} of the time")] if unread.size else []
    if code is not None:
        taken = code.taken(code.rows(case.at_lines(code, set(unread.stores))))
        evidence.append(sampled(code, taken, "are at the stores"))
        mid = max(mid, UNREAD_RESULTS_LINES * code.share(taken))
        high = max(mid, high, code.share(taken))
    low, mid, high = (min(each, LONGEST_SAVING) for each in (low, mid, high))
    return cause.costs(Saving(low, mid, high), *evidence, confidence="high", known=True)
