"""What an agent can ask: record a program, tune a kernel, try changes, read profiles by pages.

In: names of files below a root folder.  Out: text; errors are `TileprofError`s with a way out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tileprof.analyzer import Fault, Report, analyze
from tileprof.analyzer.changes import explain
from tileprof.analyzer.findings import identified
from tileprof.errors import UsageError, suggestion
from tileprof.once import Guard, cached_property
from tileprof.profile import KernelInfo, Profile, as_shown, diff, load
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer import DiffOptions, ViewOptions, render_changes, render_diff, render_view
from tileprof.viewer.code.explained import explain_line
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.findings.faults import fault_text

from .pages import page_of

Shown = Literal["top-down", "bottom-up", "flat", "lines", "sass"]
Context = Literal["scopes", "python", "full"]

WIDTH = 100
"""Cells of a line of an answer."""
_MOST_HELD = 4
"""Profiles that are kept in memory."""
_TAIL = 1500
"""Characters of a recorded program's output that an answer has, from its end."""
_MOST_ANSWER = 200_000
"""Characters of what a command printed that is shown in pages."""
_SUMMARY_PERCENT = 5.0
"""Nodes of the tree that follows a recording: those with at least this share of the whole."""


@dataclass(frozen=True)
class _Held:
    """A loaded profile, and its report once it is asked for."""

    profile: Profile
    faults: list[Fault] = field(default_factory=list)

    @cached_property
    def report(self) -> Report:
        """The findings; `faults` has the rules that failed, which it leaves out."""
        return analyze(self.profile, faults=self.faults)


