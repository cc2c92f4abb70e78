"""Counts that kernels add to in device memory, on a driver whose device memory is the host's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.cuda import runtime_kernels
from tests.cuda.fake_driver import FakeDriver, Launched
from tileprof import ir
from tileprof.instrument.decode.samples import NOT_SAMPLED, SAMPLING
from tileprof.runtime import hooks
from tileprof.runtime.cuda import device as cuda_device
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.records import samples as cuda_samples
from tileprof.runtime.cuda.records.samples import SampledFunction, Samples
from tileprof.runtime.hooks import Measured

SITES = (ir.Site(0, "load", "op"), ir.Site(1, "math", "op"))
STATES = (ir.State(-1), ir.State(0), ir.State(1))
WARPS = 2
BLOCKS = 100


@dataclass(eq=False)
class Heard:
    """A late listener."""

    closed: bool = False
    told: list[tuple[int, Measured, bool]] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Keep it."""
        self.told.append((token, measured, replayed))

    def lost(self, what: str, count: int = 0) -> None:
        """Keep it."""
        self.losses.append(what)

    def seen(self) -> dict[int, list[float]]:
        """By token: samples of the two sites, consumers and producers added up."""
        found: dict[int, Any] = {}
        for token, measured, _ in self.told:
            if measured.samples is not None:
                found[token] = found.get(token, 0) + measured.samples.seen.sum(0)[:2]
        return {token: each.tolist() for token, each in found.items()}


@pytest.fixture
def fake() -> FakeDriver:
    """The driver, with memory of its own."""
    return FakeDriver()


@pytest.fixture
def samples(fake: FakeDriver) -> Samples:
    """Of its first device."""
    return Samples(fake.device, lambda soon: None, words=32)


def function() -> SampledFunction:
    """One warp that works, one that loads."""
    return SampledFunction(WARPS, 1, SITES, STATES)


def looked(argument: bytes, *seen: tuple[int, int, int]) -> None:
    """What a kernel with this argument does: (warp, state, times)."""
    (given,) = np.frombuffer(argument, SAMPLING)
    words = (ctypes.c_uint64 * (1 + WARPS * len(STATES))).from_address(int(given["counts"]))
    for warp, state, times in seen:
        words[1 + warp * len(STATES) + state] += times


def collected(samples: Samples) -> None:
    """Read, and told."""
    samples.read()
    samples.report()


def test_samples_go_to_the_token_of_their_launch(samples: Samples) -> None:
    """Two call paths of one kernel keep theirs apart; what was told is not told again."""
    heard, kernel = Heard(), function()
    first, second = (samples.argument(kernel, heard, token, BLOCKS) for token in (3, 4))
    looked(first, (0, 1, 4), (0, 2, 6))
    looked(second, (0, 2, 20), (1, 1, 20))
    collected(samples)
    assert heard.seen() == {3: [4, 6], 4: [20, 20]}
    assert [(t, m.launches, m.samples and m.samples.looks) for t, m, _ in heard.told] == [
        (3, 1, 10), (4, 1, 20),
    ]  # fmt: skip
    collected(samples)
    assert len(heard.told) == 2
    looked(first, (0, 1, 5))
    collected(samples)
    assert heard.seen() == {3: [9, 6], 4: [20, 20]}


def test_each_launch_looks_at_other_times(samples: Samples) -> None:
    """The seed differs; the counts are the same words."""
    heard, kernel = Heard(), function()
    arguments = [samples.argument(kernel, heard, 1, BLOCKS) for _ in range(3)]
    given = [np.frombuffer(each, SAMPLING)[0] for each in arguments]
    assert len({int(g["counts"]) for g in given}) == 1
    assert len({int(g["seed"]) for g in given}) == 3
    assert {int(g["shift"]) for g in given} == {11}  # 1 µs of 1.98 GHz


def test_what_was_looked_at_enough_is_looked_at_less(samples: Samples) -> None:
    """It costs less then."""
    heard, kernel = Heard(), function()
    enough = cuda_samples.ENOUGH
    looked(samples.argument(kernel, heard, 1, BLOCKS), (0, 1, enough))
    collected(samples)
    given = [samples.argument(kernel, heard, 1, BLOCKS) for _ in range(4 * cuda_samples.SELDOM)]
    assert sum(each != NOT_SAMPLED for each in given) == 4
    collected(samples)
    assert heard.told[-1][1].launches == 4


def test_few_blocks_are_looked_at(samples: Samples) -> None:
    """Eight, more of many; launches take turns, and in a graph blocks do."""
    heard, kernel = Heard(), function()

    def given(blocks: int, **captured: bool) -> Any:
        return np.frombuffer(samples.argument(kernel, heard, 1, blocks, **captured), SAMPLING)[0]

    assert [int(given(blocks)["others"]) for blocks in (1, 8, 132, 32_000)] == [0, 0, 15, 63]
    assert len({int(given(132)["first"]) for _ in range(50)}) == 16
    assert not given(132)["turns"]
    replayed = given(132, captured=True)
    assert (replayed["others"], replayed["turns"]) == (63, 1)


