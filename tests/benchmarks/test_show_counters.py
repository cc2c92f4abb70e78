"""Comparison of a page's numbers with counters: what is shown, found in a profile, compared."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.compiled_kernels import compile_together, function, need_machine_code
from tests.profile_samples import full_profile
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.profiler.cupti import cupti_library

comparing: Any = importlib.import_module("benchmarks.show_counters.comparing")
freezing: Any = importlib.import_module("benchmarks.show_counters.freezing")
machine_code: Any = importlib.import_module("benchmarks.show_counters.machine_code")
kernels: Any = importlib.import_module("benchmarks.show_counters.kernels")
main: Any = importlib.import_module("benchmarks.show_counters.__main__")
pages: Any = importlib.import_module("benchmarks.show_counters.pages")
planning: Any = importlib.import_module("benchmarks.show_counters.planning")
quantities: Any = importlib.import_module("benchmarks.show_counters.quantities")
recording: Any = importlib.import_module("benchmarks.show_counters.recording")
CASES = {each.name: each for each in kernels.CASES}
EVERY = {each.name: each for found in main.GROUPS.values() for each in found}
RECORDED: dict[str, Any] = {}
"""Counters of an H200, from `python -m benchmarks.show_counters --keep`: a kernel that is compiled
in another way since then needs them anew."""
for _name in ("show-counters", "show-counters-fresh"):
    _held = json.loads((Path(__file__).parents[1] / "data" / f"{_name}.json").read_text())
    for _kind in ("counters", "line_counters"):
        RECORDED.setdefault(_kind, {}).update(_held[_kind])
    RECORDED["names"] = _held["names"]


@pytest.fixture(scope="module")
def conflicts() -> Any:
    """The page of the kernel with bank conflicts."""
    return pages.shown(CASES["bank_conflicts"])


@pytest.fixture(scope="module")
def plan() -> Any:
    """A plan in which each quantity has a metric of its own, and one has none."""
    names = [each.name for each in quantities.QUANTITIES]
    chosen = {name: ((f"{name}.sum",),) if "cp.async" not in name else () for name in names}
    return planning.Plan("none", chosen, (), 1, tuple(quantities.LINE_METRICS))


def test_names_tell_kernels_apart() -> None:
    """The longest name that is in that of a function owns it."""
    assert len(EVERY) == sum(map(len, main.GROUPS.values())) >= 24
    assert recording.owner("matmul_nt_0", CASES) == "matmul_nt"
    assert recording.owner("transpose_0", CASES) == "transpose"
    assert recording.owner("elementwise", CASES) == ""


def test_numbers_of_a_page(conflicts: Any) -> None:
    """128 blocks of 4 warps; 8 lanes meet in each bank."""
    held = conflicts.quantities
    assert held["bytes read"] == held["bytes asked for by reads"] == 4 << 17
    assert held["wavefronts of shared loads"] == 128 * 4 * 8
    assert held["conflicts of shared loads"] == 128 * 4 * 7
    assert held["requests of stores"] == 128 * 4
    assert conflicts.uncounted == frozenset()


def test_a_page_of_several_launches_has_their_sums() -> None:
    """Maxima and sums of 100 columns, then 96 rows."""
    held = pages.shown(EVERY["columns_softmax"]).quantities
    assert held["bytes written"] == 4 * (2 * 100 + 96 * 100)
    assert held["bytes asked for by reads"] == 4 * (96 * 100 + 96 * 100 + 2 * 100 * 24)


def _zeros(a: Any, b: Any) -> Any:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)


BY_CODE = {"under_two_masks", "nibbles_unpacked", "means_of_ends", "rows_by_parity"}
"""Kernels of which layouts do not tell what NVRTC joins, repeats or moves."""


@pytest.mark.drawn(20)
@pytest.mark.parametrize("name", RECORDED["counters"])
def test_pages_agree_with_the_counters_of_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number that can be compared is exact; sectors of atomics are within 1 %.  Most pages
    are those of the layouts, which take less time than those of the machine code."""
    if name in BY_CODE:
        need_machine_code()
    # No address depends on what a product is, which takes a third of the time.
    monkeypatch.setattr(np, "matmul", _zeros)
    page = pages.shown(EVERY[name], name in BY_CODE)
    chosen = {
        each.name: tuple(tuple(f"{n}.sum" for n in names) for names in each.metrics)
        for each in quantities.QUANTITIES
    }
    measured = {**dict.fromkeys(RECORDED["names"], 0.0), **RECORDED["counters"][name]}
    plan = planning.Plan("GH100", chosen, (), 1, quantities.LINE_METRICS)
    found = comparing.compared(page, plan, measured)
    for quantity, each in found.items():
        known = any(set(names) <= set(measured) for names in chosen[quantity])
        assert (each.reason != "not-measured") == known, quantity
        bar = comparing.BAR if quantity == "sectors of atomics" else 0
        assert (each.difference or 0) <= bar, (quantity, each)
    assert sum(each.difference is not None for each in found.values()) >= 4
    counts = {page.first + int(n): c for n, c in RECORDED["line_counters"][name].items()}
    lines = comparing.compared_lines(page, counts, comparing.warps_left_out(page, measured))
    beyond = {
        (line, quantity): each
        for line, row in lines.items()
        for quantity, each in row.items()
        if each.difference
    }
    assert not beyond


