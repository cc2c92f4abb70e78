"""What CUPTI handed over on a GPU, handed to the recorder again: counts, code, lines and causes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.binary.support import need_disassembler
from tests.native.keep_pc_samples import build_keeper
from tests.native.kept_samples import (
    Kept,
    Key,
    attributed,
    load,
    pieces_of,
    profile_of,
    save,
    small,
)
from tests.native.pc_programs import ARRIVE, ARRIVE_LATENCY, PREFIX, SCOREBOARD, WAIT, Sampling
from tests.stalls.test_stalls_explained import CAUSES, OF_THEMSELVES
from tileprof.profile import PcFunction, PcSamples
from tileprof.profile.pc_samples import NOT_ISSUED
from tileprof.profiler.pcs.attribution import Modules, attribute
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.code.pc_functions import SeenFunction

DATA = Path(__file__).parents[1] / "data"
ROW_KEYS = ("function", "offset", "stall", "samples")
FACTS = {"device": "played", "period": 4096}


def shortened(samples: dict[Key, int]) -> dict[Key, int]:
    """Stall reasons without what all begin with."""
    return {
        (function, offset, stall.removeprefix(PREFIX)): count
        for (function, offset, stall), count in samples.items()
    }


# -- keeping


def kept_of(sampling: Sampling, folder: Path) -> Kept:
    """Keep what a recording reads, and what lay in a buffer at its end."""
    library = Path(sampling.fake.path)
    keeper = build_keeper(folder, library)
    raw = folder / "raw"
    c = ctypes.CDLL(str(keeper))
    c.keep_into(str(raw).encode())
    sampling.fake.path = str(keeper)
    sampling.start(records=50)
    module, other = sampling.load(b"\x7fELF one"), sampling.load(b"\x7fELF nobody runs this")
    assert module != other
    sampling.launch()
    for offset in range(0, 3200, 16):
        sampling.sample("f", offset, (WAIT,), 1 + offset, module=module)
        sampling.sample("g", offset, (ARRIVE, ARRIVE_LATENCY, SCOREBOARD), 2)
    sampling.lose(non_user=5, dropped=7)
    sampling.wait_for_reads()
    sampling.sample("f", 0, (WAIT,), 9, module=module, late=True)
    sampling.finish()
    c.keep_into(None)
    return small(pieces_of(raw.read_bytes())).with_facts(FACTS)


def test_what_is_kept_is_all_there_was(sampling: Sampling, tmp_path: Path) -> None:
    """Reads with their samples and losses, names of stall reasons, cubins of what ran."""
    kept = kept_of(sampling, tmp_path)
    save(kept, tmp_path / "kept")
    kept = load(tmp_path / "kept")
    assert shortened(kept.samples()) == sampling.expected() == sampling.counted().samples()
    assert sum(read.total for read in kept.reads) == sampling.counted().drained["total"]
    assert [sum(each) for each in zip(*((r.dropped, r.non_user) for r in kept.reads))] == [7, 5]
    assert list(kept.modules.values()) == [b"\x7fELF one"]
    assert kept.facts == FACTS


@pytest.mark.sweep
def test_what_is_kept_can_be_read_again(
    sampling: Sampling, fake_library: Path, tmp_path: Path
) -> None:
    """By a recorder that numbers modules otherwise, and has room for less."""
    kept = kept_of(sampling, tmp_path)
    given, drained = sampling.expected(), sampling.counted().drained
    sampling.recorder.gpu_stop(5)
    sampling.recorder.gpu_after_fork()
    sampling.fake.c.fake_reset()
    sampling.fake.path = str(fake_library)
    sampling.load(b"\x7fELF another comes first")
    again = sampling.replay(kept, records=30)
    assert sampling.counted().samples() == given
    for name in ("total", "counted", "dropped", "non_user"):
        assert sampling.counted().drained[name] == drained[name]
    assert set(again.modules.values()) == {b"\x7fELF one"}


# -- what a GPU handed over


@pytest.fixture(params=["gemm", "stalls"])
def kept(request: pytest.FixtureRequest) -> Kept:
    """Samples of our GEMM, and of the kernels with known stalls: `keep_pc_samples.py`."""
    return stored(request.param)


def need_what_lists() -> None:
    """Skip where there is nothing that reads machine code, or names."""
    pytest.importorskip("tileprof.native._recorder")
    need_disassembler()


def stored(name: str) -> Kept:
    """What was kept on an H200 under a name."""
    return load(DATA / f"{name}.pcsamples")


@pytest.mark.parametrize("room", [16384, 64])
def test_each_sample_of_the_gpu_is_counted(sampling: Sampling, kept: Kept, room: int) -> None:
    """Once, as the recorder did on that machine, however little a read has room for."""
    raw = sampling.replay(kept, records=room)
    counted = sampling.counted()
    assert counted.samples() == shortened(kept.samples())
    for name, count in kept.facts["totals"].items():
        assert counted.drained[name] == count
    assert set(raw.stalls) <= set(kept.stalls.values())
    assert set(raw.modules.values()) == set(kept.modules.values())


def test_tables_are_those_of_the_samples(sampling: Sampling, kept: Kept) -> None:
    """Whether the recorder counts them or NumPy does."""
    ours, theirs = (
        attribute(raw, Modules(), str, lambda context, function: -1)
        for raw in (sampling.replay(kept), kept.raw_samples())
    )
    assert by_key(ours) == by_key(theirs)
    assert ours.recordings == theirs.recordings


def by_key(samples: PcSamples) -> dict[tuple[PcFunction, int, str], int]:
    """Samples by function, offset and stall reason."""
    rows = samples.rows
    return {
        (samples.functions[function], offset, samples.stalls[stall]): count
        for function, offset, stall, count in zip(
            *(column.tolist() for column in (rows.function, rows.offset, rows.stall, rows.samples))
        )
    }


@pytest.mark.spread("stalls")
def test_each_sample_is_at_an_instruction_and_a_line(kept: Kept) -> None:
    """Of the cubin that was kept; what no warp issued is a part of its namesake, in no sum."""
    need_what_lists()
    samples = attributed(kept.raw_samples())
    at_lines = 0
    parts: dict[tuple[int, int], dict[str, int]] = {}
    for function, offset, stall, count in zip(
        *(getattr(samples.by_instruction, name).tolist() for name in ROW_KEYS)
    ):
        parts.setdefault((function, offset), {})[samples.stalls[stall]] = count
    for (function, offset), stalls in parts.items():
        code = {each.offset: each for each in samples.functions[function].code}
        whole = sum(n for name, n in stalls.items() if not name.endswith(NOT_ISSUED))
        assert code[offset].text
        at_lines += whole if code[offset].place is not None else 0
        for name, count in stalls.items():
            if name.endswith(NOT_ISSUED):
                assert count <= stalls[name.removesuffix(NOT_ISSUED)]
    assert samples.counted.sum() == kept.facts["totals"]["counted"]
    assert at_lines >= 0.99 * samples.counted.sum()


def test_every_reason_has_a_twin(kept: Kept) -> None:
    """Beside them the device names two counts, which no record has."""
    names = {name.removeprefix(PREFIX) for name in kept.stalls.values() if PREFIX in name}
    plain = {name for name in names if not name.endswith(NOT_ISSUED)}
    assert names - plain == {name + NOT_ISSUED for name in plain}
    assert {"long_scoreboard", "warpgroup_arrive", "membar", "selected"} < plain
    assert set(kept.stalls.values()) - {PREFIX + name for name in names} == {
        "smsp__pcsamp_sample_count", "smsp__pcsamp_samples_data_dropped",
    }  # fmt: skip
    assert {name.startswith(PREFIX) for _, _, name in kept.samples()} == {True}


@pytest.mark.parametrize("name", [*CAUSES, *OF_THEMSELVES])
def test_the_hottest_instruction_leads_to_its_cause(name: str) -> None:
    """In the code that ran, by the samples that it had."""
    need_what_lists()
    samples = all_stalls()
    (place,) = [at for at, each in enumerate(samples.functions) if each.name == name]
    seen = SeenFunction(samples, place)
    hottest = max(seen.instructions, key=lambda each: each.samples)
    reason, cause = CAUSES.get(name) or (OF_THEMSELVES[name], "")
    assert next(iter(hottest.stalls)) == reason
    told = {seen.by_offset[each.producer].text for each in hottest.blames if each.stall == reason}
    assert any(cause in each for each in told) if cause else not told


@cache
def all_stalls() -> PcSamples:
    """The kernels with known stalls."""
    return attributed(stored("stalls").raw_samples())


def test_the_listing_of_the_gemm(golden: Callable[..., None]) -> None:
    """Samples, stalls and causes beside machine code and source lines."""
    need_what_lists()
    kept = stored("gemm")
    profile = profile_of(kept, attributed(kept.raw_samples()))
    golden(render_view(profile, ViewOptions(threshold=2), "blame", width=110))
