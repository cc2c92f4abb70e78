"""Measure standard changes of real programs, and judge what `tileprof report` suggests first.

    python -m benchmarks.programs.run [--programs a,b] [--part I/N] [--budget SECONDS] [-o FILE]
    python -m benchmarks.programs.run --device cpu --tiny --programs heat_simulation
    python -m benchmarks.programs.run --problems CHECKOUT         models of KernelBench instead
        [--without FILE ...]                                      but for those of these results
    python -m benchmarks.programs.run --architectures             drawn models of transformers
    python -m benchmarks.programs.run --judge FILE --keep DIR     judge kept profiles again

Each program runs as it is and once with each change, in a process each. They build, compile and
warm up beside one another; then one program at a time is timed, its processes taking turns. Then
the program as it is is recorded by `tileprof run`, plain and with samples of instructions, and
`tileprof report --json` is judged.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.programs import architectures, frozen, problems, scores
from benchmarks.programs.catalog import CHANGES, PROGRAMS, Program, chosen
from benchmarks.programs.members import ROOT, FailedError, Member, Settings
from tileprof import load
from tileprof.errors import TileprofError

RESULTS = ROOT / "benchmarks" / "results"
ROUNDS = 11
BATCH_S = 0.12
"""Steps of a batch take about as long in the program as it is."""
MEMORY_GB = 60.0
"""Memory that processes that stand ready may take together, where a device does not say more."""
MOST = 48
"""Processes that stand ready together: each takes about 2 GB of the host's memory."""
_OF_DEVICE = 0.8
"""Share of a device's memory that they may take together."""
RECORDINGS: dict[str, tuple[str, ...]] = {"plain": (), "samples": ("--pc-sampling",)}


def groups(programs: Sequence[Program], memory: float = MEMORY_GB) -> Iterator[list[Program]]:
    """Programs whose processes fit a device together; `memory` in GB."""
    group = list[Program]()
    for program in programs:
        if group and not fits([*group, program], memory):
            yield group
            group = []
        group.append(program)
    if group:
        yield group


def fits(group: Sequence[Program], memory: float) -> bool:
    """Whether these can stand ready while one process of one of them runs; `memory` in GB."""
    count = {each.name: 1 + len(each.changes) for each in group}
    idle = sum(each.idle_gb * count[each.name] for each in group)
    running = max(each.busy_gb - each.idle_gb for each in group)
    return idle + running <= memory and sum(count.values()) + 2 * len(group) <= MOST


