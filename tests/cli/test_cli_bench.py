"""`bench` without a GPU: what is called, how it is compared, what is refused, and the gate."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_compile import FACTORY
from tests.cli.test_cli_run import KERNEL
from tests.cuda.fake_driver import FakeDriver
from tileprof import bench as timing
from tileprof.cli.kernel import bench, bench_text
from tileprof.runtime.cuda.device import CudaDevice

FUNCTIONS = """
import time
calls = []

def quick(n=1):
    calls.append(n)
    print("noise")

def slow():
    time.sleep(0.004)

def slower():
    time.sleep(0.008)

def needs(x, y=2):
    assert (x, y) == (7, 2)

def broken():
    raise ValueError("no luck")

def later():
    calls.append(1)
    if len(calls) > 3:
        raise ValueError("too late")

def pieces():
    yield 1

async def waiting():
    pass

class Held:
    def __call__(self):
        calls.append(1)

held = Held()
"""
SHORT = ("--seconds", "0.05", "--within", "50%")


@pytest.fixture(autouse=True)
def _quick(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the tests, a short warm-up, and a machine that is never busy."""
    write(prog=KERNEL, funcs=FUNCTIONS)
    monkeypatch.setattr("tileprof.bench.measuring.WARM_UP_NS", 1_000_000)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


def test_function_is_timed_by_the_host(cli: Any) -> None:
    """The text has the time, its interval and the clock; prints of the function are elsewhere."""
    found = cli("bench", "funcs.py:slow", *SHORT)
    assert found.code == 0
    first, second, *_ = found.out.splitlines()
    assert first.startswith("funcs.py:slow")
    assert " rounds × 1 calls" in first
    assert second == "medians with 95 % bootstrap intervals; clock: host"
    noisy = cli("bench", "funcs.py:quick", "--json", *SHORT)
    assert json.loads(noisy.out)["function"] == "funcs.py:quick"
    assert "noise" in noisy.err


