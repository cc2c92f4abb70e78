"""Sessions that count instructions, on a played CUPTI: exactly what was executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.native.counters.test_native_sass_metrics import (
    EXECUTED,
    NAMES,
    SECTORS,
    THREADS,
    Counting,
)
from tests.native.cupti_programs import Fake
from tileprof import profiler
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profile import (
    InstructionCounts,
    PcRecording,
    PcRows,
    PcSamples,
    Profile,
    load,
    merge,
)
from tileprof.profiler.counters import control
from tileprof.profiler.counters.instructions import make_instruction_plan
from tileprof.profiler.counters.requests import AskedInstructions, parse_metrics
from tileprof.profiler.cupti.refusals import REFUSALS
from tileprof.viewer.code.pc_data import sass_json
from tileprof.viewer.code.sass import render_sass
from tileprof.viewer.columns import column
from tileprof.viewer.options import ViewOptions

recorder = pytest.importorskip("tileprof.native._recorder")

CUBIN = b"\x7fELF\0.text.f\0.text.g\0"


def found_here(_: object) -> tuple[str, list[str]]:
    """The played device."""
    return "FAKE100", list(NAMES)


# -- what is asked for


def test_names_of_instructions() -> None:
    """The set, and SASS metrics of CUPTI's; with `.sum` they are of launches."""
    assert parse_metrics("instructions") == AskedInstructions(("instructions",))
    assert parse_metrics(NAMES[0]) == AskedInstructions((NAMES[0],))
    assert not isinstance(parse_metrics(f"{NAMES[0]}.sum"), AskedInstructions)


@pytest.mark.parametrize("given", ["instructions,memory", f"sm__cycles_active.sum,{NAMES[0]}"])
def test_both_kinds_at_once(given: str) -> None:
    """They are refused, with a way out."""
    with pytest.raises(UsageError, match="one process does not do both") as caught:
        parse_metrics(given)
    assert "twice" in str(caught.value.hint)


def test_beside_sampling(played: Counting) -> None:
    """In one session, and in two."""
    with pytest.raises(UsageError, match="exclude each other"):
        profiler.start(metrics="instructions", pc_sampling=True)
    session = profiler.start(metrics="instructions")
    with pytest.raises(UsageError, match="exclude each other"):
        profiler.start(pc_sampling=True)
    with pytest.raises(UsageError, match="launches and counts of instructions exclude each other"):
        profiler.start(metrics="memory")
    session.finalize()