class Room:
    """Memory of the device, in GB, and processors, which processes share while they warm up."""

    def __init__(self, memory: float) -> None:
        self._free = memory
        self._host = threading.Lock()
        self._changed = threading.Condition()

    def host(self, loads: bool) -> contextlib.AbstractContextManager[object]:
        """Wait for the processors, where a process takes them all; eight such processes at once
        take minutes for steps of a tenth of a second."""
        return self._host if loads else contextlib.nullcontext()

    @contextlib.contextmanager
    def taken(self, busy: float, idle: float) -> Iterator[None]:
        """Wait for what a process takes at most; what it holds when it stands ready stays taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= busy)
            self._free -= busy
        try:
            yield
        finally:
            with self._changed:
                self._free += busy - idle
                self._changed.notify_all()


def missing(program: Program) -> str:
    """Names of packages that a program needs and that are not there."""
    return ", ".join(each for each in program.needs if importlib.util.find_spec(each) is None)


def ready(member: Member, room: Room) -> Member:
    """A member at the gate or, if it is to be timed, warm; a failed one has an error."""
    try:
        member.start()
        if member.options is None:
            program = member.program
            # The processors first: whoever waits for them holds no memory that others wait for.
            with room.host(program.loads), room.taken(program.busy_gb, program.idle_gb):
                member.warm()
    except FailedError as failed:
        member.error = str(failed)
    return member


def timed(members: Sequence[Member], rounds: int) -> dict[str, Any]:
    """Time one program: all its members take turns, in each round in another order."""
    base, *others = members
    once = min(base.seconds(2) / 2, base.seconds(2) / 2)
    for each in others:  # as many steps in all, or results would differ
        try:
            for _ in range(2):
                each.seconds(2)
        except FailedError:
            continue
    steps = max(2, min(200, round(BATCH_S / max(once, 1e-6))))
    times: dict[str, list[float]] = {each.change: [] for each in members}
    alive = [each for each in members if not each.error]
    for number in range(rounds):
        order = alive if number % 2 else alive[::-1]
        for member in order:
            try:
                seconds = member.seconds(steps) / steps / member.samples
            except FailedError:
                continue
            times[member.change].append(seconds)
        alive = [each for each in alive if not each.error]
    for member in alive:
        with contextlib.suppress(FailedError):
            member.stop()
    return {
        "steps": steps,
        "ms": 1e3 * base.samples * sorted(times[""])[len(times[""]) // 2],
        "samples": base.samples,
        "changes": {each.change: _change(base, each, times) for each in others},
    }


def _change(base: Member, member: Member, times: dict[str, list[float]]) -> dict[str, Any]:
    """A change's gain, and whether its result is right."""
    mine, theirs = times[""], times[member.change]
    if member.error or not theirs or len(theirs) != len(mine):
        return {"error": member.error or "not timed"}
    right = True
    if CHANGES[member.change].comparable:
        if member.result is None or base.result is None:
            return {"error": "no result"}
        allowed = base.program.tolerance * max(abs(base.result), base.program.scale)
        right = abs(member.result - base.result) <= allowed
    return {
        **scores.gain_of(mine, theirs),
        "right": right,
        "result": member.result,
        "base_result": base.result,
    }


