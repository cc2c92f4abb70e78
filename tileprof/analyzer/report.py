"""From a profile to findings in order.

In: a profile.  Out: `Report`: findings with their gains, the greatest for the program first, then
what was seen without a cause, warnings, and what is to be left as it is; for each kernel all
changes together; the kinds of evidence that there were, and which run would add one.

A gain is told only where time was measured, is no more than the device's measured roofs allow, and
no less than the noise of a measurement. Gains are never added up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from tileprof.analyzer.account import Account, account
from tileprof.analyzer.calibrated import stretched
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, KernelRule, ProgramRule
from tileprof.analyzer.estimates import (
    Saving,
    Weights,
    capped,
    drawn,
    gain_of,
    likely_capped,
    of_program,
    united,
    widened,
)
from tileprof.analyzer.findings import (
    TIERS,
    Evidence,
    Finding,
    Gain,
    Severity,
    Tier,
    duration,
    percent,
)
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import sampled_share
from tileprof.analyzer.numbers.reports import (
    NOISE,
    REPORT_LEAST_OF_KERNEL,
    REPORT_LEAST_OF_PROGRAM,
    REPORT_LEAST_SEEN,
    REPORT_LEAST_SHARE,
    REPORT_LEAST_SLACK,
    REPORT_LIKELY_OF_ROOF,
)
from tileprof.analyzer.numbers.shared import FEWEST_SAMPLES
from tileprof.analyzer.rules import KERNEL_RULES, PROGRAM_RULES
from tileprof.analyzer.together import Claim
from tileprof.analyzer.unexplained import unexplained
from tileprof.profile import Profile, without_native_libraries
from tileprof.profile.tree.cards import Card

_ORDER: tuple[Severity, ...] = ("suggestion", "symptom", "warning", "stop", "ignore")
_LEFT_OUT = ("redundant-work", "redundant-traffic", "wasted-lanes", "needless-pass")
"""Rules about work that nothing needs."""
_RUNS: dict[Tier, str] = {
    "static": "`tileprof run SCRIPT` on a GPU: records kernels with the compiler's remarks",
    "activities": "`tileprof run SCRIPT` on a GPU: times launches",
    "scopes": "`tileprof run --instrument sample SCRIPT`: time of each part of a tile kernel",
    "samples": "`tileprof run --pc-sampling SCRIPT`: which instructions wait, and for what",
    "counters": "`tileprof run --metrics memory,tensor,occupancy SCRIPT`: bytes, hit rates and"
    " tensor cores of each kernel; or `--metrics instructions`: how often each instruction ran",
}
_SLACK = (
    "passes before a late launch, and the host does not wait for it: if it were shorter, the device"
    " would only wait longer for that launch"
)
_WITH_KERNELS = "`tileprof run SCRIPT` on a GPU: records kernels and times their launches"
_ON_A_GPU = "`tileprof run SCRIPT` on a GPU: on a CPU, instructions are neither sampled nor counted"


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """A kernel with what was found about it."""

    case: KernelCase
    findings: tuple[Finding, ...]
    together: Gain | None
    """Of all suggestions, each sample taken away once; None for fewer than two."""

    def __repr__(self) -> str:
        return f"Answers({self.case}, {len(self.findings)} findings)"

    def _repr_html_(self) -> str:
        """Return the kernel, its time and its first findings as a notebook shows them."""
        case = self.case
        launches = f"{case.launches:,} launch{'es' * (case.launches != 1)}"
        time = f"{duration(case.time)} in {launches}, {percent(case.share)} of kernel time"
        gain = f"all suggestions together: {self.together}" if self.together else ""
        facts = [time if case.time else f"{launches}, not timed", gain]
        more = "All of it: .findings, each with .text()."
        return Card(
            f"Kernel {case.name}", list(filter(None, facts)), _rows(self.findings), more
        ).html()


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What an analysis found; its `repr` is a summary, `text()` has every finding."""

    program: Program
    findings: tuple[Finding, ...]
    """In order of use."""
    kernels: tuple[Answers, ...]
    """The longest first; those that take little of the time are left out."""
    runs: tuple[tuple[Tier, str, tuple[str, ...]], ...]
    """Kinds of evidence that there were not, the run that adds each, and the rules that it would
    make surer."""
    account: Account | None = None
    """Where the time of devices went; None where none was timed."""

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The kinds of evidence that there were."""
        return self.program.tiers

    def __repr__(self) -> str:
        return _card(self).text()

    def _repr_html_(self) -> str:
        """Return the summary as a notebook shows it."""
        return _card(self).html()

    def text(self) -> str:
        """Return all findings as plain text: what, where, why, what to do."""
        return "\n\n".join(each.text() for each in self.findings) or "Nothing was found."


def _card(report: Report) -> Card:
    """What was analysed, and the first findings."""
    program = report.program
    command = program.profile.tables.provenance.get("command", "")
    kernels = f"{len(program.kernels)} kernel{'s' * (len(program.kernels) != 1)}"
    counts = Counter(each.severity for each in report.findings)
    facts = [
        f"{kernels}, {duration(program.kernel_time)}"
        if program.kernel_time
        else f"{kernels}, host {duration(program.host.total)}",
        ", ".join(f"{severity}: {count}" for severity, count in counts.items()) or "no findings",
    ]
    rows = _rows(report.findings)
    more = "All of it: .text(), .findings, .kernels, or `tileprof report FILE`."
    return Card(f"Report on {command}" if command else "Report", facts, rows, more)


def _rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    return [(each.severity, str(each.program_gain or ""), each.title) for each in findings]


@dataclass(frozen=True)
class Fault:
    """A rule that raised an exception: a fault of tileprof."""

    rule: str
    kernel: str
    """Kernel on which it failed; empty for a rule about the whole program."""
    error: Exception


def analyze(profile: Profile, *, faults: list[Fault] | None = None) -> Report:
    """Return a report: where a profile's time goes, why, what to change, and the expected gain.

    `report.findings` has the findings, most useful first, each with `severity`, `title`, `place`,
    `evidence`, `program_gain` and advice. `report.text()` is the whole report as text. No GPU is
    needed.

        for finding in tileprof.analyze(tileprof.load("run.tprof")).findings:
            print(finding.severity, finding.title, finding.program_gain)

    Args:
        profile: of the program.
        faults: where rules that raise an exception are noted, which the report then leaves out.
            Without it, the exception of a rule is raised.
    """
    program = Program(without_native_libraries(profile))
    tree = Contexts(program)
    answers = [
        _answers(case, tree, faults)
        for case in program.kernels
        if case.share >= REPORT_LEAST_SHARE or not case.time
    ]
    claims = [_claim(found, each.case, tree) for each in answers for found in each.findings]
    of_kernels = len(claims)
    for rule in PROGRAM_RULES:
        for draft in _drafts(rule.name, partial(rule.find, program), "", faults):
            claims += _of_program(rule.name, draft, tree)
    # Leads of rules about programs, for which no kernel needs a finding of its own.
    leads = [each.nodes for each in claims[of_kernels:] if each.finding.severity == "symptom"]
    claims.sort(key=lambda each: _rank(each.finding))
    told = [each for each in claims if each.finding.severity == "suggestion" or each.of_work]
    held = account(tree, told)
    more = [] if held is None else unexplained(held, frozenset(chain.from_iterable(leads)))
    findings = tuple(sorted((*(each.finding for each in claims), *more), key=_rank))
    return Report(program, findings, tuple(answers), tuple(_runs(program, findings)), held)


def _drafts(
    rule: str, find: Callable[[], Iterator[Draft]], kernel: str, faults: list[Fault] | None
) -> list[Draft]:
    """Return what a rule finds; where it fails and faults are noted, nothing."""
    try:
        return [*find()]
    except Exception as error:
        if faults is None:
            raise
        faults.append(Fault(rule, kernel, error))
        return []


def _answers(case: KernelCase, tree: Contexts, faults: list[Fault] | None) -> Answers:
    found: list[tuple[Finding, Saving | None]] = []
    drafts = [
        (rule.name, draft)
        for rule in KERNEL_RULES
        for draft in _drafts(rule.name, partial(rule.find, case), case.name, faults)
    ]
    known = [each.saving.mid for _, each in drafts if each.known and each.saving is not None]
    sure = max(known, default=0.0)
    for name, draft in _after_others(case, drafts):
        found += ((finding, draft.saving) for finding in _of_kernel(name, draft, case, tree, sure))
    savings = [saving for each, saving in found if saving is not None and each.kernel_gain]
    together = None
    if len(savings) > 1:
        whole = case.sampled.whole if case.sampled else 0
        gain = gain_of(united(savings, whole, partial(_drawn, case)))
        together = capped(widened(gain), case.roofs.most_gain)
    return Answers(case, tuple(sorted((finding for finding, _ in found), key=_rank)), together)


def _after_others(case: KernelCase, drafts: list[tuple[str, Draft]]) -> Iterator[tuple[str, Draft]]:
    """The drafts, those that come after others with what the largest of these leaves."""
    others = [
        capped(gain_of(_drawn(case, each.saving)), each.most).mid
        for _, each in drafts
        if each.severity == "suggestion" and each.saving is not None and not each.after_others
    ]
    most = max(others, default=1.0)
    for name, draft in drafts:
        saving = draft.saving
        if draft.after_others and saving is not None and most > 1:
            mid = max(0.0, 1 - (1 - saving.mid) * most)
            saving = Saving(min(saving.low, mid), mid, saving.high, samples=saving.samples)
            draft = replace(draft, saving=saving)
        yield name, draft


def _of_kernel(
    rule: str, draft: Draft, case: KernelCase, tree: Contexts, sure: float
) -> Iterator[Finding]:
    """The finding; nothing where its gain is noise. `sure` is what goes with causes whose cost is
    known by itself."""
    saving = draft.saving
    few = saving is not None and saving.rows is not None and saving.samples < FEWEST_SAMPLES
    if saving is None or few or not case.time:
        yield _finding(rule, draft, None, None)
        return
    beside = 0.0 if draft.known or draft.after_others else sure
    most_gain = case.roofs.most_gain
    gain = capped(gain_of(_drawn(case, saving, beside)), min(draft.most, most_gain))
    gain = likely_capped(gain, REPORT_LIKELY_OF_ROOF * most_gain)
    seen = saving.mid >= REPORT_LEAST_SEEN
    least = NOISE if draft.known else REPORT_LEAST_OF_KERNEL
    most = of_program(gain, case.of_steps).high
    if seen and gain.mid >= least and most >= REPORT_LEAST_OF_PROGRAM:
        told = capped(stretched(widened(gain), draft.evidence), most_gain)
        exposed = tree.exposed(case.nodes, _of_work(case, told) * tree.steps.time)
        part = case.of_steps * case.program.share_of_devices
        in_program = _exposed(of_program(told, part), exposed)
        yield _finding(rule, draft, told, in_program)


def _after(saving: Saving, gone: float) -> Saving:
    """What is left of a saving where a share of the time is gone already."""
    mid = min(saving.mid, max(0.0, 1 - (1 - saving.mid) / (1 - gone)))
    return replace(saving, low=min(saving.low, mid), mid=mid)


def _drawn(case: KernelCase, saving: Saving, sure: float = 0.0) -> Saving:
    """What is told by samples, by what they leave to gain, without what is `sure` to go by causes
    of another kind; its own samples at least.  Samples are of one launch."""
    if saving.rows is None:
        return _after(saving, sure)
    told, part = _told(case, saving, saving.rows, sure), sampled_share(case)
    return told if part >= 1 else replace(
        told, low=part * told.low, mid=part * told.mid, high=part * told.high
    )  # fmt: skip


def _told(case: KernelCase, saving: Saving, rows: Weights, sure: float) -> Saving:
    left = reach.left(case, rows)
    if left is None:
        return _after(saving, sure)
    if not sure:
        return drawn(saving, left)
    own = min(saving.mid, left.mid)
    low, middle, high = (max(0.0, each - sure) for each in (left.low, left.mid, left.high))
    beside = drawn(saving, Saving(low, middle, high))
    mid = max(own, beside.mid)
    return Saving(min(beside.low, mid), mid, max(mid, left.high), saving.rows, saving.samples)


def _claim(found: Finding, case: KernelCase, tree: Contexts) -> Claim:
    gain = found.kernel_gain
    of_work = _of_work(case, gain) if gain and gain.mid > 1 else None
    exposed = tree.exposed(case.nodes, (of_work or 0.0) * tree.steps.time)
    return Claim(found, case.nodes, of_work=of_work, exposed=exposed)


def _of_work(case: KernelCase, gain: Gain) -> float:
    """Share of the devices' time in steps, 0 to 1, that goes where a kernel gains as much."""
    return case.of_steps * (1 - 1 / gain.mid)


