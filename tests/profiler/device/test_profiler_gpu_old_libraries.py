"""Libraries of NVIDIA's that lack a function: a sentence that names the library, the function and
the way out, and the rest is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.cupti_programs import Fake, fake_without
from tileprof import profiler
from tileprof.profile import Profile, load
from tileprof.profile.counters import SETS, TIME
from tileprof.profiler.counters import control, planning, series_control
from tileprof.profiler.counters.instructions import make_instruction_plan
from tileprof.profiler.counters.series_control import make_series_plan
from tileprof.profiler.counters.series_requests import SERIES_SETS
from tileprof.runtime.cuda.driver import _FUNCTIONS

recorder = pytest.importorskip("tileprof.native._recorder")
ROOT = Path(__file__).parents[3]
WAY_OUT = "let TILEPROF_CUPTI name another copy of CUPTI, or unset it"

RECORDING = (
    "cuptiGetVersion", "cuptiGetResultString", "cuptiSubscribe", "cuptiUnsubscribe",
    "cuptiEnableCallback", "cuptiGetCallbackState", "cuptiGetCallbackName",
    "cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityDisable",
    "cuptiActivityFlushAll", "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords",
)  # fmt: skip
PC_SAMPLING = (
    "cuptiPCSamplingEnable", "cuptiPCSamplingDisable", "cuptiPCSamplingStart",
    "cuptiPCSamplingStop", "cuptiPCSamplingGetData", "cuptiPCSamplingSetConfigurationAttribute",
    "cuptiPCSamplingGetNumStallReasons", "cuptiPCSamplingGetStallReasons",
)  # fmt: skip
DEVICES = ("cuptiGetDeviceId", "cuptiDeviceGetChipName", "cuptiProfilerInitialize")
RANGES = (
    "cuptiRangeProfilerEnable", "cuptiRangeProfilerDisable", "cuptiRangeProfilerSetConfig",
    "cuptiRangeProfilerStart", "cuptiRangeProfilerStop", "cuptiRangeProfilerDecodeData",
    "cuptiRangeProfilerGetCounterDataSize", "cuptiRangeProfilerCounterDataImageInitialize",
)  # fmt: skip
SASS = (
    "cuptiSassMetricsGetProperties", "cuptiSassMetricsSetConfig", "cuptiSassMetricsUnsetConfig",
    "cuptiSassMetricsEnable", "cuptiSassMetricsDisable", "cuptiSassMetricsGetDataProperties",
    "cuptiSassMetricsFlushData",
)  # fmt: skip
PM_SAMPLING = (
    "cuptiPmSamplingEnable", "cuptiPmSamplingDisable", "cuptiPmSamplingSetConfig",
    "cuptiPmSamplingStart", "cuptiPmSamplingStop", "cuptiPmSamplingDecodeData",
    "cuptiPmSamplingGetCounterDataSize", "cuptiPmSamplingCounterDataImageInitialize",
    "cuptiPmSamplingGetCounterDataInfo", "cuptiPmSamplingCounterDataGetSampleInfo",
)  # fmt: skip
HOST = (
    "cuptiProfilerHostInitialize", "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostGetConfigImageSize",
    "cuptiProfilerHostGetConfigImage", "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostGetBaseMetrics", "cuptiProfilerHostEvaluateToGpuValues",
    "cuptiRangeProfilerGetCounterDataInfo", "cuptiRangeProfilerCounterDataGetRangeInfo",
)  # fmt: skip
OPTIONAL = (
    "cuptiActivityRegisterTimestampCallback", "cuptiGetGraphNodeId",
    "cuptiSubscribe_v2", "cuptiRegisterComputeCrcCallback", "cuptiGetCubinCrc",
)  # fmt: skip
MEMORY = {
    *(term for counter in SETS["memory"] for term in counter.terms),
    *(series.term for series in SERIES_SETS["memory"]),
    TIME,
}
"""What `metrics="memory"` counts, of launches and over time."""
OF_COUNTERS = (*DEVICES, *RANGES, *SASS, *PM_SAMPLING, *HOST)


class Old:
    """A played CUPTI without some functions, on a machine whose one device is a FAKE100."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = monkeypatch
        self.path = ""

    def lack(self, *functions: str) -> Fake:
        """Be a library without these functions."""
        library = fake_without(functions, self._folder)
        self.path = str(library)
        self._patch.setenv("TILEPROF_CUPTI", self.path)
        self._fake = Fake(library, recorder)
        self._fake.c.fake_counters_reset()
        for metric in MEMORY:
            self._fake.c.fake_metric(metric.encode(), 1)
        return self._fake

    def record(self, **options: Any) -> tuple[Profile, dict[str, str]]:
        """Record a scope with a kernel; the profile and its provenance."""
        session = profiler.start(context="scopes", **options)
        with profiler.scope("step"):
            self._fake.kernel()
        profile = session.finalize()
        profile.check()
        assert len(profile.find("step", "scope")) == 1
        return profile, dict(profile.tables.provenance)


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Old]:
    """The library, for sessions of this process."""
    monkeypatch.setattr(
        control, "make_plan", lambda asked: planning.make_plan(asked, lambda path: "FAKE100")
    )
    monkeypatch.setattr(
        control, "make_instruction_plan",
        lambda asked: make_instruction_plan(
            asked, lambda path: ("FAKE100", ["smsp__sass_inst_executed"])
        ),
    )  # fmt: skip
    monkeypatch.setattr(
        series_control, "make_series_plan",
        lambda asked: make_series_plan(asked, lambda path: "FAKE100"),
    )  # fmt: skip
    recorder.gpu_after_fork()
    yield Old(tmp_path, monkeypatch)
    profiler.finalize()
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.pc_configure(0)
    recorder.counters_configure("", [], b"")
    recorder.gpu_drain()