def report_of(profile: Path) -> dict[str, Any]:
    """Return the object that `tileprof report --json` prints of a profile."""
    command = [sys.executable, "-m", "tileprof", "report", "--json", str(profile)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    if done.returncode:
        raise FailedError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recorded(member: Member, pool: ThreadPoolExecutor) -> Future[dict[str, Any]]:
    """Record a member while nothing else runs; its report is made beside the next one."""
    if member.error:
        raise FailedError(member.error)
    begin = time.perf_counter()
    member.run_once()
    took = time.perf_counter() - begin

    def report() -> dict[str, Any]:
        member.wait()
        return {**report_of(member.profile), "recorded_s": took}

    return pool.submit(report)


def measured(
    group: Sequence[Program], args: argparse.Namespace, keep: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Rows of programs that stand ready together; `keep` gets each before it is recorded."""
    settings = Settings(args.device, args.tiny, args.keep)
    members: dict[str, list[Member]] = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for program in group:
            changes = [each for each in program.changes
                       if (args.device != "cpu" or not CHANGES[each].gpu)
                       and (not args.changes or each in args.changes)]  # fmt: skip
            held = [Member(program, change, settings) for change in ("", *changes)]
            held += [Member(program, "", settings, options) for name, options in RECORDINGS.items()
                     if name == "plain" or args.device != "cpu"]  # fmt: skip
            members[program.name] = held
        try:
            # What is only started goes last: what has to compile takes longest.
            order = sorted(chain(*members.values()), key=lambda each: each.change != "compile")
            room = Room(max(args.memory, max(each.busy_gb for each in group)))
            list(pool.map(lambda member: ready(member, room), order))
            rows = dict[str, dict[str, Any]]()
            for program in group:
                rows[program.name] = _times(program, members[program.name], args)
                keep(rows[program.name])
            reports: dict[str, dict[str, Future[dict[str, Any]] | str]] = {}
            for name, held in members.items():
                reports[name] = {}
                for member in held:
                    if member.options is None:
                        continue
                    kind = "samples" if member.options else "plain"
                    try:
                        reports[name][kind] = recorded(member, pool)
                    except FailedError as failed:
                        reports[name][kind] = str(failed)
            for name, row in rows.items():
                for kind, found in reports[name].items():
                    add_report(row, kind, found)
                yield row
        finally:
            for member in chain(*members.values()):
                member.kill()


def _times(program: Program, held: Sequence[Member], args: argparse.Namespace) -> dict[str, Any]:
    """The row of a program before it is recorded."""
    row: dict[str, Any] = {"program": program.name, "kind": program.kind, "changes": {}}
    base, *others = (each for each in held if each.options is None)
    try:
        if base.error:
            raise FailedError(base.error)
        row.update(timed([base, *(each for each in others if not each.error)], args.rounds))
    except FailedError as failed:
        row["error"] = str(failed)
    for each in others:
        row["changes"].setdefault(each.change, {"error": each.error})
    return row


def add_report(row: dict[str, Any], kind: str, found: Future[dict[str, Any]] | str) -> None:
    """Judge one report of a row, or keep why there is none."""
    try:
        if isinstance(found, str):
            raise FailedError(found)
        report = found.result()
    except Exception as failed:
        row.setdefault("unreported", {})[kind] = f"{type(failed).__name__}: {failed}"[:400]
        return
    row.setdefault("judged", {})[kind] = scores.judged(report, row["changes"])
    row.setdefault("reports", {})[kind] = {
        "recorded_s": report.get("recorded_s"),
        "findings": [
            {"rule": each["rule"], "severity": each["severity"], "title": each["title"],
             "gain": each["gain"]["program"]}
            for each in report["findings"][:12]
        ],
    }  # fmt: skip


def told(row: dict[str, Any]) -> str:
    """A row on the screen."""
    if "error" in row:
        return f"{row['program']}: {row['error']}"
    gains = ", ".join(
        f"{name} {each['gain']:.3f}×{'' if each['right'] else ' WRONG RESULT'}"
        if "gain" in each
        else f"{name}: {each['error']}"
        for name, each in row["changes"].items()
    )
    lines = [f"{row['program']}: {row['ms']:.2f} ms a step; {gains}"]
    for kind, held in row.get("judged", {}).items():
        first = held["first"]
        said = f"{first['rule']} {first['gain']}, {first['title']}" if first else "nothing"
        lines.append(f"  {kind}: {said}; enough {held['enough']}, inside {held['inside']}")
    lines += [f"  {kind}: {why}" for kind, why in row.get("unreported", {}).items()]
    return "\n".join(lines)


def memory_of(device: str) -> float:
    """Memory for processes that stand ready, in GB."""
    if device == "cpu":
        return MEMORY_GB
    torch = importlib.import_module("torch")
    return float(torch.cuda.get_device_properties(0).total_memory) * 1e-9 * _OF_DEVICE


def circumstances(device: str) -> dict[str, Any]:
    """Device, versions, date and sources of a run."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        "device": device,
    }
    for name in ("torch", "triton", "transformers", "jax"):
        # Read and not imported, which takes seconds.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    if device != "cpu":
        torch = importlib.import_module("torch")
        found["device"] = torch.cuda.get_device_name()
        found["gpu"] = importlib.import_module("benchmarks.measuring").clocks()
    return found


def judge_again(record: dict[str, Any], folder: Path) -> None:
    """Read kept profiles by the analyzer of now; one without a kernel is of a run that was cut off
    while it waited for its turn."""
    for row in record["rows"]:
        for key in ("judged", "reports", "unreported"):
            row.pop(key, None)
        for kind in RECORDINGS:
            path = folder / f"{row['program']}-base-{kind}.tprof"
            if path.exists():
                future: Future[dict[str, Any]] = Future()
                try:
                    if ended := load(path).tables.provenance.get("ended early"):
                        raise FailedError(f"its recording ended {ended}")
                    future.set_result(report_of(path))
                except (FailedError, TileprofError) as failed:
                    future.set_exception(failed)
                add_report(row, kind, future)
        print(told(row), flush=True)
    record["frozen"] = frozen.hashes()


def write(path: Path, record: dict[str, Any]) -> None:
    """Write the file as a whole, with scores of what there is."""
    record["scores"] = {kind: scores.summary(record["rows"], kind) for kind in RECORDINGS}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> int:
    """Measure, record, judge, write."""
    args = arguments()
    if args.judge:
        record = json.loads(args.judge.read_text())
        judge_again(record, args.keep)
        write(args.output or args.judge, record)
        return 0
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="programs") as scratch:
        args.keep = (args.keep or Path(scratch)).absolute()
        args.keep.mkdir(parents=True, exist_ok=True)
        return _run(args, begin)