def _of_program(rule: str, draft: Draft, tree: Contexts) -> Iterator[Claim]:
    """The finding, with the time that it is about; nothing where its gain is noise."""
    saving, only_host = draft.saving, tree.program.only_host
    if saving is None:
        yield Claim(_finding(rule, draft, None, None, only_host), draft.nodes, draft.gaps)
        return
    if capped(gain_of(saving), draft.most).mid < NOISE:
        return
    of_work = saving.mid - saving.gaps if draft.nodes else None
    saved = (of_work or 0.0) * tree.unrecorded_time
    exposed = sure = 1.0 if draft.exposed is None else draft.exposed
    if not draft.launches_go:
        exposed, sure = tree.exposed(draft.nodes, saved), tree.exposed_recorded(draft.nodes)
    if 1 - exposed >= REPORT_LEAST_SLACK:
        slack = Evidence("activities", f"of their time, {percent(1 - exposed, 0)} {_SLACK}")
        draft = replace(draft, evidence=(*draft.evidence, slack))
    seen = _without_slack(saving, exposed, sure)
    if draft.nodes and not draft.launches_go:
        seen = _beside_host(seen, tree)
    gain = capped(gain_of(seen), draft.most)
    gain = of_program(gain, tree.program.share_of_devices)
    if gain.mid >= NOISE:
        found = _finding(rule, draft, None, gain, only_host)
    else:
        found = _finding(rule, _of_slack(draft), None, None, only_host)
    yield Claim(
        found, draft.nodes, draft.gaps, saving.gaps, of_work, exposed, draft.launches_go
    )  # fmt: skip


