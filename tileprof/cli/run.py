"""`tileprof run`: run a program and record where its time goes."""

from __future__ import annotations

import argparse
import glob
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, Split, number, one_of, split_program
from tileprof.errors import OutputError, UsageError
from tileprof.progress import working

if TYPE_CHECKING:
    from tileprof.profile import Profile
    from tileprof.profiler import ProgramTarget
    from tileprof.profiler.session.session import Session

USAGE = (
    "[OPTIONS] SCRIPT [ARGS…]\n"
    "       tileprof run [OPTIONS] -m MODULE [ARGS…]\n"
    "       tileprof run [OPTIONS] pytest [ARGS…]\n"
    "       tileprof run [OPTIONS] PROGRAM [ARGS…]"
)
SUMMARY_LINES = 40
SUMMARY_PERCENT = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0)
"""Thresholds of the tree at the end, in percent: nodes below are folded, more until the tree fits.
"""
NAMED_CHILDREN = 4
"""Largest number of child processes' files that are named at the end."""
CLOCK_STEP_S = 0.1
"""Resolution of files' time stamps, in seconds."""
_BACKWARD_OPS = "also record PyTorch's operations inside the nodes of a backward pass"
_INSIDE = (
    "what to record inside a GPU launch: blocks=N or all; warps=all, roles, cta or numbers such"
    " as 0-3+8; records=N per warp; keep=first, last or both; memory=256MB"
)
_DUTY = (
    "record this share of the steps, 0 to 1; a step ends at tileprof.step(), or at the step of a"
    " PyTorch optimizer"
)
_WARM_UP = 2
_WARM_UP_HELP = (
    "count everything before the end of the N-th step of a PyTorch optimizer as set-up, which"
    f" reports leave out (default: {_WARM_UP}; 0: nothing)"
)
_PC_SAMPLING = (
    "sample at which instructions the warps of all GPU kernels stall, and why, every PERIOD"
    " cycles, a power of two (--pc-sampling=PERIOD; default: 65536)"
)
_PC_SAMPLING_EXACT = (
    "attribute samples to single launches; kernels run one after the other, so programs with"
    " short kernels become much slower"
)
_METRICS = (
    "read hardware counters of each GPU kernel: memory, tensor, occupancy, or CUPTI metrics by "
    "name; kernels run one after the other, and are replayed if the metrics need several passes. "
    "Or: instructions, which counts how often each instruction is executed; kernels run much slower"
)
_PM_SAMPLING = (
    "sample hardware counters of GPUs over time, every MICROSECONDS (default: 200), without"
    " replaying kernels; --metrics selects them (default: memory,tensor,occupancy)"
)
_LAYERS = "keep the layers of a PyTorch model apart, for `tileprof view --layers`"
_MEMORY = (
    "record the device memory that PyTorch allocates: by call path, at the peak, over time, and"
    " its growth from step to step"
)
_CONTROL = "let `tileprof ctl` stop, start and save the recording while the program runs"
_LIVE = (
    "show the tree in an interactive view while the program runs; its output is printed when you"
    " leave the view (needs the extra tui)"
)
_PRUNE_TRITON = (
    "let Triton's autotuners time only the configurations that a model predicts to be fastest: the"
    " N best of each list (--prune-triton=N; default: a sixth)"
)
_PAUSED = "like --control, but record nothing until `tileprof ctl PID start` or `record`"


