"""Sampling of program counters, for the sessions of a recording.

In: what sessions ask for.  Out: the native recorder set up for it, and what it has counted, with
the cubins of the modules that ran; in words what was sampled, lost, or refused. Whatever goes wrong
ends the sampling, and nothing else.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tileprof.profiler.cupti.cupti_library import other_copy
from tileprof.profiler.cupti.refusals import BUSY, INSTEAD, PERMISSION, refusal
from tileprof.profiler.pcs.held_cubins import ModuleCubins
from tileprof.profiler.pcs.options import PcOptions
from tileprof.profiler.pcs.raw import RawPcSamples

_REFUSED = "CUPTI takes no samples"
"""Beginning of the sentence where CUPTI refuses to sample."""


class PcSampling:
    """The native recorder's sampling, for one recording."""

    def __init__(self, native: ModuleType, forked: bool = False) -> None:
        self._native = native
        self._forked = forked
        """No GPU works in a forked child, and nobody misses its samples."""
        self._codes: dict[str, int] = native.GPU_CODES
        self._wanted: PcOptions | None = None
        self._options: PcOptions | None = None
        self._cubins = ModuleCubins(native)

    def want(self, options: PcOptions | None) -> None:
        """Sample from the next start of the recorder on, or no more.

        What was asked for first stays for all of the recording: samples of two periods do not add.
        """
        if self._forked:
            return
        if self._options is not None and options is not None:
            options = self._options
        if options == self._wanted:
            return
        if options is None:
            self._native.pc_want(False)
        elif self._options is None:
            self._native.pc_configure(options.log2_period, options.exact)
        else:
            self._native.pc_want(True)
        self._wanted = options
        self._options = self._options or options

    @property
    def wanted(self) -> bool:
        """Whether somebody asks for samples now."""
        return self._wanted is not None

    def samples(self) -> RawPcSamples | None:
        """Return all that was counted in this recording; None if nobody asked or nothing came."""
        if self._options is None:
            return None
        drained = self._native.pc_drain()
        if not drained["total"] and not len(drained["samples"]):
            return None
        # The recorder remembers functions of earlier recordings too.
        used, function = np.unique(drained["function"], return_inverse=True)
        functions = tuple(drained["functions"][place] for place in used.tolist())
        return RawPcSamples(
            function.astype(np.uint32),
            drained["offset"],
            drained["stall"],
            drained["context"],
            drained["samples"],
            functions,
            self._cubins.of(functions),
            tuple(drained["stalls"]),
            self._options.period,
            self._options.mode,
            drained["total"],
            drained["dropped"],
            drained["non_user"],
            drained["overflows"],
        )

    def facts(self, recorded: bool) -> dict[str, str]:
        """Return the provenance: how it was sampled, what was lost, why there is nothing."""
        if self._options is None:
            return {}
        if not recorded:
            return {"pc sampling failed": "no GPU is recorded"}
        totals, status = self._native.pc_totals(), self._native.pc_status()
        facts = {"pc sampling": f"{self._options}; {totals['total']:,} samples"}
        if lost := _losses(totals):
            facts["pc samples lost"] = "; ".join(lost)
        if problem := self._problem(status, totals):
            facts["pc sampling failed"] = problem
        return facts

    def _problem(self, status: dict[str, Any], totals: dict[str, int]) -> str:
        code, text = int(status["code"]), str(status["text"])
        if totals["non_user"] and totals["non_user"] == totals["total"]:
            return (
                "CUPTI reported no instruction for any sample; this happens where another tool "
                "in the process subscribes to modules or serializes kernels"
            )
        if status["hung"]:
            return "it could not be stopped in time"
        if not code:
            return ""
        if code == BUSY and not status["sampled"]:
            return (
                f"another process samples this GPU ({text}); CUPTI has reported no launch since, so"
                " most launches are missing here: run again when that process has ended, or without"
                " samples"
            )
        if code == self._codes["no_stalls"]:
            # Where the driver permits no reading of counters, it may list no stall reasons.
            refused = refusal(PERMISSION, text, _REFUSED)
        else:
            refused = refusal(code, f"{text}, {code}", _REFUSED) if code != BUSY else ""
        if refused:
            return f"{refused}; {INSTEAD}"
        if code == self._codes["cannot_sample"]:
            return f"{text}: {other_copy()}"
        if code == self._codes["overflows"]:
            return "the device's buffer was full again and again; a longer period helps"
        if status["sampled"] and status["refused"]:
            return f"{status['refused']} contexts of CUDA were left out ({text})"
        return text


def _losses(totals: dict[str, int]) -> list[str]:
    """Return descriptions of losses; the advice of a longer period is given once."""
    lost = []
    if totals["overflows"]:
        times = "once" if totals["overflows"] == 1 else f"{totals['overflows']:,} times"
        lost.append(f"the device's buffer was full {times}, and what was in it is not counted")
    if totals["dropped"]:
        lost.append(f"{totals['dropped']:,} samples were dropped by the device")
    if totals["discarded"]:
        lost.append(f"{totals['discarded']:,} instructions found no room at the end")
    known = totals["counted"] + totals["dropped"] + totals["non_user"]
    if (missing := totals["total"] - known) > 0:
        lost.append(f"{missing:,} samples came without their instruction")
    if totals["cubins_left_out"]:
        lost.append(f"{totals['cubins_left_out']:,} modules were too large to keep their code")
    return lost
