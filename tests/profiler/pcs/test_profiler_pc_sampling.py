"""Sessions that sample program counters, on a played CUPTI: exactly what a device took."""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.native.cupti_programs import Fake
from tests.native.pc_programs import SCOREBOARD, SELECTED, WAIT, WAIT_LATENCY, Sampling
from tileprof import profiler
from tileprof.profile import load, save
from tileprof.profiler.cupti import permissions
from tileprof.profiler.cupti.refusals import BUSY, REFUSALS
from tileprof.profiler.pcs.held_cubins import HeldCubins
from tileprof.profiler.pcs.options import parse_pc_sampling
from tileprof.profiler.pcs.raw import RawPcSamples
from tileprof.profiler.session.session import Session

recorder = pytest.importorskip("tileprof.native._recorder")

CUBIN = b"\x7fELF\0.text.f\0.text.g\0"


@pytest.fixture
def played(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sampling]:
    """The played driver, for sessions of this process."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    recorder.gpu_after_fork()
    yield (sampling := Sampling(Fake(library, recorder)))
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.pc_configure(0)
    recorder.gpu_drain()
    sampling.fake.c.fake_current(0)
    assert sampling.fake.c.fake_misuses() == 0


def raw_of(session: Session) -> RawPcSamples | None:
    """What the session has until now."""
    events = session.recording.recorder.events
    assert events is not None
    return events.gpu.pcs.samples()


def counts(raw: RawPcSamples) -> dict[tuple[str, int, str], int]:
    """The rows, without contexts."""
    found: Counter[tuple[str, int, str]] = Counter()
    columns = (raw.function, raw.offset, raw.stall, raw.samples)
    for function, offset, stall, samples in zip(*(column.tolist() for column in columns)):
        reason = raw.stalls[stall].removeprefix("smsp__pcsamp_warps_issue_stalled_")
        found[raw.functions[function][1], offset, reason] += samples
    return dict(found)


def test_a_session_has_what_was_taken(played: Sampling) -> None:
    """At a flush all until then, at the end all; with cubins by module."""
    session = profiler.start(pc_sampling=True)
    module = played.load(CUBIN)
    played.launch()
    played.sample("f", 0x10, (WAIT, WAIT_LATENCY), 5, module=module)
    played.sample("g", 0x20, (SCOREBOARD,), 6, module=module)
    recorder.gpu_pause()
    raw = raw_of(session)
    assert raw is not None
    assert counts(raw) == played.expected()
    recorder.gpu_resume()
    played.sample("f", 0x10, (WAIT, SELECTED), 7, module=module)
    played.lose(non_user=2, dropped=3)
    recorder.gpu_pause()
    raw = raw_of(session)
    assert raw is not None
    assert counts(raw) == played.expected()
    assert (raw.total, raw.dropped, raw.non_user, raw.overflows) == (30, 3, 2, 0)
    assert (raw.period, raw.mode) == (65536, "continuous")
    assert raw.modules == {module: CUBIN for module, _ in raw.functions}
    assert [column.dtype for column in (raw.function, raw.offset, raw.stall, raw.context)] == [
        np.uint32, np.uint32, np.uint16, np.uint32,
    ]  # fmt: skip
    facts = session.finalize().tables.provenance
    assert facts["pc sampling"] == "continuous, every 65,536 cycles; 30 samples"
    assert facts["pc samples lost"] == "3 samples were dropped by the device"
    assert "pc sampling failed" not in facts
    assert played.state() == 0


def test_exact_samples_are_at_their_call_paths(played: Sampling) -> None:
    """The contexts are those of the launches, under the scopes that were open."""
    session = profiler.start(pc_sampling=5000, pc_sampling_exact=True)
    for name, samples in (("forward", 4), ("backward", 9)):
        with profiler.scope(name):
            correlation = played.launch()
            played.sample("f", samples=samples, correlation=correlation)
    recorder.gpu_pause()
    raw = raw_of(session)
    assert raw is not None
    events = session.recording.recorder.events
    assert events is not None
    found = {}
    for context, samples in zip(raw.context.tolist(), raw.samples.tolist()):
        node, names = events._contexts.node(context), []
        while node.parent is not None:
            names.append(node.name)
            node = node.parent
        found[names[-1] if names[-1] in ("forward", "backward") else tuple(names)] = samples
    assert sorted(found.values()) == [4, 9]
    assert all("forward" in str(path) for path, n in found.items() if n == 4)
    assert (raw.period, raw.mode) == (4096, "exact")
    facts = session.finalize().tables.provenance
    assert facts["pc sampling"] == "exact, every 4,096 cycles (5,000 were asked for); 13 samples"


def test_without_being_asked_there_is_nothing(played: Sampling) -> None:
    """No samples and no word of them; a later session begins with nothing."""
    first = profiler.start(pc_sampling="")
    played.launch()
    played.sample("f")
    first.finalize()
    session = profiler.start()
    played.launch()
    assert played.state() == 0
    assert raw_of(session) is None
    assert not any("pc s" in key for key in session.finalize().tables.provenance)
    again = profiler.start(pc_sampling=True)
    assert raw_of(again) is None
    played.launch()
    played.sample("h", samples=8)
    again.deactivate()
    raw = raw_of(again)
    again.finalize()
    assert raw is not None
    assert (counts(raw), raw.functions) == ({("h", 0, "wait"): 8}, raw.functions[:1])


def test_modules_that_were_loaded_before(played: Sampling) -> None:
    """Have the cubin that Triton holds, if there is one with their functions."""
    kind = type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"})
    held = [kind(), kind()]
    held[0].asm, held[1].asm = {"cubin": CUBIN}, {"cubin": b"\x7fELF\0.text.other\0"}
    module, library = played.load(CUBIN), played.load(b"\x7fELF of a library")
    session = profiler.start(pc_sampling=True)
    played.launch()
    played.sample("f", module=module)
    played.sample("of_a_library", module=library)
    session.deactivate()
    raw = raw_of(session)
    session.finalize()
    assert raw is not None
    names = {name: module for module, name in raw.functions}
    assert raw.modules == {names["f"]: CUBIN}


class AsmDict(dict[str, object]):
    """As Triton's: what is not there is made when it is asked for, by another program."""

    def __missing__(self, key: str) -> object:
        raise AssertionError(key)

    get = __contains__ = __missing__  # type: ignore[assignment]


