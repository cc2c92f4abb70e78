"""Results of a run on a GPU become the published ones, and nothing that was published is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import publish

Record = dict[str, Any]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of a run, and one of published results."""
    made = tmp_path / "run", tmp_path / "results"
    for each in made:
        each.mkdir()
    return made


def put(folder: Path, **files: Record) -> None:
    """Write files by their names, in which `_` stands for `-`."""
    for name, record in files.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(record))


def record(*rows: Record, date: str = "2026-02-03 04:05", **more: Any) -> Record:
    """A file of rows, as a step writes it."""
    return {"circumstances": {"date": date}, "rows": list(rows), **more}


def row(work: str, ours: int, *peers: str) -> Record:
    """A row of kernels, and its peers."""
    return {"work": work, "ours": ours, "peers": [{"peer": each} for each in peers]}


def read(path: Path) -> Record:
    """The JSON object of a file."""
    found: Record = json.loads(path.read_text())
    return found


def test_rows_of_kernels_replace_those_of_the_same_work(folders: tuple[Path, Path]) -> None:
    """Others stay; a new row says where it was measured."""
    run, results = folders
    put(results, kernels=record(row("a", 1), row("b", 1), date="old"))
    put(run, kernels=record(row("b", 2), row("c", 2)))
    assert publish.main([str(run)], results) == 0
    held = read(results / "kernels.json")
    assert [(each["work"], each["ours"]) for each in held["rows"]] == [("a", 1), ("b", 2), ("c", 2)]
    assert [each.get("circumstances", {}).get("date") for each in held["rows"]] == [
        None, "2026-02-03 04:05", "2026-02-03 04:05",
    ]  # fmt: skip
    assert held["circumstances"] == {"date": "old"}


def test_a_row_without_its_peer_does_not_replace_one_with_it(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """TileLang could not be imported in the later run."""
    run, results = folders
    put(results, attention=record(row("a", 1, "cuDNN", "TileLang"), row("b", 1, "cuDNN")))
    put(run, attention=record(row("a", 2, "cuDNN"), row("b", 2, "cuDNN")))
    publish.main([str(run)], results)
    assert [each["ours"] for each in read(results / "attention.json")["rows"]] == [1, 2]
    assert "kept a: the new row lacks TileLang" in capsys.readouterr().out


def test_rows_of_overhead_say_when_they_were_measured(folders: tuple[Path, Path]) -> None:
    """A row that the run did not reach stays as it was published."""
    run, results = folders
    put(results, overhead=record(row("a", 1), row("b", 1)))
    put(run, overhead=record(row("b", 2), skipped=["deep"]))
    publish.main([str(run), "--beside", "beside another run"], results)
    a, b = read(results / "overhead.json")["rows"]
    assert "date" not in a
    assert (b["ours"], b["date"]) == (2, "2026-02-03 04:05 beside another run")


def test_a_file_with_fewer_rows_is_left_out(folders: tuple[Path, Path]) -> None:
    """The time of its step was over; the exit status says so."""
    run, results = folders
    put(results, claims=record(row("a", 1), row("b", 1)), instrument=record(row("a", 1)))
    put(run, claims=record(row("a", 2)), instrument=record(row("a", 2)))
    assert publish.main([str(run)], results) == 1
    assert len(read(results / "claims.json")["rows"]) == 2
    assert read(results / "instrument.json")["rows"][0]["ours"] == 2


def test_parts_of_programs_keep_what_was_published_before(folders: tuple[Path, Path]) -> None:
    """Under the date of its run, and a number where there are two of a day."""
    run, results = folders
    put(results, programs_1of3=record(row("a", 1), date="2026-01-02 00:00"))
    put(run, programs_1of3=record(row("a", 2)))
    publish.main([str(run), "--historical", "a rule changed"], results)
    put(run, programs_1of3=record(row("a", 3), date="2026-01-02 09:00"))
    publish.main([str(run)], results)
    assert sorted((each.name, read(each)["rows"][0]["ours"]) for each in results.iterdir()) == [
        ("programs-1of3-2026-01-02.json", 1), ("programs-1of3-2026-02-03.json", 2),
        ("programs-1of3.json", 3),
    ]  # fmt: skip
    assert read(results / "programs-1of3-2026-02-03.json")["historical"] == "a rule changed"


@pytest.mark.parametrize("source", ["programs", "problems", "architectures"])
def test_parts_of_all_sources_of_programs_are_published(
    source: str, folders: tuple[Path, Path]
) -> None:
    """Each is a file of the same name in the results."""
    run, results = folders
    put(run, **{f"{source}_1of2": record(row("a", 1))})
    assert publish.main([str(run)], results) == 0
    assert read(results / f"{source}-1of2.json")["rows"][0]["ours"] == 1


@pytest.mark.parametrize(("analyzer", "claims"), [("now", "current"), ("then", "history")])
def test_generated_defects_claim_this_analyzer_only_where_it_is(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, analyzer: str, claims: str
) -> None:
    """Another analyzer's are history."""
    run, results = folders
    monkeypatch.setattr(publish, "analyzer_hash", lambda: "now")
    put(run, plant_test_7_1of2=record(analyzer=analyzer, claims="current"))
    for _ in range(2):
        publish.main([str(run)], results)
        assert read(results / "plant-test-7-1of2.json")["claims"] == claims
    assert (results / "plant-test-7-1of2-2026-02-03.json").exists()


def test_counters_get_a_file_with_the_next_number(folders: tuple[Path, Path]) -> None:
    """Runs on kernels that nobody tuned for stay apart."""
    run, results = folders
    put(results, show_counters_fresh={}, show_counters_fresh_4={})
    put(run, counters={"kernels": {"a": 1}})
    publish.main([str(run)], results)
    assert read(results / "show-counters-fresh-5.json") == {"kernels": {"a": 1}}


def test_a_dry_run_changes_nothing_and_says_what_it_would(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also which files nobody publishes."""
    run, results = folders
    put(results, kernels=record(row("a", 1)))
    put(run, kernels=record(row("a", 2)), soak={"kernels": 5000})
    publish.main([str(run), "--dry"], results)
    assert read(results / "kernels.json")["rows"][0]["ours"] == 1
    said = capsys.readouterr().out
    assert "kernels.json: 1 rows" in said
    assert "soak.json: no step's result that is published" in said
