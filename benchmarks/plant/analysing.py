"""From the profiles of a case to a row: what is said of each twin, and how long that took.

In: the folder that `measure` filled.  Out: a row of the results: truth, findings, sizes. No GPU is
needed, so kept profiles can be read again after a change of the rules.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tileprof.analyzer import Finding, analyze
from tileprof.analyzer.findings import TIERS
from tileprof.analyzer.rules import KERNEL_RULES
from tileprof.profile import PcSamples, Profile, load, merge

from .triton_pairs import TritonCase
from .twins import Case

__all__ = ["analysed", "without_controls"]

_RULES = frozenset(rule.name for rule in KERNEL_RULES)
_RAN = "selected"
_CONTROLS = re.compile(r"^// controls:.*$", re.MULTILINE)


def analysed(case: Case | TritonCase, split: str, folder: Path) -> dict[str, Any]:
    """The row of a case."""
    truth = json.loads((folder / "row.json").read_text())
    twins = {twin: _twin(case, folder, twin) for twin, _ in case.twins()}
    return {**described(case, split), **truth, "twins": twins}


def described(case: Case | TritonCase, split: str) -> dict[str, Any]:
    """What is known before it ran."""
    return {
        "case": case.name, "split": split, "kind": case.kind, "family": case.family,
        "rules": list(case.rules), "defect": case.defect, "also": list(case.also),
        "guilty": list(case.guilty), "why": case.why, "controls": dict(case.controls),
    }  # fmt: skip


def _twin(case: Case | TritonCase, folder: Path, twin: str) -> dict[str, Any]:
    path = folder / f"{twin}.tprof"
    profile = without_controls(load(path))
    counts = folder / f"{twin}-counts.tprof"
    began = time.perf_counter()
    findings = analyze(profile).findings
    took = time.perf_counter() - began
    static = replace(profile, tables=replace(profile.tables, pc=PcSamples()))
    found: dict[str, Any] = {
        "findings": [_plain(each, case.functions) for each in findings],
        "static": [_plain(each, case.functions) for each in analyze(static).findings],
        "analysis_s": took,
        "profile_bytes": path.stat().st_size,
        "ops": sorted(_ops(profile, case)),
        "samples": int(profile.tables.pc.counted.sum()),
        "largest_stall": _largest_stall(profile),
    }
    if counts.exists():
        joined = merge([profile, without_controls(load(counts))]).tables.pc
        both = replace(profile, tables=replace(profile.tables, pc=joined))
        found["with_counts"] = [_plain(each, case.functions) for each in analyze(both).findings]
    return found


def _ops(profile: Profile, case: Case | TritonCase) -> set[str]:
    """What remarks call the ops of the lines where the defect is."""
    remarks = [remark for kernel in profile.tables.kernels for remark in kernel.remarks]
    return {each.subject for each in remarks if each.location and each.location.line in case.guilty}


def without_controls(profile: Profile) -> Profile:
    """The profile as if nothing had been forced: rules must not read how a defect was planted."""
    kernels = tuple(
        replace(
            each,
            attributes={k: v for k, v in each.attributes.items() if k != "controls"},
            code=_CONTROLS.sub("//", each.code),
        )
        for each in profile.tables.kernels
    )
    return replace(profile, tables=replace(profile.tables, kernels=kernels))


def _plain(finding: Finding, kernels: tuple[str, ...]) -> dict[str, Any]:
    """A finding as JSON. Kernel rules' count that are about this kernel or about none, and of rules
    that look at the whole program each suggestion for this kernel.  Gaps between launches are
    those of the program that measures."""
    place, gain = finding.place, finding.kernel_gain or finding.program_gain
    own = finding.rule in _RULES and place.kernel in ("", *kernels)
    together = finding.severity == "suggestion" and place.kernel in kernels
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "title": finding.title,
        "op": place.op,
        "line": place.location.line if place.location else 0,
        "counts": own or together,
        "gain": [gain.low, gain.mid, gain.high] if gain else None,
        "confidence": finding.confidence,
        "evidence": _sharpest(finding),
    }


def _sharpest(finding: Finding) -> str:
    """Return the kind of evidence that says most of what a change would bring."""
    kinds = {each.tier for each in finding.evidence}
    return next((kind for kind in reversed(TIERS) if kind in kinds), "static")


def _largest_stall(profile: Profile) -> float:
    """The share of the samples that the most frequent stall reason has."""
    held, stalls = profile.tables.pc, Counter[str]()
    for stall, n in zip(held.rows.stall.tolist(), held.counted.tolist()):
        stalls[held.stalls[stall]] += n
    whole = stalls.total()
    del stalls[_RAN]
    return max(stalls.values(), default=0) / whole if whole else 0.0
