"""What people see of a report: golden texts, what fits a screen, both voices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analyzer.made import Made, only, program, stored
from tests.analyzer.reports import finding, recorded, report_with, three_rules
from tests.analyzer.test_fusion import activation
from tests.analyzer.test_spills import HOT, WAITS
from tileprof.analyzer import Place, Report, analyze
from tileprof.analyzer.rules import KERNEL_RULES, PROGRAM_RULES
from tileprof.analyzer.unexplained import FAR, UNKNOWN
from tileprof.errors import Location, UsageError
from tileprof.profile import Tables, TreeBuilder, merge
from tileprof.viewer.findings import ReportOptions, Voice, render_reports
from tileprof.viewer.text import width_of

PAGE = Path(__file__).parents[2] / "docs" / "report.md"
STYLE = re.compile(r"\x1b\[[\d;]*m")
ALL = (
    finding("suggestion", "b", gain=1.5), finding("symptom", "c"), finding("warning", "d"),
    finding("stop", "e"), finding("ignore", "f"),
)  # fmt: skip


def text_of(*reports: Report, width: int = 100, unicode: bool = True, **options: object) -> str:
    """The text of reports called `0.tprof`, `1.tprof`, …"""
    named = {f"{number}.tprof": each for number, each in enumerate(reports)}
    chosen = ReportOptions(**options)  # type: ignore[arg-type]
    return render_reports(named, chosen, width=width, unicode=unicode)


@pytest.mark.parametrize("name", ["h200-stalls", "h200-gemm"])
@pytest.mark.parametrize("voice", ["author", "compiler"])
def test_a_recording(golden: Callable[..., None], name: str, voice: Voice) -> None:
    """Of a GPU, in 100 columns."""
    golden(text_of(recorded(name), voice=voice))


def test_a_narrow_plain_terminal(golden: Callable[..., None]) -> None:
    """40 columns of ASCII."""
    text = text_of(recorded("h200-stalls"), width=40, unicode=False)
    assert text.isascii()
    golden(text)


def test_every_severity_says_what_it_means(golden: Callable[..., None]) -> None:
    """Where there is no gain, why there is none; all together; the run that makes one surer."""
    golden(text_of(report_with(*ALL), height=100))


def test_the_compiler_sees_all_profiles_at_once(golden: Callable[..., None]) -> None:
    """A cause of two kernels is one entry; a reason that differs in a number is one row."""
    first = report_with(finding("suggestion", "b", gain=1.5))
    second = report_with(finding("suggestion", "b", "softmax", gain=3.0), kernel="softmax", row=72)
    golden(text_of(first, second, voice="compiler"))


def test_the_page_has_this_report(calibrated_intervals: None) -> None:
    """docs/report.md shows what users see of the recording, with calibrated intervals."""
    held = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    report = analyze(stored("h200-stalls"))
    assert held[0] == text_of(report, include="spill-hot|bank-conflict")


def test_the_page_has_all_rules() -> None:
    """Each once, and none that there is not."""
    (table,) = re.findall(r"^## Rules\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    told = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    names = [rule.name for rule in KERNEL_RULES] + [rule.name for rule in PROGRAM_RULES]
    names += [FAR, UNKNOWN]
    assert sorted(told) == sorted(names)


@pytest.mark.parametrize("voice", ["author", "compiler"])
@pytest.mark.parametrize("height", [24, 40, 60])
def test_it_fits_a_screen(voice: Voice, height: int) -> None:
    """The first ones stand there, the others are counted; with -i there are all."""
    many = [finding("suggestion", f"rule-{n}", gain=2 - n / 20) for n in range(12)]
    report = report_with(*many, *(finding("warning", f"more-{n}") for n in range(3)))
    lines = text_of(report, voice=voice, height=height).splitlines()
    titles = [line for line in lines if line.startswith("suggestion: ")]
    assert len(lines) < height
    assert [each.split()[2] for each in titles] == [f"`rule-{n}`" for n in range(len(titles))]
    assert titles
    assert any(line.startswith(f"{15 - len(titles)} more") for line in lines)
    everything = text_of(report, voice=voice, height=height, include=".").splitlines()
    assert sum(" (rule-" in line or " (more-" in line for line in everything) == 15


def test_suggestions_that_do_not_fit_are_named_with_their_gains() -> None:
    """A line each, no more than five of them and than there is room; symptoms too, and warnings
    are counted alone."""
    symptom, warning = finding("symptom", "lead"), finding("warning", "more")
    few = text_of(report_with(finding("suggestion", gain=2), symptom, warning), height=5)
    assert "also " not in few
    low = text_of(report_with(finding("suggestion", gain=2), symptom, warning), height=22)
    assert [line for line in low.splitlines() if line.startswith("also ")] == [
        "also symptom, lead: what `lead` is about"
    ]
    many = [finding("suggestion", f"rule-{n}", gain=2 - n / 20) for n in range(12)]
    report = report_with(*many, warning)
    for height, most in ((24, 3), (40, 5)):
        lines = text_of(report, height=height).splitlines()
        shown = sum(line.startswith("suggestion: ") for line in lines)
        named = [line.split(",")[1].split(":")[0] for line in lines if line.startswith("also ")]
        assert named == [f" rule-{n}" for n in range(shown, shown + len(named))]
        assert 0 < len(named) <= most


def test_one_finding_is_shown_on_any_screen() -> None:
    """However low."""
    text = text_of(report_with(*ALL), height=5)
    assert "suggestion: " in text
    assert "4 more: 1 symptom, 1 warning, 1 at its limit, 1 to ignore; see them with -i RE" in text


@pytest.mark.spread
@pytest.mark.parametrize("voice", ["author", "compiler"])
@pytest.mark.parametrize("width", [40, 57, 80, 133])
def test_lines_are_no_wider_than_asked(voice: Voice, width: int) -> None:
    """Also with characters that are two cells wide."""
    wide = finding("suggestion", "b", "核函数" * 30, gain=1.5)
    for report in (report_with(*ALL, wide, kernel="核函数" * 30), recorded("h200-gemm")):
        text = text_of(report, width=width, voice=voice)
        assert max(map(width_of, text.splitlines())) <= width


@pytest.mark.parametrize("voice", ["author", "compiler"])
def test_colours_change_nothing_else(voice: Voice) -> None:
    """Without them it is the same text."""
    reports, options = {"x.tprof": report_with(*ALL)}, ReportOptions(voice)
    colored = render_reports(reports, options, color=True)
    assert colored != STYLE.sub("", colored) == render_reports(reports, options)


def test_names_cannot_command_the_terminal() -> None:
    """Whatever a kernel is called."""
    report = report_with(finding("warning", kernel="\x1b[2Jk\n"), kernel="\x1b[2Jk\n")
    assert "\x1b" not in text_of(report, voice="author") + text_of(report, voice="compiler")


@pytest.mark.parametrize("voice", ["author", "compiler"])
def test_nothing_was_recorded(voice: Voice) -> None:
    """It says so, and which runs there are."""
    empty = TreeBuilder().snapshot(Tables())
    text = text_of(analyze(empty), voice=voice)
    assert ("nothing was recorded" if voice == "author" else "No kernel ran") in text
    assert "`tileprof run SCRIPT` on a GPU" in text
    assert "No kernel ran" in text_of(analyze(program()), voice=voice)


def test_nothing_was_found() -> None:
    """Which kernels there were, what was seen of them, and what would tell more."""
    with three_rules():
        near = program(Made(metrics={"bytes": 8e8}), peaks={"hbm_copy": 1e12})
        text = text_of(analyze(near))
    assert "1 kernel, 1.00 ms: no optimisation found." in text
    assert "`tileprof run --pc-sampling SCRIPT`" in text


def test_what_is_not_the_compilers_doing_is_counted() -> None:
    """And who is told of it."""
    with three_rules():
        at_roof = analyze(program(Made(metrics={"bytes": 9.5e8}), peaks={"hbm_copy": 1e12}))
    assert [each.severity for each in at_roof.findings] == ["stop"]
    text = text_of(at_roof, voice="compiler")
    assert "no finding. 1 with other causes is shown by --for author." in text
    assert "stop: " not in text


def test_long_names_give_way() -> None:
    """Of kernels in C++ arguments and namespaces; of a path what is above its end."""
    name = "void at::native::elementwise_kernel<4, at::native::Fill<float>, char*>(int, char*)"
    text = text_of(report_with(finding("warning", kernel=name), kernel=name))
    assert "where    elementwise_kernel<4, Fill<float>, char*>, copy A" in text
    deep = replace(ALL[1], place=Place(path=tuple("abcdef")))
    assert "where    … → c → d → e → f\n" in text_of(report_with(deep))
    called = replace(ALL[1], place=Place(path=("f", "b: Conv2d", *(f"aten::{n}" for n in "xyz"))))
    assert "where    f → b: Conv2d → aten::x → aten::z\n" in text_of(report_with(called))
    assert "where    the program\n" in text_of(report_with(replace(deep, place=Place())))


def test_runs_are_of_what_matches() -> None:
    """Not of findings that are not shown."""
    report = report_with(*ALL)
    assert "would confirm: b" in text_of(report, include="^b$")
    assert "would confirm" not in text_of(report, include="^c$")


def test_those_that_match() -> None:
    """By kernel, path or rule, in whichever profile; nothing at all is an error."""
    first, second = report_with(ALL[0]), report_with(finding("symptom", "c", "softmax"), kernel="k")
    for include in ("softmax", "^c$", "soft"):
        text = text_of(first, second, include=include)
        assert "0.tprof" not in text
        assert "symptom: " in text
    assert text_of(first, second, include="^step$").count("where") == 2
    with pytest.raises(UsageError, match="The longest kernels are: matmul, k"):
        text_of(first, second, include="nothing")


def test_kernels_that_a_finding_of_the_program_covers_are_not_silent() -> None:
    """Six kernels to fuse; two products of which nothing is said."""
    text = text_of(analyze(activation().profile()))
    assert "No optimisation found for 1 kernel (25.0 % of kernel time)." in text


@pytest.mark.parametrize(
    ("device", "ran", "said"),
    [
        ("cpu", "60.0 s", "1 kernel, 60.0 ms (0.1 % of the 60.0 s that the program ran): "),
        ("cpu", "0.1 s", "1 kernel, 60.0 ms: "),
        ("cuda:0", "60.0 s", "1 kernel, 60.0 ms: "),
    ],
)
def test_a_report_says_which_part_of_a_run_kernels_on_a_cpu_took(
    device: str, ran: str, said: str
) -> None:
    """Where it is little, gains are of little; the rest of a GPU's time is in its account."""
    profile = program(Made(time=60e6, device=device))
    profile = replace(profile, tables=replace(profile.tables, provenance={"duration": ran}))
    assert said in render_reports({"a": analyze(profile)}, ReportOptions(), width=120)


@pytest.mark.parametrize(("device", "least", "most"), [("cpu", 1, 1.01), ("cuda:0", 1.5, 2)])
def test_gains_of_kernels_on_a_cpu_are_of_the_hosts_time_too(
    device: str, least: float, most: float
) -> None:
    """A kernel of 1 ms beside 99 ms of the host's other work gains the program next to nothing."""
    profile = program(Made(code=HOT, blames=WAITS, device=device))
    work = TreeBuilder()
    work.add(
        work.child(-1, "frame", "work", Location("a.py", 1, function="work")), "cpu_time", 99e6
    )
    gain = only(merge([profile, work.snapshot()]), "spill-hot").program_gain
    assert gain is not None
    assert least <= gain.mid <= most
