"""Each exercise: the starter fails with a sentence, the last hint and the solution pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tileprof import learn
from tileprof.compiler.build import find_compiler
from tileprof.learn import judges
from tileprof.learn.catalogue import COURSE
from tileprof.learn.exercise import TRACKS, Exercise

ROOT = Path(__file__).parents[2]
SOLUTIONS = Path(__file__).parent / "solutions"

each_exercise = pytest.mark.parametrize("exercise", COURSE, ids=lambda each: each.name)


@pytest.fixture
def hand_in(tmp_path: Path) -> Callable[[Exercise, str], learn.Result]:
    """`hand_in(exercise, text)` checks a file with this text."""

    def check(exercise: Exercise, text: str) -> learn.Result:
        learn.start(exercise.name, tmp_path)
        (tmp_path / f"{exercise.name}.py").write_text(text)
        return learn.check(exercise.name, folder=tmp_path)

    return check


@pytest.mark.spread(without=["pipeline", "online_softmax"])
@each_exercise
def test_the_starter_fails_with_a_sentence(
    exercise: Exercise, hand_in: Callable[[Exercise, str], learn.Result]
) -> None:
    """It runs, and the failure says what is wrong, not that Python failed."""
    result = hand_in(exercise, exercise.file_text())
    assert result.failure is not None
    assert result.failure.stage != "file"
    assert len(result.failure.message.split()) >= 3


@each_exercise
def test_the_solution_passes(
    exercise: Exercise, hand_in: Callable[[Exercise, str], learn.Result]
) -> None:
    """The repository's solution passes on the interpreter, and on the cpu where it compiles."""
    result = hand_in(exercise, (SOLUTIONS / f"{exercise.name}.py").read_text())
    assert result.passed, result.text()
    if result.devices:
        cpu = ("cpu",) if find_compiler() else ()
        assert result.devices == ("interpreter", *cpu)


@pytest.mark.spread(without=["attention", "causal", "halo", "why_not_tma"])
@each_exercise
def test_the_hints_alone_solve_it(
    exercise: Exercise,
    hand_in: Callable[[Exercise, str], learn.Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lines of the hints, put into the starter as they are given, pass; only the last hint has
    lines."""
    # The solution is compiled as well; here the interpreter says enough.
    monkeypatch.setattr(judges, "find_compiler", lambda: None)
    text = exercise.file_text()
    for _ in exercise.hints:
        given = learn.hint(exercise.name, tmp_path)
        for old, new in exercise.hints[given.at].patch:
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the starter"
            text = text.replace(old, new)
    assert [bool(each.patch) for each in exercise.hints] == [False] * (len(exercise.hints) - 1) + [
        True
    ]
    result = hand_in(exercise, text)
    assert result.passed, result.text()


@each_exercise
def test_the_task_fits_one_screen(exercise: Exercise, tmp_path: Path) -> None:
    """At most 45 lines of 100 columns; the file's lines fit too."""
    lines = repr(learn.start(exercise.name, tmp_path)).splitlines()
    assert len(lines) <= 45
    wide = [each for each in [*lines, *exercise.file_text().splitlines()] if len(each) > 100]
    # The folder of a test has a long name.
    assert all(each.startswith("Your file") for each in wide), wide


@each_exercise
def test_links_lead_to_sections(exercise: Exercise) -> None:
    """What an exercise says to read is a page with a section of that name."""
    for use in exercise.uses:
        page, _, section = use.partition("#")
        heads = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        names = {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}
        assert section in names, use


def test_names_and_tracks() -> None:
    """Names are unique, and each exercise follows those of the tracks before."""
    assert len({each.name for each in COURSE}) == len(COURSE)
    assert {path.stem for path in SOLUTIONS.glob("*.py")} == {each.name for each in COURSE}
    tracks = [TRACKS.index(each.track) for each in COURSE]
    assert tracks == sorted(tracks)


def test_the_page_lists_all_exercises() -> None:
    """The table has a row for each, in order."""
    page = (ROOT / "docs" / "learn.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*) \| (\w+) \|$", page, re.MULTILINE)
    assert rows == [(str(at), e.name, e.title, e.track) for at, e in enumerate(COURSE, 1)]
