"""Run the test suite of a library that is written in TileLang on tileprof, and count the results.

    python benchmarks/tilelang_suites.py CHECKOUT [--tests PATHS] [-k EXPR] -o results.json

CHECKOUT is a checkout of the library outside of this repository, which is not changed.  Its tests
run as they are, with the stand-ins of `tilelang_host.py`: `tilelang.language` is `tileprof.lang`,
and tensors that ask for a GPU are on the CPU.  Each test file runs in a process of its own; a test
that takes longer than `--limit` is stopped, and the rest of its file goes on in a new process.

    passed     ran to its end
    skipped    by the library itself
    refused    tileprof raised an error of its own for the author of the kernel; its first line
    too long   ran for more than the limit
    failed     anything else: a wrong result, another exception, a part of TileLang that is missing

`--each N` runs at most N cases of each test function, spread over its parameters.  `--setup FILE`
executes a Python file in each process before the tests are collected, for example to make sizes
smaller.  With `--compile sm_90a` every kernel that a test makes is compiled for that GPU, too, and
run on the emulated GPU where its arguments are small (`--emulate BYTES`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

LIMIT_S = 60.0
"""Longest time of one test, in seconds, unless another limit is given."""
STOPS = 8
"""How many tests of one file may be stopped or may end their process before the rest is left."""
OUTCOMES = ("passed", "skipped", "refused", "too long", "failed")
EMULATED_BYTES = 1 << 20
"""Size of a launch's arguments, in bytes, up to which it is repeated on the emulated GPU."""
VARIANTS = 3
"""How many kernels of one name and file are compiled for GPUs: the others differ in sizes."""
EMULATION_S = 40
"""Longest time of a compilation with its emulated run, in seconds."""


# -- inside of a test process: the plugin


@dataclass
class Watching:
    """State of the plugin while the tests of one file run."""

    events: Path
    done: frozenset[str]
    each: int
    targets: tuple[str, ...]
    bytes: int
    stack: ExitStack = field(default_factory=ExitStack)
    detail: str = ""
    outcome: str = ""
    seen: set[str] = field(default_factory=set)
    """Texts of kernels that were compiled for GPUs already."""
    compiled: Counter[str] = field(default_factory=Counter)
    """How many kernels of each name were compiled for GPUs."""

    def tell(self, kind: str, **facts: Any) -> None:
        """Write one event as a line of JSON; the process may be killed right after it."""
        with self.events.open("a") as out:
            out.write(json.dumps({"event": kind, **facts}) + "\n")


_watching: Watching | None = None


