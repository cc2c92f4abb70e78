"""The emulator runs right kernels right for every seed, and shows what is wrong in wrong ones:
threads, barriers, shared memory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.emulated import SEEDS, Array, Program, fails_for_some_seed
from tileprof.compiler import codegen
from tileprof.compiler.cuda.prelude import FOLDER
from tileprof.emulator import EmulationError, Printed
from tileprof.emulator.building import INCLUDE

REDUCTION = """
  float *const partial = (float *)shared;
  float sum = x[blockIdx.x * 128 + t];
  for (int by = 16; by; by /= 2) sum += tp_shuffle_xor(sum, by);
  if (t % 32 == 0) partial[t / 32] = sum;
  tp_barrier();
  if (t == 0) out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
"""


def reduction(body: str) -> tuple[Program, list[Array]]:
    """Three blocks that add up 128 numbers each."""
    arrays = [np.arange(384, dtype=np.float32), np.zeros(3, np.float32)]
    program = Program(body, "const float *x, float *out", arrays, shared=16, grid=3)
    return program, arrays


@pytest.mark.parametrize("seed", SEEDS)
def test_block_reduction(seed: int) -> None:
    """Shuffles, shared memory and a barrier."""
    program, (x, out) = reduction(REDUCTION)
    program.run([x, out], seed)
    assert (out == x.reshape(3, 128).sum(1)).all()


def test_a_missing_barrier_shows() -> None:
    """Without the barrier some thread reads what is not written yet."""
    program, arrays = reduction(REDUCTION.replace("tp_barrier();", ""))
    want = arrays[0].reshape(3, 128).sum(1)
    assert fails_for_some_seed(program, arrays, want)


def run_alone(body: str, **more: Any) -> Array:
    """A text that writes 128 numbers to `out`."""
    out = np.zeros(128, np.int32)
    Program(body, "int *out", [out], **{"shared": 1024, **more}).run([out])
    return out


def message_of(body: str, **more: Any) -> str:
    """What the emulator says of a text that it must not accept."""
    with pytest.raises(EmulationError) as caught:
        run_alone(body, **more)
    return str(caught.value)


def test_votes_scans_and_named_barriers() -> None:
    """The rest of a warp's and of a block's meetings."""
    scans = run_alone("out[t] = tp_warp_scan<TpSum, 32>(1) + 100 * tp_any(t % 32 == 3);")
    assert (scans == 101 + np.arange(128) % 32).all()
    votes = run_alone("""
      bool all = true;
      for (int i = 0; i < 5; i++) all = tp_barrier_any(t == i) && !tp_barrier_all(t == i) && all;
      if (t < 64) tp_barrier(1, 64);
      else tp_barrier(2, 64);
      out[t] = all;""")
    assert votes.all()


def test_a_deadlock_says_who_waits_where() -> None:
    """Two warps wait for a third one, the others for them."""
    text = message_of("if (t < 64) tp_barrier(1, 96);\nelse tp_barrier();")
    assert "deadlock" in text
    assert "threads 0-63: tp_barrier 1: 64 of 96 threads are there" in text
    assert "threads 64-127: tp_barrier 0" in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("tp_barrier(1, 40);", "whole warps"),
        ("if (t < 64) tp_barrier(1, 64); else tp_barrier(1, 128);", "while others wait there"),
        ("if (t % 2) tp_warp_barrier(); else tp_any(true);", "while lane"),
        ("out[t] = *(volatile int *)(8l << 40);", "which is not there"),
        ("shared[1024] = 0; out[0] = shared[0];", "its shared memory, which has 1024"),
        ("int v[4]; tp_load_vector(v, (const int *)(shared + 8)); out[t] = v[0];", "not aligned"),
        ("tp_mbarrier_arrive((uint64_t *)shared);", "was not initialised"),
        ("tp_tma_load_multicast(0, 0, 0, 0, 0);", "to no block"),
        ("__trap();", "__trap()"),
    ],
)
def test_what_a_gpu_would_not_survive(body: str, says: str) -> None:
    """Each ends the launch with a message."""
    assert says in message_of(body)


def test_writes_around_an_array_are_seen() -> None:
    """One element past the end."""
    assert "memory around `p0` was written" in message_of("if (t == 0) out[128] = 1;")


def test_failures_and_prints_reach_the_report() -> None:
    """The prelude's own `report.cuh` runs here."""
    out = np.zeros(128, np.int32)
    body = "if (t == 5) tp_print(report, 3, 2.5f, t, 7);\nif (t == 9) tp_fail(report, 4, 11, -2);"
    program = Program(body, "int *out, TpReport *report", [out], report=True)
    with pytest.raises(EmulationError) as caught:
        program.run([out])
    failure = caught.value.failure
    assert failure is not None
    assert (failure.place, failure.thread, failure.values[:3]) == (4, 9, (11, -2, 0))
    quiet = Program(body.partition("\n")[0], "int *out, TpReport *report", [out], report=True)
    word = int(np.float32(2.5).view(np.int32))
    assert quiet.run([out]) == [Printed(3, 0, 5, (5, 7, word))]


