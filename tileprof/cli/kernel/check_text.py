"""The report of `tileprof check`, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileprof.checker import (
        BlockVerdict,
        Finding,
        FoundAccess,
        Report,
        Schedule,
        Unproved,
        Verdict,
    )
    from tileprof.checker.findings import Actor, Code, Property, Status, Why
    from tileprof.errors import Location

SCHEMA = 1
_TITLES: Mapping[Code, str] = {
    "race-between-blocks": "race between blocks on `{}`",
    "race-in-block": "race between points of a T.Parallel on `{}`",
    "uninitialized-read": "`{}` is read where nothing was written",
    "out-of-bounds": "access outside of `{}`",
    "failed": "the kernel failed",
    "shared-memory-race": "race inside a block on {}",
    "missing-fence": "no proxy fence between an ordinary and an asynchronous access of {}",
    "early-accumulator": "accumulators are accessed before their product has ended",
    "deadlock": "deadlock inside a block",
    "gpu-fault": "a block fails on a GPU",
}
_WAYS_OUT: Mapping[Code, str] = {
    "race-between-blocks": "Give blocks elements of their own, write another tensor than"
    " you read, or use `T.atomic_add`.",
    "race-in-block": "Give points elements of their own, or use `T.reduce_sum` or `T.atomic_add`.",
    "uninitialized-read": "Write it before: `T.clear`, `T.fill`, `T.copy` or an assignment.",
    "out-of-bounds": "Put the access under a condition, or allocate the buffer for all indices.",
}
"""Ways out of faults that a kernel is written with; those inside blocks may be the compiler's."""
_VERBS = {"read": "reads", "write": "writes", "atomic": "atomically updates", "wait": "waits"}
_ACTORS: Mapping[Actor, str] = {
    "thread": "thread",
    "cp.async": "a cp.async of thread",
    "TMA load": "a TMA load of thread",
    "bulk store": "a bulk store of thread",
    "wgmma": "a wgmma of thread",
}
_PROPERTIES: Mapping[Property, str] = {
    "races": "no race between blocks",
    "initialization": "no uninitialized read",
    "bounds": "no access out of bounds",
}
_STATUS: Mapping[Status, str] = {
    "proved": "proved for all inputs",
    "enumerated": "proved for all inputs with these values of {}",
    "refuted": "refuted, see above",
    "explored": "explored only: nothing found in this run",
    "unchecked": "not proved, and not run",
}
_WHY: Mapping[Why, str] = {
    "data": "the index depends on data",
    "form": "what is known of the indices does not exclude it",
    "order": "no write of all of it comes before",
    "effort": "the proof took too long",
}


def render(report: Report, unknown: Sequence[str]) -> str:
    """Return findings, then verdicts; `unknown` are extents whose values a run would need."""
    lines = []
    for finding in report.findings:
        lines += [*_finding(finding), ""]
    for launch in report.launches:
        lines.append(f"{launch.kernel}, launch at {_place(launch.location)}")
        for name, verdict in launch.verdicts.items():
            given = ", ".join(f"`{each}`" for each in verdict.given)
            lines.append(f"  {_PROPERTIES[name]}: {_STATUS[verdict.status].format(given)}")
            if verdict.status in ("explored", "unchecked"):
                lines += [f"    {each}" for each in dict.fromkeys(map(_unproved, verdict.unproved))]
        if launch.inside is not None:
            lines += _inside(launch.inside)
    if report.stopped:
        lines.append("The run ended at the error above; what comes after it was not explored.")
    if unknown:
        wanted = " ".join(f"--set {name}=…" for name in unknown)
        lines.append(f"The kernel was not run: give its extents ({wanted}) or --input FILE.npz.")
    count = len(report.findings)
    lines.append(f"{count} finding{'' if count == 1 else 's'}")
    return "\n".join(lines) + "\n"


def _finding(finding: Finding) -> list[str]:
    first = finding.accesses[0].location if finding.accesses else None
    lines = [f"{_place(first)}: {finding.code}: {title(finding)}, kernel `{finding.kernel}`"]
    if finding.message and (finding.code == "gpu-fault" or not finding.accesses):
        lines.append(f"  {finding.message}")
    excerpts: list[str] = []
    for access in finding.accesses:
        lines.append(f"  {access_sentence(finding.buffer, access)}")
        if access.location is not None and (text := access.location.excerpt()):
            excerpts.append(text.splitlines()[0])
    if (schedule := finding.schedule) is not None:
        again = f"--target {schedule.target} --seed {schedule.seed} --schedules 1"
        lines.append(f"  again with {again}")
    if finding.code in _WAYS_OUT:
        lines.append(f"  {_WAYS_OUT[finding.code]}")
    lines[1:1] = list(dict.fromkeys(excerpts))
    return lines


