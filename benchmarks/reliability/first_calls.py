"""Public entry points of tileprof, each called as a user does, with a check of its result.

In: a seed, and a folder for files.  Out: nothing, or AssertionError where the result is wrong.
Threads call these at once, in processes that have done nothing yet (`first_launch`), so nothing of
tileprof is imported but inside them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def _numbers(count: int, seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).random(count, dtype=np.float32)


def _check(right: bool, what: str) -> None:
    if not right:
        raise AssertionError(f"wrong result: {what}")


def launch(seed: int, folder: Path) -> None:
    """Call a kernel on `cpu`."""
    from . import launch_kernels as kernels

    x, s = _numbers(100 * 8, seed).reshape(100, 8), _numbers(100, seed + 1)
    _check(bool((kernels.scale(x, s) == x * s[:, None]).all()), "scale")


def launch_scalar(seed: int, folder: Path) -> None:
    """Call a kernel with a scalar that becomes known as one by the first call."""
    from . import launch_kernels as kernels

    x = _numbers(100, seed)
    by = float(seed % 7)
    _check(bool((kernels.shift(x, by) == x + by).all()), "shift")


def interpret(seed: int, folder: Path) -> None:
    """Call a kernel in the interpreter."""
    import tileprof

    with tileprof.device("interpreter"):
        launch_scalar(seed, folder)


def debug(seed: int, folder: Path) -> None:
    """Call a kernel as plain Python."""
    from . import launch_kernels as kernels

    x = _numbers(20, seed)
    _check(bool((kernels.plain(x) == x - 1).all()), "plain")


def compile_function(seed: int, folder: Path) -> None:
    """Compile a `prim_func` and call it; call a factory of kernels."""
    import tileprof

    from . import launch_kernels as kernels

    x = _numbers(256, seed)
    compiled = tileprof.compile(kernels.double, out_idx=[-1])
    _check(bool((compiled(x) == x * 2).all()), "double")
    _check(kernels.factory(256) is kernels.factory(256), "a factory gives two kernels")
    _check(bool((kernels.factory(256)(x) == x * 3).all()), "factory")


def lower(seed: int, folder: Path) -> None:
    """Print the CUDA text for a GPU that is not there."""
    import tileprof

    from . import launch_kernels as kernels

    text = tileprof.compile(kernels.double, out_idx=[-1], target="sm_90a").get_kernel_source()
    _check("__global__" in text, "the CUDA text has no kernel")


def save_kernel(seed: int, folder: Path) -> None:
    """Save a kernel, load it and call it."""
    import tileprof

    from . import launch_kernels as kernels

    path = folder / f"{seed}-{threading.get_ident()}.kernel"
    kernels.factory(256).save(path)
    x = _numbers(256, seed)
    _check(bool((tileprof.load_kernel(path)(x) == x * 3).all()), "loaded kernel")


def tune(seed: int, folder: Path) -> None:
    """Call a kernel that tunes itself, from a list of which one is timed."""
    import tileprof

    from . import launch_kernels as kernels

    x, s = _numbers(64 * 8, seed).reshape(64, 8), _numbers(64, seed + 1)
    tuned = tileprof.autotune(configs=[{"block": 16}, {"block": 32}], timed=1)(kernels.scale)
    _check(bool((tuned(x, s) == x * s[:, None]).all()), "a tuned kernel")


def prune(seed: int, folder: Path) -> None:
    """Prune a list of Triton's, by a pruner that does not know whose it is: all are kept."""
    import tileprof

    pruner = tileprof.triton_pruner(keep=1 + seed % 3)
    listed = [_Listed(at) for at in range(4)]
    _check(pruner(listed, {"n": seed}, grid=(1,)) == listed, "the list of an unknown tuner")
    _check(pruner.outcomes[0].why_all is not None, "the reason")


class _Listed:
    """A configuration, as far as its numbers are asked for."""

    def __init__(self, at: int) -> None:
        self.at = at

    def all_kwargs(self) -> dict[str, int]:
        """Return its numbers by name."""
        return {"BLOCK": 64 << self.at}


def record(seed: int, folder: Path) -> None:
    """Record a session with scopes and launches, save it and load it."""
    import tileprof

    path = folder / f"{seed}-{threading.get_ident()}.tprof"
    name = f"scope {threading.get_ident()}"
    session = tileprof.start(path)
    with tileprof.scope(name):
        launch(seed, folder)
    made = session.finalize()
    _check(bool(made.find(name)), "the scope is missing in the profile")
    _check(bool(tileprof.load(path).find(name)), "the scope is missing in the file")


def analyze(seed: int, folder: Path) -> None:
    """Load a recorded profile and look for what to change."""
    import tileprof

    report = tileprof.analyze(tileprof.load(_recorded()))
    _check(report.account is not None, "no account of the device's time")


def render(seed: int, folder: Path) -> None:
    """Draw a view and a figure of a recorded profile."""
    import tileprof
    from tileprof import figures

    profile = tileprof.load(_recorded())
    _check(bool(profile.frame().shape[0]), "an empty frame")
    with suppress(tileprof.TileprofError):  # it has no blocks over time
        figures.cta_timeline(profile)


