"""`tileprof check`: findings and verdicts as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.cli.programs import DOUBLE
from tileprof.checker import BlockVerdict, Finding, FoundAccess, LaunchVerdict, Report, Schedule
from tileprof.cli import sarif
from tileprof.cli.kernel.check_text import render, report_json
from tileprof.errors import Location

KERNELS = f"""{DOUBLE}
    @tileprof.jit
    def shift(A):
        N = T.dynamic("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 4), threads=32) as bx:
            f = T.alloc_fragment((4,), T.float32)
            for i in T.Parallel(4):
                f[i] = A[bx * 4 + i + 1]
            for i in T.Parallel(4):
                A[bx * 4 + i] = f[i]

    @tileprof.jit
    def scatter(A, At):
        A: T.Tensor((8,), T.float32)
        At: T.Tensor((4,), T.int32)
        with T.Kernel(4, threads=32) as bx:
            A[At[bx]] = 1.0

    @tileprof.jit
    def divide(A):
        A: T.Tensor((4,), T.int32)
        with T.Kernel(4, threads=32) as bx:
            A[bx] = 1 // A[bx]
"""


def test_a_kernel_whose_properties_are_proved(cli: Any, write: Callable[..., None]) -> None:
    """Exit code 0; the proof holds for all extents."""
    write(k=KERNELS)
    found = cli("check", "k.py:double", "--no-run")
    assert (found.code, found.err) == (0, "")
    assert found.out == (
        "double, launch at k.py:9\n"
        "  no race between blocks: proved for all inputs\n"
        "  no uninitialized read: proved for all inputs\n"
        "  no access out of bounds: proved for all inputs\n"
        "0 findings\n"
    )


def test_a_race_is_two_accesses_with_lines_and_blocks(cli: Any, write: Callable[..., None]) -> None:
    """Exit code 1."""
    write(k=KERNELS)
    found = cli("check", "k.py:shift", "--set", "N=12")
    assert (found.code, found.err) == (1, "")
    assert found.out == (
        "k.py:21: race-between-blocks: race between blocks on `A`, kernel `shift`\n"
        "    f[i] = A[bx * 4 + i + 1]\n"
        "    A[bx * 4 + i] = f[i]\n"
        "  block (0) reads A[4] at k.py:21\n"
        "  block (1) writes A[4] at k.py:23\n"
        "  Give blocks elements of their own, write another tensor than you read, or use"
        " `T.atomic_add`.\n"
        "\n"
        "shift, launch at k.py:18\n"
        "  no race between blocks: refuted, see above\n"
        "  no uninitialized read: proved for all inputs\n"
        "  no access out of bounds: proved for all inputs\n"
        "  no race inside a block: explored only: nothing found on an emulated sm_90a,"
        " blocks 0, 1, 2 in 3 schedules\n"
        "  no deadlock: explored only: nothing found on an emulated sm_90a,"
        " blocks 0, 1, 2 in 3 schedules\n"
        "1 finding\n"
    )


def test_what_is_neither_proved_nor_run_is_named(cli: Any, write: Callable[..., None]) -> None:
    """A run needs the extents."""
    write(k=KERNELS)
    found = cli("check", "k.py:shift")
    assert found.code == 0
    assert (
        "  no race between blocks: not proved, and not run\n"
        "    `A` at k.py:21 and k.py:23: what is known of the indices does not exclude it\n"
    ) in found.out
    assert (
        "The kernel was not run: give its extents (--set N=…) or --input FILE.npz.\n"
    ) in found.out


def test_tensors_of_a_file_decide_what_is_proved(
    cli: Any, write: Callable[..., None], folder: Path
) -> None:
    """Indices that are 0 race; those of the file do not."""
    write(k=KERNELS)
    assert cli("check", "k.py:scatter").code == 1
    np.savez(folder / "in.npz", At=np.arange(4, dtype=np.int32))
    found = cli("check", "k.py:scatter", "--input", "in.npz")
    assert found.code == 0
    assert (
        "  no race between blocks: proved for all inputs with these values of `At`\n"
        "  no uninitialized read: proved for all inputs\n"
    ) in found.out


def test_another_error_of_the_kernel_is_a_finding(cli: Any, write: Callable[..., None]) -> None:
    """The report states the error that ended the run."""
    write(k=KERNELS)
    found = cli("check", "k.py:divide")
    assert found.code == 1
    assert "an integer is divided by zero, in block (0)" in found.out
    assert "what comes after it was not explored" in found.out


def test_json_has_the_same_facts(cli: Any, write: Callable[..., None]) -> None:
    """Codes, places, indices, blocks and reasons, as fields."""
    write(k=KERNELS)
    found = cli("check", "k.py:shift", "--set", "N=12", "--json")
    assert found.code == 1
    report = json.loads(found.out)
    assert (report["schema"], report["stopped"]) == (1, False)
    (finding,) = report["findings"]
    assert finding["code"] == "race-between-blocks"
    assert [
        (a["kind"], a["location"]["line"], a["index"], a["block"]) for a in finding["accesses"]
    ] == [("read", 21, [4], [0]), ("write", 23, [4], [1])]
    (launch,) = report["launches"]
    assert {n: v["status"] for n, v in launch["verdicts"].items()} == {
        "races": "refuted",
        "initialization": "proved",
        "bounds": "proved",
    }
    assert [each["why"] for each in launch["verdicts"]["races"]["unproved"]] == ["form"]


def test_wrong_use(cli: Any, write: Callable[..., None]) -> None:
    """A kernel that is not there is exit code 2."""
    write(k=KERNELS)
    found = cli("check", "k.py:dubble")
    assert found.code == 2
    assert "Did you mean `double`?" in found.err


def test_faults_inside_a_block_name_threads_bytes_and_a_schedule() -> None:
    """A race and a deadlock, as text, JSON and SARIF."""
    here, there = Location("k.py", 7), Location("k.py", 9)
    schedule = Schedule("sm_90a", 2)
    race = Finding(
        "shared-memory-race",
        "k",
        0,
        "tile",
        (
            FoundAccess("write", here, (16,), (3,), actor="TMA load", thread=128, cuda_line=40),
            FoundAccess("read", there, (16,), (3,), actor="thread", thread=5),
        ),
        schedule=schedule,
    )
    wait = FoundAccess(
        "wait", there, (), (3,), actor="thread", thread=0, threads=64, what="tp_barrier 1: 64 of 96"
    )
    stuck = Finding("deadlock", "k", 0, "", (wait,), "deadlock", schedule)
    inside = BlockVerdict("sm_90a", "refuted", "refuted", (0, 3), (2,))
    report = Report((race, stuck), (LaunchVerdict("k", 0, here, {}, inside),))
    assert render(report, ()) == (
        "k.py:7: shared-memory-race: race inside a block on `tile`, kernel `k`\n"
        "  a TMA load of thread 128 of block 3 writes byte 16 of `tile` at k.py:7"
        " (line 40 of the CUDA text)\n"
        "  thread 5 of block 3 reads byte 16 of `tile` at k.py:9\n"
        "  again with --target sm_90a --seed 2 --schedules 1\n"
        "\n"
        "k.py:9: deadlock: deadlock inside a block, kernel `k`\n"
        "  thread 0 of block 3 and 63 more at k.py:9: tp_barrier 1: 64 of 96\n"
        "  again with --target sm_90a --seed 2 --schedules 1\n"
        "\n"
        "k, launch at k.py:7\n"
        "  no race inside a block: refuted, see above\n"
        "  no deadlock: refuted, see above\n"
        "2 findings\n"
    )
    held = report_json(report)
    assert held["findings"][0]["schedule"] == {"target": "sm_90a", "seed": 2}
    assert held["findings"][0]["accesses"][0]["actor"] == "TMA load"
    assert held["launches"][0]["inside"]["blocks"] == [0, 3]
    results = sarif.of_check(report)
    assert [each.rule for each in results] == ["shared-memory-race", "deadlock"]
    assert "Thread 5 of block 3 reads byte 16 of `tile`" in results[0].message


def test_wrong_options_of_the_inside(cli: Any, write: Callable[..., None]) -> None:
    """Exit code 2 with what is wrong."""
    write(k=KERNELS)
    for options, says in (
        (("--target", "sm_11"), "there is no CUDA target `sm_11`"),
        (("--schedules", "0"), "`0` is less than 1"),
        (("--seed", "x"), "`x` is not a whole number"),
    ):
        found = cli("check", "k.py:double", *options)
        assert found.code == 2
        assert says in found.err
