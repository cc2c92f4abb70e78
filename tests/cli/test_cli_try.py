"""`tileprof try` on whole programs: what is kept, what is refused, and what is written down."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.analyzer.reports import finding, report_with
from tileprof.analyzer.fixes import COMPILED_MODELS, CompiledFunction, OptimizerForm
from tileprof.cli.trying.candidates import chosen, of_report
from tileprof.cli.trying.try_command import _recorded
from tileprof.errors import UsageError
from tileprof.trying import Pair, Settings, Timing, TriedProgram, trials
from tileprof.trying.measuring import Outcome

pytestmark = pytest.mark.usefixtures("forked")

PROGRAM = """
    import os, tileprof

    way = os.environ.get("WAY", "")

    def step(number):
        total = 0.0
        for i in range(200 if way else 4000):
            total += i * 0.5
        tileprof.step()
        return number + (2e-4 * number if way == "wrong" else 1e-9)

    for number in range(300):
        value = step(number)
        {printed}
    """
PRINTED = "print(f'{number} {value:.6f}')"


@pytest.fixture(autouse=True)
def _short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes here bring a factor of ten: a tenth of the usual time shows it."""
    short = partial(Settings, timing=Timing(rounds=2, batch_ns=2e7))
    monkeypatch.setattr("tileprof.trying.Settings", short, raising=False)


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs decide, as no noise is in their times: each change is ten times as fast."""
    monkeypatch.setattr(trials, "LOOKS", (2,))
    for name in ("steps_in_turns", "runs_in_turns"):
        monkeypatch.setattr(trials, name, partial(_alike, getattr(trials, name)))


def _alike(measure: Any, *arguments: Any) -> list[Any]:
    """Run processes as `measure` does, and say that each changed one took a tenth."""
    return [
        replace(each, pair=Pair(tuple((10.0, 1.0) for _ in each.pair.rounds)))
        if isinstance(each, Outcome)
        else each
        for each in measure(*arguments)
    ]


@pytest.fixture
def write(folder: Path) -> Any:
    """Write `program.py`, which prints something at each step."""

    def written(printed: str = PRINTED) -> None:
        (folder / "program.py").write_text(dedent(PROGRAM).format(printed=printed))

    return written


def read(path: str = ".tileprof/try.jsonl") -> list[dict[str, Any]]:
    """Return the lines of a ledger."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_faster_change_with_the_same_results_is_kept(cli: Any, write: Any) -> None:
    """The ledger has its times, what was compared, and the verdict."""
    write()
    found = cli("try", "--change", "env=WAY=fast", "program.py")
    assert found.code == 0
    assert "verdict    KEPT" in found.out
    assert "\nWorth keeping, " in found.out
    (line,) = read()
    assert (line["schema"], line["verdict"], line["unit"]) == (1, "kept", "step")
    assert line["fixes"] == [
        {
            "fix": "env",
            "fix_facts": {"name": "WAY", "value": "fast"},
            "text": "WAY=fast in the environment",
        }
    ]
    assert line["measured"]["low"] > 1.01
    assert len(line["pairs"]) >= 3
    assert line["results"]["equal"]
    (check,) = line["results"]["checks"]
    assert (check["kind"], check["count"]) == ("printed", 8)
    log = cli("try", "--log")
    assert log.code == 0
    assert "results same: KEPT" in log.out


def test_a_faster_change_with_other_results_is_refused(cli: Any, write: Any) -> None:
    """Results that differ a little more than they may are enough."""
    write()
    found = cli("try", "--change", "env=WAY=wrong", "program.py")
    assert found.code == 1
    assert "verdict    REFUSED: results differ" in found.out
    (line,) = read()
    assert line["verdict"] == "different"
    assert not line["results"]["equal"]


@pytest.mark.sweep
@pytest.mark.usefixtures("alike")
def test_a_larger_tolerance_is_the_users_choice(cli: Any, write: Any) -> None:
    """With it the same change is kept, and the ledger has the tolerance."""
    write()
    found = cli("try", "--change", "env=WAY=wrong", "--tolerance", "1e-2", "program.py")
    assert found.code == 0
    assert read()[0]["results"]["tolerance"] == 1e-2


@pytest.mark.sweep
@pytest.mark.usefixtures("alike")
def test_what_cannot_be_compared_is_not_kept(cli: Any, write: Any) -> None:
    """A program that prints other numbers in each run has no results to compare."""
    write("import random; print(random.SystemRandom().random())")
    found = cli("try", "--change", "env=WAY=fast", "program.py")
    assert found.code == 1
    assert "not kept: results not compared" in found.out
    assert read()[0]["verdict"] == "not-compared"


