"""Shared fixtures: golden texts, a cache folder and a clock of the test's own."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Other examples each time, so few of them find in some runs what many find in one; no deadlines, as
# tests run side by side.
settings.register_profile("side by side", max_examples=20, deadline=None)
settings.load_profile("side by side")

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
LONGEST = (
    "test_docs.py", "test_case_studies_attention.py", "native/test_native_cupti_races.py",
    "profiler/test_profiler_training.py", "cuda/test_cuda_sass.py", "test_differential.py",
    "cpu/test_tiles.py", "test_plant.py", "cuda/test_late_sums.py", "test_benchmarks_attention.py",
    "profiler/test_profiler_series.py", "native/test_native_clock.py", "cuda/test_cuda_random.py",
    "profiler/test_profiler_program.py", "cuda/test_turns.py", "cuda/test_cuda_differential.py",
    "cli/test_cli_process.py", "cuda/test_public_options.py", "cuda/test_gemm.py",
    "cuda/test_multicast.py", "cuda/test_attention_emulated.py",
    "viewer/test_html_timelines_browser.py",
)  # fmt: skip
"""Files whose tests take more than ten seconds of processor time together."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what tests produce now; refused under CI."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: side by side with others, none of them is what the end waits for."""
    place = {HERE / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip for want of a package named in `TILEPROF_TEST_REQUIRE` (`torch,cuda`) is a failure."""
    report = yield
    if report.skipped and _is_required(str(report.longrepr)):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for the skip of a whole file."""
    report = yield
    if report.skipped and _is_required(str(report.longrepr)):
        report.outcome = "failed"
    return report


def _is_required(reason: str) -> bool:
    """Whether a skip names a required package, in quotes as pytest does: 'torch', 'cuda.x'."""
    required = (n.strip() for n in os.environ.get("TILEPROF_TEST_REQUIRE", "").split(","))
    return any(f"'{name}{end}" in reason for name in required if name for end in ("'", "."))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text)` compares with `tests/golden/<test file>/<test name>.txt`.

    `golden(text, name="x")` compares with `<test name>.x.txt`, for several texts in one test.
    """
    update = request.config.getoption("--update-golden")
    test = request.node.name.replace("[", "-").replace("]", "").replace("/", "_")
    folder = GOLDEN / Path(str(request.node.path)).stem

    def check(text: str, name: str = "") -> None:
        path = folder / f"{test}{'.' + name if name else ''}.txt"
        accept = f"python -m pytest {request.node.path} -k {request.node.name} --update-golden"
        if update:
            assert not os.environ.get("CI"), "golden texts are not rewritten in CI"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"{path} is missing; to write it:\n  {accept}"
        expected = path.read_text()
        if text != expected:
            changes = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), str(path), "now", lineterm=""
            )
            pytest.fail("\n".join([*changes, "", f"to accept:\n  {accept}"]), pytrace=False)

    return check


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled code of the tests goes to a folder of their own, unless one is given."""
    if "TILEPROF_CACHE" in os.environ:
        yield
        return
    base = tmp_path_factory.getbasetemp()
    # Tests that run side by side share it: some libraries take long to compile.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    os.environ["TILEPROF_CACHE"] = str(folder)
    yield
    del os.environ["TILEPROF_CACHE"]


@pytest.fixture
def fastest() -> Callable[[Callable[[], object]], float]:
    """`fastest(call)`: seconds of processor time of the best of three calls.

    Bars on speed are held where other work on the machine does not move them; the figures that are
    published come from `benchmarks/`.
    """

    def measure(call: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    return measure


@pytest.fixture
def fake_clock() -> Callable[[], int]:
    """A clock in ns that advances by 1,000 at every look."""
    now = 0

    def look() -> int:
        nonlocal now
        now += 1_000
        return now

    return look