def test_the_set_is_what_the_device_has(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric by its name has to be there; similar ones are told."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    plan = make_instruction_plan(AskedInstructions(("instructions",)), found_here)
    assert set(plan.metrics) == set(NAMES)
    assert "patched" in plan.sentence()
    with pytest.raises(UsageError, match="FAKE100 counts no `smsp__sass_inst_exceuted`") as caught:
        make_instruction_plan(AskedInstructions(("smsp__sass_inst_exceuted",)), found_here)
    assert NAMES[0] in str(caught.value.hint)
    with pytest.raises(MissingDependencyError, match="counts nothing"):
        make_instruction_plan(AskedInstructions(("instructions",)), lambda _: ("OLD100", []))


def test_metrics_of_a_device(library: Path) -> None:
    """As CUPTI lists them."""
    from tileprof.profiler.counters.lookup import instruction_metrics_of

    assert instruction_metrics_of(library, "FAKE100") == list(NAMES)


# -- sessions


@pytest.fixture
def played(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """The played driver, for sessions of this process."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    monkeypatch.setattr(
        control, "make_instruction_plan", lambda asked: make_instruction_plan(asked, found_here)
    )
    recorder.gpu_after_fork()
    yield (counting := Counting(Fake(library, recorder)))
    profiler.finalize()
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.sass_configure([])
    recorder.gpu_drain()
    counting.fake.c.fake_current(0)
    assert counting.fake.c.fake_sass_misuses() == 0


def by_place(held: PcSamples) -> dict[tuple[str, int], dict[str, int]]:
    """Counts by name of the function and offset."""
    counts: InstructionCounts = held.counts
    columns = counts.function.tolist(), counts.offset.tolist(), counts.values.tolist()
    return {
        (held.functions[function].name, offset): dict(zip(counts.metrics, values))
        for function, offset, values in zip(*columns)
    }


def run(played: Counting, path: Path | None = None, times: int = 3) -> Profile:
    """Launch `f` so many times: a loop of ten turns in two warps, one of them with 5 threads."""
    session = profiler.start(path, context="scopes", metrics="instructions")
    module = played.load(CUBIN)
    for _ in range(times):
        with profiler.scope("layer"):
            played.fake.c.fake_current(0x1000)
            played.fake.kernel("f", 1000, 1500)
        for metric, first, second in ((EXECUTED, 2, 20), (THREADS, 37, 370), (SECTORS, 0, 40)):
            played.execute("f", 0, metric, first, module=module)
            played.execute("f", 16, metric, second, module=module)
    return session.finalize()


def test_counts_of_a_program(played: Counting, tmp_path: Path) -> None:
    """In the profile and in its file, and at the kernel's node."""
    run(played, tmp_path / "a.tprof")
    profile = load(tmp_path / "a.tprof")
    profile.check()
    counts = profile.tables.pc.counts
    assert set(counts.metrics) == {"executions", "thread_executions", "global_sectors"}
    assert by_place(profile.tables.pc)["f", 16] == {
        "executions": 60, "thread_executions": 1110, "global_sectors": 120,
    }  # fmt: skip
    assert by_place(profile.tables.pc)["f", 0]["executions"] == 6
    (at,) = profile.find("f", "kernel")
    assert profile.node(at).own("executions") == 66
    assert profile.node(at).own("time") == 1500
    assert column(profile, "active_threads").total[at] == pytest.approx(407 * 3 / 66)
    facts = profile.tables.provenance
    told = "instructions on FAKE100; kernels ran patched, one after the other"
    assert facts["instruction counts"] == told
    assert "counters not read" not in facts


def test_functions_at_several_call_paths(played: Counting) -> None:
    """What a function was executed is dealt out by time, and adds up."""
    session = profiler.start(context="scopes", metrics="instructions")
    module = played.load(CUBIN)
    for scope, ns in (("short", 100), ("long", 300)):
        with profiler.scope(scope):
            played.fake.c.fake_current(0x1000)
            played.fake.kernel("f", 1000, 1000 + ns)
        played.execute("f", 0, EXECUTED, 4, module=module)
    profile = session.finalize()
    own = [profile.node(at).own("executions") for at in profile.find("f", "kernel")]
    assert sorted(own) == [2, 6]


def test_views(played: Counting) -> None:
    """Columns beside the code, hot instructions first; the same as data."""
    profile = run(played)
    text = render_sass(profile, ViewOptions(), 120, color=False, unicode=True)
    assert "samples" not in text
    assert "f: 66 executions (100.0 %)" in text
    (line,) = [line for line in text.splitlines() if "0x0010" in line]
    assert line.split()[:3] == ["60", "90.9", "18.5"]
    data: dict[str, Any] = json.loads(sass_json(profile, ViewOptions()))
    (function,) = data["functions"]
    assert function["counts"]["executions"] == 66
    assert function["instructions"][1]["rates"] == {"active_threads": 18.5}
    assert data["counted"] == [sorted(data["counted"][0], key=data["counted"][0].index)]


def test_runs_add_up(played: Counting) -> None:
    """Of two runs."""
    one, two = run(played, times=1), run(played, times=2)
    joined = merge([one, two])
    joined.check()
    assert by_place(joined.tables.pc)["f", 16]["executions"] == 60
    assert len(joined.tables.pc.counts.recordings) == 2


def test_samples_and_counts_side_by_side(played: Counting) -> None:
    """Of two runs of the same code: samples tell what is hot, counts stand beside."""
    counted = run(played)
    recordings = (PcRecording(4096, "continuous", 7),)
    rows = PcRows.typed([0], [16], [0], [-1], [7])
    samples = PcSamples(counted.tables.pc.functions, ("wait",), rows, recordings)
    sampled = replace(counted, tables=replace(counted.tables, pc=samples))
    joined = merge([sampled, counted])
    assert len(joined.tables.pc.functions) == 1
    text = render_sass(joined, ViewOptions(), 140, color=False, unicode=True)
    assert "f: 7 samples (100.0 %)" in text
    (header,) = [line.split() for line in text.splitlines() if "stalls" in line]
    assert header[0] == "samples"
    assert header.index("executions") > header.index("stalls")
    (line,) = [line for line in text.splitlines() if "0x0010" in line]
    assert line.split()[:6] == ["7", "100.0", "wait", "100", "60", "18.5"]
    merge([counted, sampled]).check()


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_told(played: Counting, code: int) -> None:
    """The program goes on; the profile says why there is nothing, and the way out."""
    played.fake.option("sass_enable_result", code)
    profile = run(played)
    assert not profile.tables.pc
    where, way = REFUSALS[code]
    said = profile.tables.provenance["counters not read"]
    assert said.startswith(f"CUPTI reads no counters {where} (")
    assert way in said
    with pytest.raises(UsageError, match="no counts of instructions"):
        render_sass(profile, ViewOptions(), 120, color=False, unicode=True)


def test_counts_of_nothing_are_told(played: Counting) -> None:
    """Numbers that are all 0 are no counts of a program that ran."""
    session = profiler.start(context="scopes", metrics="instructions")
    played.launch()
    played.execute("f", 0, EXECUTED, 0)
    profile = session.finalize()
    assert not profile.tables.pc
    told = profile.tables.provenance["counters not read"]
    assert told == "all 3 counts of instructions are 0"


def test_pauses_of_a_session(played: Counting) -> None:
    """What runs meanwhile is not counted."""
    session = profiler.start(context="scopes", metrics="instructions")
    for counted in (True, False, True):
        (session.activate if counted else session.deactivate)()
        played.launch()
        played.execute("f", 0, EXECUTED, 1 if counted else 100)
    assert by_place(session.finalize().tables.pc)["f", 0]["executions"] == 2


def test_a_later_session_begins_with_nothing(played: Counting) -> None:
    """And one that does not ask has no word of it."""
    run(played)
    assert by_place(run(played, times=1).tables.pc)["f", 0]["executions"] == 2
    session = profiler.start(context="scopes")
    played.launch()
    assert not played.enabled()
    profile = session.finalize()
    assert not profile.tables.pc
    assert "instruction counts" not in profile.tables.provenance