def _inside(verdict: BlockVerdict) -> list[str]:
    """Return the lines about the inside of a launch's blocks."""
    blocks = ", ".join(map(str, verdict.blocks[:8])) + (", …" if len(verdict.blocks) > 8 else "")
    ran = f"block{'' if len(verdict.blocks) == 1 else 's'} {blocks}"
    ran += f" in {len(verdict.seeds)} schedule{'' if len(verdict.seeds) == 1 else 's'}"
    said: Mapping[Status, str] = {
        "proved": "proved for all inputs",
        "enumerated": "proved for all inputs that have these integers",
        "refuted": "refuted, see above",
        "explored": f"explored only: nothing found on an emulated {verdict.target}, {ran}",
        "unchecked": f"not explored: {verdict.reason}",
    }
    return [
        f"  no race inside a block: {said[verdict.races]}",
        f"  no deadlock: {said[verdict.deadlocks]}",
    ]


def title(finding: Finding) -> str:
    """Return what is wrong, without the place."""
    buffer = finding.buffer
    if finding.schedule is not None:
        buffer = f"`{buffer}`" if buffer else "shared memory"
    return _TITLES[finding.code].format(buffer)


def access_sentence(buffer: str, access: FoundAccess) -> str:
    """Return who accesses which element where."""
    if access.actor is not None:
        return _inside_sentence(buffer, access)
    who = "the kernel" if access.block is None else f"block {_tuple(access.block)}"
    if access.point:
        who += f", point ({', '.join(f'{name}={value}' for name, value in access.point)}),"
    index = ", ".join(map(str, access.index))
    place = _place(access.location)
    return f"{who} {_VERBS[access.kind]} {buffer}[{index}] at {place}"


def _inside_sentence(buffer: str, access: FoundAccess) -> str:
    """Return who accesses which byte of shared memory, or waits for what."""
    assert access.actor is not None
    assert access.block is not None
    place = f"at {_place(access.location)}"
    if access.cuda_line:
        place += f" (line {access.cuda_line} of the CUDA text)"
    who = f"{_ACTORS[access.actor]} {access.thread} of block {access.block[0]}"
    if access.kind == "wait":
        who += "" if access.threads == 1 else f" and {access.threads - 1} more"
        return f"{who} {place}: {access.what}"
    what = "accumulators"
    if access.index:
        what = f"byte {access.index[0]} of " + (f"`{buffer}`" if buffer else "shared memory")
    return f"{who} {_VERBS[access.kind]} {what} {place}"


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


def _place(location: Location | None) -> str:
    return "?" if location is None else location.short


def _unproved(unproved: Unproved) -> str:
    places = " and ".join(dict.fromkeys(map(_place, unproved.locations)))
    return f"`{unproved.buffer}` at {places}: {_WHY[unproved.why]}"


def report_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "schema": SCHEMA,
        "stopped": report.stopped,
        "findings": [
            {
                "code": each.code,
                "kernel": each.kernel,
                "launch": each.launch,
                "buffer": each.buffer,
                "message": each.message,
                "accesses": [_access_json(access) for access in each.accesses],
                "schedule": _schedule_json(each.schedule),
            }
            for each in report.findings
        ],
        "launches": [
            {
                "kernel": each.kernel,
                "launch": each.launch,
                "location": each.location and each.location.to_json(),
                "verdicts": {n: _verdict_json(v) for n, v in each.verdicts.items()},
                "inside": _inside_json(each.inside),
            }
            for each in report.launches
        ],
    }


def _access_json(access: FoundAccess) -> dict[str, Any]:
    return {
        "kind": access.kind,
        "location": access.location and access.location.to_json(),
        "index": list(access.index),
        "block": None if access.block is None else list(access.block),
        "point": dict(access.point),
        "actor": access.actor,
        "thread": access.thread,
        "threads": access.threads,
        "cuda_line": access.cuda_line or None,
        "what": access.what,
    }


def _schedule_json(schedule: Schedule | None) -> dict[str, Any] | None:
    return None if schedule is None else {"target": schedule.target, "seed": schedule.seed}


def _inside_json(verdict: BlockVerdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "target": verdict.target,
        "races": verdict.races,
        "deadlocks": verdict.deadlocks,
        "blocks": list(verdict.blocks),
        "seeds": list(verdict.seeds),
        "reason": verdict.reason,
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "given": list(verdict.given),
        "unproved": [
            {
                "buffer": each.buffer,
                "locations": [place and place.to_json() for place in each.locations],
                "why": each.why,
            }
            for each in verdict.unproved
        ],
    }