def test_loops_of_fewer_axes_than_others_are_counted_whole() -> None:
    """A row of 2,048 halves is copied by vectors, beside loops over rows and columns."""
    page = pages.shown(CASES["softmax"])
    assert page.quantities["sectors of loads"] == 512 * 2048 * 2 // 32
    assert page.quantities["requests of loads"] == 512 * 2048 // (32 * 8)
    assert page.uncounted == frozenset()


def test_machine_code_has_the_instructions_that_are_counted() -> None:
    """Kernels without a loop or a guard: each warp runs each of its instructions once."""
    need_machine_code()
    names = ("bank_conflicts", "strided_read", "transpose_plain", "transpose")
    drawings = {name: pages.drawn(CASES[name]) for name in names}
    programs = {
        name: compile_cuda(each.watch.kernels[0], find_target("sm_90a"))
        for name, each in drawings.items()
    }
    compile_together(programs.values())
    for name, drawing in drawings.items():
        (launch,) = drawing.watch.launches
        warps = launch.blocks * launch.op.block_threads // 32
        instructions = function(programs[name]).instructions
        for space, access, opcode in (
            ("global", "read", "LDG"), ("global", "write", "STG"),
            ("shared", "read", "LDS"), ("shared", "write", "STS"),
        ):  # fmt: skip
            there = sum(each.opcode.partition(".")[0] == opcode for each in instructions)
            assert launch.traffic.total(space, access).requests == there * warps, (name, opcode)


def test_equal_counters_differ_by_nothing(conflicts: Any, plan: Any) -> None:
    """Another number is told as a share; what is not counted has a code."""
    measured = {f"{name}.sum": float(value) for name, value in conflicts.quantities.items()}
    measured["wavefronts of shared loads.sum"] *= 2
    del measured["sectors of loads.sum"]
    found = comparing.compared(conflicts, plan, measured)
    assert found["bytes read"].difference == 0
    assert found["wavefronts of shared loads"].difference == 0.5
    assert found["sectors of loads"].reason == "not-measured"
    assert found["sectors of cp.async"].reason == "no-counter"
    assert found["bytes read by TMA"].reason == "nothing"
    row = {"launch": {n: each.row() for n, each in found.items()}, "lines": {}}
    told = comparing.summary({"bank_conflicts": row})
    assert told["beyond"] == ["bank_conflicts, launch: wavefronts of shared loads 50.0%"]
    assert told["within_1_percent"] == told["compared"] - 1


def test_an_alternative_that_counts_nothing_gives_way() -> None:
    """A metric may be known and read 0 or NaN."""
    pick = comparing._counted
    assert pick([("a",), ("b",)], {"a": 0.0, "b": 3.0}) == (("b",), 3.0)
    assert pick([("a",), ("b",)], {"a": float("nan"), "b": 0.0}) == (("b",), 0.0)
    assert pick([("a", "b")], {"a": 1.0}) == ((), None)


def test_lines_are_compared_but_for_what_other_instructions_do(conflicts: Any) -> None:
    """Counts of a line that nobody measured have a code."""
    (line,) = (n for n, each in conflicts.lines.items() if each["shared_wavefronts"] == 4096
               and each["shared_wavefronts_ideal"] == 512)  # fmt: skip
    zeros = dict.fromkeys(map(comparing.name_of, quantities.LINE_METRICS), 0)
    found = comparing.compared_lines(conflicts, {line: {**zeros, **conflicts.lines[line]}})
    assert {each.difference for each in found[line].values()} == {0.0}
    others = [each for at, row in found.items() if at != line for each in row.values()]
    assert {each.reason for each in others} == {"not-measured"}


def test_lines_that_lend_each_other_instructions_are_equal_together() -> None:
    """What other instructions do at a third line is left out; a sum that differs is told."""
    numbers = {"global_sectors": 0, "global_requests": 0}
    lines = {n: {**numbers, "shared_wavefronts": 8, "shared_wavefronts_ideal": 8} for n in (4, 5)}
    nothing = frozenset[str]()
    page = pages.Shown({}, nothing, lines, frozenset(), frozenset({6}), "", 1)

    def reasons(*taken: int) -> set[str]:
        zeros = dict.fromkeys(map(comparing.name_of, quantities.LINE_METRICS), 0)
        names = [comparing.name_of(quantities.LINE_QUANTITIES[each][0]) for each in lines[4]][2:]
        counts = {n: zeros | dict.fromkeys(names, each) for n, each in zip((4, 5, 6), taken)}
        found = comparing.compared_lines(page, counts)
        return {found[n][each].reason for n in (4, 5) for each in list(lines[4])[2:]}

    assert reasons(3, 13, 96) == {"line-of-neighbour"}
    assert reasons(3, 12, 96) == reasons(3, 12, 1) == {""}


