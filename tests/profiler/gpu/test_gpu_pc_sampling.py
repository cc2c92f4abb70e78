"""Samples of program counters on a GPU: how many, where, and what they leave untouched.

    python -m pytest -m gpu tests/profiler/gpu/test_gpu_pc_sampling.py

`TILEPROF_SOAK_SECONDS` sets how long the soak takes.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, counts, python, succeeded
from tileprof.profile import PcRecording, PcSamples, Profile

pytestmark = pytest.mark.gpu
SOAK = os.environ.get("TILEPROF_SOAK_SECONDS", "20")
HOT_LINE = 5
CYCLES = 2_000_000
MULTIPROCESSORS = 132
PROGRAM = str(PROGRAMS / "sampled.py")


def sampled(folder: Path, *arguments: str, options: tuple[str, ...] = ("--pc-sampling",)) -> Ran:
    """Run the program with sampling."""
    run = ("-m", "tileprof", "run", "--quiet", *options, "-o", "out.tprof", PROGRAM)
    return succeeded(python(folder, *run, *arguments))


def recording(profile: Profile, launches: int = 0) -> PcRecording:
    """The one recording, which must have lost nothing; `launches` of short kernels."""
    facts = profile.tables.provenance
    print({key: fact for key, fact in facts.items() if key.startswith(("pc ", "cupti"))})
    assert "pc sampling failed" not in facts, facts["pc sampling failed"]
    (found,) = profile.tables.pc.recordings
    print(found)
    assert found.total > 0
    assert (found.dropped, found.overflows) == (0, 0)
    assert "pc samples lost" not in facts, facts["pc samples lost"]
    # The device counts 0.3 % as nobody's beside kernels' records, and 600 to 1,600 cycles a launch.
    assert found.non_user < 0.02 * found.total + launches * MULTIPROCESSORS * 2000 / found.period
    return found


def by_name(pc: PcSamples) -> Counter[str]:
    """Samples by function."""
    found: Counter[str] = Counter()
    for function, samples in zip(pc.functions, pc.by_function.tolist()):
        found[function.name] += samples
    return found


def by_line(pc: PcSamples, name: str) -> Counter[int]:
    """Samples by innermost line of a function; line 0 where none is known."""
    found: Counter[int] = Counter()
    for number, function in enumerate(pc.functions):
        lines = {each.offset: each.place.line if each.place else 0 for each in function.code}
        for row in (pc.rows.function == number).nonzero()[0]:
            if function.name == name:
                found[lines.get(int(pc.rows.offset[row]), 0)] += int(pc.counted[row])
    return found


@pytest.mark.parametrize("log2", [10, 12, 14])
def test_the_period_is_kept(tmp_path: Path, log2: int) -> None:
    """A multiprocessor at work is sampled once a period; each launch has its record."""
    ran = sampled(tmp_path, "hot", "10", str(CYCLES), options=(f"--pc-sampling={1 << log2}",))
    found = recording(ran.profile)
    expected = ran.told["sms"] * ran.told["cycles"] / (1 << log2)
    assert found.period == 1 << log2
    assert found.total == pytest.approx(expected, rel=0.2)
    assert counts(ran.profile) == {"hot": ran.told["launches"]}


def test_the_hot_line_is_hot(tmp_path: Path) -> None:
    """And its samples have a reason that is not only that others were issued."""
    profile = sampled(tmp_path, "hot", "10", str(CYCLES)).profile
    recording(profile)
    pc = profile.tables.pc
    lines = by_line(pc, "hot")
    assert lines[HOT_LINE] > 0.9 * lines.total()
    assert lines[0] == 0
    assert by_name(pc)["hot"] > 0.98 * pc.recordings[0].total
    assert len({pc.stalls[stall] for stall in pc.rows.stall.tolist()}) > 2


def test_exact_samples_are_at_their_launch(tmp_path: Path) -> None:
    """Twice as many in the scope that launches twice as often."""
    ran = sampled(tmp_path, "hot", "10", str(CYCLES), options=("--pc-sampling-exact",))
    profile = ran.profile
    found = recording(profile)
    assert found.mode == "exact"
    pc, scopes = profile.tables.pc, Counter[str]()
    for node, samples in zip(pc.rows.node.tolist(), pc.counted.tolist()):
        names = [profile.node(each).name for each in profile.path(node)] if node >= 0 else []
        scopes["few" if "few" in names else "many" if "many" in names else ""] += samples
    assert scopes[""] < 0.01 * scopes.total()
    assert scopes["many"] == pytest.approx(2 * scopes["few"], rel=0.1)
    expected = ran.told["sms"] * ran.told["cycles"] / found.period
    assert found.total == pytest.approx(expected, rel=0.2)
    assert counts(profile) == {"hot": ran.told["launches"]}


def test_a_session_in_a_program_that_runs(tmp_path: Path) -> None:
    """CUDA worked before; what was launched outside of the session is not sampled."""
    ran = succeeded(python(tmp_path, PROGRAM, "begun", "10", str(CYCLES)))
    found = recording(ran.profile)
    expected = ran.told["sms"] * ran.told["cycles"] / found.period
    # The launch before may be under way when sampling starts.
    assert 0.8 * expected < found.total < 1.2 * expected * 11 / 10
    assert set(by_name(ran.profile.tables.pc)) == {"hot"}
    assert counts(ran.profile) == {"hot": ran.told["launches"]}


def test_what_is_loaded_between_two_sessions(tmp_path: Path) -> None:
    """The second one samples it, too."""
    ran = succeeded(python(tmp_path, PROGRAM, "between", "10", str(CYCLES)))
    found = recording(ran.profile)
    expected = ran.told["sms"] * ran.told["cycles"] / found.period
    assert by_name(ran.profile.tables.pc)["hot"] == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("what", ["contexts", "captured"])
def test_contexts_and_graphs(tmp_path: Path, what: str) -> None:
    """Contexts that are destroyed; a first launch that is captured, which must not fail."""
    ran = sampled(tmp_path, what, "10", str(CYCLES))
    found = recording(ran.profile)
    expected = ran.told["sms"] * ran.told["cycles"] / found.period
    assert found.total == pytest.approx(expected, rel=0.2)
    assert counts(ran.profile) == {"hot": ran.told["launches"]}


@pytest.mark.parametrize("options", [("--pc-sampling",), ("--pc-sampling-exact",)])
def test_kernels_of_all_kinds_in_two_threads(tmp_path: Path, options: tuple[str, ...]) -> None:
    """PyTorch's, Triton's and ours have samples; lines and texts where compilers tell them."""
    ran = sampled(tmp_path, "libraries", "30", "2048", options=options)
    profile = ran.profile
    recording(profile, sum(counts(profile).values()))
    names, launched = by_name(profile.tables.pc), counts(profile)
    assert launched["row_softmax"] == ran.told["launches"]
    softmax = by_line(profile.tables.pc, "row_softmax")
    assert softmax.total() == names["row_softmax"] > 0
    assert softmax[0] <= 0.01 * softmax.total()
    texts = profile.tables.pc.texts
    for module in {
        each.module for each in profile.tables.pc.functions if each.name == "row_softmax"
    }:
        # The driver hands over the very bytes that Triton gave it.
        assert "@row_softmax" in (texts[module, "ttgir"].text or "")
        assert ".entry row_softmax" in (texts[module, "ptx"].text or "")
    assert any("nvjet" in name or "gemm" in name for name in names), names
    ours = [name for name in names if "matmul" in name]
    assert ours, names
    for name in ours:
        assert by_line(profile.tables.pc, name)[0] <= 0.01 * names[name]


@pytest.mark.alone
def test_a_soak_loses_nothing(tmp_path: Path) -> None:
    """Samples are read while the program runs; none is dropped."""
    ran = sampled(tmp_path, "soak", SOAK, "4096")
    found = recording(ran.profile)
    assert sum(counts(ran.profile).values()) >= ran.told["launches"]
    rate = found.total / ran.told["seconds"]
    print(f"{rate:,.0f} samples/s in {ran.told}")
    named = sum(by_name(ran.profile.tables.pc).values())
    assert named > 0.98 * found.total
