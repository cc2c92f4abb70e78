"""Text of what `tileprof bisect` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileprof.bisecting import LEVELS, Change, CommitChange, Difference, Report, Times
from tileprof.bisecting.comparing import changes_text
from tileprof.profile.units import format_value

_WORDS = {
    "slower": "SLOWER", "faster": "FASTER", "changed": "CHANGED", "same": "same time",
    "undecided": "undecided", "unchanged": "unchanged", "only-old": "only on the old side",
    "only-new": "only on the new side", "failed": "FAILED",
}  # fmt: skip
_MOST_FILES = 4


def text_of(report: Report) -> str:
    """Return the sides, each kernel with its first level that differs, and the commits."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for name, text, facts in zip(("old", "new"), (report.old, report.new), report.facts):
        yield f"{name}   {text}{_versions(facts)}"
    yield f"suite {report.suite}{f' for {report.target}' if report.target else ''}"
    if report.untimed:
        yield f"Not timed: {report.untimed}. Compared is what kernels are compiled to."
    else:
        yield f"Timed on {_device(report)}; a change counts from {report.floor:.3g} on, as a share."
    if report.missing:
        yield f"{report.missing} is not installed: levels behind the code are not compared."
    yield ""
    width = max((len(each.kernel) for each in report.changes), default=0)
    for change in report.changes:
        yield from _change(change, width)
    for name, why in report.skipped.items():
        yield f"{name:<{width}}  not compiled: {why}"
    yield ""
    yield _summary(report)
    yield from _commits(report)


def _versions(facts: Mapping[str, str]) -> str:
    named = [f"{name} {text}" for name, text in facts.items() if not name.endswith(" file")]
    return f"  ({', '.join(named)})" if named else ""


def _device(report: Report) -> str:
    if report.gpu is not None:
        return report.gpu.name
    return "this machine's processor" if report.device == "cpu" else report.device


def _change(change: Change, width: int) -> Iterator[str]:
    words = _WORDS[change.verdict]
    times = f"  {_times(change.times)}" if change.times else ""
    found = change.difference
    level = "" if found is None or found.level == "nothing" else f"  first level: {_level(found)}"
    if change.same_code and change.verdict == "unchanged":
        level = ""
    yield f"{change.kernel:<{width}}  {words}{times}{level}"
    if found is None:
        return
    if change.same_code and change.verdict in ("unchanged", "same"):
        if apart := [LEVELS[each] for each in found.without_effect]:
            yield f"  differs without effect: {', '.join(apart)}"
        return
    yield from _told(change, found)


def _told(change: Change, found: Difference) -> Iterator[str]:
    yield f"  {found.text}"
    if found.acts:
        yield f"  programs differ from {found.acts} on"
    if found.old:
        yield f"    - {found.old}"
    if found.new:
        yield f"    + {found.new}"
    if found.without_effect:
        apart = ", ".join(LEVELS[each] for each in found.without_effect)
        yield f"  differs without effect: {apart}"
    if change.costs:
        yield f"  costs: {', '.join(map(str, change.costs))}"
    if change.launch:
        yield f"  launch: {changes_text(change.launch)}"
    if change.tools and found.level in ("code", "ptx", "sass", "resources"):
        yield f"  versions: {changes_text(change.tools)}"
    for each in change.culprits:
        name = "way out" if each.kind == "switch" else "brought by"
        yield f"  {name}: {each.text}"


def _level(found: Difference) -> str:
    level = LEVELS[found.level]
    step = found.step
    if found.level in ("ir", "code") and step:
        return f"{level}, as lowered from Python" if step == "frontend" else f"{level}, {step}"
    return f"{level} ({step})" if step else level


def _times(times: Times) -> str:
    old, new = (format_value(ns, "ns") for ns in (times.old_ns, times.new_ns))
    ratio = times.ratio
    shown = "" if ratio is None else f", {ratio.value:.3f}× ({ratio.low:.3f}–{ratio.high:.3f})"
    return f"{old} → {new}{shown}"


def _summary(report: Report) -> str:
    count = len(report.changes)
    changed = len(report.changed)
    noun = "kernel" if count == 1 else "kernels"
    how = "in time" if report.device else "in what a GPU runs"
    return f"{changed} of {count} {noun} changed {how} ({report.seconds:.1f} s)."


def _commits(report: Report) -> Iterator[str]:
    if report.no_walk:
        yield f"No commits tried: {report.no_walk}."
    if not report.commits:
        return
    yield ""
    yield f"Commits that change these kernels ({report.tried} tried):"
    for each in report.commits:
        yield from _commit(each)


def _commit(change: CommitChange) -> Iterator[str]:
    yield f"  {change.subject}"
    if change.between == 1:
        yield "    or the commit before it, which does not compile the suite"
    elif change.between:
        yield f"    or one of {change.between} commits before it, which do not compile the suite"
    for name, found in change.kernels.items():
        verdict = f", {_WORDS[change.verdicts[name]]}" if name in change.verdicts else ""
        level = "not compared" if found is None else _level(found)
        yield f"    {name}{verdict}: {level}"
    files = [*change.files[:_MOST_FILES]]
    more = len(change.files) - len(files)
    shown = ", ".join([*files, f"{more} more"] if more > 0 else files)
    if shown:
        yield f"    files: {shown}"