def _parser() -> Parser:
    parser = Parser(
        "run",
        USAGE,
        "Run a program and record where its time goes: write STEM.tprof, and print the hottest "
        "part of the call tree to standard error. Its output and exit code do not change.",
    )
    add = parser.add_argument
    add(
        "-o",
        dest="output",
        metavar="FILE",
        help="file to write (default: STEM.tprof in this folder)",
    )
    add(
        "--device",
        metavar="D",
        help="device for tile kernels: interpreter, cpu or cuda (default: that of their arrays)",
    )
    add(
        "--context",
        type=one_of("scopes", "python", "full", "native"),
        metavar="WHAT",
        help="what a call path contains: scopes; python: also Python frames; full (default): also "
        "PyTorch's operations; native: also C and C++ frames (default for a PROGRAM in machine "
        "code)",
    )
    add(
        "--instrument",
        default="scopes",
        metavar="MODE",
        help="what to measure inside tile kernels: off, scopes (default), stages, ops, "
        "sample[=PERIOD]",
    )
    add("--inside", metavar="WHAT", help=_INSIDE)
    add("--backward-ops", action="store_true", help=_BACKWARD_OPS)
    add("--layers", action="store_true", help=_LAYERS)
    add("--debug", action="store_true", help="run tile kernels line by line as plain Python")
    add("--quiet", action="store_true", help="do not print the tree at the end")
    add("--pc-sampling", nargs="?", const="", metavar="PERIOD", help=_PC_SAMPLING)
    add("--pc-sampling-exact", action="store_true", help=_PC_SAMPLING_EXACT)
    add("--pm-sampling", nargs="?", const="", metavar="MICROSECONDS", help=_PM_SAMPLING)
    add("--metrics", metavar="SET|NAME,…", help=_METRICS)
    add(
        "--timeline",
        nargs="?",
        const=True,
        type=number(int),
        metavar="EVENTS",
        help="also keep the newest EVENTS single events (default: 1,000,000), for Chrome and "
        "Perfetto",
    )
    add("--memory", action="store_true", help=_MEMORY)
    add("--duty", metavar="P", type=number(float), help=_DUTY)
    add("--every", metavar="N", type=number(int), help="record every N-th step")
    add("--warm-up", metavar="N", type=number(int), default=_WARM_UP, help=_WARM_UP_HELP)
    add("--prune-triton", nargs="?", const=0, type=number(int), metavar="N", help=_PRUNE_TRITON)
    add("--control", action="store_true", help=_CONTROL)
    add("--paused", action="store_true", help=_PAUSED)
    add("--live", action="store_true", help=_LIVE)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the program under a session and return the program's exit code."""
    parser = _parser()
    split = split_program(argv, parser)
    args = parser.parse_args(split.options)
    _check_counters(args)
    if split.module is None and not split.program:
        raise UsageError("no program given", hint=f"usage: {parser.usage}")
    from tileprof.profiler import check_target
    from tileprof.profiler.native_program.launching import is_machine_code
    from tileprof.profiler.pcs.options import parse_pc_sampling
    from tileprof.profiler.session.instruments import parse_instrument
    from tileprof.runtime.record_options import parse_record_options

    parse_instrument(args.instrument)
    parse_pc_sampling(args.pc_sampling, args.pc_sampling_exact)
    parse_record_options(args.inside)
    target, rest = _target(split)
    check_target(target, rest)
    if target.kind == "script" and is_machine_code(target.name):
        return _record_native(args, parser, target, rest)
    args.context = args.context or "full"
    _check_device(args.device)
    if args.live:
        return _live(args, split, target)
    return _record(args, target, rest)


def _live(args: argparse.Namespace, split: Split, target: ProgramTarget) -> int:
    """Record in a process of its own, which is looked at from here."""
    from tileprof.cli.interactive import check_terminal

    check_terminal("--live")
    from tileprof.cli.live import check_live, show_live

    check_live(args.paused)
    options = [each for each in split.options if each != "--live"]
    # `--` for a program whose name begins like an option.
    before = ["-m", split.module] if split.module else ["--"] if target.name[:1] == "-" else []
    command = [*options, "--control", "--quiet", *before, *split.program]
    return show_live(command, args.output or f"{target.stem}.tprof")


def _check_counters(args: argparse.Namespace) -> None:
    from tileprof.profiler.counters.requests import parse_metrics
    from tileprof.profiler.counters.series_requests import parse_pm_sampling

    over_time = parse_pm_sampling(args.pm_sampling, args.metrics)
    if args.pc_sampling is not None or args.pc_sampling_exact:
        given = "--metrics" if args.metrics is not None else ""
        if other := "--pm-sampling" if over_time is not None else given:
            raise UsageError(
                f"`{other}` and `--pc-sampling` exclude each other in one process",
                hint="Run the program twice, once with each.",
            )
    if over_time is None:
        parse_metrics(args.metrics)


def _check_device(name: str | None) -> None:
    """Refuse a device that does not exist before the program runs."""
    from tileprof.runtime.selection import environment_device, parse_device

    if name is None:
        environment_device()
    else:
        parse_device(name)


