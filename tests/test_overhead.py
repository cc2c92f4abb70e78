"""How the cost of profiling is measured: processes in turns, pairs, intervals, bars, the page."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
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
    """Each works alone, in an order that changes; one that breaks is left out from then on."""
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(serving, "PROGRAM", str(tmp_path / "program.py"))
    ways = [serving.Way("plain"), serving.Way("a", peer="cupti"), serving.Way("b", peer="torch")]
    plan = serving.Plan(7, 1, rounds=8, generations=2, turns={"a": 4})
    taken = serving.take_turns("work", ways, plan, True, tmp_path)
    turns = (tmp_path / "turns").read_text().split()
    assert turns[:3] == ["none", "cupti", "torch"]
    assert [turns.count(peer) for peer in ("none", "cupti", "torch")] == [18, 10, 2]
    first_of_two = turns[-12:][1::3]  # the plain one works alone in each other round
    assert set(first_of_two) == {"none", "cupti"}
    assert [[a["round"] for a in g] for g in taken["plain"].generations] == [[*range(8)]] * 2
    assert [[a["round"] for a in g] for g in taken["a"].generations] == [[1, 3, 5, 7]] * 2
    assert {a["units"] for g in taken["a"].generations for a in g} == {"7"}
    assert "it broke" in taken["b"].error
    assert taken["b"].generations == []
    end = taken["a"].endings[-1]
    assert end["ended_ns"] - 1e8 < end["written_ns"] <= end["exited_ns"] + 1e8
    assert end["size"] == 3
    found = rows.table("work", "×", taken, rows.Figure("seconds"), rows.Bar(1.6), ways[1])
    assert found["ours"]["value"] == pytest.approx(1.5)
    assert (found["met"], found["plain_ms"]) == (True, 2000.0)
    assert [set(v) >= {"error"} for v in found["variants"]] == [False, True]


def test_who_takes_part_in_a_round() -> None:
    """As often as was asked, evenly, and not all in the same one."""
    names = ["a", "b", "c", "d", "e"]
    plan = serving.Plan(1, 0, 6, 1, {"b": 3, "c": 3, "d": 1, "e": 9})
    rounds = ["".join(plan.takes_part(names, turn)) for turn in range(6)]
    assert rounds == ["ace", "abe", "ace", "abde", "ace", "abe"]
    odd = serving.Plan(1, 0, 80, 1, {"b": 15})
    turns = [turn for turn in range(80) if "b" in odd.takes_part(names, turn)]
    assert len(turns) == 15
    assert {b - a for a, b in itertools.pairwise(turns)} == {5, 6}


def test_pairs_are_of_one_round() -> None:
    """Bursts of rounds in which the other did not work are in no pair."""
    ours = [[{"round": 1, "seconds": 6.0}, {"round": 5, "seconds": 10.0}]]
    plain = [[{"round": r, "seconds": float(r)} for r in (0, 1, 2, 5)]]
    taken, beside = serving.Taken(rows.FULL, ours), serving.Taken(rows.PLAIN, plain)
    assert ratios.ratios(taken, beside, "seconds") == [[6.0, 2.0]]
    assert ratios.costs(taken, beside, "seconds", 10**6) == [[5.0, 5.0]]


def test_intervals_know_that_pairs_of_a_set_belong_together() -> None:
    """Sets that differ from each other make the interval wide, however many pairs each has."""
    apart = ratios.interval([[1.0] * 20, [1.2] * 20, [1.1] * 20])
    assert (apart.low, apart.value, apart.high) == pytest.approx((1.0, 1.1, 1.2))
    mixed = ratios.interval([[1.0, 1.1, 1.2] * 7] * 3)
    assert 1.05 < mixed.low < mixed.value < mixed.high < 1.15
    rare = [[1.0] * 9 + [2.0]] * 3
    assert ratios.interval(rare).value == pytest.approx(1.1)
    assert ratios.ratio_interval(rare).value == pytest.approx(2**0.1)
    assert ratios.ratio_interval([[1 / 3]]).pairs == [[0.33333]]


def test_intervals_hold_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """In about 95 of 100 runs with bursts that vary by 13 % and processes by 2 %."""
    monkeypatch.setattr(ratios, "DRAWS", 500)
    chance = np.random.default_rng(3)

    def bursts() -> Any:
        process = chance.normal(0, 0.02, (5, 1))
        return np.exp(process + chance.normal(0, 0.13, (5, 40)))

    held = []
    for _ in range(400):
        found = ratios.ratio_interval((1.2 * bursts() / bursts()).tolist())
        assert found.low < found.value < found.high
        held.append(found.low <= 1.2 <= found.high)
    assert 0.92 <= np.mean(held) <= 0.98


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


def test_pairs_of_several_times_are_pooled() -> None:
    """All sets count, and the bar holds what comes of them together."""
    bar, made = rows.Bar(1.2, 1.1), []
    for date, pairs in (("one", [[1.0, 1.1]]), ("two", [[1.3, 1.4], [1.3, 1.2]])):
        variant = {"name": rows.FULL.name, **asdict(ratios.ratio_interval(pairs))}
        made.append(rows.row("work", "×", [variant], bar) | {"date": date, "clocks": [date]})
    assert [each["met"] for each in made] == [True, False]
    found = rows.pooled(made)
    expected = ratios.ratio_interval([[1.0, 1.1], [1.3, 1.4], [1.3, 1.2]])
    assert found["ours"] == {"name": rows.FULL.name, **asdict(expected)}
    assert found["met"] is False
    assert found["dates"] == found["clocks"] == ["one", "two"]