def compiled(cubin: bytes, **asm: object) -> object:
    """Stands for a `CompiledKernel` of Triton 3.6's; that one needs a GPU."""
    kind = type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"})
    found = kind()
    found.name, found.hash = "f", "00"
    found.metadata = types.SimpleNamespace(name="f", num_warps=4, shared=0)
    found.asm = AsmDict(ttir="module {}", **asm, llir="; f", cubin=cubin)
    return found


def test_what_triton_made_a_kernel_from(played: Sampling, tmp_path: Path) -> None:
    """TTGIR and PTX of the cubins that ran, in the file; no others."""
    texts = {"ttgir": "module attributes {} {\n}\n", "ptx": "//\n.version 8.7\n"}
    other = CUBIN + b"another"
    held = [
        compiled(CUBIN + b"alike", ttgir="module {alike}", ptx="alike"),
        compiled(CUBIN, **texts),
        compiled(other, ttgir=b"no text", ptx="only this"),
    ]
    session = profiler.start(pc_sampling=True)
    for each in (CUBIN, other, CUBIN + b"of a library"):
        module = played.load(each)
        played.launch()
        played.sample("f", module=module)
    save(session.finalize(), tmp_path / "p.tprof")
    found = load(tmp_path / "p.tprof").tables.pc
    del held
    first, second = (hashlib.sha256(each).hexdigest() for each in (CUBIN, other))
    assert {key: each.text for key, each in found.texts.items()} == {
        (first, "ttgir"): texts["ttgir"],
        (first, "ptx"): texts["ptx"],
        (second, "ptx"): "only this",
    }
    assert {first, second} < {each.module for each in found.functions}


def test_cubins_that_cannot_be_told_apart_are_not_guessed() -> None:
    """Two kernels of one name; and what was looked for is not looked for again."""
    kind = type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"})
    held = [kind() for _ in range(3)]
    for each, ending in zip(held, (b"1", b"2", b"2")):
        each.asm = {"cubin": b"\x7fELF\0.text.softmax_twice\0" + ending}
    assert HeldCubins().find({3: ["softmax_twice"]}) == {}
    del held[0]
    found = HeldCubins()
    assert found.find({3: ["softmax_twice"]}) == {3: held[0].asm["cubin"]}
    assert found.find({3: ["softmax_twice"]}) == {}


def test_cubins_of_one_name_are_told_apart_by_their_checksums(played: Sampling) -> None:
    """A program that had compiled a kernel twice before it was recorded."""
    kind = type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"})
    held = [kind() for _ in range(2)]
    for each, ending in zip(held, (b"1", b"2")):
        each.asm = {"cubin": b"\x7fELF\0.text.norm_twice\0" + ending}
    before = [played.load(each.asm["cubin"]) for each in held]
    session = profiler.start(pc_sampling=True)
    for module, times in zip(before, (1, 2)):
        played.launch()
        played.sample("norm_twice", 16, (SELECTED,), times, module)
    samples = session.finalize().tables.pc
    digests = [hashlib.sha256(each.asm["cubin"]).hexdigest() for each in held]
    assert {each.module for each in samples.functions} == set(digests)
    of = [samples.functions[place].module for place in samples.rows.function.tolist()]
    assert dict(zip(of, samples.rows.samples.tolist())) == dict(zip(digests, (1, 2)))