def test_replays_of_a_graph_are_told_as_such(samples: Samples) -> None:
    """Their number is not known; they are read as long as somebody listens."""
    heard = Heard()
    argument = samples.argument(function(), heard, 7, BLOCKS, captured=True)
    for _ in range(2):
        looked(argument, (0, 1, 3))
        assert samples.is_busy
        collected(samples)
    assert [(t, m.launches, r) for t, m, r in heard.told] == [(7, 0, True)] * 2
    heard.closed = True
    collected(samples)
    assert not samples.is_busy


def test_memory_that_nobody_asks_for_is_used_again(samples: Samples) -> None:
    """32 words are four kernels; what stood in a place is not the next one's."""
    for round_ in range(5):
        heard = Heard()
        given = [samples.argument(function(), heard, token, BLOCKS) for token in range(4)]
        assert NOT_SAMPLED not in given
        for token, argument in enumerate(given):
            looked(argument, (0, 1, 10 * round_ + token + 1))
        collected(samples)
        assert heard.seen() == {t: [10 * round_ + t + 1, 0] for t in range(4)}
        heard.closed = True
        samples.report()


def test_launches_without_room_are_told(samples: Samples) -> None:
    """They run, and nobody looks."""
    heard = Heard()
    given = [samples.argument(function(), heard, token, BLOCKS) for token in range(5)]
    assert given[4] == NOT_SAMPLED
    assert NOT_SAMPLED not in given[:4]
    collected(samples)
    assert [(t, m.launches, m.skipped) for t, m, _ in heard.told][-1] == (4, 0, 1)


def test_without_memory_nothing_is_sampled(fake: FakeDriver, samples: Samples) -> None:
    """The listener hears why, once."""
    fake.fails["cuMemAllocAsync"] = 2
    heard = Heard()
    assert samples.argument(function(), heard, 1, BLOCKS) == NOT_SAMPLED
    assert samples.argument(function(), heard, 1, BLOCKS) == NOT_SAMPLED
    assert len(heard.losses) == 1
    assert heard.losses[0].startswith("cuda:0 has no memory for samples: ")


# -- the whole way


@dataclass
class Sampled:
    """A fake kernel: each launch's warps are seen in each state as often as it is told."""

    states: int
    seen: dict[int, int]
    """By state; the same for each warp."""
    shifts: list[int] = field(default_factory=list)

    def __call__(self, launched: Launched) -> int:
        (given,) = np.frombuffer(launched.parameters[-1], SAMPLING)
        self.shifts.append(int(given["shift"]))
        warps = launched.block[0] // 32
        words = (ctypes.c_uint64 * (1 + warps * self.states)).from_address(int(given["counts"]))
        for warp in range(warps):
            for state, times in self.seen.items():
                words[1 + warp * self.states + state] += times
        return 0


@pytest.mark.parametrize(("asked", "shift"), [("sample", 11), ("sample=500ns", 10)])
def test_a_profile_of_samples(
    torch: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, asked: str, shift: int
) -> None:
    """From `instrument="sample"` to the sites of a kernel: its looks, its time in proportion."""
    held = Samples(fake.device, lambda soon: None, words=1024)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77)
    monkeypatch.setattr(cuda_module, "samples_of", lambda device: held)
    monkeypatch.setattr(cuda_device, "find_device", lambda number: fake.device)
    monkeypatch.setattr(hooks, "collectors", [held])
    kernel = runtime_kernels.sums_in_scopes.compile()
    loaded: Any = kernel.variant.loaded("cuda:0", "sample")
    variant = loaded.executable.variant((frozenset(), False))
    (function,), (sampled,) = variant.functions, variant.sampled.values()
    at = {sampled.sites[s.site].name: n for n, s in enumerate(sampled.states) if s.site >= 0}
    reduce = next(name for name in at if name.startswith("reduce"))
    runs = Sampled(len(sampled.states), {0: 10, at["load A"]: 10, at[reduce]: 60})
    fake.sizes[function.spec.function] = tuple(p.size for p in function.layout)
    fake.kernels[function.spec.function] = runs
    with (
        tileprof.profile(instrument=asked, context="scopes") as session,
        tileprof.device("cuda:0"),
    ):
        for _ in range(2):
            kernel(torch.zeros(1024))
    profile = session.profile
    assert profile is not None
    profile.check()
    assert runs.shifts == [shift] * 2
    nodes = {profile.node(n).name: profile.node(n) for n in profile.find(kind="site")}
    assert {name: node.total("kernel_samples") for name, node in nodes.items()} == {
        "load": 40, "load A": 40, "sum": 240, reduce: 240,
    }  # fmt: skip
    (whole,) = profile.find(kind="kernel")
    assert profile.node(whole).own("kernel_samples") == 40
    shares = nodes["sum"].total("time") / profile.node(whole).total("time")
    assert shares == pytest.approx(0.75, abs=0.01)
    assert profile.tables.provenance["options"] == f"context=scopes instrument={asked}"