def test_baseline_takes_turns_and_the_gate_compares(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the time fails a gate of 50 %, and passes where it is the baseline.

    Both sleep on a clock of the test: on a busy machine one that sleeps is woken late.
    """
    now = 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += round(seconds * 1e9)

    timer = timing.HostTimer
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(timing, "HostTimer", lambda: timer(clock=lambda: now))
    slower = ("bench", "funcs.py:slower", "--against", "funcs.py:slow", "--json", "--seconds", "1")
    found = cli(*slower, "--fail-if", "time > +50%")
    form = json.loads(found.out)
    assert found.code == 1
    assert found.err == "tileprof: the gate failed: time > +50%\n"
    assert form["ratio"]["low"] == form["ratio"]["median"] == form["ratio"]["high"] == 2
    assert form["rounds"] == len(form["baseline"]["batches_ns"])
    turned = ("bench", "funcs.py:slow", "--against", "funcs.py:slower", "--fail-if", "time > +50%")
    passed = cli(*turned, "--seconds", "1")
    assert (passed.code, passed.err) == (0, "")
    assert " less time than the baseline" in passed.out


def test_absolute_gate_needs_no_baseline(cli: Any) -> None:
    """A limit without a sign is one of the time itself."""
    assert cli("bench", "funcs.py:slow", *SHORT, "--fail-if", "time > 1ms").code == 1
    assert cli("bench", "funcs.py:slow", *SHORT, "--fail-if", "time > 1s").code == 0


def test_gate_inside_of_the_interval_is_doubtful(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the interval lies on both sides of the limit, the middle decides, with a warning."""
    made = timing.median_interval([0.9, 1.02, 1.2])
    side = timing.Timed("f", timing.median_interval([100.0]), 1, (100.0,))
    result = timing.Result(side, side, made, "host", timing.Plan(), 1.0, (), ())
    monkeypatch.setattr(bench, "_measured", lambda args: result)
    found = cli("bench", "f.py:f", "--against", "f.py:g", "--fail-if", "time > +10%")
    assert found.code == 0
    assert "doubtful: the gate is undecided: 0.900 to 1.200 times the baseline" in found.out
    assert "no difference shown" in found.out


def test_set_gives_arguments(cli: Any) -> None:
    """Values are Python literals; a parameter without one is named with the way out."""
    assert cli("bench", "funcs.py:needs", "--set", "x=7", *SHORT).code == 0
    missing = cli("bench", "funcs.py:needs")
    assert missing.code == 2
    assert missing.err.startswith(
        "tileprof: `needs` needs a value for `x`\nGive it: --set x=…; for arrays,"
    )
    unknown = cli("bench", "funcs.py:slow", "--set", "z=1")
    assert (unknown.code, unknown.err) == (
        2, "tileprof: no function has a parameter `z`\nDrop --set z=….\n",
    )  # fmt: skip


def test_ratio_in_words() -> None:
    """Less, more, or times the time; nothing where the interval holds 1."""
    said = {
        (0.5, 0.4, 0.6): "50.0 % less time than the baseline",
        (1.1, 1.05, 1.2): "10.0 % more time than the baseline",
        (506.25, 500.0, 510.0): "506 times the baseline's time",
        (1.1, 0.9, 1.2): "no difference shown",
    }
    assert [bench_text._said(timing.Interval(*each)) for each in said] == list(said.values())


def test_gpu_and_clocks_are_in_the_text() -> None:
    """The span of the clock over the rounds, the temperature, and what the time is of."""
    one = timing.GpuState("H200", "580.1", 1755, 1980, 3201, 60, 300.0, 0.0, ())
    states = (one, replace(one, sm_mhz=1980, celsius=71))
    side = timing.Timed("f", timing.median_interval([1e6]), 4, (1e6,))
    result = timing.Result(side, None, None, "gpu", timing.Plan(), 1.0, states, ())
    assert bench_text.text_of(result).splitlines()[1] == (
        "medians with 95 % bootstrap intervals; clock: GPU events, L2 warm, H200, driver 580.1, "
        "SM at 1755 to 1980 of 1980 MHz, 71 °C"
    )
    graph = replace(result, plan=timing.Plan(graph=True, flushed=True), gpu=())
    assert bench_text.text_of(graph).splitlines()[1] == (
        "medians with 95 % bootstrap intervals; clock: GPU events around graph replays, L2 flushed "
        "before each call, GPU clocks unknown (no NVML)"
    )


def test_object_that_can_be_called_is_a_function(cli: Any) -> None:
    """A compiled function of a framework is an object."""
    assert cli("bench", "funcs.py:held", *SHORT).code == 0


@pytest.mark.parametrize(
    ("name", "bound"), [("make", ["M=16", "N=4"]), ("flat", ["L=64"])], ids=["factory", "prim_func"]
)
def test_every_kind_of_kernel_is_called(cli: Any, write: Any, name: str, bound: list[str]) -> None:
    """A factory of kernels takes its arguments from `--set`, a `prim_func` its extents."""
    write(factory=FACTORY)
    given = [part for each in bound for part in ("--set", each)]
    found = cli("bench", f"factory.py:{name}", *given, *SHORT)
    assert (found.code, found.err) == (0, "")
    missing = cli("bench", f"factory.py:{name}")
    assert missing.code == 2
    assert f"--set {bound[0][0]}=…" in missing.err


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_kernel_is_called_with_arrays_of_its_shapes(cli: Any, device: str) -> None:
    """Constants come from `--set`; a function may be the baseline and does not get them."""
    bound = ("--set", "M=16", "--set", "N=4", "--device", device)
    found = cli("bench", "prog.py:row_sums", "--against", "funcs.py:slow", *bound, *SHORT)
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("prog.py:row_sums")
    missing = cli("bench", "prog.py:row_sums", "--device", device)
    assert missing.code == 2
    assert "`--set M=…`" in missing.err


def test_modules_beside_two_files_are_separate(cli: Any, folder: Path) -> None:
    """A baseline in another folder uses its own `helper`, not the first one's."""
    for name, seconds in (("new", 0.002), ("old", 0.02)):
        (folder / name).mkdir()
        (folder / name / "helper.py").write_text(f"SECONDS = {seconds}\n")
        (folder / name / "f.py").write_text(
            "import time, helper\ndef f():\n    time.sleep(helper.SECONDS)\n"
        )
    found = cli("bench", "new/f.py:f", "--against", "old/f.py:f", "--json", "--seconds", "0.5")
    assert found.code == 0
    assert json.loads(found.out)["ratio"]["high"] < 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["funcs.py"], 2, "`funcs.py` is not FILE:FUNCTION\n"),
        (
            ["nowhere.py:f"],
            2,
            "nowhere.py does not exist\nFILE is a Python file that defines the f",
        ),
        (["funcs.py:slo"], 2, "funcs.py has no function `slo`\nDid you mean `slow`? Its functions"),
        (["funcs.py:broken"], 1, "`funcs.py:broken` failed: ValueError: no luck\n"),
        (["funcs.py:later"], 1, "`funcs.py:later` failed: ValueError: too late\n"),
        (["funcs.py:pieces"], 2, "`pieces` is a generator function: a call of it does none of"),
        (["funcs.py:waiting"], 2, "`waiting` is a coroutine function: a call of it does none of"),
        (["funcs.py:slow", "--seconds", "0"], 2, "`--seconds 0` is no time\n"),
        (["funcs.py:slow", "--within", "0%"], 2, "argument --within: `0%` is not a percentage"),
        (["funcs.py:slow", "--clock", "gpu"], 2, "`--clock gpu` is for functions that use a GPU"),
        (["funcs.py:slow", "--flush-l2"], 2, "`--flush-l2` is for functions that use a GPU"),
        (["funcs.py:slow", "--graph"], 2, "`--graph` is for functions that use a GPU"),
        (
            ["funcs.py:slow", "--fail-if", "time > +5%"],
            2,
            "`time > +5%` compares with a baseline\n",
        ),
        (["funcs.py:slow", "--fail-if", "count > 5"], 2, "`count` is not measured here\n"),
        (["funcs.py:slow", "--device", "tpu"], 2, "there is no device `tpu`\n"),
    ],
)
def test_wrong_use(cli: Any, arguments: list[str], code: int, message: str) -> None:
    """One sentence with a way out, before anything is timed."""
    found = cli("bench", *arguments)
    assert (found.code, found.out) == (code, "")
    assert message in found.err


