"""Interrupt finalisation with signals and forks at every line of the profiler.

    python -m benchmarks.reliability.signals --runs 2000 --jobs 16 -o signals.json

Each run is a process with a session whose helping thread flushes all the time.  While its main
thread finalizes or takes a snapshot, something happens at the k-th line of the profiler that it
executes:

SIGTERM, SIGHUP   raised once, in the main thread
twice             SIGTERM raised twice in a row
SIGINT            Ctrl-C
handler           SIGTERM, with a handler of the program's own that finalizes and exits
leave             SIGTERM, with a handler of the program's own that calls `os._exit`
fork              another thread forks, and the child records and finalizes too

A run fails if it does not end, if it ends otherwise than asked for, or if its file is neither whole
nor missed in a sentence on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tileprof.profile import load
from tileprof.profiler import finalize, scope, start, worker
from tileprof.profiler.endings import finalizing, termination
from tileprof.profiler.endings.os_exit import writing_at_exit
from tileprof.profiler.session import recording

ACTIONS = ("SIGTERM", "SIGHUP", "twice", "SIGINT", "handler", "leave", "fork")
STAGES = ("finalize", "snapshot")
VISITS = 10
HANG_S = 30.0
"""After this long a run hangs, in seconds; a process that cannot save gives up after 5 s here."""
_SHOWN = 20
_PACKAGE = os.path.dirname(os.path.abspath(recording.__file__))
_leave = os._exit


@dataclass(frozen=True)
class Case:
    """What happens where."""

    action: str
    stage: str
    line: int
    """Number of the line, counted from 1 as they are executed."""

    def __str__(self) -> str:
        return f"{self.action} at line {self.line} of {self.stage}"


@dataclass
class Running:
    """A process that executes a case."""

    case: Case
    pid: int
    folder: Path
    began: float


class Hook:
    """Counts lines of the profiler in the main thread, and acts at one of them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.lines = 0
        self.child = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        """Trace functions of the profiler."""
        return self if frame.f_code.co_filename.startswith(_PACKAGE) and self._seen(event) else None

    def _seen(self, event: str) -> bool:
        if event == "line":
            self.lines += 1
            if self.lines == self.case.line:
                self._act()
        return True

    def _act(self) -> None:
        match self.case.action:
            case "fork":
                self._fork()
            case "twice":
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
            case "handler" | "leave":
                signal.raise_signal(signal.SIGTERM)
            case name:
                signal.raise_signal(signal.Signals[name])

    def _fork(self) -> None:
        thread = threading.Thread(target=self._in_other_thread)
        thread.start()
        thread.join(HANG_S)

    def _in_other_thread(self) -> None:
        self.child = os.fork()
        if self.child == 0:
            with scope("child"):
                pass
            finalize()
            _leave(0)


def _run(case: Case) -> None:
    """Execute a case in a process of its own, which does not return."""
    termination.SAVE_S = 5.0
    recording.FORK_S = worker.STOP_S = 0.3
    session = start("out.tprof", context="python", flush_interval=0.01)
    if case.action in ("handler", "leave"):
        signal.signal(signal.SIGTERM, lambda *_: finalize() and sys.exit(3))
        if case.action == "leave":
            signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
    elif case.action == "SIGINT":
        signal.signal(signal.SIGINT, signal.default_int_handler)
    termination.finalize_on_terminate(session)
    hook = Hook(case)
    with writing_at_exit(
        lambda _: recording.finalize_all(), lambda: finalizing.say("there was no time")
    ):
        for _ in range(VISITS):
            with scope("work"):
                sum(range(1000))
        time.sleep(0.03)
        try:
            sys.settrace(hook)
            getattr(session, case.stage)()
        except (KeyboardInterrupt, SystemExit):
            pass
        finally:
            sys.settrace(None)
    if hook.child:
        _, status = os.waitpid(hook.child, 0)
        if status:
            finalizing.say(f"the child ended with {status}")
    for _ in range(3):
        # A program that is interrupted goes to its end, however often.
        try:
            session.finalize()
            break
        except (KeyboardInterrupt, SystemExit):
            continue
    Path("lines").write_text(str(hook.lines))
    _leave(0)


def _start(case: Case, folder: Path) -> Running:
    folder.mkdir()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        errors = os.open("stderr", os.O_CREAT | os.O_WRONLY)
        os.dup2(errors, 2)
        try:
            _run(case)
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        _leave(99)
    return Running(case, pid, folder, began)