def examine(seed: int, folder: Path) -> None:
    """Find out what is installed, as `tileprof doctor` does."""
    from tileprof.cli import doctor

    _check(len(list(doctor.examine())) > 5, "doctor has few lines")


def specialise(seed: int, folder: Path) -> None:
    """Compile a kernel for extents that are given, and call it."""
    from . import launch_kernels as kernels

    x, s = _numbers(64 * 8, seed).reshape(64, 8), _numbers(64, seed + 1)
    made = kernels.scale.compile(M=64, N=8, block=32)
    _check(bool((made(x, s) == x * s[:, None]).all()), "scale for given extents")


def watch(seed: int, folder: Path) -> None:
    """List what a kernel reads and writes, and check it for races."""
    import tileprof

    from . import launch_kernels as kernels

    x = _numbers(100, seed)
    events = tileprof.events(kernels.shift, x, 1.0)
    _check(bool((events["buffer"] == "X").any()), "an access to X")
    _check(not tileprof.check(kernels.shift, x, 1.0).findings, "a kernel without faults")


def draw(seed: int, folder: Path) -> None:
    """Draw what a kernel reads and writes."""
    import tileprof

    from . import launch_kernels as kernels

    page = tileprof.show(kernels.shift, _numbers(100, seed), 1.0).page
    _check(page.lower().startswith("<!doctype html"), "a page")


def operate(seed: int, folder: Path) -> None:
    """Make a kernel an operator of PyTorch, or meet the error that PyTorch is missing."""
    import tileprof
    from tileprof.errors import MissingDependencyError

    from . import launch_kernels as kernels

    try:
        import torch
    except ImportError:
        with suppress(MissingDependencyError):
            tileprof.op("first::scale")(kernels.scale)
            raise AssertionError("an operator without PyTorch") from None
        return
    made = tileprof.op(f"first::scale_{seed}_{threading.get_ident()}")(kernels.scale)
    x = torch.from_numpy(_numbers(64, seed).reshape(8, 8))
    _check(bool((made(x, torch.full((8,), 3.0)) == x * 3).all()), "scale as an operator")


def trace(seed: int, folder: Path) -> None:
    """Make a kernel a function of JAX, or meet the error that JAX is missing."""
    import tileprof
    from tileprof.errors import MissingDependencyError

    from . import launch_kernels as kernels

    try:
        import jax
    except ImportError:
        with suppress(MissingDependencyError):
            tileprof.jax_call(kernels.scale)
            raise AssertionError("a function of JAX without JAX") from None
        return
    x = _numbers(64, seed).reshape(8, 8)
    made = jax.jit(tileprof.jax_call(kernels.scale))(x, x[:, 0])
    _check(bool((made == x * x[:, :1]).all()), "scale as a function of JAX")


def control(seed: int, folder: Path) -> None:
    """Compile for a GPU that is not there, with a choice of the compiler forbidden."""
    import tileprof

    from . import launch_kernels as kernels

    forbidden = tileprof.Controls(vectorize=False)
    made = tileprof.compile(kernels.double, out_idx=[-1], target="sm_90a", controls=forbidden)
    _check("load_vector" not in made.get_kernel_source(), "a vector access that was forbidden")


def misuse(seed: int, folder: Path) -> None:
    """Meet the errors of an operation that does not exist, of a file and of a name."""
    import tileprof
    import tileprof.lang as T

    for wrong in (
        lambda: T.no_such_operation,
        lambda: tileprof.load(folder / "missing.tprof"),
        lambda: tileprof.Controls(stages=0),
    ):
        try:
            wrong()
        except tileprof.TileprofError as error:
            _check(bool(str(error)), "an error without a sentence")
        else:
            raise AssertionError("wrong result: a mistake went unnoticed")
    _check(not hasattr(tileprof, "no_such_name"), "a name that does not exist")


def profile_block(seed: int, folder: Path) -> None:
    """Profile a `with` block and the calls of a function, which a scope decorates."""
    import tileprof

    name = f"function {threading.get_ident()}"
    path = folder / f"{name}.tprof"

    @tileprof.profile(path)
    @tileprof.scope(name, visits_of_mine=2)
    def work() -> int:
        return seed

    _check(work() == seed, "a profiled function")
    _check(bool(tileprof.load(path).find(name)), "the function's scope is missing in the file")
    with tileprof.profile() as session, tileprof.scope(name):
        launch(seed, folder)
    _check(isinstance(session, tileprof.Session), "a session")


def pause(seed: int, folder: Path) -> None:
    """Pause a session and let it go on; mark steps meanwhile."""
    import tileprof

    names = [f"{word} {threading.get_ident()}" for word in ("before", "paused", "after")]
    session = tileprof.start(folder / f"pause-{threading.get_ident()}.tprof")
    for name, change in zip(names, (tileprof.deactivate, tileprof.activate, None), strict=True):
        with tileprof.scope(name):
            tileprof.step()
        if change is not None:
            change(session)
    made = tileprof.finalize(session)
    _check(isinstance(made, tileprof.Profile), "a profile")
    found = [bool(made is not None and made.find(name)) for name in names]
    _check(found == [True, False, True], f"scopes before, in and after a pause: {found}")


