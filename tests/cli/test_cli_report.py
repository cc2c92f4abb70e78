"""`tileprof report`: findings in a terminal and as JSON."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import Made, program
from tileprof.agent.tools import Tools
from tileprof.analyzer import analyze, report
from tileprof.analyzer.drafts import KernelRule
from tileprof.analyzer.rules import KERNEL_RULES
from tileprof.profile import load, save
from tileprof.tui.details import Details
from tileprof.viewer.text import UNICODE

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def recordings(folder: Path) -> tuple[str, str]:
    """Two of a GPU."""
    for name in ("h200-stalls", "h200-gemm"):
        shutil.copy(DATA / f"{name}.tprof", folder)
    return "h200-stalls.tprof", "h200-gemm.tprof"


def test_one_profile(cli: Any, recordings: tuple[str, str]) -> None:
    """What was analysed, findings, plain in a pipe."""
    found = cli("report", recordings[0], "-i", "spill-hot")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("tests/native/keep_pc_samples.py kept, cuda:0 (NVIDIA H200)\n")
    assert "(spill-hot)\n  where    spilled, kernels.cu:18" in found.out
    assert "\x1b" not in found.out


def test_several_profiles(cli: Any, recordings: tuple[str, str]) -> None:
    """Each for itself; for the compiler all together."""
    each = cli("report", *recordings)
    lines = each.out.splitlines()
    assert [line for line in lines if line in recordings] == list(recordings)
    together = cli("report", *recordings, "--for", "compiler", "-i", ".")
    assert (each.code, together.code) == (0, 0)
    assert "17 kernels of 2 profiles" in together.out
    assert "occupancy: not 2 blocks" in together.out
    assert "do       The allocator ran out of registers" in together.out


def test_rule_that_fails_costs_its_own_findings_alone(
    cli: Any, recordings: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is written without it; without a list for faults, its exception is raised."""
    before = cli("report", recordings[0], "--json")
    spilling = {each["place"]["kernel"] for each in json.loads(before.out)["findings"]
                if each["rule"] == "spill-hot"}  # fmt: skip

    def fail(case: Any) -> Iterator[Any]:
        if case.name in spilling:
            raise AssertionError("two\nlines")
        return iter(())

    failing = (*(each for each in KERNEL_RULES if each.name != "spill-hot"),
               KernelRule("spill-hot", fail))  # fmt: skip
    monkeypatch.setattr(report, "KERNEL_RULES", failing)
    after = cli("report", recordings[0], "--json")
    line = after.err.splitlines()[0]
    assert after.code == 1
    assert line.startswith(
        "tileprof: rule spill-hot failed on kernel spilled (AssertionError two l"
    )
    assert "at test_cli_report.py:" in line
    assert line.endswith("Please report it, with this line.")
    assert {each["rule"] for each in json.loads(after.out)["findings"]} == {
        each["rule"] for each in json.loads(before.out)["findings"]} - {"spill-hot"}  # fmt: skip
    with pytest.raises(AssertionError, match="two"):
        analyze(load(recordings[0]))
    file = Path(recordings[0])
    assert "Not complete: rule spill-hot failed on" in Tools(file.parent).report(file.name)
    sheet = Details(load(file), UNICODE, color=False).report(0, 100)
    assert sheet.lines[0].startswith("rule spill-hot failed on kernel spilled")


def test_json_is_a_line_for_a_file(cli: Any, recordings: tuple[str, str]) -> None:
    """In order, also of those in which nothing matches."""
    found = cli("report", *recordings, "--json", "-i", "^spill")
    documents = [json.loads(line) for line in found.out.splitlines()]
    assert (found.code, found.err) == (0, "")
    assert "spill-hot" in {each["rule"] for each in documents[0]["findings"]}
    assert {each["place"]["kernel"] for each in documents[0]["findings"]} == {"spilled"}
    assert [each["name"] for each in documents[0]["kernels"]] == ["spilled"]
    assert (documents[1]["findings"], documents[1]["kernels"]) == ([], [])


def test_a_program_without_a_gpu(cli: Any, sample: str) -> None:
    """There is what to run."""
    found = cli("report", sample)
    assert (found.code, found.err) == (0, "")
    assert "tileprof run --pc-sampling" in found.out


@pytest.mark.spread(without=["(-'(' is not a regular expression"])
@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("nothing", "no kernel, path or rule matches `nothing`\nThe longest kernels are: "),
        ("(", "'(' is not a regular expression"),
    ],
)
def test_what_matches_nothing(
    cli: Any, recordings: tuple[str, str], pattern: str, sentence: str
) -> None:
    """A sentence, also for JSON."""
    for shape in ([], ["--json"], ["--for", "compiler"]):
        found = cli("report", recordings[0], "-i", pattern, *shape)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith(f"tileprof: {sentence}")


def test_a_screen_is_as_high_as_the_terminal(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three kernels that spill, of which as many are shown as fit."""
    code = [
        ("LDL R0, [R1]", {"lg_throttle": 4000}, 1, 5),
        ("FFMA R2, R0, R3", {"selected": 6000}, 1, 6),
    ]
    save(program(*(Made(name, code=code) for name in "abc")), folder / "spills.tprof")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    os.environ["LINES"] = "12"
    low = cli("report", "spills.tprof").out
    assert (low.count("where  "), low.count(" more: ")) == (1, 1)
    os.environ["LINES"] = "500"
    high = cli("report", "spills.tprof").out
    assert (high.count("(spill-hot)"), high.count(" more: ")) == (3, 0)


def test_a_page(cli: Any, recordings: tuple[str, str]) -> None:
    """One file, of one whole profile; a folder that is not there is an error."""
    found = cli("report", recordings[0], "--html", "report.html")
    assert (found.code, found.out) == (0, "")
    assert found.err == "tileprof: wrote report.html\n"
    page = Path("report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "registers are spilled where it costs time" in page
    missing = cli("report", recordings[0], "--html", "there/report.html")
    assert missing.code == 2
    assert "there/report.html" in missing.err
    for more in (recordings[1], "-ispill", "--for=compiler"):
        refused = cli("report", recordings[0], more, "--html", "other.html")
        assert (refused.code, Path("other.html").exists()) == (2, False)
        assert "one whole profile" in refused.err
