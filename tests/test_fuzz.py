"""The fuzzers of files that may come from anyone: kept seeds, and a few mutants of each kind."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from benchmarks.reliability import coverage, cubins, ir_text, mutants, saved_kernels, stated
from tileprof.errors import TileprofError
from tileprof.ir import parse, print_kernel


@pytest.mark.parametrize(("campaign", "count"), [(ir_text, 150), (cubins, 60), (saved_kernels, 60)])
def test_mutants_end_in_a_sentence_or_a_result(
    campaign: ModuleType, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ones each time; `python -m benchmarks.reliability.NAME` draws as many as wanted."""
    # Compiling C++ and running nvdisasm take most of the time of the long form.
    monkeypatch.setattr(saved_kernels, "ON_CPU", 1 << 60)
    monkeypatch.setattr(cubins, "DISASSEMBLED", 1 << 60)
    mutate, read = campaign.prepare()
    outcomes = {"refused": 0, "read": 0}
    for number in range(count):
        draw = random.Random(number)
        try:
            read(mutate(draw), draw)
            outcomes["read"] += 1
        except TileprofError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0


def test_kept_texts_are_read() -> None:
    """Seeds that are refused would find nothing behind the first check."""
    texts = ir_text.kept()
    assert len(texts) > 5
    for text in texts:
        assert print_kernel(parse(text)).startswith("kernel @")


@pytest.mark.parametrize(
    ("campaign", "faults"),
    [(ir_text, stated.texts), (cubins, stated.cubins), (saved_kernels, stated.kernels)],
)
def test_stated_faults_end_in_a_sentence_or_a_result(
    campaign: ModuleType, faults: Callable[[], Iterator[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of them are refused: a file that has become sound no longer tests a refusal."""
    monkeypatch.setattr(saved_kernels, "ON_CPU", 1 << 60)
    monkeypatch.setattr(cubins, "DISASSEMBLED", 1 << 60)
    _, read = campaign.prepare()
    said, whole = [], 0
    for fault in faults():
        whole += 1
        try:
            read(fault, random.Random(0))
        except TileprofError as error:
            said.append(str(error).strip())
    assert all(said)
    assert len(said) > 0.6 * whole


def test_coverage_counts_lines_that_ran_and_names_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sound text reaches part of the parser, a refused one some lines more."""
    sound = ir_text.kept()[0]
    parse(sound)  # what is worked out once is known from now on
    shares = []
    for read in ([sound], [sound, sound + "}"]):
        monkeypatch.setattr(
            coverage,
            "_reads",
            lambda name, runs, read=read: [partial(parse, each) for each in read],
        )
        found = coverage.measured("ir_text", 0)
        missed = sum(map(len, found["missed"].values()))
        assert 0 < missed < found["lines"]
        assert found["share"] == round(1 - missed / found["lines"], 4)
        shares.append(found["share"])
    assert (found["read"], found["refused"], found["failed"]) == (1, 1, 0)
    assert shares[0] < shares[1]


def test_a_campaign_tells_failures_from_refusals() -> None:
    """A sentence is none; a traceback and a killed process are, with the number to see it again."""

    def read(number: object, draw: random.Random) -> str:
        if number == 1:
            raise TileprofError("refused")
        if number == 2:
            raise KeyError("a fault")
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return "read"

    numbers = iter(range(10))
    made: dict[int, int] = {}

    def mutate(draw: random.Random) -> int:
        # A worker that was killed is followed by one that begins anew.
        made[0] = next(numbers)
        return made[0]

    found = mutants.campaign("test", mutate, read, runs=5, jobs=1, seconds=60)
    assert found["runs"] == 5
    assert found["tracebacks"] == 1
    assert found["details"][0]["seed"] == 2
    assert "a fault" in found["details"][0]["detail"]