def _record(args: argparse.Namespace, target: ProgramTarget, rest: list[str]) -> int:
    from tileprof.profiler import run_program, start

    here, began = Path.cwd(), time.time()
    # Refused before the program runs: an hour of work must not end in a lost profile.
    session = start(
        args.output or f"{target.stem}.tprof",
        context=args.context,
        instrument=args.instrument,
        inside=args.inside,
        backward_ops=args.backward_ops,
        layers=args.layers,
        timeline=args.timeline,
        pc_sampling=args.pc_sampling,
        pc_sampling_exact=args.pc_sampling_exact,
        metrics=args.metrics,
        pm_sampling=args.pm_sampling,
        memory=args.memory,
        duty=args.duty,
        every=args.every,
        warm_up=args.warm_up,
    )
    if session.counters is not None and (sentence := session.counters.sentence()):
        terminal.complain(sentence)
    _set_environment(args)
    if args.paused:
        session.hold()
    used = _used()
    with _under_control(session, args), _pruning(args):
        code = run_program(target, rest, session, quiet=args.quiet)
    if session.held:
        session.discard()
        terminal.complain("nothing was recorded: the program was paused all the time")
    # What the program printed comes before the tree; a pipe that broke is told at exit, as ever.
    with suppress(OSError, ValueError, AttributeError):  # None where it was closed from the start
        sys.stdout.flush()
    try:
        with working("making the profile"):
            profile = session.finalize()
    except OutputError as error:
        # The program's exit code is its own; that its profile is lost is said, not returned.
        terminal.complain(str(error))
        return code
    if session.path is None:
        return code
    if args.quiet or not len(profile):
        # Else it stands above the tree.
        _complain_of_missing(profile, args)
    if not args.quiet:
        steps = session.of_steps
        whole = steps if steps is not None and len(steps) else profile
        _summarize(whole, session.path, here, began)
        said = of_unrecorded(*(after - before for after, before in zip(_used(), used, strict=True)))
        if said and not _files_of_children(session.path, began):
            terminal.complain(said)
    return code


_PYTHONS = ("device", "instrument", "inside", "backward_ops", "layers", "debug", "duty", "every",
            "warm_up", "prune_triton", "control", "paused", "live")  # fmt: skip
"""Options that say something about Python in the program."""


def _record_native(
    args: argparse.Namespace, parser: Parser, target: ProgramTarget, rest: list[str]
) -> int:
    """Record a program without Python, which writes its profile itself."""
    from tileprof.profile import load
    from tileprof.profiler.native_program.launching import check_program, launch
    from tileprof.profiler.options import destination, parse_options

    check_program(target.name)
    for name in _PYTHONS:
        if getattr(args, name) != parser.get_default(name):
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"{option} is for programs in Python, and `{target.name}` is machine code",
                hint=f"Leave out {option}.",
            )
    options = {
        "context": args.context or "native",
        "timeline": args.timeline,
        "pc_sampling": args.pc_sampling,
        "pc_sampling_exact": args.pc_sampling_exact,
        "metrics": args.metrics,
        "pm_sampling": args.pm_sampling,
        "memory": args.memory,
    }
    options["timeline"] = parse_options(**options).timeline
    here, began = Path.cwd(), time.time()
    path = destination(args.output or f"{target.stem}.tprof")
    code = launch([target.name, *rest], path, options)
    if not path.exists() or path.stat().st_mtime < began - CLOCK_STEP_S:
        of_children = _files_of_children(path, began)
        nothing = "nothing was recorded: the program used no GPU through CUDA, and no NVTX"
        terminal.complain(_of_children(of_children, path, here) if of_children else nothing)
        return code
    with working("reading the profile"):
        profile = load(path)
    if args.quiet or not len(profile):
        _complain_of_missing(profile, args)
    if not args.quiet:
        _summarize(profile, path, here, began)
    return code


@contextmanager
def _under_control(session: Session, args: argparse.Namespace) -> Iterator[None]:
    """Answer `tileprof ctl` meanwhile, where that is asked for."""
    if not (args.control or args.paused):
        yield
        return
    from tileprof.profiler.control.server import Server

    server = Server(session)
    if args.paused:
        terminal.complain(
            f"paused; `tileprof ctl {os.getpid()} record SECONDS FILE` records a while"
        )
    try:
        yield
    finally:
        server.close()


@contextmanager
def _pruning(args: argparse.Namespace) -> Iterator[None]:
    """Prune lists of Triton's autotuners meanwhile, where that is asked for."""
    if args.prune_triton is None:
        yield
        return
    from tileprof.tuning.pruning.everywhere import PrunedEverywhere

    everywhere = PrunedEverywhere(args.prune_triton or None)
    try:
        yield
    finally:
        everywhere.stop()
    if sentence := everywhere.sentence:
        terminal.complain(sentence)