def pytest_addoption(parser: Any) -> None:
    """Add the options that the driver passes on."""
    group = parser.getgroup("tileprof")
    for name in ("events", "done", "setup", "each", "targets", "bytes"):
        group.addoption(f"--suite-{name}", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Put the stand-ins in place before anything of the library is imported."""
    global _watching
    import tilelang_compiling
    import tilelang_examples  # noqa: F401
    import tilelang_host
    import torch

    # Modules of this folder are loaded; a library may have some of the same names.
    sys.path[:] = [*(p for p in sys.path if p != str(HERE)), str(HERE)]
    given = early_config.known_args_namespace
    torch.set_num_threads(1)
    tilelang_host.install()
    tilelang_host.as_hopper()
    _watching = Watching(
        Path(given.suite_events),
        frozenset(Path(given.suite_done).read_text().splitlines() if given.suite_done else ()),
        int(given.suite_each or 0),
        tuple(t for t in given.suite_targets.split(",") if t),
        int(given.suite_bytes or EMULATED_BYTES),
    )
    tilelang_compiling.watch(_watching.bytes if _watching.targets else 0)
    _watching.stack.enter_context(tilelang_host.on_host(is_counted=False))
    if given.suite_setup:
        path = Path(given.suite_setup)
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "setup"})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out what an earlier process of this file did, and cases beyond `--each`."""
    if (watching := _watching) is None:
        return
    chosen = {item.nodeid for item in spread(items, watching.each)}
    watching.tell("collected", count=len(items), chosen=len(chosen))
    kept = [i for i in items if i.nodeid in chosen and i.nodeid not in watching.done]
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = kept


def spread(items: Sequence[Any], each: int) -> list[Any]:
    """Return at most `each` items of every test function, evenly spaced; all of them for 0."""
    if each <= 0:
        return list(items)
    groups: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        # Tests that skip themselves, such as benchmarks, cost nothing and hide nothing.
        groups[item.nodeid.partition("[")[0]].append(item)
    return [
        group[i * len(group) // min(each, len(group))]
        for group in groups.values()
        for i in range(min(each, len(group)))
    ]


def pytest_collectreport(report: Any) -> None:
    """Report a file that cannot be imported."""
    if _watching is not None and report.failed:
        lines = str(report.longrepr).strip().splitlines()
        found = [line[2:].strip() for line in lines if line.startswith("E ")]
        _watching.tell("broken", detail=(found or lines or [""])[-1][:300])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Report when a test begins and ends, then compile what it made."""
    import tilelang_compiling

    if (watching := _watching) is None:
        return (yield)  # type: ignore[misc]
    watching.outcome, watching.detail = "passed", ""
    tilelang_compiling.launched_names.clear()
    begun = time.monotonic()
    watching.tell("begin", test=item.nodeid)
    result = yield
    names = sorted(set(tilelang_compiling.launched_names))
    watching.tell("end", test=item.nodeid, outcome=watching.outcome, detail=watching.detail,
                  seconds=round(time.monotonic() - begun, 2), kernels=names)  # fmt: skip
    if watching.targets:
        _compile_new(watching)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Sort an exception into the outcomes."""
    report: Any = yield
    if _watching is not None and call.excinfo is not None:
        if report.outcome == "skipped":
            reason = getattr(report, "wasxfail", None) or str(call.excinfo.value)
            _watching.outcome, _watching.detail = "skipped", reason.splitlines()[0][:200]
        elif _watching.outcome == "passed":
            _watching.outcome, _watching.detail = blame(call.excinfo.value)
    return report  # type: ignore[no-any-return]


def blame(error: BaseException) -> tuple[str, str]:
    """Return the outcome that an exception stands for, and its first line with its place."""
    from tileprof.errors import InternalError, TileprofError

    linked: BaseException | None = error
    while linked is not None and not isinstance(linked, TileprofError):
        linked = linked.__cause__
    if isinstance(linked, TileprofError):
        place = linked.location
        where = f" ({Path(place.file).name}:{place.line})" if place is not None else ""
        outcome = "failed" if isinstance(linked, InternalError) else "refused"
        return outcome, f"{type(linked).__name__}: {_first(linked.message)}{where}"
    at = traceback.extract_tb(error.__traceback__)[-1]
    text = _first(str(error))
    return "failed", f"{type(error).__name__}: {text} ({Path(at.filename).name}:{at.lineno})"


def _first(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]


def _compile_new(watching: Watching) -> None:
    import tilelang_compiling

    from tileprof import ir

    for held in tilelang_compiling.made_anew():
        text, name = ir.print_kernel(held.kernel), held.kernel.name
        if text in watching.seen or watching.compiled[name] >= VARIANTS:
            continue
        watching.seen.add(text)
        watching.compiled[name] += 1
        for target in watching.targets:
            watching.tell("compiling", kernel=held.kernel.name)
            made = _apart(tilelang_compiling.tried, held, target)
            if isinstance(made, str):
                made = tilelang_compiling.Compiled(held.kernel.name, target, "fails", made)
            watching.tell("compiled", **asdict(made))


def _apart(work: Any, *args: Any) -> Any:
    from tilelang_examples import apart

    return apart(work, *args, limit=EMULATION_S)


# -- outside: one process after the other


@dataclass
class FileResult:
    """Outcomes of the tests of one file."""

    path: str
    collected: int = 0
    left_out: int = 0
    """Tests that were not tried: cases beyond `--each`, and the rest after too many stops."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    seconds: float = 0.0
    details: dict[str, list[Any]] = field(default_factory=dict)
    """Outcome and reason of tests that did not pass, with their number and the first one."""
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Numbers of tests that ran a kernel and passed, and results of its targets, by its name."""

    def add(self, test: str, outcome: str, detail: str, seconds: float, kernels: list[str]) -> None:
        """Count one test."""
        self.counts[outcome] += 1
        self.seconds = round(self.seconds + seconds, 2)
        if outcome != "passed":
            held = self.details.setdefault(f"{outcome}: {detail}", [0, test])
            held[0] += 1
        for name in kernels:
            row = self._kernel(name)
            row["ran"] += 1
            row["passed"] += outcome == "passed"

    def add_compiled(self, facts: dict[str, Any]) -> None:
        """Note what a target made of a kernel; the kernel's worst variant is kept."""
        held = self._kernel(facts["kernel"])["targets"].setdefault(facts["target"], [])
        held.append({k: v for k, v in facts.items() if k not in ("event", "kernel", "target")})

    def _kernel(self, name: str) -> dict[str, Any]:
        return self.kernels.setdefault(name, {"ran": 0, "passed": 0, "targets": {}})

    @property
    def run(self) -> int:
        """Number of tests that were started and not skipped."""
        return sum(self.counts.values()) - self.counts["skipped"]


@dataclass(frozen=True)
class Settings:
    """Arguments of the command, the same for each file."""

    checkout: Path
    device: str = "cpu"
    expression: str = ""
    limit: float = LIMIT_S
    each: int = 0
    setup: str = ""
    targets: str = ""
    bytes: int = EMULATED_BYTES


def run_file(path: str, settings: Settings, log: Path) -> FileResult:
    """Run one test file, in as many processes as its slow tests ask for."""
    result = FileResult(path)
    done: list[str] = []
    for _ in range(STOPS):
        if not _run_once(result, path, settings, done, log):
            break
    seen = sum(result.counts.values())
    result.left_out = max(0, result.collected - seen)
    return result


def _run_once(
    result: FileResult, path: str, settings: Settings, done: list[str], log: Path
) -> bool:
    """Run what is not done of a file; whether a test was stopped, so that others may be left."""
    with tempfile.TemporaryDirectory() as folder, open(log, "a") as output:
        events, before = Path(folder, "events"), Path(folder, "done")
        events.touch()
        before.write_text("\n".join(done))
        process = subprocess.Popen(
            _command(path, settings, events, before),
            cwd=settings.checkout,
            env=_environment(settings),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        running, since, at = "", time.monotonic(), 0
        # The first test waits for the imports and the collection.
        while True:
            ended = process.poll() is not None
            text = events.read_text()
            complete = text.rfind("\n") + 1
            for line in text[at:complete].splitlines():
                running = _note(result, json.loads(line), done, running)
                since = time.monotonic()
            at = complete
            if ended:
                break
            if running and time.monotonic() - since > settings.limit:
                process.kill()
                process.wait()
                done.append(running)
                result.add(running, "too long", f"more than {settings.limit:g} s",
                           settings.limit, [])  # fmt: skip
                return True
            time.sleep(0.1)
        if running:
            done.append(running)
            result.add(running, "failed", f"the process ended with {process.returncode}", 0, [])
            return True
        # 5 says that there are no tests, and 0 that those before were all.
        if process.returncode not in (0, 5) and not sum(result.counts.values()):
            text = log.read_text().splitlines()[-40:]
            said = [line[2:].strip() for line in text if line[:2] == "E "]
            reason = (said or [f"pytest ended with {process.returncode}"])[-1]
            result.add(path, "failed", f"its tests cannot be collected: {reason}", 0, [])
    return False


def _note(result: FileResult, event: dict[str, Any], done: list[str], running: str) -> str:
    """Take in one event; the test that runs after it."""
    match event["event"]:
        case "collected":
            result.collected = event["count"]
        case "broken":
            result.counts["failed"] += 1
            result.details[f"failed: cannot be imported: {event['detail']}"] = [1, result.path]
        case "begin":
            return str(event["test"])
        case "end":
            done.append(event["test"])
            result.add(*(event[n] for n in ("test", "outcome", "detail", "seconds", "kernels")))
        case "compiled":
            result.add_compiled(event)
        case _:
            pass
    return running if event["event"] in ("compiling", "compiled", "collected") else ""


def _command(path: str, settings: Settings, events: Path, done: Path) -> list[str]:
    chosen = ["-k", settings.expression] if settings.expression else []
    given = {"events": events, "done": done, "setup": settings.setup, "each": settings.each}
    given |= {"targets": settings.targets, "bytes": settings.bytes}
    options = [f"--suite-{name}={value}" for name, value in given.items()]
    plain = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return [sys.executable, "-m", "pytest", "-p", "tilelang_suites", *plain, *options, *chosen,
            path]  # fmt: skip


def _environment(settings: Settings) -> dict[str, str]:
    # A library may keep its packages in `src`.
    inside = [p for p in (settings.checkout / "src", settings.checkout) if p.is_dir()]
    paths = [str(p) for p in (HERE, HERE.parent, *inside)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TILEPROF_DEVICE": settings.device,
    }


def test_files(checkout: Path, asked: Sequence[str]) -> list[str]:
    """Return the test files below the asked paths, relative to the checkout."""
    found: list[Path] = []
    for each in asked or ["tests"]:
        path = checkout / each
        if not path.exists():
            raise SystemExit(f"there is no {each} in {checkout}")
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [str(p.relative_to(checkout)) for p in dict.fromkeys(found)]


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout: of its history, or of a file COMMIT that came with it."""
    from tilelang_examples import commit_of as of_history

    if (checkout / "COMMIT").exists():
        return (checkout / "COMMIT").read_text().strip()[:12]
    return of_history(checkout)


def summary(results: Sequence[FileResult]) -> str:
    """Return how many tests of all files had each outcome."""
    counts = Counter[str]()
    for each in results:
        counts.update(each.counts)
    left = sum(each.left_out for each in results)
    parts = [f"{counts[o]} {o}" for o in OUTCOMES if counts[o]]
    return ", ".join([*parts, *([f"{left} not tried"] if left else [])]) or "no tests"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the files, and write the results after each; 1 where a test failed or was refused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--tests", nargs="+", default=[], help="files or folders of the checkout")
    parser.add_argument("--device", choices=("interpreter", "cpu"), default="cpu")
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of one test")
    parser.add_argument("--each", type=int, default=0, help="most cases of each test function")
    parser.add_argument("--setup", type=Path, help="Python file that each process executes first")
    parser.add_argument("--compile", default="", help="GPU targets, separated by commas")
    parser.add_argument("--emulate", type=int, default=EMULATED_BYTES, metavar="BYTES")
    parser.add_argument("--log", type=Path, help="where pytest's own output goes")
    parser.add_argument("--keep", action="store_true", help="keep other files' earlier results")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args(argv)
    checkout = args.checkout.resolve()
    settings = Settings(
        checkout, args.device, args.expression, args.limit, args.each,
        str(args.setup.resolve()) if args.setup else "", args.compile, args.emulate,
    )  # fmt: skip
    held: dict[str, Any] = {}
    if args.keep and args.output.exists():
        held = json.loads(args.output.read_text())["files"]
    log = args.log or args.output.with_suffix(".log")
    log.write_text("")
    results = []
    for path in test_files(checkout, args.tests):
        results.append(result := run_file(path, settings, log))
        print(f"{path}: {summary([result])}, {result.seconds:.0f} s", flush=True)
        for reason, (count, test) in result.details.items():
            if not reason.startswith("skipped"):
                print(f"    {count} × {reason}\n        {test}", flush=True)
        held[path] = {**asdict(result), "run": result.run}
        facts = {
            "library": checkout.name.replace("+", "/"),
            "commit": commit_of(checkout),
            "date": str(datetime.date.today()),
            "device": args.device,
            "limit_s": args.limit,
            "each": args.each,
            "setup": args.setup.name if args.setup else "",
            "files": held,
        }
        args.output.write_text(json.dumps(facts, indent=1) + "\n")
    print(summary(results))
    bad = ("failed", "refused", "too long")
    return int(any(each.counts[o] for each in results for o in bad))


if __name__ == "__main__":
    sys.exit(main())
