"""How the cost of profiling is measured: processes in turns, pairs, intervals, bars, the page."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

sys.path[:0] = ["benchmarks"]
serving: Any = importlib.import_module("overhead_serving")
ratios: Any = importlib.import_module("overhead_ratios")
rows: Any = importlib.import_module("overhead_rows")
endings: Any = importlib.import_module("overhead_endings")
page: Any = importlib.import_module("page_overhead")
del sys.path[0]

PROGRAM = dedent("""
    import json, sys, time
    peer = sys.argv[sys.argv.index("--peer") + 1]
    def answer(**values):
        print("@" + json.dumps(values), flush=True)
    print("not an answer")
    answer(ready=True)
    done = 0
    for line in sys.stdin:
        if line == "end\\n":
            break
        done += 1
        if peer == "torch" and done == 3:
            sys.exit("it broke")
        open("turns", "a").write(peer + "\\n")
        seconds = {"none": 2.0, "cupti": 3.0, "torch": 4.0}[peer]
        times = {"seconds": seconds, "stopping": 0.0, "stopping_processor": 0.0}
        answer(**times, memory=done, units=line.split()[2])
    answer(finishing=0.0, ended_ns=time.time_ns())
    open(sys.argv[sys.argv.index("--output") + 1], "w").write("xyz")
""")


def test_processes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each works alone, the first one another in each round; one that breaks is left out."""
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(serving, "PROGRAM", str(tmp_path / "program.py"))
    ways = [serving.Way("plain"), serving.Way("a", peer="cupti"), serving.Way("b", peer="torch")]
    plan = serving.Plan(units=7, warm=1, rounds=3, generations=2)
    taken = serving.take_turns("work", ways, plan, True, tmp_path)
    turns = (tmp_path / "turns").read_text().split()
    warm, first = ["none", "cupti", "torch"], ["none", "cupti", "torch"]
    assert turns[:8] == [*warm, *first, "cupti", "none"]
    assert turns[10:] == ["none", "cupti", "none", "cupti", "cupti", "none", "none", "cupti"]
    assert [[a["units"] for a in g] for g in taken["a"].generations] == [["7"] * 3] * 2
    assert "it broke" in taken["b"].error
    assert taken["b"].generations == []
    end = taken["a"].endings[-1]
    assert end["ended_ns"] - 1e8 < end["written_ns"] <= end["exited_ns"] + 1e8
    assert end["size"] == 3
    found = rows.table("work", "×", taken, rows.Figure("seconds"), rows.Bar(1.6), ways[1])
    assert (found["ours"]["value"], found["met"], found["plain_ms"]) == (1.5, True, 2000.0)
    assert [set(v) >= {"error"} for v in found["variants"]] == [False, True]


def test_intervals_know_that_pairs_of_a_set_belong_together() -> None:
    """Sets that differ from each other make the interval wide, however many pairs each has."""
    apart = ratios.interval([[1.0] * 20, [1.2] * 20, [1.1] * 20])
    assert (apart.low, apart.value, apart.high) == (1.0, 1.1, 1.2)
    mixed = ratios.interval([[1.0, 1.1, 1.2] * 7] * 3)
    assert 1.0 < mixed.low <= mixed.value == 1.1 <= mixed.high < 1.2
    rare = [[1.0] * 9 + [2.0]] * 3
    assert ratios.interval(rare).value == 1.0
    assert ratios.interval(rare, by_mean=True).value == pytest.approx(1.1)


def test_a_bar_is_for_the_upper_end_and_the_peers() -> None:
    """Within it, and below each profiler; bare records are no profiler."""
    bar = rows.Bar(1.2, 1.1, below_peers=True)

    def met(high: float, peer: str, value: float) -> bool | None:
        found: bool | None = bar.met({"value": 1.1, "high": high}, {peer: {"value": value}})
        return found

    assert met(1.2, "torch.profiler", 1.5) is True
    assert met(1.21, "torch.profiler", 1.5) is False
    assert met(1.2, "torch.profiler", 1.05) is False
    assert met(1.2, "CUPTI kernel records, dropped", 1.05) is True
    assert bar.met(None, {}) is None


def test_ends_of_processes() -> None:
    """Seconds after the last line, size, and memory above the plain program's, for a million."""
    bursts = [{"memory": m, "seconds": 1.0} for m in (0, 10e6, 20e6, 30e6)]
    beside = [{"memory": m, "seconds": 1.0} for m in (0, 5e6, 5e6, 15e6)]
    end = {"ended_ns": 10**9, "written_ns": 3 * 10**9, "finishing": 0.5, "size": 4_000_000}
    ours = serving.Taken(rows.FULL, [bursts], [end])
    plain = serving.Taken(rows.PLAIN, [beside], [end])
    (found,) = endings.endings(ours, plain, 0.5e6)
    assert (found.finishing, found.size, found.growth) == (1.25, 2.0, 10.0)


def test_the_page_says_what_was_missed() -> None:
    """A row for each way, ours first with the bar; what was not measured says why."""
    mine = {"name": "tileprof", "value": 1.25, "low": 1.2, "high": 1.3, "pairs": []}
    other = {"name": "torch.profiler", "error": "it broke\nbadly"}
    row = rows.row("training", "×", [other, mine], rows.Bar(1.2, 1.12, below_peers=True))
    assert list(page.table([row, {"work": "gpt", "error": "a|b"}]))[2:] == [
        "| training | tileprof | 1.250 × [1.200, 1.300] | "
        "≤ 1.2 ×, below other profilers (aim 1.12) | missed |",
        "|  | torch.profiler | not measured |  | it broke |",
        "| gpt | – | not measured | | a\\|b |",
    ]