def test_failing_function_names_its_line(cli: Any, folder: Path) -> None:
    """The error shows the author's line, not ours."""
    found = cli("bench", "funcs.py:broken")
    line = 1 + (folder / "funcs.py").read_text().splitlines().index(
        '    raise ValueError("no luck")'
    )
    assert f"funcs.py:{line}: " in found.err
    assert "Traceback" not in found.err


def test_nothing_is_imported_for_help(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong options are refused before the file runs."""
    monkeypatch.setitem(sys.modules, "tileprof.bench.measuring", None)
    assert cli("bench", "--help").code == 0


class OnGpu:
    """A GPU without one: the driver records calls, and two events are 12.5 µs apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = FakeDriver()
        self.driver.context = self.driver.device.context
        self.asked: list[str] = []
        monkeypatch.setattr("tileprof.runtime.cuda.driver.load_driver", lambda: self.driver.driver)
        monkeypatch.setattr("tileprof.runtime.cuda.device.find_device", lambda number: self.device)
        monkeypatch.setattr(timing, "read_gpu", self.read, raising=False)
        monkeypatch.setattr(timing, "read_gpus", self.read_all, raising=False)

    @property
    def device(self) -> CudaDevice:
        """The first GPU."""
        return self.driver.device

    def read(self, uuid: str) -> timing.GpuState:
        """Return a busy, hot GPU, and note which one was asked for."""
        self.asked.append(uuid)
        return timing.GpuState("H200", "580.1", 1755, 1980, 3201, 71, 700.0, 0.5, ("power cap",))

    def read_all(self) -> dict[str, timing.GpuState]:
        """Return the state of that GPU, which nothing has asked the driver about yet."""
        assert self.driver.names() == []
        return {"GPU-abababab-abab-abab-abab-ababababab00": self.read("")}


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> OnGpu:
    """A GPU that is in use."""
    return OnGpu(monkeypatch)


def test_function_that_uses_a_gpu_is_timed_by_events(cli: Any, on_gpu: OnGpu) -> None:
    """Its state is read before and meanwhile, by its unique id, and gives doubts."""
    found = cli("bench", "funcs.py:quick", "--json", *SHORT)
    assert found.code == 0
    form = json.loads(found.out)
    assert form["clock"] == "gpu"
    assert form["gpu"]["name"] == "H200"
    assert {each["code"] for each in form["doubts"]} >= {"busy_gpu", "throttled"}
    assert {*on_gpu.asked} == {"", "GPU-abababab-abab-abab-abab-ababababab00"}
    assert "cuEventRecord" in on_gpu.driver.names()
    assert "cuMemsetD8Async" not in on_gpu.driver.names()


def test_l2_is_flushed_with_either_clock(
    cli: Any, on_gpu: OnGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's clock waits for the GPU to be idle before and after each call."""
    monkeypatch.setattr(timing.CudaTimer, "most_calls", 8)  # the played driver is slow
    for clock in ("gpu", "host"):
        on_gpu.driver.calls.clear()
        found = cli("bench", "funcs.py:held", "--flush-l2", "--clock", clock, "--json", *SHORT)
        form = json.loads(found.out)
        assert (form["clock"], form["flushed_l2"]) == (clock, True)
        names = on_gpu.driver.names()
        assert names.count("cuMemsetD8Async") > 3
        assert ("cuEventRecord" in names) == (clock == "gpu")


def test_kernel_on_the_processor_is_timed_by_the_host_beside_a_gpu(cli: Any, on_gpu: OnGpu) -> None:
    """Events would not see it."""
    bound = ("--set", "M=16", "--set", "N=4", "--device", "cpu")
    found = cli("bench", "prog.py:row_sums", *bound, "--json", *SHORT)
    assert json.loads(found.out)["clock"] == "host"