def test_what_is_noted_goes_on() -> None:
    """The first failure is told; no thread ends before its end."""
    out = np.zeros(128, np.int32)
    body = "if (t % 32 == 9) tp_note(report, 4, t, -2);\nout[t] = t + 1;"
    program = Program(body, "int *out, TpReport *report", [out], report=True)
    with pytest.raises(EmulationError) as caught:
        program.run([out])
    failure = caught.value.failure
    assert failure is not None
    assert (failure.place, failure.values[1]) == (4, -2)
    assert failure.thread == failure.values[0]
    assert failure.thread % 32 == 9


def test_a_failure_after_a_note_stops_the_launch() -> None:
    """No thread waits for a trap that nobody makes; what is told is the note."""
    out = np.zeros(128, np.int32)
    body = "if (t == 9) tp_note(report, 4, t);\ntp_barrier();\nif (t > 60) tp_fail(report, 5, t);"
    program = Program(body, "int *out, TpReport *report", [out], report=True)
    with pytest.raises(EmulationError) as caught:
        program.run([out])
    failure = caught.value.failure
    assert failure is not None
    assert (failure.place, failure.values[0]) == (4, 9)


def test_a_variable_in_static_shared_memory() -> None:
    """One for each block."""
    out = np.zeros(512, np.int32)
    body = """
      TP_SHARED_VARIABLE(int, told);
      if (t == 7) told = blockIdx.x;
      tp_cluster_barrier();
      out[blockIdx.x * 128 + t] = told;"""
    Program(body, "int *out", [out], grid=4, cluster=2).run([out], 1)
    assert (out == np.arange(512) // 128).all()


def test_atomics_of_every_width() -> None:
    """All threads add to one element, in shared and in global memory."""
    arrays: list[Array] = [np.zeros(4, np.float16), np.zeros(2, np.int32)]
    body = """
      int *const count = (int *)shared;
      if (t == 0) *count = 0;
      tp_barrier();
      tp_atomic<TpAdd>(half + 1, 1.0f);
      tp_atomic<TpAdd>(count, 2);
      tp_atomic<TpLarger>(out + 1, t);
      tp_barrier();
      if (t == 0) out[0] = *count;
    """
    Program(body, "TpHalf *half, int *out", arrays, shared=16).run(arrays)
    assert arrays[0].tolist() == [0, 128, 0, 0]
    assert arrays[1].tolist() == [256, 127]


FUNCTION = re.compile(r"\b(tp_\w+)\s*\(")
INSIDE = {
    "tp_odd", "tp_pack2_within", "tp_pack4_within", "tp_atomic_word", "tp_wgmma_hold_one",
    "tp_first_of_warp", "tp_sample_clock", "tp_sampled_cycles", "tp_sampled_zero",
}  # fmt: skip
"""What other functions of a header are made of, and emitted text does not call."""


def preprocessed(header: Path, *folders: Path) -> str:
    """A header, what it includes, and macros expanded."""
    command = ["g++", "-E", "-P", "-x", "c++", "-D__CUDA_ARCH__=900"]
    command += [f"-I{folder}" for folder in folders] + [str(header)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("header", sorted(p.name for p in FOLDER.glob("*.cuh")))
def test_nothing_of_the_prelude_is_missing(header: str, tmp_path: Path) -> None:
    """Headers with instructions have a counterpart with the same functions; others run as they
    are."""
    (tmp_path / "generated_wgmma.h").touch()
    (tmp_path / header).write_text((FOLDER / header).read_text())
    own = INCLUDE / header if (INCLUDE / header).exists() else tmp_path / header
    text = preprocessed(own, tmp_path, INCLUDE, codegen.prelude.FOLDER)
    assert not re.search(r"\basm\b", text), f"{header} needs a counterpart"
    wanted = FUNCTION.findall(preprocessed(FOLDER / header, FOLDER, codegen.prelude.FOLDER))
    assert set(wanted) - set(FUNCTION.findall(text)) <= INSIDE