def step(seed: int, folder: Path) -> None:
    """Record every second step of a program."""
    import tileprof
    from tileprof.profile import step_times

    session = tileprof.start(folder / f"step-{threading.get_ident()}.tprof", every=2)
    for _ in range(6):
        tileprof.step()
    times = step_times(session.finalize().tables.provenance)
    # Steps of other threads count too.
    _check(times is not None and 0 < times.recorded < times.steps, f"the steps: {times}")


def compare(seed: int, folder: Path) -> None:
    """Compare a profile with itself and merge it with itself."""
    import tileprof
    from tileprof.profile import diff, diff_to_json, merge, to_json

    profile = tileprof.load(_recorded())
    compared = diff(profile, profile)
    _check(len(compared) == len(profile), "a difference has other nodes")
    wholes = [compared.whole(metric) for metric in compared.metrics]
    _check(not any(each.new < each.old or each.new > each.old for each in wholes), "a difference")
    _check(bool(diff_to_json(compared)), "JSON of a difference")
    _check(len(to_json(merge([profile, profile]))["nodes"]) == len(profile), "a merged profile")


def view(seed: int, folder: Path) -> None:
    """Show a profile in every view."""
    import tileprof
    from tileprof.viewer import VIEWS, ViewOptions, render_view

    profile = tileprof.load(_recorded())
    for name in VIEWS:
        with suppress(tileprof.TileprofError):  # not every kind of evidence was recorded
            _check(render_view(profile, ViewOptions(), name).endswith("\n"), f"view {name}")
    _check("matmul_nt" in render_view(profile, ViewOptions()), "the tree has no kernel")


def convert(seed: int, folder: Path) -> None:
    """Convert a profile to every format of other tools."""
    import tileprof
    from tileprof.errors import MissingDependencyError
    from tileprof.viewer.exports import EXPORTS, FOLDER_EXPORTS, export, export_folder

    profile = tileprof.load(_recorded())
    for name in EXPORTS:
        with suppress(tileprof.TileprofError):
            _check(bool(export(profile, name)), f"format {name}")
    for name in FOLDER_EXPORTS:
        with suppress(MissingDependencyError):
            _check(bool(export_folder({"gemm": profile}, name)), f"format {name}")
    _check(bool(json.loads(export(profile, "speedscope"))["profiles"]), "a file of speedscope")


def report(seed: int, folder: Path) -> None:
    """Write a report as text, as JSON and as a page."""
    import tileprof
    from tileprof.analyzer.json_form import to_json
    from tileprof.viewer.findings import ReportOptions, render_reports
    from tileprof.viewer.html import report_page

    made = tileprof.analyze(tileprof.load(_recorded()))
    _check(render_reports({"gemm": made}, ReportOptions()).endswith("\n"), "a report as text")
    _check(bool(to_json(made)["account"]), "a report as JSON")
    _check("</html>" in report_page(made), "a report as a page")


def command_line(seed: int, folder: Path) -> None:
    """Run commands as `tileprof COMMAND` does."""
    from tileprof.cli import main

    own = folder / f"command-{threading.get_ident()}"
    recorded, cubin = str(_recorded()), str(_DATA.parent / "binary" / "data" / "spill.sm_90a.cubin")
    kernel = f"{Path(__file__).with_name('launch_kernels.py')}:double"
    for command in (
        ["view", recorded],
        ["report", recorded],
        ["report", recorded, "--html", f"{own}.html"],
        ["diff", recorded, recorded, "--json"],
        ["export", recorded, "--to", "chrome", "-o", f"{own}.json"],
        ["compile", kernel, "--target", "sm_90a"],
        ["inspect", cubin, "--json"],
        ["cache", "size"],
        ["doctor"],
        ["--version"],
    ):
        code = main(command)
        _check(code == 0, f"tileprof {' '.join(command)}: exit code {code}")
    _check(main(["view", str(folder / "missing.tprof")]) == 2, "a missing file's exit code")


ENTRIES: tuple[Callable[[int, Path], None], ...] = (
    launch, launch_scalar, interpret, debug, compile_function, lower, save_kernel, tune, prune,
    record, analyze, render, examine, specialise, watch, draw, operate, trace, control, misuse,
    profile_block, pause, step, compare, view, convert, report, command_line,
)  # fmt: skip
"""All entry points; the first two are those of most runs."""

NOT_CALLED: dict[str, str] = {
    "__version__": "a text",
}
"""Names of `tileprof.__all__` that no entry point uses, with the reason."""

_DATA = Path(__file__).parents[2] / "tests" / "data"


def _recorded() -> Path:
    return _DATA / "h200-gemm.tprof"
