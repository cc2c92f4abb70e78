"""A story from its first report to its last: which finding asks for which change, what it gains.

In: a story, and how its program is recorded and timed.  Out: the story's row of the results, and
its reports as text, without paths of this machine.
"""

from __future__ import annotations

import difflib
import inspect
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprof.analyzer import Finding, Report, analyze
from tileprof.analyzer.json_form import to_json
from tileprof.bench import median_interval
from tileprof.profile import load
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.findings.entry import entry
from tileprof.viewer.findings.paper import Paper

from .stories import ROOT, Change, Story, chosen, module_of

if TYPE_CHECKING:
    from .runs import Done, Runs

__all__ = ["code_of", "diff_of", "measured", "plain", "told"]

WIDTH = 100
"""Cells of a line of a report."""
_FOLDERS = re.compile(r"(?<![\w.~-])~?/(?:[\w.+@-]+/)+(?=[\w.+@-])")


def told(story: Story, runs: Runs, folder: Path, reports: Path) -> dict[str, Any]:
    """Record, analyse, change, until nothing is left to change; then time all versions."""
    reports.mkdir(parents=True, exist_ok=True)
    left, states, steps = list(story.changes), [()], list[dict[str, Any]]()
    while True:
        report = _report(
            story, runs, states[-1], folder, reports / f"{story.name}-{len(states)}.txt"
        )
        if not left:
            break
        step, change = _step(story, report, left[:1] if story.in_order else left)
        step["diff"] = diff_of(story, states[-1], change.name)
        steps.append(step)
        left.remove(change)
        states.append((*states[-1], change.name))
    times = runs.times(states)
    for step, before, after in zip(steps, times, times[1:]):
        step["measured"] = measured(before, after)
    return {
        "study": story.name, "title": story.title, "text": story.text, "file": story.file,
        "gain": story.gain, "code": code_of(story), "steps": steps, "apart": dict(runs.apart()),
        "ms": [statistics.median(each) for each in times],
        "whole": measured(times[0], times[-1]),
        "left": [_short(story, each) for each in report.findings],
    }  # fmt: skip


def _report(story: Story, runs: Runs, done: Done, folder: Path, to: Path) -> Report:
    path = folder / f"{to.stem}.tprof"
    runs.record(done, path)
    report = analyze(load(path))
    text = render_reports({path.name: report}, ReportOptions(height=60), width=WIDTH)
    to.write_text(plain(text))
    return report


def _step(
    story: Story, report: Report, candidates: Sequence[Change]
) -> tuple[dict[str, Any], Change]:
    """What the report asks for; where it is none of these, the first is made all the same."""
    found = chosen(report.findings, candidates)
    everything = [_short(story, each) for each in report.findings]
    if found is None:
        change = candidates[0]
        rules = ", ".join(dict.fromkeys(rule for each in candidates for rule in each.rules))
        return {
            "change": change.name, "text": change.text, "predicted": None, "found": everything,
            "error": f"no suggestion of {rules}",
        }, change  # fmt: skip
    finding, change = found
    (document,) = to_json(_only(report, finding))["findings"]
    paper = Paper.of(WIDTH, color=False, unicode=True)
    printed = entry(finding, "author", paper, SourceTexts(report.program.profile))
    return {
        "change": change.name, "text": change.text, "predicted": _gain(story, finding),
        "found": everything, "rank": report.findings.index(finding) + 1,
        "finding": _plain_all(document), "printed": plain("\n".join(printed)),
    }, change  # fmt: skip


def _only(report: Report, finding: Finding) -> Report:
    return Report(report.program, (finding,), (), ())


def _gain(story: Story, finding: Finding) -> list[float] | None:
    gain = finding.kernel_gain if story.gain == "kernel" else finding.program_gain
    return [gain.low, gain.mid, gain.high] if gain else None


def _short(story: Story, finding: Finding) -> dict[str, Any]:
    return {"rule": finding.rule, "severity": finding.severity, "title": plain(finding.title),
            "gain": _gain(story, finding)}  # fmt: skip


def measured(before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """The gain: the median of ratios of batches in turns, with 95 % of its bootstrap."""
    ratios = [old / new for old, new in zip(before, after, strict=True)]
    found = median_interval(ratios)
    return {"ratio": found.value, "low": found.low, "high": found.high, "ratios": ratios}


# -- code


def code_of(story: Story) -> str:
    """The function as it was written first."""
    module = module_of(story)
    if story.gain == "program":
        return inspect.getsource(module.Training._step)
    return inspect.getsource(module.VERSIONS["before"][0])


def diff_of(story: Story, done: Done, change: str) -> str:
    """What a change changes: lines of code, and what is given at the launch."""
    module = module_of(story)
    if story.gain == "program":
        return _diff(*map(inspect.getsource, module.CHANGES[change]))
    names = (done[-1] if done else "before", change)
    return _diff(*(_version(module, name) for name in names))


def _version(module: Any, name: str) -> str:
    function, given = module.VERSIONS[name]
    text = inspect.getsource(function)
    return f"{text}\nlaunched with {given}\n" if isinstance(given, dict) else text


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), n=1, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


# -- texts without this machine


def plain(text: str) -> str:
    """A text whose files of this repository are relative to it, and others without folders."""
    return _FOLDERS.sub("", text.replace(f"{ROOT}/", ""))


def _plain_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_all(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain_all(each) for each in value]
    return plain(value) if isinstance(value, str) else value