def _beside_host(saving: Saving, tree: Contexts) -> Saving:
    """Return a saving of kernels that likely leaves a step no shorter than the host's work for it.

    No gap goes by faster kernels, so those of the saving stay beside that.
    """
    left = tree.host_least / tree.unrecorded_time if tree.unrecorded_time else 0.0
    mid = min(saving.mid, saving.gaps + max(0.0, 1 - left))
    low = saving.low * mid / saving.mid if saving.mid else 0.0
    return replace(saving, low=low, mid=mid)


def _without_slack(saving: Saving, exposed: float, sure: float) -> Saving:
    """Return the saving with the `exposed` part of the kernels' time alone, and all of the gaps.

    At most all of that time counts, for without a recording launches are less late. At least the
    mean of that part and of `sure` does, the part that the recording shows to be no slack: how much
    faster the host is without it is an estimate.
    """
    work = saving.mid - saving.gaps
    mid = saving.gaps + work * exposed
    least = saving.gaps + work * min(exposed, (exposed + sure) / 2)
    low = saving.low * least / saving.mid if saving.mid else 0.0
    return replace(saving, low=low, mid=mid)


def _exposed(gain: Gain, exposed: float) -> Gain:
    """The gain of a program of whose saved time that part counts; all of it at most."""
    low, mid = (1 / (1 - exposed * (1 - 1 / each)) for each in (gain.low, gain.mid))
    return Gain(low, mid, gain.high)


