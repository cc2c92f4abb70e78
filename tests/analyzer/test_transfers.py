"""Waits of the host, and copies of pageable memory."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import LATE, MS, Step, training
from tileprof.analyzer.cases import Program
from tileprof.profile import Profile

AFTER_WAIT = "waiting for its launch after a host's wait"
AFTER_COPY = "waiting for its launch after a host's copy"


def waiting(direct: float = 10, late: float = 0, waited: float = 50, times: int = 20) -> Step:
    """A loss that is read in each step of 100 ms; gaps follow it."""
    step = Step()
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - direct - late) * MS)
    above = step.op(step.top, "aten::mul")
    step.idle(above, AFTER_WAIT, direct * MS)
    step.idle(above, LATE, late * MS)
    line = step.frame(step.top, "train", 170)
    item = step.op(step.op(line, "aten::item", times), "aten::_local_scalar_dense", times)
    step.wait(item, waited * MS, times)
    return step


def test_an_item_in_each_step() -> None:
    """What directly follows goes; the call path is told."""
    finding = only(waiting().profile(), "transfers")
    assert finding.severity == "suggestion"
    assert finding.title.startswith(".item() at train_gpt.py:170")
    assert "20 times, 50 ms each" in finding.evidence[0].text
    assert (
        "aten::item → aten::_local_scalar_dense → cuStreamSynchronize" in finding.evidence[0].text
    )
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.95, 1 / 0.9, 1 / 0.9))


@pytest.mark.parametrize("loads", [True, False])
def test_a_host_that_waits_begins_later_to_load_data(loads: bool) -> None:
    """It waits 20 ms in each step, then loads for 50 in which the device has no work; workers that
    load are not held up by that."""
    step = waiting(direct=0, waited=20)
    name = "_SingleProcess" if loads else "_MultiProcessing"
    loader = step.scope(step.top, f"enumerate(DataLoader)#{name}DataLoaderIter.__next__")
    step.idle(loader, "waiting for data", 50 * MS)
    told = [each for each in found(step.profile(), "transfers") if each.severity == "suggestion"]
    assert len(told) == loads
    if loads:
        assert told[0].program_gain is not None
        assert told[0].program_gain.mid == pytest.approx(1 / (1 - 20 / 150))


def test_late_launches_of_a_host_that_would_be_ahead() -> None:
    """The saving includes 0 to 20 of the 20 ms before late launches, likely 1 - 20 / 50 of them.

    An unrecorded step is estimated to take 94.6 ms.
    """
    finding = only(waiting(late=20).profile(), "transfers")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        (1 / (1 - 5 / 94.6), 1 / (1 - 22 / 94.6), 1 / 0.7)
    )
    assert "recording slows the host" in finding.evidence[2].text


def test_launches_that_are_in_time_have_gaps_too() -> None:
    """2 µs between two kernels: a gap of 10 ms each step for ten thousand launches is half that."""
    step = waiting(direct=0.001)
    step.idle(step.op(step.top, "aten::add"), AFTER_WAIT, 20 * MS, 200_000)
    gain = only(step.profile({"launch_gap": 1000.0}), "transfers").program_gain
    assert gain is not None
    whole = 99.999 + 20 + 0.001
    assert gain.high == pytest.approx(1 / (1 - 10 / whole), rel=1e-3)


def test_late_launches_of_a_host_that_is_behind() -> None:
    """It waits for 5 ms and is late by 20: its own work stays, so no more than 5 go."""
    finding = only(waiting(late=20, waited=5).profile(), "transfers")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.mid, gain.high) == pytest.approx((1 / (1 - 5 / 94.6),) * 2)


def test_reads_of_one_function_are_one_change() -> None:
    """A norm of each parameter, then the loss: told together, at the line that reads most often."""
    step = waiting(late=20, waited=20)
    norms = step.op(step.frame(step.top, "train", 171), "aten::item", 2000)
    step.wait(step.op(norms, "aten::_local_scalar_dense", 2000), 30 * MS, 2000)
    finding = only(step.profile(), "transfers")
    assert finding.title.startswith(".item() at train_gpt.py:171")
    assert "2,020 times, 495 µs each, at the lines 170 and 171" in finding.evidence[0].text
    together, alone = finding.program_gain, only(waiting(late=20).profile(), "transfers")
    assert together == alone.program_gain


def test_a_title_names_the_line() -> None:
    """Of a wait that is left alone, too."""
    finding = only(waiting(direct=0.1, late=0.5).profile(), "transfers")
    assert finding.title.startswith(".item() at train_gpt.py:170")
    assert finding.severity == "ignore"


def test_a_wait_that_costs_nothing() -> None:
    """The device has work meanwhile."""
    finding = only(waiting(direct=0.5).profile(), "transfers")
    assert (finding.severity, finding.program_gain) == ("ignore", None)


def test_gaps_are_dealt_out() -> None:
    """Two waits a step have half of the gaps each: together no more than there are."""
    step = waiting()
    step.wait(step.op(step.frame(step.top, "train", 171), "aten::nonzero"), 10 * MS)
    said = found(step.profile(), "transfers")
    assert len(said) == 2
    assert [each.program_gain.high for each in said if each.program_gain] == pytest.approx(
        [1 / 0.95] * 2
    )
    assert "fixed size" in next(each.author for each in said if "nonzero" in each.title)


def test_a_wait_at_the_end_is_none() -> None:
    """Once in twenty steps, as when a program ends; so in the recordings."""
    assert not found(waiting(times=1).profile(), "transfers")
    for name in ("h200-gemm", "h200-stalls"):
        assert "transfers" not in {each.rule for each in report_of(name).findings}


def test_the_case_study() -> None:
    """`losses.append(loss.item())`: 0.8 ms directly, 3 more at most, of 32.4."""
    finding = only(training().profile(), "transfers")
    assert finding.place.op == "aten::_local_scalar_dense"
    gain = finding.program_gain
    assert gain is not None
    assert gain.low < 1.03 < gain.mid < gain.high < 1.15


def copying(
    name: str = "HtoD pageable", time: float = 20, alone: float = 20, held: float = 0
) -> Step:
    """Copies of 400 MB in each step, of so many ms, in which nothing else runs; a gap behind."""
    step = Step()
    product = step.op(step.top, "aten::mm")
    step.launch(product, "nvjet_hsh", 80 * MS, gaps={AFTER_COPY: held * MS} if held else {})
    if alone:
        step.idle(product, "only copies", alone * MS)
    step.copy(step.op(step.frame(step.top, "train", 163), "aten::copy_"), name, time * MS, 20 * 4e8)
    return step


def gain_at(profile: Profile, low: float, high: float) -> tuple[float, float, float]:
    """The gain where so many ms of each step go, and the middle."""
    whole = Program(profile).device_time / MS
    low, high = low / whole, high / whole
    return 1 / (1 - low), 1 / (1 - (low + high) / 2), 1 / (1 - high)


def test_pageable_copies() -> None:
    """None to all of it; the middle of that."""
    profile = copying().profile()
    finding = only(profile, "transfers")
    assert finding.title == "copies of pageable memory at train_gpt.py:163, aten::copy_"
    assert "20 copies at 20 GB/s" in finding.evidence[0].text
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 0, 20))


def test_work_is_more_of_a_program_that_is_not_recorded() -> None:
    """Late launches of 20 ms elsewhere may be none without: the copies are 20 of then 80 ms.
    Likely they are a quarter less."""
    step = Step()
    product = step.op(step.top, "aten::mm")
    step.launch(product, "nvjet_hsh", 60 * MS)
    step.idle(product, "only copies", 20 * MS)
    step.copy(step.op(step.top, "aten::copy_"), "HtoD pageable", 20 * MS, 4e4, 10_000)
    step.idle(step.op(step.top, "aten::add"), LATE, 20 * MS)
    gain = only(step.profile(), "transfers").program_gain
    assert gain is not None
    assert (gain.mid, gain.high) == pytest.approx((1 / (1 - 10 / 94.6), 1 / 0.75))


def test_slow_copies_of_pageable_memory() -> None:
    """200 MB in 25 ms are 8 GB/s: any link has 12, so that a third goes at least."""
    step = Step()
    product = step.op(step.top, "aten::mm")
    step.launch(product, "nvjet_hsh", 75 * MS)
    step.idle(product, "only copies", 25 * MS)
    to = step.op(step.frame(step.top, "train", 163), "aten::copy_")
    step.copy(to, "HtoD pageable", 25 * MS, 20 * 2e8)
    step.wait(to, 24 * MS)
    gain = only(step.profile(), "transfers").program_gain
    assert gain is not None
    assert gain.low == pytest.approx(1 / (1 - 0.25 / 3))
    assert gain.high == pytest.approx(1 / 0.75)


def test_small_copies_are_no_faster_from_pinned_memory() -> None:
    """4 bytes each: it is not the link that they wait for."""
    step = Step()
    product = step.op(step.top, "aten::mm")
    step.launch(product, "nvjet_hsh", 75 * MS)
    step.idle(product, "only copies", 25 * MS)
    step.copy(step.op(step.top, "aten::copy_"), "HtoD pageable", 25 * MS, 4e4, 10_000)
    gain = only(step.profile(), "transfers").program_gain
    assert gain is not None
    assert gain.low == 1


def test_pinned_copies_tell_how_fast_they_are() -> None:
    """50 GB/s, elsewhere in the program: three fifths of the time at least."""
    step = copying()
    step.copy(step.op(step.top, "aten::to"), "HtoD pinned", 1e6, 5e7)
    profile = step.profile()
    gain = only(profile, "transfers").program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 12, 20), rel=1e-3)


def test_copies_that_hold_the_host_up() -> None:
    """Launches come late after them; that the host was late with the data is not their doing."""
    profile = copying(alone=0, held=10).profile()
    gain = only(profile, "transfers").program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gain_at(profile, 0, 10))
    step = copying(alone=0)
    call = int(step.profile().parents[step.profile().find(kind="memcpy")[0]])
    step.idle(call, AFTER_COPY, 10 * MS)
    assert only(step.profile(), "transfers").severity == "ignore"


def test_copies_beside_kernels() -> None:
    """Nothing waits for them, so nothing is to be gained."""
    finding = only(copying(alone=0).profile(), "transfers")
    assert (finding.severity, finding.program_gain) == ("ignore", None)


@pytest.mark.parametrize("step", [copying("HtoD pinned"), copying(time=0.5, alone=0.5)])
def test_copies_as_they_should_be(step: Step) -> None:
    """Pinned ones, and some of no account."""
    assert not found(step.profile(), "transfers")


def test_the_copy_of_an_item_is_its_own() -> None:
    """Four bytes by way of pageable memory are no reason to pin anything."""
    step = waiting()
    read = step.builder.child(step.frame(step.top, "train", 170), "op", "aten::item")
    step.copy(read, "DtoH pageable", 2 * MS, 80)
    assert [each.place.op for each in found(step.profile(), "transfers")] == [
        "aten::_local_scalar_dense"
    ]


def reads(count: int, called: float = 3, late: float = 60, fetch: str = "aten::item") -> Step:
    """A step of 100 ms whose host is late: so many functions read a result, wait 0.3 ms for it, and
    work so many ms for the read."""
    step = Step()
    gaps = {LATE: late * MS}
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", (100 - late) * MS, gaps=gaps)
    for number in range(count):
        line = step.frame(step.top, f"callback_{number}", 170 + number)
        read = step.op(line, fetch, cpu_time=called / 2 * MS)
        copies = fetch != "aten::item"
        inner = step.op(read, "aten::copy_" if copies else "aten::_local_scalar_dense")
        step.builder.add(inner, "cpu_time", called / 2 * MS)
        if copies:
            call = step.node(inner, "api", "cuMemcpyDtoHAsync")
            step.builder.add(step.node(call, "memcpy", "DtoH pageable"), "count", 20)
        step.wait(inner, 0.3 * MS)
    return step


def test_reads_that_cost_only_together() -> None:
    """Each 0.3 ms of waits and 0.5 of work, of 100: below 1 %. Six of them are 4.8 %."""
    assert [each.severity for each in found(reads(1, 0.5).profile(), "transfers")] == ["ignore"]
    finding = only(reads(6, 0.5).profile(), "transfers")
    assert finding.severity == "suggestion"
    assert finding.title.startswith("Reads of results at train_gpt.py:170, train_gpt.py:171")
    assert finding.author.startswith("Do not read a value back")
    gain = finding.program_gain
    assert gain is not None
    # Without a recording 0.73 of the gaps are there, and of what the host works.
    assert gain.mid == pytest.approx(1 / (1 - 6 * 0.73 * 0.5 / (40 + 0.73 * 60)), rel=0.01)
    assert gain.high == pytest.approx(1 / (1 - 0.048))


@pytest.mark.parametrize("fetch", ["aten::item", "aten::to"])
def test_a_read_costs_what_the_host_works_for_it(fetch: str) -> None:
    """3 ms of work in a program whose host is late, whether a number or a tensor is read."""
    finding = only(reads(1, fetch=fetch).profile(), "transfers")
    gain = finding.program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / (1 - 0.73 * 3 / (40 + 0.73 * 60)), rel=0.01)
    assert gain.high == pytest.approx(1 / (1 - 0.033))
    assert finding.title.startswith(".item()" if fetch == "aten::item" else "a copy to the host")
    assert "the host works for 3.0 % of it to read" in finding.evidence[1].text


def test_reads_of_a_host_that_is_in_time_cost_nothing() -> None:
    """However long it works for them."""
    for each in found(reads(4, late=0.2).profile(), "transfers"):
        assert each.severity == "ignore"


def test_reads_now_and_then_are_none() -> None:
    """Once in a hundred steps."""
    step = reads(0)
    for number in range(4):
        line = step.frame(step.top, f"log_{number}", 180 + number)
        read = step.op(line, "aten::item", 1, cpu_time=3 * MS)
        step.wait(step.op(read, "aten::_local_scalar_dense", 1), 0.3 * MS, 1)
    assert not found(step.profile(), "transfers")