def test_cuda_that_works_when_a_session_begins(played: Sampling) -> None:
    """The next launch of a context is the first that is sampled; a second session the same."""
    played.launch()
    for _ in range(2):
        session = profiler.start(pc_sampling=True)
        assert played.state() == 0
        played.launch()
        assert played.state() == 3
        session.finalize()
        assert played.state() == 0


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        *(
            ("pc_enable_result", code, f"CUPTI takes no samples {where} (enabling: FAKE_ERROR")
            for code, (where, _) in REFUSALS.items()
            if code != BUSY
        ),
        ("pc_enable_result", BUSY, "another process samples this GPU"),
        ("pc_no_stalls", 1, "CUPTI takes no samples without the driver's permission"),
        ("pc_start_result", 999, "starting: FAKE_ERROR"),
    ],
)
def test_what_fails_is_said(
    played: Sampling, monkeypatch: pytest.MonkeyPatch, option: str, value: int, said: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    """With what to change; kernels are recorded all the same."""
    parameters = tmp_path / "params"
    parameters.write_text("RmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(permissions, "DRIVER_PARAMETERS", parameters)
    monkeypatch.setattr(permissions, "PROCESS_STATUS", tmp_path / "none")
    played.fake.option(option, value)
    session = profiler.start(pc_sampling=True)
    for _ in range(3):
        played.launch()
    profile = session.finalize()
    failed = profile.tables.provenance["pc sampling failed"]
    assert failed.startswith(said)
    if "pc_enable" in option and value != BUSY:
        assert REFUSALS[value][1] in failed
    if "permission" in said:
        assert "NVreg_RestrictProfilingToAdminUsers=0" in failed
        assert "--instrument sample" in failed
    (kernel,) = profile.find(kind="kernel")
    assert profile.node(kernel).own("count") == 3
    assert played.state() == 0


def test_samples_that_are_all_of_unknown_kernels(played: Sampling) -> None:
    """Another tool's doing, which is said."""
    session = profiler.start(pc_sampling=True)
    played.launch()
    played.lose(non_user=100)
    facts = session.finalize().tables.provenance
    assert facts["pc sampling failed"].startswith("CUPTI reported no instruction for any sample")


def test_full_buffers_are_said(played: Sampling) -> None:
    """How often."""
    session = profiler.start(pc_sampling=True)
    played.launch()
    played.overflow()
    session.finalize()
    facts = session.recording.facts()
    assert facts["pc samples lost"].startswith("the device's buffer was full once")


def test_another_profiler_gets_cupti(played: Sampling) -> None:
    """Sampling ends before it starts, and goes on after it."""
    session = profiler.start(pc_sampling=True)
    played.launch()
    played.sample("f", samples=2)
    events = session.recording.recorder.events
    assert events is not None
    events.gpu._give("Somebody")
    assert played.state() == 0
    played.sample("f", samples=100)
    events.gpu._take_back()
    played.launch()
    assert played.state() == 3
    played.sample("f", samples=3)
    session.deactivate()
    raw = raw_of(session)
    session.finalize()
    assert raw is not None
    assert counts(raw) == {("f", 0, "wait"): 5}


def test_a_session_that_is_paused(played: Sampling) -> None:
    """Takes no samples meanwhile."""
    session = profiler.start(pc_sampling=True)
    played.launch()
    session.deactivate()
    assert played.state() == 1
    played.launch()
    session.activate()
    assert played.state() == 3
    played.sample("f", samples=3)
    session.finalize()
    assert played.calls_of("enable") == 1


def test_without_a_gpu_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to sample."""
    monkeypatch.setattr("tileprof.profiler.device.gpu.has_gpu", lambda: False)
    recorder.gpu_after_fork()
    facts = profiler.start(pc_sampling=True).finalize().tables.provenance
    assert facts["pc sampling failed"] == "no GPU is recorded"


def test_a_forked_child_has_no_samples(played: Sampling) -> None:
    """And says nothing of them; its parent's go on."""
    session = profiler.start(pc_sampling=True)
    played.launch()
    played.sample("f", samples=2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            facts = session.finalize().tables.provenance
            code = 2 if any("pc s" in key for key in facts) else 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    played.sample("f", samples=3)
    session.deactivate()
    raw = raw_of(session)
    session.finalize()
    assert raw is not None
    assert counts(raw) == {("f", 0, "wait"): 5}


@pytest.mark.parametrize(
    ("asked", "log2"),
    [(32, 5), (45, 5), (46, 6), ("4096", 12), (5000, 12), (5792, 12), (5793, 13), (2**31, 31)],
)
def test_periods_are_the_nearest_powers_of_two(asked: int | str, log2: int) -> None:
    """As a factor: as far above as below."""
    options = parse_pc_sampling(asked)
    assert options is not None
    assert (options.log2_period, options.exact) == (log2, False)


def test_no_period_is_the_usual_one() -> None:
    """`exact` asks for samples too."""
    usual = parse_pc_sampling("")
    assert usual == parse_pc_sampling(True)
    assert str(usual) == "continuous, every 65,536 cycles"
    assert parse_pc_sampling(None) is None
    assert parse_pc_sampling(False) is None
    assert str(parse_pc_sampling(None, True)) == "exact, every 65,536 cycles"


def test_held_cubins_of_other_objects_are_left_alone() -> None:
    """Looking for them calls nothing of the program's."""
    module = types.ModuleType("odd")

    class Odd:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    module.odd = Odd()  # type: ignore[attr-defined]
    sys.modules["odd"] = module
    try:
        assert HeldCubins().find({1: ["nowhere"]}) == {}
    finally:
        del sys.modules["odd"]