def _of_slack(draft: Draft) -> Draft:
    """Return the draft of a finding about work that the program does not wait for."""
    return replace(
        draft, severity="ignore", title=f"{draft.title}, but the program waits for the host",
        author=f"Leave it until launches are in time. Then: {draft.author}", compiler="",
    )  # fmt: skip


def _finding(
    rule: str, draft: Draft, kernel: Gain | None, program: Gain | None, host: bool = False
) -> Finding:
    severity, evidence = draft.severity, draft.evidence
    if host:
        # What a rule knows of launches is there the time of the host's operations and lines.
        evidence = tuple(
            replace(each, tier="host") if each.tier == "activities" else each for each in evidence
        )
    if severity == "suggestion" and kernel is None and program is None:
        severity = "warning"  # a cause that nothing was measured of, or by too few samples
    return Finding(
        rule, severity, draft.title, draft.place, evidence, draft.author, draft.compiler,
        draft.confidence, kernel, program, () if severity in ("stop", "ignore") else draft.fixes,
    )  # fmt: skip


def _rank(finding: Finding) -> tuple[int, float, float, bool]:
    """Return what findings are sorted by; of two that a roof caps alike, work that could be left
    out comes before how it is done."""
    program = finding.program_gain.mid if finding.program_gain else 0.0
    kernel = finding.kernel_gain.mid if finding.kernel_gain else 0.0
    return _ORDER.index(finding.severity), -program, -kernel, finding.rule not in _LEFT_OUT


def _runs(
    program: Program, findings: Sequence[Finding]
) -> Iterator[tuple[Tier, str, tuple[str, ...]]]:
    named = {finding.rule for finding in findings if finding.severity in ("warning", "symptom")}
    rules: tuple[KernelRule | ProgramRule, ...] = (*KERNEL_RULES, *PROGRAM_RULES)
    runs = dict(_RUNS)
    if program.kernels and all(case.device == "cpu" for case in program.kernels):
        del runs["counters"]
        runs["samples"] = _ON_A_GPU
    if _has_gpu_library(program) and not any(case.ir for case in program.kernels):
        del runs["scopes"]  # parts of kernels are timed that tileprof compiles
    if program.only_host:
        # What looks into kernels tells nothing of a program that ran none.
        runs = {"activities": _WITH_KERNELS} if _has_gpu_library(program) else {}
    for tier in TIERS:
        if tier in runs and tier not in program.tiers:
            surer = [rule.name for rule in rules if tier in rule.sharper and rule.name in named]
            yield tier, runs[tier], tuple(surer)


def _has_gpu_library(program: Program) -> bool:
    """Tell whether a program has a library with GPU kernels of its own."""
    profile = program.profile
    files = {place.file for symbol in profile.symbols if (place := symbol.location) is not None}
    return bool(
        _GPU_LIBRARIES & profile.tables.provenance.keys()
        or any(_OF_GPU_LIBRARIES.search(file) for file in files)
        or "op" in profile.kinds
    )


_GPU_LIBRARIES = frozenset({"torch", "triton", "jax"})
"""Keys of the provenance that name the version of a library that runs on GPUs."""
_OF_GPU_LIBRARIES = re.compile(r"(^|[/\\])(torch|jax|cupy|tensorflow|numba|triton)[/\\]")