def _complain_of_missing(profile: Profile, args: argparse.Namespace) -> None:
    told = profile.tables.provenance
    if failed := told.get("pc sampling failed"):
        terminal.complain(f"instructions were not sampled: {failed}")
    if args.memory and (failed := told.get("allocations not recorded")):
        terminal.complain(f"PyTorch's allocations were not recorded: {failed}")
    if args.pm_sampling is not None and (failed := told.get("counters not sampled")):
        terminal.complain(f"hardware counters were not sampled: {failed}")
    if args.metrics is not None and (failed := told.get("counters not read")):
        terminal.complain(f"hardware counters were not read: {failed}")


def _set_environment(args: argparse.Namespace) -> None:
    # The environment, for child processes of the program must see the same choices.
    if args.device is not None:
        os.environ["TILEPROF_DEVICE"] = args.device
    if args.debug:
        os.environ["TILEPROF_DEBUG"] = "1"
        os.environ.setdefault("TILEPROF_CHECK", "1")


def _target(split: Split) -> tuple[ProgramTarget, list[str]]:
    from tileprof.profiler import ProgramTarget

    if split.module is not None:
        return ProgramTarget("module", split.module), split.program
    name, *rest = split.program
    is_pytest = name == "pytest" and not Path(name).exists()
    return (ProgramTarget("pytest") if is_pytest else ProgramTarget("script", name)), rest


def _summarize(profile: Profile, path: Path, here: Path, began: float) -> None:
    if sys.stderr is None:
        return
    shown = _relative(path, here)
    terminal.show(f"\n{_hottest(profile)}", sys.stderr)
    terminal.complain(f"wrote {shown}; see it again with `tileprof view {shown}`")
    if children := _files_of_children(path, began):
        terminal.complain(_of_children(children, path, here))


def _used() -> tuple[float, float]:
    """Return the processor time of this process and of its children that have ended, in s."""
    used = os.times()
    return used.user + used.system, used.children_user + used.children_system


def of_unrecorded(own_s: float, children_s: float) -> str:
    """Return a sentence where children that recorded nothing did most of a program's work.

    Takes processor times of this process and of all its children that have ended, in s. Programs
    that others start, such as the workers of a launcher, are not followed.
    """
    if children_s <= own_s:
        return ""
    return (
        f"child processes, which were not recorded, used {children_s:,.1f} s of processor time,"
        f" this one {own_s:,.1f} s; to record the workers of a launcher, let it start `tileprof"
        " run`, as in `torchrun --nproc-per-node 2 -m tileprof run SCRIPT`"
    )


def _relative(path: Path, here: Path) -> Path:
    return path.relative_to(here) if path.is_relative_to(here) else path


def _files_of_children(path: Path, began: float) -> list[Path]:
    """Return the files that child processes have written beside the program's since it began."""
    found = []
    for each in _beside(path):
        with suppress(OSError):
            if each.stat().st_mtime >= began - CLOCK_STEP_S:
                found.append(each)
    return sorted(found)


def _beside(path: Path) -> list[Path]:
    """Return all files of child processes beside a profile, those of earlier runs included."""
    return list(path.parent.glob(f"{glob.escape(path.stem)}.pid*{glob.escape(path.suffix)}"))


def _of_children(files: list[Path], path: Path, here: Path) -> str:
    """Return how many child processes wrote files, and the command that adds all of them up.

    A pattern stands for several files, unless it also matches older ones of earlier runs.
    """
    own = _relative(path, here)
    named = [str(_relative(each, here)) for each in files[:NAMED_CHILDREN]]
    if len(files) > NAMED_CHILDREN or len(files) == len(_beside(path)) > 1:
        named = [f"{own.with_suffix('')}.pid*{own.suffix}"]
    whose = "a child process" if len(files) == 1 else f"{len(files):,} child processes"
    shown = " ".join([str(own), *named] if path.exists() else named)
    return f"{whose} recorded, too; see all added up with `tileprof view {shown}`"


def _hottest(profile: Profile) -> str:
    from tileprof.viewer import ViewOptions, render_view

    err, text = sys.stderr, ""
    for percent in SUMMARY_PERCENT:
        text = render_view(
            profile,
            ViewOptions(threshold=percent),
            width=terminal.width(err),
            color=terminal.has_color(err),
            unicode=terminal.has_unicode(err),
        )
        if text.count("\n") <= SUMMARY_LINES:
            break
    return text


COMMAND = Command("run", "run a program and record where its time goes", main, _parser)