def _run(args: argparse.Namespace, begin: float) -> int:
    """Measure the chosen programs, from a time on that counts for the budget."""
    known, lacking, kind = PROGRAMS, dict[str, str](), "programs"
    if args.problems:
        known, kind = problems.written(args.problems, args.keep / "scripts"), "problems"
    elif args.architectures:
        known, lacking = architectures.programs(args.keep / "scripts")
        kind = "architectures"
    measured_before = {
        row["program"] for path in args.without for row in json.loads(path.read_text())["rows"]
    }
    number, of = (int(each) for each in args.part.split("/"))
    programs = [
        each
        for each in chosen((name for name in args.programs.split(",") if name), known)
        if each.name not in measured_before
    ][number - 1 :: of]
    name = f"{kind}.json" if of == 1 else f"{kind}-{number}of{of}.json"
    output = args.output or RESULTS / name
    args.memory = memory_of(args.device)
    record = {"circumstances": circumstances(args.device), "frozen": frozen.hashes(),
              "tiny": args.tiny, "rounds": args.rounds, "rows": [], "skipped": {}}  # fmt: skip
    if args.problems:
        record["problems"] = problems.hash_of(args.problems)
    elif args.architectures:
        record["architectures"] = architectures.hash_of()
    for program in programs:
        if packages := missing(program):
            record["skipped"][program.name] = f"no {packages}"
        elif program.name in lacking:
            record["skipped"][program.name] = lacking[program.name]
        elif args.problems and (fault := problems.failing(program)):
            record["skipped"][program.name] = f"fails as its author wrote it: {fault}"
    there = [each for each in programs if each.name not in record["skipped"]]
    longest = 0.0

    def keep(row: dict[str, Any]) -> None:
        """Write a row as soon as it is timed: a run that is cut off is not for nothing."""
        record["rows"].append(row)
        print(told(row), flush=True)
        write(output, record)

    for group in groups(there, args.memory):
        start = time.perf_counter()
        if args.budget and start - begin + longest > args.budget:
            record["skipped"].update({each.name: "no time left" for each in group})
            continue
        for row in measured(group, args, keep):
            print(told(row), flush=True)
            write(output, record)
        longest = max(longest, time.perf_counter() - start)
        print(f"{time.perf_counter() - begin:.0f} s", flush=True)
    if frozen.hashes() != record["frozen"]:
        record["error"] = "sources changed during the run"
    write(output, record)
    print(json.dumps({"scores": record["scores"], "skipped": record["skipped"]}, indent=1))
    failed = [row["program"] for row in record["rows"] if "error" in row]
    return 1 if failed or "error" in record else 0


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join(each.name for each in PROGRAMS)
    parser.add_argument("--programs", default="", help=f"names with commas: {names}")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--problems", type=Path, metavar="CHECKOUT",
                        help="run models of this checkout of KernelBench instead")  # fmt: skip
    source.add_argument("--architectures", action="store_true",
                        help="run the drawn architectures of transformers instead")  # fmt: skip
    parser.add_argument("--changes", default="", help="only these changes, with commas")
    parser.add_argument("--without", nargs="+", default=(), type=Path, metavar="FILE",
                        help="leave out programs that these results have")  # fmt: skip
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th from the I-th on")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="sizes of a test")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=12, help="processes that get ready at once")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS",
                        help="start no group that would likely end later")  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where outputs and profiles stay")
    parser.add_argument("--judge", type=Path, metavar="FILE",
                        help="a file of results: judge its profiles in --keep again")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    args.changes = {each for each in args.changes.split(",") if each}
    if args.judge and not args.keep:
        parser.error("--judge needs --keep")
    return args


if __name__ == "__main__":
    sys.exit(main())
