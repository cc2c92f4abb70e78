"""`tileprof.check`: proofs first, then a run for what is not proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tileprof import ir
from tileprof.compiler import Options
from tileprof.compiler.cuda.controls import Controls
from tileprof.errors import (
    BoundsError,
    ExecutionError,
    InternalError,
    RaceError,
    UninitializedError,
    UsageError,
)
from tileprof.runtime.events.access import listening
from tileprof.runtime.selection import device

from .explore import Explorer, Run
from .findings import (
    PROPERTIES,
    PROPERTY_OF,
    Code,
    Finding,
    FoundAccess,
    LaunchVerdict,
    Property,
    Report,
    Verdict,
)
from .in_block import Inside, Plan, explore_inside
from .proofs import Proof, prove
from .settled import Deciders, names_of


def check(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Find races, uninitialized reads, out-of-bounds accesses and deadlocks of a kernel call.

    `kernel` is a tile kernel, or a Python function that calls some; it is called with the arguments
    in the interpreter. What can be proved holds for all arguments; the rest is explored by this
    run, and by running some blocks on an emulated GPU. A fault of a kernel is a finding in the
    returned report (`report.findings`, `report.launches[n].verdicts`) and is not raised; other
    errors are raised. UsageError if no kernel ran.
    """
    return check_call(kernel, args, kwargs, Plan(controls=_controls(kernel)))


def _controls(kernel: Callable[..., Any]) -> Controls | None:
    """Return the lowering controls of a kernel; None for a function that calls kernels."""
    options = getattr(kernel, "options", None)
    return options.controls if isinstance(options, Options) else None


def check_call(
    kernel: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    inside: Plan | None,
) -> Report:
    """Check a call like `check`; without a plan the inside of blocks is left out."""
    watch, error = Explorer(keeps_arguments=inside is not None), None
    with device("interpreter"), listening(watch):
        try:
            kernel(*args, **kwargs)
        except InternalError:
            raise
        except ExecutionError as fault:
            error = fault
    if not watch.runs:
        raise UsageError(
            f"{kernel!r:.60} ran no kernel",
            hint="Pass a kernel or a function that calls kernels; one under `debug=True` runs as"
            " plain Python and is not checked.",
        )
    if error is not None:
        _add_error(error, watch)
    findings = [finding for run in watch.runs for finding in run.findings.values()]
    verdicts = _verdicts(watch.runs, error)
    if inside is not None:
        found = _inside(watch.runs, error, inside)
        findings += [finding for each in found for finding in each.findings]
        insides = [verdict for each in found for verdict in each.verdicts]
        verdicts = [replace(v, inside=each) for v, each in zip(verdicts, insides, strict=True)]
    return Report(tuple(findings), tuple(verdicts), error is not None)


def _inside(runs: Sequence[Run], error: ExecutionError | None, plan: Plan) -> list[Inside]:
    """Return the results for the inside of each kernel's blocks, in the order of `_verdicts`."""
    first = {id(run.kernel): run for run in reversed(runs)}
    failed = id(runs[-1].kernel) if error is not None else 0
    order = dict.fromkeys(id(run.kernel) for run in runs)
    return [
        explore_inside(first[key].kernel, None if key == failed else first[key].arguments, plan)
        for key in order
    ]


def check_proofs(kernel: ir.Kernel) -> Report:
    """Return what is proved about a kernel, which is not run."""
    return Report((), tuple(_launch(kernel, proof, (), None) for proof in prove(kernel)))


def _add_error(error: ExecutionError, watch: Explorer) -> None:
    """Add the finding that an error is, unless the watch found the same race."""
    run, access = watch.runs[-1], watch.last
    launch = run.position(run.launches[-1]) if run.launches else -1
    code: Code = "failed"
    match error:
        case RaceError():
            blocks = {element.block for element in error.elements}
            if len(blocks) == 2 and run.findings:
                return
            code = "race-between-blocks" if len(blocks) == 2 else "race-in-block"
        case UninitializedError():
            code = "uninitialized-read"
        case BoundsError():
            code = "out-of-bounds"
    kind = access.kind if access is not None else "read"
    if code == "uninitialized-read":
        kind = "read"
    accesses = tuple(
        FoundAccess(kind, error.location, each.index, each.block, each.point)
        for each in error.elements
    )
    buffer = error.elements[0].buffer if error.elements else ""
    run.findings[error] = Finding(code, run.kernel.name, launch, buffer, accesses, error.message)


def _verdicts(runs: Sequence[Run], error: ExecutionError | None) -> list[LaunchVerdict]:
    """Return one verdict for each launch of each kernel, however often it ran."""
    made: list[LaunchVerdict] = []
    kernels = {id(run.kernel): run.kernel for run in runs}
    for key, kernel in kernels.items():
        alike = [run for run in runs if id(run.kernel) == key]
        ran = {op for run in alike for op in run.launches}
        if error is not None and runs[-1] in alike:
            # What comes after the error was not explored.
            ran -= set(runs[-1].launches[-1:])
        own = [finding for run in alike for finding in run.findings.values()]
        deciders = Deciders(kernel)
        made += [
            _launch(kernel, proof, own, deciders if proof.op in ran else None)
            for proof in prove(kernel)
        ]
    return made


def _launch(
    kernel: ir.Kernel, proof: Proof, findings: Sequence[Finding], deciders: Deciders | None
) -> LaunchVerdict:
    """Return the verdicts of a launch; without `deciders` it did not run to its end."""
    number = kernel.launches().index(proof.op)
    refuted = {PROPERTY_OF.get(each.code) for each in findings if each.launch == number}
    verdicts: dict[Property, Verdict] = {}
    for name in PROPERTIES:
        unproved = tuple(proof.unproved[name])
        if name in refuted:
            verdicts[name] = Verdict("refuted", unproved)
        elif not unproved:
            verdicts[name] = Verdict("proved")
        elif deciders is None:
            verdicts[name] = Verdict("unchecked", unproved)
        else:
            verdicts[name] = _ran(name, proof, deciders, verdicts)
    return LaunchVerdict(kernel.name, number, proof.op.span, verdicts)


def _ran(
    name: Property, proof: Proof, deciders: Deciders, others: Mapping[Property, Verdict]
) -> Verdict:
    """Return the verdict of a property for which a run found nothing: a proof, if every run makes
    the same accesses, or every run that has the same integers."""
    unproved = tuple(proof.unproved[name])
    found = deciders.of_accesses(proof.ops[name])
    if name == "initialization":
        # Where blocks race, an element may be read before another block writes it.
        if others["races"].status not in ("proved", "enumerated"):
            return Verdict("explored", unproved)
        found |= deciders.of_writes(proof.unwritten)
    given = names_of(found, deciders.kernel)
    if given is None:
        return Verdict("explored", unproved)
    return Verdict("enumerated", unproved, given) if given else Verdict("proved")
