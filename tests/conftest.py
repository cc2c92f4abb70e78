"""Shared fixtures: golden texts, a cache folder and a clock of the test's own."""

from __future__ import annotations

import difflib
import fcntl
import gc
import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import workers
from tests.forked_programs import Forked, ForkedOfTorch
from tests.spread import SWEEP, beyond_spread, examples
from tileprof.binary import disassembly, limits
from tileprof.native.building import EXTRA_FLAGS
from tileprof.runtime import hooks

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
LOCKS = "TILEPROF_TEST_LOCKS"
"""Environment variable with the folder in which the workers of a run keep their locks."""
AFTER = "TILEPROF_TEST_AFTER"
"""Environment variable with a file: once it exists, the workers of a run begin.

What else has taken the processors until then would disturb tests that measure shares of time."""
QUICKLY = "-Og"
"""The flag with which compilers optimise little.

To compile and to run emulated attention takes a third less processor time than with -O1."""
LONGEST = (
    "cuda/test_cuda_sass.py", "test_docs.py", "viewer/test_html_browser.py",
    "learn/test_exercises.py", "cuda/test_public_options.py", "test_case_studies_attention.py",
    "benchmarks/test_plant_generated.py", "benchmarks/test_show_counters_sass.py",
    "cuda/test_turns.py", "cli/test_cli_bisect.py", "tui/test_tui_view.py", "cpu/test_tiles.py",
    "test_architecture.py", "drawing/test_traffic.py", "agent/test_agent_tools.py",
    "cuda/test_prelude.py", "cli/test_cli_try.py", "profiler/session/test_profiler_program.py",
    "cuda/test_gemm.py", "profiler/pcs/test_profiler_pc_sampling.py", "cuda/test_cuda_random.py",
    "cuda/test_reduce.py", "cuda/test_build.py", "test_prose.py", "cuda/test_marks_random.py",
    "profiler/session/test_profiler_files.py", "benchmarks/test_show_counters.py",
    "profiler/native_program/test_native_program.py", "checker/test_clean.py",
    "remarks/test_sentences.py", "cli/test_cli_process.py",
    "profiler/endings/test_profiler_termination.py", "profiler/pcs/test_profiler_pc_attribution.py",
    "lang/test_roles.py", "profiler/endings/test_profiler_endings.py", "cuda/test_tile_order.py",
    "analyzer/test_async_copies.py", "cuda/test_one_group.py",
    "native/stacks/test_native_stacks.py", "cuda/test_attention_emulated.py",
    "cuda/test_gemm_ladder.py", "cuda/test_overlap.py", "cuda/test_elementwise.py",
    "cli/test_cli_report.py", "cpu/test_elements.py", "profiler/session/test_profiler_steps.py",
    "cli/test_cli_view.py", "profiler/counters/test_profiler_instruction_counts.py",
    "benchmarks/test_plant_later_families.py", "viewer/test_html.py", "lang/test_debug_pdb.py",
    "cli/test_cli_ctl.py", "lang/test_thread_numbers.py", "test_packages.py",
    "native/cupti/test_native_demangling.py", "cuda/test_roofs.py", "test_imports.py",
    "cpu/test_sampled.py", "cuda/test_interleaved.py",
)  # fmt: skip
"""Files whose tests take more than some four seconds of processor time together, the longest
first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes what tests produce now, refused under CI; `--workers` says how many
    processes run tests."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")
    parser.addoption(
        "--workers", type=int, help="processes that run files of tests side by side; 0: this one"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without the garbage collector, which then passes over what was collected.

    Ten thousand tests are half a million objects; looking through them again and again takes a
    tenth of the time of all tests. What tests make is looked through every 10,000 objects: tests of
    the compiler spend 5 % of their time on it, 6 % every 3,000 and 11 % every 100,000, when objects
    have left the processor's cache.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: side by side with others, none of them is what the end waits for.

    Cases beyond a function's `spread` are marked `sweep` before pytest chooses by marks.
    """
    for each in beyond_spread(items):
        each.add_marker("sweep")
    place = {HERE / name: i for i, name in enumerate(LONGEST)}
    if moved := [str(path) for path in place if not path.exists()]:
        raise pytest.UsageError(f"LONGEST in {__file__} names files that are not there: {moved}")
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the whole suite in workers, unless collecting it has failed."""
    count = _workers(session.config)
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    if after := os.environ.get(AFTER):
        while not Path(after).exists():
            time.sleep(0.1)
    workers.run(session, count)
    return True


def _workers(config: pytest.Config) -> int:
    """Return how many workers run the tests; none for chosen files and on a GPU, where they run in
    this process, which debuggers can reach. Two more than processors, for tests that wait.
    """
    if (wanted := config.getoption("--workers")) is not None:
        return int(wanted)
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    on_gpu = "gpu" in config.option.markexpr.replace("not gpu", "")
    return len(os.sched_getaffinity(0)) + 2 if whole and not on_gpu else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """While a test marked `alone` runs, the other workers of the suite wait between two tests."""
    folder = os.environ.get(LOCKS, "")
    if not folder:
        return (yield)
    alone = item.get_closest_marker("alone") is not None
    # Two locks, so that a test which waits to be alone is not overtaken for ever: it holds the gate
    # that every other test passes before it begins.
    with open(f"{folder}/gate", "w") as gate, open(f"{folder}/running", "w") as running:
        fcntl.flock(gate, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for the locks of this run, which its workers inherit."""
    if config.getoption("--update-golden"):
        config.option.markexpr = config.option.markexpr.replace(" and not sweep", "")
    os.environ[SWEEP] = "" if "not sweep" in config.option.markexpr else "1"
    if missing := os.environ.get("TILEPROF_TEST_MISSING"):
        config.pluginmanager.register(MissingPackages(Path(missing)))
    os.environ[LOCKS] = tempfile.mkdtemp(prefix="tileprof-tests-")
    # Threads of libraries would fight for the processors that the workers share.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # A shell starts jobs in the background with it ignored, and programs of tests inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(LOCKS)))
    # Tests run side by side, so an example has no deadline.
    settings.register_profile("side by side", max_examples=examples(20), deadline=None)
    settings.load_profile("side by side")


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