def test_waits_at_the_banks_are_not_conflicts_of_the_page(conflicts: Any, plan: Any) -> None:
    """More conflicts than the page's, beside equal wavefronts, are waits for something else; fewer
    conflicts, or other wavefronts, differ."""
    equal = {f"{name}.sum": float(value) for name, value in conflicts.quantities.items()}
    name = "conflicts of shared loads"

    def found(change: int, wavefronts: int = 0) -> Any:
        measured = equal | {f"{name}.sum": equal[f"{name}.sum"] + change}
        measured["wavefronts of shared loads.sum"] += wavefronts
        return comparing.compared(conflicts, plan, measured)[name]

    assert found(11).reason == "arbitration"
    assert found(11).difference is None
    assert found(0).difference == 0
    assert found(-11).difference > 0
    assert found(11, wavefronts=11).difference > 0


def test_counts_of_a_profile_go_to_lines_of_the_kernels_file() -> None:
    """Code of headers counts for the line that calls it."""
    profile = full_profile()
    pc = profile.tables.pc
    function = next(each for each in pc.functions if each.code)
    place = next(each.place for each in function.code if each.place is not None)
    while place.caller is not None:
        place = place.caller
    page = pages.Shown({}, frozenset(), {}, frozenset(), frozenset(), place.file, 0)
    found = recording.of_lines(profile, {function.name: page})[function.name]
    number = list(pc.functions).index(function)
    sums = pc.counts.by_function(len(pc.functions))[number]
    for metric, total in zip(pc.counts.metrics, sums.tolist()):
        assert sum(each.get(metric, 0) for each in found.values()) == total
    assert 0 not in found


def test_counters_of_a_profile_go_to_its_kernels() -> None:
    """A metric that is 0 everywhere is not in the profile; of other kernels nothing is said."""
    profile = full_profile()
    found = recording.of_launches(profile, ["matmul", "softmax"], ["time", "l1tex__none.sum"])
    node = profile.node(profile.find("matmul", "kernel")[0])
    assert found == {"matmul": {"time": float(node.own("time")), "l1tex__none.sum": 0.0}}
    assert node.own("time") > 0


def test_frozen_pages_are_written_once_and_compared_with_those_of_now(tmp_path: Path) -> None:
    """A page that says something else since then is named; what is in the file stays."""
    path = tmp_path / "frozen.json"
    case = CASES["strided_read"]
    assert freezing.freeze([case], path=path) == ["strided_read"]
    now = {"strided_read": pages.shown(case)}
    frozen = freezing.frozen_pages(now, path)
    assert frozen == now
    assert freezing.changed(now, frozen) == []
    held = json.loads(path.read_text())
    held["kernels"]["strided_read"]["launch"]["bytes read"] += 32
    path.write_text(json.dumps(held))
    assert freezing.freeze([case], path=path) == []
    frozen = freezing.frozen_pages(now, path)
    assert freezing.changed(now, frozen) == ["strided_read"]
    assert frozen["strided_read"].quantities["bytes read"] == 4 * (1 << 16) + 32


def test_every_kernel_of_the_frozen_list_has_a_page_in_the_file() -> None:
    """Of this repository 13 and the fresh ones, of TileLang's examples at least 5."""
    held = json.loads(freezing.FROZEN_PAGES.read_text())["kernels"]
    here = {each.name for each in main.FROZEN}
    assert len(here) >= 8
    assert here <= set(held)
    fresh = {each.name for each in main.FRESH}
    assert len(fresh) >= 12
    assert fresh <= set(held)
    # All of them with one state of the code.
    assert len(freezing.codes_of(fresh)) == 1
    assert len(held) >= len(here | fresh) + 5
    for row in held.values():
        assert set(row["launch"]) == {each.name for each in quantities.QUANTITIES}
        assert all(set(line) == set(quantities.LINE_QUANTITIES) for line in row["lines"].values())


def test_machine_code_beside_a_page_names_lines_without_their_loads() -> None:
    """Both loops of the kernel ask for the rows; the code has the loads of the first one."""
    need_machine_code()
    found = machine_code.beside_code(CASES["norm_in_parts"])
    reads = [each for (_, key), each in sorted(found.items()) if key[:2] == ("global", "read")]
    assert [each.requests for each in reads] == [4, 0]
    assert [dict(each.instructions) for each in reads] == [{0: 4}, {}]
    assert not any(each.differs for each in reads)
    text = list(machine_code.text([CASES["norm_in_parts"]]))
    assert text[0] == "norm_in_parts"
    assert any("global read, threads: 4 requests a warp; 4 in 0 loops" in line for line in text)


def test_metrics_that_cupti_knows() -> None:
    """Each quantity has a counter on an H100, and all of them are counted together."""
    if cupti_library.find_cupti() is None:
        pytest.skip("there is no CUPTI to ask")
    made = planning.plan(planning.CHIP)
    assert all(made.chosen.values()), planning.plan_text(made)
    assert 1 <= made.passes <= 16
    assert "sectors of loads" in planning.plan_text(made)
