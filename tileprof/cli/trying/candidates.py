"""The changes that are tried: those of findings, and those that the user names.

In: reports, and words of the command line.  Out: candidates in the order of their gains.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from tileprof.analyzer.findings import identified
from tileprof.analyzer.fixes import (
    COMPILED_MODELS,
    SETTINGS,
    Autocast,
    CompiledFunction,
    EnvironmentVariable,
    Fix,
    LoaderWorkers,
    LoweringControl,
    MatmulPrecision,
    OptimizerForm,
)
from tileprof.errors import UsageError, source_lines, suggestion
from tileprof.trying import Candidate, Function

if TYPE_CHECKING:
    from tileprof.analyzer import Report


def _same(fix: Fix, _: str) -> Fix:
    return fix


_MAKERS: dict[str, Callable[[str], Fix]] = {
    "fused": lambda name: OptimizerForm("fused", name),
    "foreach": lambda name: OptimizerForm("foreach", name),
    "workers": lambda count: LoaderWorkers(int(count)) if count else LoaderWorkers(),
    **{code: partial(_same, fix) for code, fix in SETTINGS.items()},
    "tf32": lambda _: MatmulPrecision(),
    "autocast": lambda _: Autocast(),
    "compile": lambda text: _compiled(text),
    "env": lambda text: EnvironmentVariable(*_assigned(text, "env=OMP_NUM_THREADS=4")),
    "control": lambda text: _control(text),
}
_TAKING = {"fused", "foreach", "workers", "compile", "env", "control"}
"""Changes that take a value after `=`; the last three need one."""
_NEEDING = {"compile", "env", "control"}
CHANGES = ", ".join(f"{name}=…" if name in _NEEDING else name for name in _MAKERS)


def parse_change(text: str) -> Fix:
    """Return the change that `NAME` or `NAME=VALUE` says; UsageError for any other text."""
    name, equals, value = text.partition("=")
    make = _MAKERS.get(name)
    if make is None:
        meant = suggestion(name, _MAKERS)
        raise UsageError(f"there is no change `{name}`", hint=f"{meant}There are {CHANGES}.")
    if (equals and name not in _TAKING) or (not value and name in _NEEDING):
        takes = "needs a value" if name in _NEEDING else "takes no value"
        raise UsageError(f"the change `{name}` {takes}", hint=f"There are {CHANGES}.")
    try:
        return make(value)
    except ValueError:
        raise UsageError(f"`{value}` is not a number of workers", hint="workers=4") from None


def parse_function(text: str) -> Function:
    """Return what `FILE:FUNCTION` names; UsageError where the file has no such function."""
    from tileprof.trying.hooks.sources import function_names

    file, colon, name = text.rpartition(":")
    if not colon or not name:
        raise UsageError(f"`{text}` names no function", hint="Write FILE:FUNCTION.")
    try:
        with open(file, encoding="utf-8", errors="replace") as held:
            names = function_names(held.read())
    except OSError:
        raise UsageError(f"there is no file `{file}`", hint="Write FILE:FUNCTION.") from None
    if name not in names:
        meant = suggestion(name, names)
        known = f"It has {', '.join(names[:8])}." if names else "It has no function."
        raise UsageError(f"`{file}` has no function `{name}`", hint=f"{meant}{known}")
    return Function(os.path.abspath(file), name)


def of_report(report: Report) -> list[Candidate]:
    """Return the changes of all findings, each once, the one with the greatest gain first.

    Where a part of a model would be compiled, the whole model is tried first: it is what users
    compile, and what the part brings is in it.
    """
    found: dict[Fix, Candidate] = {}
    for key, finding in identified(report.findings).items():
        for fix in map(_named, finding.fixes):
            if isinstance(fix, CompiledFunction) and fix.function.endswith(".forward"):
                whole = Candidate((COMPILED_MODELS,), key, finding.program_gain)
                found.setdefault(COMPILED_MODELS, whole)
            found.setdefault(fix, Candidate((fix,), key, finding.program_gain))
    return list(found.values())


def _named(fix: Fix) -> Fix:
    """Return the change with the name of the function that a line of it is in.

    Where that function runs the steps, its models are compiled in its place: torch.compile would
    take the loop, and all before it, for what is to be compiled.
    """
    if not isinstance(fix, CompiledFunction) or fix.function:
        return fix
    from tileprof.trying.hooks.sources import function_at, runs_steps

    source = "".join(source_lines(fix.file))
    name = function_at(source, fix.line)
    if name and runs_steps(source, name):
        return COMPILED_MODELS
    return CompiledFunction(fix.file, name) if name else fix


def chosen(candidates: Sequence[Candidate], only: Sequence[str]) -> list[Candidate]:
    """Return the candidates with these ids of findings, rules or codes; UsageError for no such."""
    if not only:
        return list(candidates)
    found = []
    for name in only:
        matching = [each for each in candidates if name in _names(each)]
        if not matching:
            known = [name for each in candidates for name in _names(each)]
            meant = suggestion(name, known)
            listed = ", ".join(dict.fromkeys(known)) or "none"
            raise UsageError(
                f"no executable finding is called `{name}`", hint=f"{meant}There are: {listed}."
            )
        found += matching
    return list(dict.fromkeys(found))


def _names(candidate: Candidate) -> Iterator[str]:
    if candidate.finding:
        yield candidate.finding
        yield candidate.finding.rpartition("-")[0]
    for fix in candidate.fixes:
        yield fix.code


def _compiled(text: str) -> Fix:
    function = parse_function(text)
    return CompiledFunction(function.file, function.name)


def _control(text: str) -> Fix:
    from tileprof.compiler.cuda.controls import Controls

    name, written = _assigned(text, "control=stages=3")
    known = [each.name for each in fields(Controls)]
    if name not in known:
        meant = suggestion(name, known)
        raise UsageError(f"there is no control `{name}`", hint=f"{meant}There are {known}.")
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        value = written
    Controls(**{name: value})
    return LoweringControl(name, value)


def _assigned(text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"`{text}` sets nothing", hint=f"Write for example {example}.")
    return name, value
