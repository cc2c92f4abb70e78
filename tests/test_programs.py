"""Real programs: their switches, the harness on a CPU, how reports are judged, and the page."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.programs import frozen, problems, scores
from benchmarks.programs.catalog import CHANGES, PROGRAMS, Program, chosen, named
from benchmarks.programs.run import MEMORY_GB, Room, fits, groups, main
from tileprof.analyzer.rules import KERNEL_RULES, PROGRAM_RULES

sys.path[:0] = ["benchmarks"]
page_programs: Any = importlib.import_module("page_programs")
del sys.path[0]

ROOT = Path(__file__).parents[1]
EXPECTED = {
    "cuda-graph", "generation", "recurrence",
    "tile-quantisation", "wide-types", "channels-last", "synchronise",
    "batch", "scatter", "small-block",
}  # fmt: skip
"""Names of rules that codes mention and that do not exist yet."""
RIGHT = {"low": 1.0, "high": 2.0, "right": True}


def finding(rule: str, gain: list[float] | None, title: str = "", advice: str = "") -> Any:
    """A suggestion of a report, as JSON has it."""
    return {
        "rule": rule, "severity": "suggestion", "title": title, "gain": {"program": gain},
        "suggestion": {"author": advice, "compiler": ""},
        "place": {"path": [], "kernel": None, "op": None, "location": None, "sass": None},
    }  # fmt: skip


def report(*findings: Any) -> dict[str, Any]:
    """A report with these findings and no kernel."""
    return {"findings": list(findings), "kernels": []}


# -- programs


def test_there_are_programs_of_all_kinds() -> None:
    """Twenty, seven of them with models of Hugging Face; the folder has a script for each."""
    assert len(PROGRAMS) >= 18
    assert sum("transformers" in each.needs for each in PROGRAMS) >= 6
    scripts = {path.stem for path in (ROOT / "benchmarks/programs/scripts").glob("*.py")}
    assert scripts - {"stepping", "unet"} == {each.name for each in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_listed_changes_are_the_switches_of_the_script(program: Program) -> None:
    """Each change of the list is asked for in the script, and the script asks for no other."""
    tree = ast.parse(program.script.read_text())
    asked = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "changed"
        and isinstance(node.args[0], ast.Constant)
    }
    assert asked == set(program.changes)
    assert 20 <= len(program.script.read_text().splitlines()) <= 130


def test_codes_are_names_of_rules() -> None:
    """Codes of changes are rules that there are, or rules that are expected by name."""
    rules = {rule.name for rule in KERNEL_RULES} | {rule.name for rule in PROGRAM_RULES}
    codes = {code.partition("/")[0] for change in CHANGES.values() for code in change.codes}
    assert codes <= rules | EXPECTED
    assert {change for each in PROGRAMS for change in each.changes} == set(CHANGES)


def test_words_of_advice_are_those_of_the_rules() -> None:
    """Words by which a rule's findings are told apart stand in the rule's text."""
    text = " ".join(
        path.read_text().lower() for path in (ROOT / "tileprof/analyzer/rules").rglob("*.py")
    )
    text = re.sub(r'"\s+"', "", text)
    for word in ("cuda graph", "num_workers", "larger batches", "do not read", "pin_memory",
                 "size of this result", "fewer and larger", "torch.compile"):  # fmt: skip
        assert word in text, word


def test_groups_fit_a_device_and_lose_no_program() -> None:
    """Processes that stand ready together fit; every program is in one group, in order."""
    found = list(groups(PROGRAMS))
    assert [each for group in found for each in group] == list(PROGRAMS)
    assert all(fits(group, MEMORY_GB) or len(group) == 1 for group in found)
    assert len(list(groups(PROGRAMS, MEMORY_GB / 4))) > len(found)


def test_processes_warm_up_only_where_there_is_room() -> None:
    """What a process holds when it is ready stays taken; one that needs more waits for it."""
    room = Room(10)
    with room.taken(9, 4):
        pass
    done = threading.Event()

    def later() -> None:
        with room.taken(7, 0):
            done.set()

    with room.taken(5, 0):
        waiting = threading.Thread(target=later, daemon=True)
        waiting.start()
        assert not done.wait(0.1)
    waiting.join(0.2)
    assert not done.is_set()


def test_one_program_that_takes_all_processors_warms_up_at_a_time() -> None:
    """A second one that loads data waits; one that does not goes ahead."""
    room, went = Room(10), threading.Event()

    def load() -> None:
        with room.host(loads=True):
            went.set()

    with room.host(loads=True):
        second = threading.Thread(target=load)
        second.start()
        with room.host(loads=False):
            assert not went.wait(0.05)
    second.join()
    assert went.is_set()


def test_unknown_program_is_refused() -> None:
    """A name that is not in the catalog ends the run, rather than measuring nothing."""
    with pytest.raises(SystemExit, match="nosuch"):
        chosen(["nosuch"])


# -- scores


def test_gain_is_the_median_of_pairs_with_its_interval() -> None:
    """A slow round of the device meets both, and changes nothing."""
    base = [2.0, 4.0, 2.0, 20.0, 2.2, 2.0, 2.0]
    found = scores.gain_of(base, [each / 2 for each in base])
    assert found == {"gain": 2.0, "low": 2.0, "high": 2.0}
    found = scores.gain_of([2.0, 2.1, 1.9, 2.0, 2.2], [1.0, 1.0, 1.0, 1.1, 1.0])
    assert found["low"] < found["gain"] < found["high"]


def test_first_suggestion_is_judged_by_what_it_names() -> None:
    """The best change that it names counts, against the best of all, and against its interval."""
    changes = {
        "tf32": {**RIGHT, "gain": 1.4},
        "bf16": {**RIGHT, "gain": 1.5},
        "compile": {**RIGHT, "gain": 1.6},
    }
    both = "set_float32_matmul_precision, or bfloat16"
    good = scores.judged(report(finding("precision", [1.2, 1.4, 1.6], advice=both)), changes)
    assert (good["best"], good["enough"], good["inside"]) == ("compile", True, True)
    assert good["brought"] == 1.5
    assert good["least_brought"] == 1.4
    assert good["predicted"] == {
        "tf32": [1.2, 1.4, 1.6], "bf16": [1.2, 1.4, 1.6], "compile": None
    }  # fmt: skip
    half = finding("precision", [1.3, 1.5, 1.7], advice="bfloat16")
    tf32 = finding("precision", [1.2, 1.4, 1.6], advice="set_float32_matmul_precision")
    each = scores.judged(report(half, tf32), changes)
    assert each["first"]["names"] == ["bf16"]
    assert (each["predicted"]["tf32"], each["predicted"]["bf16"]) == (
        [1.2, 1.4, 1.6], [1.3, 1.5, 1.7]
    )  # fmt: skip
    bad = scores.judged(report(finding("bank-conflict", [1.2, 1.4, 1.6])), changes)
    assert (bad["enough"], bad["inside"], bad["brought"]) == (False, False, 1.0)


def test_change_with_a_wrong_result_is_not_the_best() -> None:
    """A change that computes something else is not held against the report."""
    changes = {
        "tf32": {**RIGHT, "gain": 1.4},
        "compile": {**RIGHT, "gain": 9.0, "right": False},
        "bf16": {"error": "ended"},
    }
    assert scores.judged(report(), changes)["best"] == "tf32"


def test_silence_is_right_only_where_nothing_is_to_be_gained() -> None:
    """Nothing said counts as enough below 1.05×; something promised there does not."""
    little = {"tf32": {**RIGHT, "gain": 1.02}}
    assert scores.judged(report(), little)["enough"]
    assert not scores.judged(report(), {"tf32": {**RIGHT, "gain": 1.2}})["enough"]
    assert not scores.judged(report(finding("precision", [1.1, 1.3, 1.4])), little)["enough"]
    assert scores.judged(report(finding("precision", [1.0, 1.03, 1.4])), little)["enough"]


def test_words_tell_findings_of_one_rule_apart() -> None:
    """`fusion/gelu` is named by a finding whose title, advice or place has the word."""
    assert named("fused-gelu", finding("fusion", None), "The GELU of NewGELUActivation")
    assert not named("fused-gelu", finding("fusion", None), "the chain in Softmax")
    assert named("compile", finding("fusion", None), "the chain in Softmax")


def test_accounted_time_is_of_kernels_with_a_cause_or_at_their_roof() -> None:
    """A report without an account is judged by its kernels; one with it says so itself."""
    known = finding("at-roofline", None)
    known["severity"] = "stop"
    known["place"]["kernel"] = "a"
    held = report(known)
    held["kernels"] = [
        {"name": "a", "time": 30, "share": 0.3}, {"name": "b", "time": 70, "share": 0.7}
    ]  # fmt: skip
    found = scores.judged(held, {})
    assert (found["accounted"], found["by"]) == (0.3, "kernels")
    held["account"] = {"device": {"busy": 100, "unexplained": 10}}
    found = scores.judged(held, {})
    assert (found["accounted"], found["by"]) == (0.9, "account")


def test_summary_counts_silence_as_a_gain_of_one() -> None:
    """A change that nothing predicts has an error of 100 %."""
    changes = {"tf32": {**RIGHT, "gain": 1.5}, "compile": {**RIGHT, "gain": 2.0}}
    said = finding("precision", [1.2, 1.6, 1.8], advice="set_float32_matmul_precision")
    held = scores.judged(report(said), changes)
    row = {"program": "gpt2_train", "changes": changes, "judged": {"plain": held}}
    found = scores.summary([row], "plain")
    assert found["enough"] == 0
    assert found["inside"] == 1
    assert found["error"] == pytest.approx((0.2 + 1.0) / 2)
    assert scores.summary([row], "samples")["programs"] == 0


# -- the harness


@pytest.mark.usefixtures("forked_of_torch")
def test_a_small_program_is_measured_recorded_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a CPU: a change has a gain and a right result, the report is judged, twice the same."""
    pytest.importorskip("torch")
    output = tmp_path / "found.json"
    words = [
        "run.py", "--device", "cpu", "--tiny",
        "--programs", "heat_simulation", "--changes", "float32",
        "--rounds", "3", "--jobs", "2", "--keep", str(tmp_path / "kept"), "-o", str(output),
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", words)
    assert main() == 0
    printed = capsys.readouterr().out
    record = json.loads(output.read_text())
    assert record["frozen"] == frozen.hashes()
    # A row is there as soon as it is timed, and again with what the report says.
    assert printed.count("heat_simulation: ") == 2
    rows = {row["program"]: row for row in record["rows"]}
    assert set(rows) == {"heat_simulation"}
    heat = rows["heat_simulation"]["changes"]["float32"]
    assert heat["right"]
    assert heat["low"] <= heat["gain"] <= heat["high"]
    for row in rows.values():
        assert "plain" in row["judged"], row
    before = record["rows"]
    again = ["run.py", "--judge", str(output), "--keep", str(tmp_path / "kept")]
    monkeypatch.setattr(sys, "argv", again)
    assert main() == 0
    after = json.loads(output.read_text())["rows"]
    assert [row["judged"] for row in after] == [row["judged"] for row in before]


def test_program_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    """A member whose program ends before the gate fails with what it printed last."""
    from benchmarks.programs.members import FailedError, Member, Settings

    member = Member(Program("nosuch", "", ()), "", Settings("cpu", True, tmp_path, 20))
    with pytest.raises(FailedError, match=r"ended: .*nosuch"):
        member.start()


PROBLEM = '''
import torch


class Model(torch.nn.Module):
    """A WORD and a layer."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, 4)

    def forward(self, x):
        return self.layer(x), x


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return [16]
'''


@pytest.mark.usefixtures("forked_of_torch")
def test_modules_of_others_become_programs(tmp_path: Path) -> None:
    """Their scripts run as they are, with the switches that they list; the draw is of all files."""
    pytest.importorskip("torch")
    folder = tmp_path / problems.FOLDER
    folder.mkdir(parents=True)
    for number in range(6):
        word = "Conv2d" if number % 2 else "pool"
        (folder / f"{number}_Some.py").write_text(PROBLEM.replace("WORD", word))
    found = problems.written(tmp_path, tmp_path / "scripts")
    assert sorted(each.name[:6] for each in found) == [f"{number}_some" for number in range(6)]
    assert [each.name for each in found] != sorted(each.name for each in found)
    trained = {each.name.endswith("_train"): each for each in found}
    for program in found:
        assert ("channels-last" in program.changes) == (int(program.name[0]) % 2 == 1)
    for train, program in trained.items():
        listed = set(program.changes) | {"channels-last"}
        switches = {
            match for match in re.findall(r'changed\("(.+?)"\)', program.script.read_text())
        }
        assert listed == switches - ({"half"} if train else set())
        environment = {**os.environ, "PROGRAM_DEVICE": "cpu", "PROGRAM_TINY": "1"}
        done = subprocess.run([sys.executable, str(program.script)], env=environment,
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert float(done.stdout.split("result ")[1]) > 0
    assert problems.hash_of(tmp_path) != problems.hash_of(ROOT)


@pytest.mark.parametrize(
    ("line", "fault"),
    [("self.layer(x)", ""), ("self.layer(x).relu().add_(1)", "modified by an inplace operation"),
     ("self.layer(x[:, :3])", "")],
)  # fmt: skip
@pytest.mark.usefixtures("forked_of_torch")
def test_trainings_that_cannot_run_are_known_before(line: str, fault: str, tmp_path: Path) -> None:
    """Gradients that fail by shapes alone are the author's; a forward pass may fail by the device
    that has no data."""
    pytest.importorskip("torch")
    folder = tmp_path / problems.FOLDER
    folder.mkdir(parents=True)
    text = PROBLEM.replace("self.layer(x)", line)
    assert line in text
    for number in range(6):
        (folder / f"{number}_Some.py").write_text(text)
    trained = [each for each in problems.written(tmp_path, tmp_path / "scripts")
               if each.name.endswith("_train")]  # fmt: skip
    found = problems.failing(trained[0])
    assert (fault in found) if fault else not found


# -- what is published


def test_published_figures_are_of_these_sources() -> None:
    """A file of results names the sources that it judged; older ones say so themselves."""
    for path in (*page_programs.files(), *page_programs.others()):
        record = json.loads(path.read_text())
        assert not record["tiny"], path
        if "historical" not in record:
            assert record["frozen"] == frozen.hashes(), (
                f"{path.name} is of other sources: measure again, judge kept profiles again"
                " (--judge), or give the file a field `historical` that says why not"
            )


def test_page_is_what_the_results_say() -> None:
    """The page has the figures of the files; `python benchmarks/page.py`."""
    for page, files, lines in (
        (page_programs.PAGE, page_programs.files(), page_programs.page),
        (page_programs.OTHERS_PAGE, page_programs.others(), page_programs.others_page),
    ):
        records = [json.loads(path.read_text()) for path in files]
        assert page.read_text() == "\n".join(lines(records))


def test_page_lists_misses_and_failures() -> None:
    """A program that failed, a change that failed and a silent report stand in the tables."""
    changes = {"compile": {**RIGHT, "gain": 1.5}, "tf32": {"error": "ended"}}
    first = {"program": "gpt2_train", "kind": "training", "ms": 3.0, "changes": changes,
             "judged": {"plain": scores.judged(report(), changes)}}  # fmt: skip
    record = {
        "circumstances": {"device": "NVIDIA H200", "date": "2026-11-26 20:00", "torch": "2.11"},
        "frozen": {"analyzer": "0123456789abcdef"}, "skipped": {"jax_train": "no jax"},
        "rows": [first, {"program": "vit_train", "error": "ended: a | b", "changes": {}}],
    }  # fmt: skip
    text = "\n".join(page_programs.page([record]))
    assert "| gpt2_train | `torch.compile` 1.50× | `tileprof run` | none |  |  | no |  |" in text
    assert "| vit_train | not measured: ended: a / b |" in text
    assert "TF32 products not measured (ended)" in text
    assert "- jax_train: not measured, no jax." in text