def kernels(profile: Profile) -> int:
    """How many kernels a profile counts."""
    return sum(int(profile.node(each).own("count")) for each in profile.find(kind="kernel"))


@pytest.mark.parametrize("function", RECORDING)
def test_function_that_recording_needs_is_named(old: Old, function: str) -> None:
    """The host is recorded, and the profile says why kernels are not."""
    old.lack(function)
    profile, facts = old.record()
    assert kernels(profile) == 0
    assert facts["gpu"] == f"not recorded: {old.path} has no function {function}: {WAY_OUT}"


@pytest.mark.parametrize("function", OPTIONAL)
def test_function_that_recording_can_do_without_is_not_missed(old: Old, function: str) -> None:
    """Kernels are recorded without it."""
    old.lack(function)
    profile, facts = old.record()
    assert kernels(profile) == 1
    assert "gpu" not in facts


@pytest.mark.parametrize("function", PC_SAMPLING)
def test_function_that_samples_need_is_named(old: Old, function: str) -> None:
    """Kernels are recorded all the same."""
    old.lack(function)
    profile, facts = old.record(pc_sampling=True)
    assert kernels(profile) == 1
    assert facts["pc sampling failed"] == f"{old.path} has no function {function}: {WAY_OUT}"


@pytest.mark.parametrize("function", [*DEVICES, *RANGES, *HOST])
def test_function_that_counters_need_is_named(old: Old, function: str) -> None:
    """While planning, or where the program runs already."""
    old.lack(function)
    _, facts = old.record(metrics="memory")
    assert f"{old.path} has no function {function}" in facts["counters not read"]
    assert WAY_OUT in facts["counters not read"]


@pytest.mark.parametrize("function", SASS)
def test_function_that_counts_by_instruction_need_is_named(old: Old, function: str) -> None:
    """Kernels are recorded all the same."""
    old.lack(function)
    _, facts = old.record(metrics="instructions")
    assert facts["counters not read"] == f"{old.path} has no function {function}: {WAY_OUT}"


@pytest.mark.parametrize("function", PM_SAMPLING)
def test_function_that_counters_over_time_need_is_named(old: Old, function: str) -> None:
    """Kernels are recorded all the same."""
    old.lack(function)
    profile, facts = old.record(pm_sampling=True, metrics="memory")
    assert kernels(profile) == 1
    assert facts["counters not sampled"] == f"{old.path} has no function {function}: {WAY_OUT}"


def test_kernels_are_recorded_by_the_least_of_a_library(old: Old) -> None:
    """With the functions of CUPTI 10 alone, and what is asked for beside has its sentence."""
    old.lack(*PC_SAMPLING, *OF_COUNTERS, *OPTIONAL)
    profile, facts = old.record(pc_sampling=True)
    assert kernels(profile) == 1
    assert facts["pc sampling failed"].startswith(f"{old.path} has no function {PC_SAMPLING[0]}: ")
    assert "gpu" not in facts


def test_records_that_are_too_short_are_said(old: Old) -> None:
    """An older version whose kernels' records end before what is read."""
    old.lack().c.fake_size(10, 96)
    profile, facts = old.record()
    assert kernels(profile) == 0
    assert facts["gpu"] == (
        f"not recorded: {old.path}: records of kind 10 have 96 bytes, fewer than the fields that"
        f" are read: {WAY_OUT}"
    )


# -- the driver


DRIVEN = """
import json
import tileprof
from tileprof.errors import MissingDependencyError
from tileprof.runtime.cuda.driver import load_driver

said = []
with tileprof.profile("out.tprof"), tileprof.scope("step"):
    try:
        driver = load_driver()
        driver.call("cuCtxSynchronize")
    except MissingDependencyError as error:
        said = [error.message, error.hint]
print(json.dumps(said))
"""


def driver_without(function: str, folder: Path) -> None:
    """Compile a driver whose functions all succeed and do nothing, but for one that it lacks."""
    names = [each for each in _FUNCTIONS if each != function]
    source = folder / "driver.c"
    source.write_text("".join(f"int {each}(void) {{ return 0; }}\n" for each in names))
    command = ["cc", "-shared", "-fPIC", str(source), "-o", str(folder / "libcuda.so.1")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.spread("cuLaunchKernelEx")
@pytest.mark.skipif(sys.platform != "linux", reason="the driver's name on Linux")
@pytest.mark.parametrize("function", ["cuInit", "cuLaunchKernelEx", "cuCtxSynchronize"])
def test_function_that_a_driver_lacks_is_named(tmp_path: Path, function: str) -> None:
    """Right when the driver is loaded or when it is called; the host is recorded."""
    driver_without(function, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVEN], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == [
        f"the CUDA driver (libcuda.so.1) has no function {function}",
        "Update the NVIDIA driver: kernels need one of CUDA 12.0 or later.",
    ]
    profile = load(tmp_path / "out.tprof")
    profile.check()
    assert profile.find("step", "scope")