class Tools:
    """The tools, for files below `root`: reading never leaves it, and programs run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._held: OrderedDict[tuple[Path, int, int], _Held] = OrderedDict()
        self._reading = Guard()
        self._printed: dict[tuple[str, ...], str] = {}
        """What the last command printed whose answer has pages, by the command."""

    def record(
        self,
        script: str,
        arguments: list[str] | None = None,
        output: str | None = None,
        context: Context = "full",
        pc_sampling: bool = False,
        metrics: str | None = None,
        device: str | None = None,
        timeout_s: float = 600,
    ) -> str:
        """Run a Python script under `tileprof run` and write a profile.

        The script runs with the rights of this server, in its root folder. `output` is the
        profile's file (default: SCRIPT's stem + `.tprof`). `pc_sampling` samples instructions of a
        GPU, `metrics` counts hardware events (`memory,tensor,occupancy`); use one of them at a
        time. `device` is where tile kernels run: interpreter, cpu or cuda. Answers with the exit
        code, the end of the program's output, and the hottest part of the tree.
        """
        file = self._inside(script)
        if not file.is_file():
            raise UsageError(f"{script} does not exist", hint=f"Paths start at {self.root}.")
        made = self._inside(output or f"{file.stem}.tprof")
        command = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", str(made)]
        command += ["--context", context, *(["--pc-sampling"] if pc_sampling else [])]
        for option, value in (("--metrics", metrics), ("--device", device)):
            command += [] if value is None else [option, value]
        began = made.stat().st_mtime_ns if made.exists() else None
        code, printed = self._run([*command, str(file), *(arguments or [])], timeout_s)
        lines = [f"exit code {code}; end of the output:" if printed else f"exit code {code}"]
        lines += [printed] if printed else []
        if not made.exists() or made.stat().st_mtime_ns == began:
            return page_of("\n".join([*lines, "No profile was written."]) + "\n")
        options = ViewOptions(threshold=_SUMMARY_PERCENT)
        tree = render_view(self._load(made).profile, options, width=WIDTH, unicode=False)
        lines += [f"wrote {made.relative_to(self.root)}; ask `report` for what to change", tree]
        return page_of("\n".join(lines))

    def tune(
        self,
        kernel: str,
        set: dict[str, int | float | str] | None = None,
        device: str | None = None,
        target: str | None = None,
        timed: int | None = None,
        timeout_s: float = 600,
        page: int = 1,
    ) -> str:
        """Find the fastest tile sizes, stages, threads and controls of a tile kernel.

        `kernel` is `FILE.py:NAME`; the file runs with the rights of this server. `set` binds the
        extents and arguments that are not to be tuned, as {"M": 4096}. `device` (cpu, cuda) is
        where a few configurations are timed; `target` (sm_90a) ranks them by the model alone, for
        a GPU that need not be there. The first lines have the winner, what follows says for each
        loser what the model and the measurement say; other pages do not tune again.
        """
        file = self._inside(kernel.rpartition(":")[0])
        if not file.is_file():
            raise UsageError(
                f"{kernel} names no file", hint=f"Write FILE.py:KERNEL; paths start at {self.root}."
            )
        command = [sys.executable, "-m", "tileprof", "tune", f"{file}:{kernel.rpartition(':')[2]}"]
        command += [word for n, v in (set or {}).items() for word in ("--set", f"{n}={v}")]
        for option, value in (("--device", device), ("--target", target), ("--timed", timed)):
            command += [] if value is None else [option, str(value)]
        return self._answered([*command, "--explain"], timeout_s, page, "tuning")

    def try_changes(
        self,
        program: str,
        arguments: list[str] | None = None,
        only: list[str] | None = None,
        changes: list[str] | None = None,
        step: str | None = None,
        compare: str | None = None,
        list_only: bool = False,
        apply: bool = False,
        seconds: float = 180,
        timeout_s: float = 1800,
        page: int = 1,
    ) -> str:
        """Make changes in processes of their own, compare results, and time them in pairs.

        `program` is a script, which is recorded first, or a profile, whose findings are tried on
        the program that it is of. Without `only` and `changes` every finding with a change that can
        be made is tried; `only` chooses findings by id or rule, `changes` names changes whatever
        the report says (`fused`, `compile=FILE.py:FUNCTION`, `tf32`, `control=stages=3`; see
        docs/try.md). `step` and `compare` are `FILE.py:FUNCTION`: whose calls are steps, and whose
        results are compared. `list_only` tries nothing. `apply` writes what is worth keeping into
        the program's files. No pair of a change begins after `seconds`. A change is KEPT only if
        its results are the same and it is faster beyond noise; other pages do not try again.
        """
        file = self._inside(program)
        if not file.is_file():
            raise UsageError(f"{program} does not exist", hint=f"Paths start at {self.root}.")
        command = [sys.executable, "-m", "tileprof", "try", "--seconds", f"{seconds:g}"]
        command += [word for each in only or () for word in ("--only", each)]
        command += [word for each in changes or () for word in ("--change", each)]
        for option, value in (("--step", step), ("--compare", compare)):
            command += [] if value is None else [option, value]
        command += [*(["--list"] if list_only else []), *(["--apply"] if apply else [])]
        command += [str(file), *(arguments or [])]
        # 1: nothing is worth keeping.
        return self._answered(command, timeout_s, page, "trying", good=(0, 1))

    def report(
        self, file: str, finding: str | None = None, include: str | None = None, page: int = 1
    ) -> str:
        """List what costs time in a profile and what to change, the most useful first.

        Each finding has an id that stays the same for the same cause in later recordings; call
        again with `finding=ID` for its evidence and advice. `include` is a regular expression on
        kernel, path or rule, and gives the full text of what matches.
        """
        with self._reading:
            held = self._load(self._inside(file))
            report = held.report
            known = identified(report.findings)
            if finding is not None:
                if finding not in known:
                    raise UsageError(
                        f"{file} has no finding `{finding}`",
                        hint=f"{suggestion(finding, known)}Call `report` without `finding` to "
                        "list them.",
                    )
                return page_of(known[finding].text() + "\n", page)
            if include is not None:
                options = ReportOptions(include=include)
                text = render_reports({file: report}, options, width=WIDTH, unicode=False)
                return page_of(text, page)
            lines = [f"{key}  {each.headline()}" for key, each in known.items()]
            failed = [f"Not complete: {fault_text(each)}" for each in held.faults]
            said = [_about(report), *failed, *(lines or ["No optimisation found."])]
            return page_of("\n".join(said) + "\n", page)

    def view(
        self,
        file: str,
        shape: Shown = "top-down",
        metrics: list[str] | None = None,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        depth: int | None = None,
        page: int = 1,
    ) -> str:
        """Show a profile: as a tree of calls (`top-down`), its hot functions with their callers
        (`bottom-up`), a `flat` list, source `lines` with their costs, or instructions (`sass`).

        `include` and `exclude` are regular expressions on names, `threshold` is the percentage
        below which nodes fold, `depth` the number of levels. `metrics` are the columns.
        """
        options = ViewOptions(
            metrics=tuple(metrics or ()),
            include=include,
            exclude=exclude,
            threshold=threshold,
            depth=depth,
            mode="top-down" if shape == "lines" or shape == "sass" else shape,
        )
        view = shape if shape in ("lines", "sass") else "tree"
        with self._reading:
            profile = self._load(self._inside(file)).profile
            return page_of(render_view(profile, options, view, width=WIDTH, unicode=False), page)

    def diff(
        self,
        old: str,
        new: str,
        metrics: list[str] | None = None,
        threshold: float | None = None,
        depth: int | None = None,
        page: int = 1,
    ) -> str:
        """Compare two profiles node by node: where the time changed, and for kernels why.

        `threshold` is the percentage of the whole below which differences fold.
        """
        options = DiffOptions(tuple(metrics or ()), threshold, depth)
        with self._reading:
            sides = [self._load(self._inside(each)).profile for each in (old, new)]
            found = diff(*(as_shown(each, "user").profile for each in sides))
            text = render_diff(found, options, WIDTH, False, False)
            return page_of(text + render_changes(explain(*sides), WIDTH, False, False), page)

    def explain_line(self, file: str, line: str, page: int = 1) -> str:
        """Explain one source line, given as `train.py:42`: what runs there, its time with and
        without what it calls, kernels below it, stall reasons, findings and compiler remarks.
        """
        with self._reading:
            return page_of(explain_line(self._load(self._inside(file)).report, line), page)

    def remarks(self, file: str, kernel: str | None = None, page: int = 1) -> str:
        """List the kernels of a profile with their ids; with `kernel` (an id such as `k0`, or a
        name), the compiler's decisions about it and the reasons against the alternatives.
        """
        with self._reading:
            profile = self._load(self._inside(file)).profile
            kernels = profile.tables.kernels
            if kernel is None:
                lines = list(_kernel_lines(profile)) or ["The profile has no kernels."]
                return page_of("\n".join(lines) + "\n", page)
            chosen = [each for at, each in enumerate(kernels) if kernel in (f"k{at}", each.name)]
            if not chosen:
                names = [each.name for each in kernels]
                raise UsageError(
                    f"{file} has no kernel `{kernel}`",
                    hint=f"{suggestion(kernel, names)}Call `remarks` without `kernel` to list "
                    "them.",
                )
            return page_of("".join(map(_remarks, chosen)), page)

    def _inside(self, name: str) -> Path:
        """Return the path of a file; UsageError where it is not below the root."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise UsageError(
                f"{name} is outside of {self.root}",
                hint="Use a path inside of it, or start the server with `--root DIR`.",
            )
        return path

    def _load(self, path: Path) -> _Held:
        """Return a profile, from memory where its file is the same as before."""
        if not path.exists():
            files = sorted(str(each.relative_to(self.root)) for each in self.root.glob("*.tprof"))
            near = f"Profiles here: {', '.join(files[:20])}." if files else "Record one first."
            raise UsageError(f"{path.relative_to(self.root)} does not exist", hint=near)
        state = path.stat()
        key = (path, state.st_mtime_ns, state.st_size)
        if key not in self._held:
            self._held[key] = _Held(load(path))
            while len(self._held) > _MOST_HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(key)
        return self._held[key]

    def _answered(
        self,
        command: list[str],
        timeout_s: float,
        page: int,
        doing: str,
        good: tuple[int, ...] = (0,),
    ) -> str:
        """Return a page of what a command prints; pages after the first do not run it again."""
        key = tuple(command)
        if page == 1 or key not in self._printed:
            code, printed = self._run(command, timeout_s, most=_MOST_ANSWER)
            if code not in good:
                raise UsageError(f"{doing} ended with exit code {code}:\n{printed}")
            self._printed = {key: f"{printed}\n"}
        return page_of(self._printed[key], page)

    def _run(self, command: list[str], timeout_s: float, *, most: int = _TAIL) -> tuple[int, str]:
        """Run a program apart from the server's own input and output; returns its exit code and at
        most so many characters of what it printed, from the end."""
        # The server's input and output carry the protocol, so the program must not have them.
        program = subprocess.Popen(
            command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            printed, _ = program.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(program)
            raise UsageError(
                f"the program did not end within {timeout_s:g} s and was stopped; nothing was "
                "recorded",
                hint="Give a larger timeout_s, or fewer steps by the script's arguments.",
            ) from None
        except BaseException:
            _kill(program)
            raise
        cut = "… " if len(printed) > most else ""
        return program.returncode, cut + printed[-most:].rstrip()


def _kill(program: subprocess.Popen[str]) -> None:
    """End a program and all processes that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
    program.kill()
    program.communicate()


def _about(report: Report) -> str:
    program = report.program
    time = f", {format_value(program.kernel_time, 'ns')}" if program.kernel_time else ""
    command = program.profile.tables.provenance.get("command", "")
    of = f"{command}: " if command else ""
    return f"{of}{len(program.kernels)} kernels{time}, {len(report.findings)} findings"


def _kernel_lines(profile: Profile) -> list[str]:
    times = [0.0] * len(profile.tables.kernels)
    if "time" in profile.metrics:
        total = profile.total("time")
        for node, kernel in profile.tables.node_kernels.items():
            times[kernel] += float(total[node])
    whole = float(profile.whole.get("time", 0)) or 1.0
    lines = []
    for at in sorted(range(len(times)), key=lambda at: -times[at]):
        each = profile.tables.kernels[at]
        remarks = f"{len(each.remarks)} remark{'s' * (len(each.remarks) != 1)}"
        lines.append(
            f"k{at}  {format_value(times[at], 'ns')} ({format_percent(times[at] / whole)} %)  "
            f"{each.name} on {each.device}, {remarks}"
        )
    return lines


def _remarks(kernel: KernelInfo) -> str:
    said = "".join(f"{remark}\n" for remark in kernel.remarks)
    return f"{kernel.name} on {kernel.device}:\n{said or 'No remarks: not compiled by tileprof.'}\n"