class MissingPackages:
    """Writes a file with the tests that were skipped for want of a package, one a line.

    `python -m pytest @FILE` runs just these once the packages are there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a whole file."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and "could not import '" in str(report.longrepr):
            self.skipped[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.write_text("".join(f"{each}\n" for each in self.skipped))


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
    shared = _shared(tmp_path_factory)
    made = {"TILEPROF_CACHE": shared / "cache", "TILEPROF_CACHE_KEY": shared / "cache.key"}
    if "TILEPROF_CACHE" in os.environ:
        # What a cache of another run holds is sealed with the user's key.
        made = {}
    os.environ.update({name: str(path) for name, path in made.items()})
    yield
    for name in made:
        del os.environ[name]


def _shared(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that tests share which run side by side: some libraries take long to
    compile."""
    base = factory.getbasetemp()
    return base.parent if workers.WORKER in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _disassembled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """nvdisasm runs once for each cubin and all tests: its start alone takes 0.6 s.

    Another program in its place, or other limits, are another entry.
    """
    run = disassembly._run
    folder = _shared(tmp_path_factory)

    def kept(arguments: list[str], code_bytes: int) -> subprocess.CompletedProcess[bytes]:
        *options, path = arguments
        held = (
            str(disassembly.find_nvdisasm()), options, code_bytes, hashes(Path(path).read_bytes()),
            limits.disassembly_bytes(code_bytes), limits.disassembly_seconds(code_bytes),
        )  # fmt: skip
        place = folder / f"nvdisasm-{hashes(repr(held).encode())}"
        if place.exists():
            return pickle.loads(place.read_bytes())  # type: ignore[no-any-return]
        done = run(arguments, code_bytes)
        # Only whole files ever have the name that others read.
        beside = Path(f"{place}.{os.getpid()}")
        beside.write_bytes(pickle.dumps(done))
        beside.replace(place)
        return done

    def hashes(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disassembly, "_run", kept)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quickly_compiled() -> Iterator[None]:
    """Kernels of the processor are compiled in half the time, unless flags are given already."""
    with pytest.MonkeyPatch.context() as patch:
        if EXTRA_FLAGS not in os.environ:
            patch.setenv(EXTRA_FLAGS, QUICKLY)
        yield


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Kernels of the processor are compiled as users get them: for tests of what they compute."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get(EXTRA_FLAGS) == QUICKLY:
            patch.delenv(EXTRA_FLAGS)
        yield


@pytest.fixture
def calls() -> Callable[[Callable[[], object]], int]:
    """`calls(work)`: how many functions `work()` calls, Python's own and built-in ones.

    Tests hold costs to counts, which no other work on the machine moves: so many calls for each
    item, or twice as many for twice the items. Seconds are measured by `benchmarks/costs.py`.
    """

    def count(work: Callable[[], object]) -> int:
        work()  # what is done once in a process is no part of it
        found = 0

        def note(_frame: object, event: str, _argument: object) -> None:
            nonlocal found
            found += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)
        return found

    return count


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, where it is installed."""
    return pytest.importorskip("torch")


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs in Python that a test starts have their imports made already."""
    monkeypatch.setattr("subprocess.Popen", Forked)


@pytest.fixture
def forked_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for programs of PyTorch."""
    monkeypatch.setattr("subprocess.Popen", ForkedOfTorch)


@pytest.fixture
def no_other_threads() -> Iterator[None]:
    """Let samplers pass over threads that are there already: those of a library, say."""
    others = {*sys._current_frames()} - {threading.get_ident()} - hooks.own_threads
    hooks.own_threads.update(others)
    yield
    hooks.own_threads.difference_update(others)


@pytest.fixture
def fake_clock() -> Callable[[], int]:
    """A clock in ns that advances by 1,000 at every look."""
    now = 0

    def look() -> int:
        nonlocal now
        now += 1_000
        return now

    return look
