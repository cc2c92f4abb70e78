"""Counts of instructions on a GPU: of a kernel of which all of them are known.

python -m pytest -m gpu tests/profiler/gpu/test_gpu_sass_metrics.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, python, succeeded
from tileprof.profile import PcFunction, PcInstruction, Profile

pytestmark = pytest.mark.gpu
LOOP, DIVERGED, STORED, LOADED, MOVED = 4, 6, 8, 10, 11
"""Lines of the kernel."""
Counts = dict[str, int]


def counted(folder: Path, *arguments: str, metrics: str = "instructions") -> Ran:
    """Run the program with counts of instructions."""
    run = ("-m", "tileprof", "run", "--quiet", "--metrics", metrics, "-o", "out.tprof")
    ran = succeeded(python(folder, *run, str(PROGRAMS / "executed.py"), *arguments))
    print(ran.errors)
    return ran


def function_of(profile: Profile, name: str = "counted") -> tuple[PcFunction, dict[int, Counts]]:
    """A function, and its counts by offset."""
    facts = profile.tables.provenance
    print({key: fact for key, fact in facts.items() if "count" in key})
    assert "counters not read" not in facts, facts["counters not read"]
    held = profile.tables.pc
    counts = held.counts
    (place,) = (i for i, each in enumerate(held.functions) if each.name == name)
    rows = counts.rows_of(place)
    found = {
        offset: dict(zip(counts.metrics, values))
        for offset, values in zip(counts.offset[rows].tolist(), counts.values[rows].tolist())
    }
    function = held.functions[place]
    for each in function.code:
        line = each.place.line if each.place else 0
        print(f"{each.offset:#06x} line {line} depth {each.depth}: {each.text} ", end="")
        print(found.get(each.offset, ""))
    assert function.code, function.note
    return function, found


def at(function: PcFunction, line: int, depth: int = 0) -> list[PcInstruction]:
    """The instructions of a line, in so many loops at least."""
    found = [e for e in function.code if e.place and e.place.line == line and e.depth >= depth]
    assert found
    return found


def opcode(function: PcFunction, counts: dict[int, Counts], line: int, name: str) -> Counts:
    """The counts of the one instruction of a line that has such an opcode."""
    found = []
    for each in at(function, line):
        words = [word for word in each.text.split() if not word.startswith("@")]
        if words and words[0].partition(".")[0] == name:
            found.append(counts[each.offset])
    assert len(found) == 1, found
    return found[0]


def check_counts(ran: Ran) -> None:
    """Loops turned as often as they did; no execution is lost, none counted twice."""
    function, counts = function_of(ran.profile)
    told: dict[str, Any] = ran.told
    warps = told["launches"] * told["warps"]
    first = counts[0]
    assert (first["executions"], first["thread_executions"]) == (warps, 32 * warps)
    for each in at(function, LOOP, depth=1):
        here = counts[each.offset]
        assert here["executions"] == warps * told["turns"]
        assert here["thread_executions"] == 32 * here["executions"]


def test_a_loop(tmp_path: Path) -> None:
    """Of two kernels; a function's node has the sum of its instructions."""
    ran = counted(tmp_path, "launches", "4")
    check_counts(ran)
    _, counts = function_of(ran.profile)
    (node,) = (ran.profile.node(n) for n in ran.profile.find("counted", "kernel"))
    assert node.own("executions") == sum(each["executions"] for each in counts.values())
    _, others = function_of(ran.profile, "other")
    assert others[0]["executions"] == ran.told["warps"]


def test_a_branch_that_five_threads_take(tmp_path: Path) -> None:
    """One warp of each block, twice as many turns, five active threads."""
    ran = counted(tmp_path, "launches", "3")
    function, counts = function_of(ran.profile)
    warps = ran.told["launches"] * ran.told["warps"] // 2
    for each in at(function, DIVERGED, depth=1):
        here = counts[each.offset]
        assert here["executions"] == warps * 2 * ran.told["turns"]
        assert here["thread_executions"] == 5 * here["executions"]


def test_memory(tmp_path: Path) -> None:
    """Sectors of a request to global memory, passes through shared memory."""
    function, counts = function_of(counted(tmp_path, "launches", "2").profile)
    store = opcode(function, counts, STORED, "STS")
    assert store["shared_wavefronts"] == 32 * store["shared_wavefronts_ideal"]
    load = opcode(function, counts, LOADED, "LDS")
    assert load["shared_wavefronts"] == load["shared_wavefronts_ideal"]
    read = opcode(function, counts, MOVED, "LDG")
    assert read["global_sectors"] == 32 * read["global_requests"] == 32 * read["executions"]
    written = opcode(function, counts, MOVED, "STG")
    assert written["global_sectors"] == 4 * written["global_requests"]


def test_a_line_by_the_line_table(tmp_path: Path) -> None:
    """`--lines` shows what its instructions were executed, `--sass` each of them."""
    ran = counted(tmp_path, "launches", "4")
    function, counts = function_of(ran.profile)
    whole = sum(counts.get(each.offset, {}).get("executions", 0) for each in at(function, LOOP))
    shown = python(tmp_path, "-m", "tileprof", "view", "out.tprof", "--sass", "-i", "counted")
    print(succeeded(shown).output)
    assert "active threads" in shown.output
    data = python(tmp_path, "-m", "tileprof", "view", "out.tprof", "--lines", "--json").told
    (line,) = (each for each in data["lines"] if each["line"] == LOOP)
    assert line["counts"]["executions"] == whole
    assert line["rates"]["active_threads"] == 32


@pytest.mark.parametrize("what", ["scopes", "graph", "pauses", "threads"])
def test_ways_to_launch(tmp_path: Path, what: str) -> None:
    """All are counted: on several call paths, from graphs, around pauses, from threads."""
    check_counts(counted(tmp_path, what, "5"))


def test_what_it_costs_is_said_before(tmp_path: Path) -> None:
    """Metrics that the device does not count are refused, with those that it has."""
    assert "slower" in counted(tmp_path, "launches", metrics="smsp__sass_inst_executed").errors
    run = ("-m", "tileprof", "run", "--metrics", "smsp__sass_inst_exeucted", "-o", "out.tprof")
    refused = python(tmp_path, *run, str(PROGRAMS / "executed.py"), "launches")
    assert refused.code == 2, refused.errors
    assert "smsp__sass_inst_executed" in refused.errors


def test_a_program_of_pytorch(tmp_path: Path) -> None:
    """Its kernels are counted, its results are what they were."""
    script = tmp_path / "adds.py"
    script.write_text(
        "import torch\n"
        "x = torch.zeros(1 << 14, device='cuda')\n"
        "for _ in range(20):\n    x.add_(1)\n"
        "y = x.view(128, 128) @ x.view(128, 128)\n"
        "torch.cuda.synchronize()\n"
        "print(float(x.min()), float(x.max()), float(y[0, 0]))\n"
    )
    run = ("-m", "tileprof", "run", "--quiet", "--metrics", "instructions", "-o", "out.tprof")
    ran = succeeded(python(tmp_path, *run, str(script)))
    assert ran.output.split() == ["20.0", "20.0", "51200.0"]
    held = ran.profile.tables.pc
    assert "counters not read" not in ran.profile.tables.provenance
    assert len(held.functions) >= 2
    assert held.counts.column("executions").sum() > 20 * (1 << 14) // 32
