"""Running a user's program inside a session, such that it cannot tell the difference.

script SCRIPT ARGS    as `python SCRIPT ARGS`
module MODULE ARGS    as `python -m MODULE ARGS`
pytest ARGS           as `python -m pytest ARGS`
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tileprof.errors import InternalError, MissingDependencyError, UsageError, without_frames
from tileprof.files import DATABASE
from tileprof.profiler.endings.finalizing import (
    finalize_each,
    say,
    say_unwritten,
    wait_for_threads,
)
from tileprof.profiler.endings.os_exit import writing_at_exit
from tileprof.profiler.endings.termination import SAVE_S, finalize_on_terminate
from tileprof.profiler.session.children import follow_spawned
from tileprof.profiler.session.recording import open_sessions
from tileprof.profiler.session.session import Session
from tileprof.profiler.tree.paths import hidden, ours
from tileprof.profiler.tree.sources import of_user

Compiler: TypeAlias = Callable[[bytes, str], types.CodeType]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell reports it."""

_replaced: list[types.ModuleType] = []
"""Modules that were `__main__` before: kept alive, because their functions are still running."""


@dataclass(frozen=True, slots=True)
class ProgramTarget:
    """The program to run."""

    kind: Literal["script", "module", "pytest"]
    name: str = "pytest"
    """Path of the script, or dotted name of the module."""

    @property
    def stem(self) -> str:
        """Name of the profile's file without its ending: `train.py` and `pkg.train` give
        `train`."""
        if self.kind == "script":
            return os.path.splitext(os.path.basename(os.path.abspath(self.name)))[0]
        return self.name.rpartition(".")[2]


def check_target(target: ProgramTarget, arguments: Sequence[str] = ()) -> None:
    """Raise `UsageError` or `MissingDependencyError` where there is nothing to run.

    `arguments` are those of the program; the way out may name them.
    """
    if target.kind == "script":
        if not os.path.exists(target.name):
            raise UsageError(
                f"there is no file `{target.name}` to run",
                hint=_way_out(target.name, arguments),
            )
        if os.path.isdir(target.name) and not _main_of(target.name):
            raise UsageError(
                f"the folder `{target.name}` has no __main__.py to run",
                hint="Give the path of a Python script, or -m MODULE.",
            )
        if _begins_with(target.name, DATABASE):
            raise UsageError(
                f"`{target.name}` is a profile or another database, not a Python script",
                hint=f"`tileprof view {target.name}` shows it.",
            )
    elif target.kind == "pytest" and importlib.util.find_spec("pytest") is None:
        raise MissingDependencyError("pytest is not installed", hint="pip install pytest")


def _way_out(name: str, arguments: Sequence[str]) -> str:
    """Return what to do where there is no file of a name that a shell may know."""
    if re.fullmatch(r"python[0-9.]*", name) and arguments:
        return f"Leave `{name}` out: tileprof run {shlex.join(arguments)}"
    command = shutil.which(name) if os.path.basename(name) == name else None
    if command is not None:
        return f"To run the command of that name: tileprof run {shlex.join([command, *arguments])}"
    return "Give the path of a Python script, or -m MODULE."


def compiled(source: bytes, path: str) -> types.CodeType:
    """Compile the text of a script."""
    code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def run_program(
    target: ProgramTarget,
    argv: Sequence[str],
    session: Session,
    compiler: Compiler = compiled,
    quiet: bool = False,
) -> int:
    """Run a program to its end, threads included, and return its exit code.

    Where it ends by `os._exit`, or becomes another program, this does not return; then a line says
    where the profile is, unless `quiet`.

    `compiler` makes code of a script's text and path. `argv` are the program's arguments without
    its name. The session is deactivated at the end, not finalized; it is discarded where Python
    could not even begin with the program. Prints what Python itself would print, and nothing else.
    """
    check_target(target)
    body = prepare(target, argv, compiler)
    written = _writer(session, quiet)

    def terminated(name: str) -> None:
        session.ended = f"by {name}"
        written(f"the program was ended by {name}")

    finalize_on_terminate(session, terminated)
    follow_spawned(session)
    try:
        late = lambda: say_unwritten(open_sessions(), SAVE_S)  # noqa: E731
        with writing_at_exit(written, late):
            return _run(body, session)
    finally:
        session.deactivate()
        session.recording.recorder.set_base(None)