@pytest.mark.sweep
@pytest.mark.usefixtures("alike")
def test_the_result_of_a_named_function_is_compared(cli: Any, write: Any) -> None:
    """Its calls are the steps, and what it returns is the result."""
    write("pass")
    arguments = ("--step", "program.py:step", "program.py")
    right = cli("try", "--change", "env=WAY=fast", *arguments)
    assert right.code == 0
    assert [each["kind"] for each in read()[0]["results"]["checks"]] == ["returned"]
    wrong = cli("try", "--change", "env=WAY=wrong", "--ledger", "other.jsonl", *arguments)
    assert wrong.code == 1
    assert read("other.jsonl")[0]["verdict"] == "different"


def test_a_program_that_fails_says_so(cli: Any, folder: Path) -> None:
    """With its last line; nothing is written down."""
    (folder / "program.py").write_text("raise ValueError('no data')\n")
    found = cli("try", "--change", "env=A=1", "program.py")
    assert found.code == 1
    assert "`program.py` ended with exit code 1: ValueError: no data" in found.err
    assert not Path(".tileprof").exists()


@pytest.mark.sweep
@pytest.mark.usefixtures("alike")
def test_iterations_of_its_loop_are_steps_of_a_program_without_others(
    cli: Any, folder: Path
) -> None:
    """Arrays that the loop's function holds are compared, those in objects of its file too."""
    text = """
        import os, numpy as np

        class Field:
            values = None
            def __init__(self):
                self.values = np.arange(9.0)
            def advance(self):
                for i in range(9000):
                    pass
                self.values = self.values + (1.001 if os.environ.get("WRONG") else 1)

        def main():
            field = Field()
            for number in range(80):
                field.advance()

        main()
        """
    (folder / "program.py").write_text(dedent(text))
    cli("try", "--change", "env=WAY=fast", "--change", "env=WRONG=1", "program.py")
    assert {line["fixes"][0]["text"][:5]: line["verdict"] for line in read()} == {
        "WRONG": "different", "WAY=f": "kept",
    }  # fmt: skip
    assert {line["unit"] for line in read()} == {"step"}
    ((check,), _) = (line["results"]["checks"] for line in read())
    assert (check["kind"], check["count"]) == ("returned", 45)


@pytest.mark.sweep
@pytest.mark.usefixtures("alike")
def test_a_program_without_steps_is_timed_as_a_whole(cli: Any, folder: Path) -> None:
    """Its printed numbers are compared."""
    text = """
        import os
        total = 0.0
        for i in range(50_000 if os.environ.get("WAY") else 1_500_000):
            total += 0.5
        print("result 2.50")
        """
    (folder / "program.py").write_text(dedent(text))
    found = cli("try", "--change", "env=WAY=1", "program.py")
    assert found.code == 0, found.out + found.err
    assert read()[0]["unit"] == "run"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no program given"),
        (("no.py",), "there is no file `no.py` to run"),
        (("--change", "fuse", "program.py"), "there is no change `fuse`\nDid you mean `fused`?"),
        (("--change", "compile", "program.py"), "the change `compile` needs a value"),
        (("--change", "tf32=1", "program.py"), "the change `tf32` takes no value"),
        (("--change", "workers=x", "program.py"), "`x` is not a number of workers"),
        (("--change", "control=stage=3", "program.py"), "there is no control `stage`"),
        (("--step", "program.py:stp", "program.py"), "`program.py` has no function `stp`"),
        (("--tolerance", "2", "program.py"), "`--tolerance` is a share"),
        (("--log", "program.py"), "`--log` takes no program"),
        (("--only", "a", "--change", "tf32", "program.py"), "`--only` chooses findings"),
    ],
)
def test_wrong_use(cli: Any, write: Any, arguments: tuple[str, ...], said: str) -> None:
    """One message that names what is wrong, and exit code 2, before the program runs."""
    write()
    found = cli("try", *arguments)
    assert found.code == 2
    assert said in found.err


def test_a_broken_ledger_is_named_by_its_line(cli: Any, folder: Path) -> None:
    """So is one of a later version; no ledger at all is an empty one."""
    assert cli("try", "--log").out == "The ledger is empty.\n"
    Path("a.jsonl").write_text('\n{"schema": 1\n')
    found = cli("try", "--log", "--ledger", "a.jsonl")
    assert (found.code, "a.jsonl:2: this is not a line of a ledger" in found.err) == (2, True)
    Path("b.jsonl").write_text('{"schema": 9}\n')
    found = cli("try", "--log", "--ledger", "b.jsonl")
    assert (found.code, "b.jsonl:1: schema 9 is not the one" in found.err) == (2, True)


