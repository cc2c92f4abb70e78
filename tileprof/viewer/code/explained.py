"""One source line: what runs there, what it costs, and what is known about it.

In: a report, and a line as `train.py:42`.  Out: text without colours, one fact a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from tileprof.analyzer import Report
from tileprof.analyzer.findings import identified
from tileprof.errors import Location, UsageError
from tileprof.profile import Profile
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.code.line_costs import LineCosts, line_costs
from tileprof.viewer.code.pc_functions import stall_text
from tileprof.viewer.findings.entry import kernel_text
from tileprof.viewer.options import ViewOptions

_MOST = 8
"""Largest number of nodes, kernels or lines that one list names."""
_STALLS = 5
"""Reasons of stalls that are named."""


def explain_line(report: Report, place: str) -> str:
    """Return all that a profile knows about a line; UsageError for one that it does not know.

    The file may be the end of a path, as long as one file of the profile ends so.
    """
    profile = report.program.profile
    listing = line_costs(profile, ViewOptions(threshold=0))
    file, line = _found(report, listing, place)
    lines = [f"{file}:{line}"]
    if text := listing.sources.lines(file).get(line, "").strip():
        lines.append(f"  {text}")
    here = _here(profile, file, line)
    lines += _cost(listing, here, file, line)
    lines += _runs(profile, here)
    lines += _samples(listing, file, line)
    for key, finding in identified(report.findings).items():
        if _is_at(finding.place.location, file, line):
            lines.append(f"finding {key}  {finding.headline()}")
    for kernel in profile.tables.kernels:
        said = [each for each in kernel.remarks if _is_at(each.location, file, line)]
        lines += [f"remark of {kernel.name}: {each}" for each in said]
    return "\n".join(lines) + "\n"


def _found(report: Report, listing: LineCosts, place: str) -> tuple[str, int]:
    """Return the file as the profile names it, and the line."""
    name, _, number = place.rpartition(":")
    if not name or not number.isdigit():
        raise UsageError(f"`{place}` is not FILE:LINE", hint="For example train.py:42.")
    known = _known(report, listing)
    files = sorted({file for file, _ in known if _ends_with(file, name)})
    if name in files:
        files = [name]
    if len(files) != 1:
        held = sorted({file for file, _ in known})
        raise UsageError(
            f"several files of the profile end in {name}" if files
            else f"nothing in the profile is at a line of {name}",
            hint=f"Use one of: {', '.join((files or held)[:_MOST])}.",
        )  # fmt: skip
    line = int(number)
    if (files[0], line) not in known:
        near = sorted((each for file, each in known if file == files[0]),
                      key=lambda each: abs(each - line))[:_MOST]  # fmt: skip
        raise UsageError(
            f"nothing in the profile is at line {line} of {files[0]}",
            hint=f"The nearest lines with something are: {', '.join(map(str, sorted(near)))}.",
        )
    return files[0], line


def _known(report: Report, listing: LineCosts) -> set[tuple[str, int]]:
    profile = report.program.profile
    found = {(file, line) for file, lines in listing.costs.items() for line in lines}
    found |= listing.weights.keys()
    places = [each.place.location for each in report.findings]
    places += [each.location for kernel in profile.tables.kernels for each in kernel.remarks]
    places += [symbol.location for symbol in profile.symbols]
    return found | {(each.file, each.line) for place in places if place for each in place.chain()}


def _ends_with(file: str, name: str) -> bool:
    parts, wanted = PurePath(file).parts, PurePath(name).parts
    return parts[-len(wanted) :] == wanted


def _is_at(place: Location | None, file: str, line: int) -> bool:
    return place is not None and any(
        (each.file, each.line) == (file, line) for each in place.chain()
    )


def _here(profile: Profile, file: str, line: int) -> npt.NDArray[np.int8]:
    """Return 1 for the outermost nodes at the line, 2 for all that is below them, else 0."""
    here = np.zeros(len(profile), np.int8)
    for node, parent in enumerate(profile.parents.tolist()):
        if parent >= 0 and here[parent]:
            here[node] = 2
        elif _is_at(profile.locations[node], file, line):
            here[node] = 1
    return here


def _cost(listing: LineCosts, here: npt.NDArray[np.int8], file: str, line: int) -> Iterator[str]:
    """Yield the time of devices and of the host: itself, and with all that the line calls."""
    profile, own = listing.profile, listing.costs.get(file, {}).get(line)
    for name in dict.fromkeys((listing.metrics[0], "time", "cpu_time")):
        whole = float(profile.whole.get(name, 0))
        total = float(profile.total(name)[here == 1].sum()) if whole else 0.0
        parts = [total] if name != listing.metrics[0] else [own[0] if own else 0.0, total]
        if any(parts):
            unit = profile.metrics[name].unit
            said = [f"{format_value(n, unit)} ({format_percent(n / whole)} %)" for n in parts]
            itself = f"{said[0]} itself, " if len(said) > 1 else ""
            yield f"{name}: {itself}{said[-1]} with all that it calls"


def _runs(profile: Profile, here: npt.NDArray[np.int8]) -> Iterator[str]:
    nodes = np.flatnonzero(here == 1).tolist()
    named = Counter((profile.kinds[node], profile.names[node]) for node in nodes)
    shown = [f"{kind} {name}" + (f" ({n} paths)" if n > 1 else "")
             for (kind, name), n in named.most_common(_MOST)]  # fmt: skip
    if shown:
        yield f"runs: {', '.join(shown)}" + _more(len(named))
    if "time" not in profile.metrics:
        return
    times: dict[str, float] = {}
    total = profile.total("time")
    for node in np.flatnonzero(here).tolist():
        above = int(profile.parents[node])
        if profile.kinds[node] == "kernel" and (above < 0 or profile.kinds[above] != "kernel"):
            name = profile.names[node]
            times[name] = times.get(name, 0.0) + float(total[node])
    for name, time in sorted(times.items(), key=lambda each: -each[1])[:_MOST]:
        yield f"kernel: {format_value(time, 'ns')}  {kernel_text(name)}"
    if len(times) > _MOST:
        yield f"kernels:{_more(len(times))}"


def _more(count: int) -> str:
    return f" and {count - _MOST} more" if count > _MOST else ""


def _samples(listing: LineCosts, file: str, line: int) -> Iterator[str]:
    stalls = listing.sampled.get((file, line))
    if stalls:
        count = listing.samples_at(file, line)
        share = 100 * count / max(listing.samples, 1)
        reasons = stall_text(stalls, _STALLS)
        yield f"samples: {count:,} ({share:.1f} % of all); stalls in %: {reasons}"
    if note := listing.seen.get((file, line)):
        yield f"inside its kernels: {note}"
