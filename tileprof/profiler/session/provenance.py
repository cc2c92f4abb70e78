"""Provenance of a profile: the command, the machine, the versions, the state of the sources."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tileprof.profile.thread_times import PROCESSOR_WAIT
from tileprof.profiler.options import Options

_GIT_SECONDS = 2.0
_PACKAGE = str(Path(__file__).resolve().parents[2])


def of_start(options: Options) -> dict[str, str]:
    """Return what a program may change later: its command line and its folder."""
    names = ("context", "instrument", "backward_ops", "layers", "duty", "every")
    chosen = {name: getattr(options, name) for name in names}
    chosen["inside"] = str(options.inside)
    if options.over_time is not None:
        chosen["pm_sampling"] = f"{options.over_time.interval / 1000:g}"
        chosen["metrics"] = ",".join(options.over_time.names)
    if options.counted is not None:
        chosen["metrics"] = ",".join(options.counted.names)
    return {
        "command": _command(),
        "cwd": _cwd(),
        "options": " ".join(f"{name}={value}" for name, value in chosen.items() if value),
    }


@functools.cache
def of_process(pid: int) -> dict[str, str]:
    """Return the versions and the machine; worked out once in a process."""
    import platform

    return {
        "pid": str(pid),
        "tileprof": _version("tileprof"),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": cpu_model(),
        "cpus": str(os.cpu_count() or 1),
        **{name.lower(): os.environ[name] for name in ("RANK", "WORLD_SIZE") if name in os.environ},
    }


def _command() -> str:
    program, *arguments = (sys.argv if sys.argv and sys.argv[0] else None) or [sys.executable]
    # The installed command has its whole path there, `python -m tileprof` that of a file of ours.
    of_ours = os.path.dirname(os.path.abspath(program)).startswith(_PACKAGE)
    if of_ours or os.path.splitext(os.path.basename(program))[0] == "tileprof":
        program = "tileprof"
    return shlex.join([program, *arguments])


def now() -> str:
    """Return the time of day, ISO 8601 with its zone."""
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


def processor_wait_ns() -> int:
    """Return how long the main thread was ready to run and had no processor, in ns, since it began;
    0 where the system does not count that."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def of_processor_wait(before_ns: int) -> dict[str, str]:
    """Return the main thread's wait for a processor since it was `before_ns`, as a fact in s."""
    now_ns = processor_wait_ns()
    # A forked child counts from 0 again.
    waited = now_ns - before_ns if now_ns >= before_ns else now_ns
    return {PROCESSOR_WAIT: f"{waited / 1e9:.3f} s"} if waited else {}


def devices(names: Iterable[str]) -> str:
    """Return the devices that kernels ran on, in first-seen order; `cpu` where there were none."""
    return ", ".join(dict.fromkeys(names)) or "cpu"


def cpu_model() -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def git_state(folder: str) -> dict[str, str]:
    """Return `git`, the revision a folder is at, with `+` where tracked files differ from it.

    Empty where there is no repository or no git, or git takes longer than two seconds. Known for
    a minute, so that a function profiled at each call does not ask each time.
    """
    return _git_state(folder, int(time.monotonic() // 60))


@functools.lru_cache(maxsize=4)
def _git_state(folder: str, minute: int) -> dict[str, str]:
    revision = _git(folder, "rev-parse", "HEAD")
    if not revision:
        return {}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"git": revision + ("+" if changes else "")}


def script_folder() -> str:
    """Return the folder of the program that runs, else the current one."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(main).resolve().parent) if main else _cwd()


def _git(folder: str, *command: str) -> str:
    import subprocess

    # GIT_OPTIONAL_LOCKS: looking at the state must not get in the way of the user's own git.
    try:
        done = subprocess.run(
            ["git", "-C", folder, *command],
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _version(package: str) -> str:
    return str(getattr(sys.modules.get(package), "__version__", "unknown"))