def _verdict(run: Running, status: int | None) -> str:
    """What is wrong with a run that has ended; nothing if all is well."""
    said = (run.folder / "stderr").read_text(errors="replace")
    if status is None:
        return f"hangs: {said[-300:]}"
    code = os.waitstatus_to_exitcode(status)
    asked = {"SIGTERM": {-15, 0}, "twice": {-15, 0}, "SIGHUP": {-1, 0}, "leave": {3, 0}}
    if code not in asked.get(run.case.action, {0}):
        return f"exit code {code}: {said[-2000:]}"
    if "Traceback" in said or "the child ended with" in said:
        return said[-2000:]
    children = sorted(run.folder.glob("out.pid*.tprof"))
    # A child of a process that is finalizing has nothing to record for, so none is missed there.
    # Which lines are executed differs a little from run to run: the last ones may not be reached.
    reached = int((run.folder / "lines").read_text()) >= run.case.line if code == 0 else False
    forked = run.case.action == "fork" and run.case.line > 0 and reached
    if run.case.stage == "snapshot" and code == 0 and len(children) != forked:
        return f"{len(children)} files of children"
    try:
        for path in (*children, run.folder / "out.tprof"):
            profile = load(path)
            name, visits = ("child", 1) if path in children else ("work", VISITS)
            found = sum(profile.node(n).own("count") for n in profile.find(name, "scope"))
            if found != visits:
                return f"{path.name} has {found} visits of {name}"
    except Exception as error:
        return "" if "tileprof: " in said else f"no file, no sentence: {error}"
    return ""


def _lines(stage: str, folder: Path) -> int:
    """Count the lines that a stage executes when nothing happens."""
    run = _start(Case("SIGTERM", stage, 0), folder)
    _, status = os.waitpid(run.pid, 0)
    if status:
        raise SystemExit(f"the first run fails: {_verdict(run, status)}")
    return int((folder / "lines").read_text())


def cases(runs: int, lines: dict[str, int], seed: int) -> list[Case]:
    """Return cases that are spread evenly over all lines, a random part of them where too many."""
    every = [
        Case(action, stage, line)
        for action in ACTIONS
        for stage in STAGES
        for line in range(1, lines[stage] + 1)
    ]
    chosen = random.Random(seed)
    chosen.shuffle(every)
    return (every * (runs // len(every) + 1))[:runs]


def campaign(runs: int, jobs: int, seconds: float, seed: int = 0) -> dict[str, Any]:
    """Run cases, several at a time, until they are all done or the time is over."""
    began = time.monotonic()
    failures: list[dict[str, str]] = []
    done = hangs = tracebacks = 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        # What is imported at the first end is there when the runs begin.
        start(top / "warm.tprof", context="python").finalize()
        lines = {stage: _lines(stage, top / stage) for stage in STAGES}
        waiting = cases(runs, lines, seed)[::-1]
        running: list[Running] = []
        while running or (waiting and time.monotonic() - began < seconds):
            while waiting and len(running) < jobs and time.monotonic() - began < seconds:
                running.append(_start(waiting.pop(), top / f"{len(waiting)}"))
            for run in running[:]:
                pid, ended = os.waitpid(run.pid, os.WNOHANG)
                late = time.monotonic() - run.began > HANG_S
                if not pid and not late:
                    continue
                if not pid:
                    os.kill(run.pid, signal.SIGKILL)
                    os.waitpid(run.pid, 0)
                wrong = _verdict(run, ended if pid else None)
                running.remove(run)
                done += 1
                hangs += not pid
                tracebacks += "Traceback" in wrong
                if wrong:
                    failures.append({"case": str(run.case), "what": wrong})
                if done % 500 == 0:
                    print(f"{done} of {runs}: {len(failures)} failures, {hangs} hangs", flush=True)
            time.sleep(0.002)
    return {
        "name": "signals",
        "runs": done,
        "failures": len(failures),
        "hangs": hangs,
        "tracebacks": tracebacks,
        "seconds": round(time.monotonic() - began, 1),
        "details": failures[:_SHOWN],
        "lines": lines,
        "actions": list(ACTIONS),
    }


def main(argv: list[str]) -> int:
    """Run the campaign; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", dest="output")
    args = parser.parse_args(argv)
    result = campaign(args.runs, args.jobs, args.seconds, args.seed)
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