def test_a_kept_change_is_written_into_the_source(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shown as a diff first; with `--apply` the file has it, and the old text is kept."""
    from tileprof.trying import Trial, Trials
    from tileprof.trying.processes import Circumstances

    def kept(self: Trials, group: Any) -> Iterator[Trial]:
        for each in group:
            yield Trial(each, "kept", "", None, (), None, 1e-4, 1.0, "step", Circumstances())

    monkeypatch.setattr(Trials, "begin", lambda self: None)
    monkeypatch.setattr(Trials, "_try", kept)
    source = "import torch\n\ndef forward(x):\n    return x + 1\n"
    (folder / "program.py").write_text(source)
    words = ("--change", "compile=program.py:forward", "--change", "autocast", "program.py")
    shown = cli("try", *words)
    assert shown.code == 0
    assert "+++ b/program.py\n" in shown.out
    assert "+@torch.compile\n def forward(x):\n" in shown.out
    assert Path("program.py").read_text() == source
    applied = cli("try", "--apply", *words)
    assert "wrote program.py; its old text is in program.py.orig" in applied.err
    assert "not written, make it by hand: forward passes under torch.autocast" in applied.err
    assert "@torch.compile\ndef forward" in Path("program.py").read_text()
    assert Path("program.py.orig").read_text() == source


def test_findings_give_candidates(folder: Path) -> None:
    """Each change once, with the first finding that has it; a line becomes its function."""
    (folder / "a.py").write_text("class A:\n    def f(self):\n        return 1\n")
    fused, compiled = OptimizerForm("fused", "AdamW"), CompiledFunction("a.py", "", 3)
    report = report_with(
        replace(finding("suggestion", "passes", gain=1.5), fixes=(fused, compiled)),
        replace(finding("symptom", "hotspot"), fixes=(fused,)),
        finding("warning", "other"),
    )
    first, second = of_report(report)
    assert (first.fixes, second.fixes) == ((fused,), (CompiledFunction("a.py", "A.f"),))
    assert first.predicted is not None
    assert first.finding.startswith("passes-")
    assert [each.fixes for each in chosen([first, second], ["compile"])] == [second.fixes]
    assert chosen([first, second], ["passes", "optimizer"]) == [first, second]
    with pytest.raises(UsageError, match="no executable finding is called `fuse`"):
        chosen([first, second], ["fuse"])


def test_models_are_compiled_in_place_of_the_function_that_runs_the_steps(folder: Path) -> None:
    """torch.compile of `main` would compile the loop around the steps."""
    (folder / "steps.py").write_text("def main():\n    model()\nmain()\n")
    late = replace(
        finding("suggestion", "late", gain=1.5), fixes=(CompiledFunction("steps.py", "", 2),)
    )
    (found,) = of_report(report_with(late))
    assert found.fixes == (COMPILED_MODELS,)


def test_a_profile_says_what_it_was_recorded_of(cli: Any, write: Any) -> None:
    """Where that is not there any more, the program has to be given beside it."""
    write()
    assert cli("run", "--quiet", "-o", "a.tprof", "program.py").code == 0
    assert cli("try", "--list", "a.tprof").out.startswith("No finding can be tried")
    Path("program.py").rename("other.py")
    found = cli("try", "a.tprof")
    assert found.code == 2
    assert "`a.tprof` does not say how to run its program from here" in found.err
    listed = cli("try", "--list", "a.tprof", "--", "other.py")
    assert listed.code == 1
    assert listed.out.startswith("No finding can be tried")


def test_the_command_of_a_profile_is_run_again(folder: Path) -> None:
    """With its arguments; options of the recording are none of the program's."""
    (folder / "train.py").write_text("")
    args = argparse.Namespace(step=None, compare=None)
    told = _recorded(args, "a.tprof", "tileprof run -o a.tprof --timeline train.py --epochs 2")
    assert told == TriedProgram("script", "train.py", ("--epochs", "2"))
    told = _recorded(args, "a.tprof", "tileprof run --quiet -m pkg.train -x")
    assert told == TriedProgram("module", "pkg.train", ("-x",))
    assert _recorded(args, "a.tprof", "train.py -x") == TriedProgram("script", "train.py", ("-x",))