def _writer(session: Session, quiet: bool) -> Callable[[str], None]:
    """Return what writes all profiles before the process goes away, and says how it ended."""
    here = os.getcwd()

    def write(ending: str) -> None:
        finalize_each(open_sessions())
        path = session.path
        if quiet or session.child or path is None or not path.exists():
            return
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        say(f"{ending}; wrote {shown}; see it with `tileprof view {shlex.quote(str(shown))}`")

    return write


def _run(body: Callable[[], None], session: Session) -> int:
    session.recording.enter_program(sys._getframe())
    try:
        body()
        code = 0
    except SystemExit as ending:
        _discard_unbegun(ending, session)
        code = exit_code(ending.code)
        if code:
            session.ended = f"with exit code {code}"
    except KeyboardInterrupt as error:
        session.ended = "by Ctrl-C"
        report_uncaught(error)
        code = INTERRUPTED
    except BaseException as error:
        _discard_unbegun(error, session)
        session.ended = f"with {_named(error)}"
        report_uncaught(error)
        code = 1
    try:
        wait_for_threads()
    except KeyboardInterrupt as error:
        report_uncaught(error)
        code = INTERRUPTED
    return code


def _named(error: BaseException) -> str:
    """Return an exception's type, the first line of its text, and the last line of the program."""
    text = str(error).partition("\n")[0]
    name = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in frames if not hidden(frame.f_code)]
    if not own:
        return name
    user = [frame for frame in own if of_user(frame.f_code.co_filename)] or own
    last = user[-1]
    return f"{name}, at {os.path.basename(last.f_code.co_filename)}:{last.f_lineno}"


def _discard_unbegun(error: BaseException, session: Session) -> None:
    """Discard a session whose program has no module of that name, or is not Python."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not hidden(code) and code.co_filename != runpy.__file__:
            return
        trace = trace.tb_next
    session.discard()


def prepare(
    target: ProgramTarget,
    argv: Sequence[str],
    compiler: Compiler = compiled,
) -> Callable[[], None]:
    """Set up `sys` and `__main__` as the interpreter does, and return what is left to do.

    `compiler` makes code of a script's text and path.
    """
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    main.__annotations__ = {}
    _replaced.append(sys.modules["__main__"])
    if target.kind != "script":
        _set_path(os.getcwd())
        sys.argv[:] = ["-m", *argv]
        sys.modules["__main__"] = main
        return lambda: _run_module(target.name)
    sys.argv[:] = [target.name, *argv]
    sys.modules["__main__"] = main
    path = os.path.abspath(target.name)
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        _set_path(path)
        return lambda: _run_module("__main__", folder=True)
    _set_path(os.path.dirname(os.path.realpath(path)))
    return lambda: _run_script(path, main, compiler)


def _set_path(first: str) -> None:
    # Ours is the folder of the `tileprof` command, or the current one under `python -m tileprof`.
    if not sys.flags.safe_path:
        sys.path[:1] = [first]


def _run_script(path: str, main: types.ModuleType, compiler: Compiler) -> None:
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__file__, main.__loader__ = path, loader
    main.__dict__["__cached__"] = None
    with open(path, "rb") as file:
        source = file.read()
    exec(compiler(source, path), main.__dict__)


def _run_module(name: str, folder: bool = False) -> None:
    # What `python -m` and `python FOLDER` themselves call.
    runpy._run_module_as_main(name, alter_argv=not folder)  # type: ignore[attr-defined]


def _begins_with(path: str, signature: bytes) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(signature)) == signature


def _main_of(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__main__.py"))


def exit_code(code: object) -> int:
    """Return the exit code that `SystemExit` stands for; a text is printed, as Python does."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def report_uncaught(error: BaseException) -> None:
    """Print an uncaught exception through the program's own hook, without frames of ours."""
    _hide_ours(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:
        sys.stderr.write("Error in sys.excepthook:\n" + traceback.format_exc())
    sys.stderr.flush()


def _hide_ours(error: BaseException) -> None:
    """Take our frames out of the tracebacks of an error and those that led to it, faults aside."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen or isinstance(each, InternalError):
            continue
        seen.add(id(each))
        todo += [each.__cause__, each.__context__]
        each.__traceback__ = without_frames(each.__traceback__, ours)
