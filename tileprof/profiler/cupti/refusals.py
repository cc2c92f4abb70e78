"""Results by which CUPTI refuses to work for a process or on a device, in words, with a way out.

In: a result of CUPTI's and what CUPTI was asked for.  Out: a sentence for the profile's provenance.
Counters, samples of program counters and recordings of kernels are refused for the same reasons.
"""

from __future__ import annotations

from tileprof.profiler.cupti import permissions

BUSY = 26
"""CUPTI's result where another process uses the hardware that counts."""
PERMISSION = 35
"""CUPTI's result where the driver lets administrators alone read counters; its way out depends on
the machine (`permissions.refused_remedy`)."""

REFUSALS = {
    BUSY: (
        "while another process uses the GPU's counters",
        "run again when that process has ended",
    ),
    27: (
        "on this GPU or with its driver",
        "update the NVIDIA driver and CUPTI, or run on a newer GPU",
    ),
    33: (
        "on a virtual GPU of this kind",
        "run on a GPU that the machine has to itself",
    ),
    PERMISSION: ("without the driver's permission", ""),
    36: (
        "after another profiling interface was used in the process",
        "run without the tool that uses it",
    ),
    40: (
        "on a virtual GPU whose host does not allow it",
        "have the host's administrator set enable_profiling=1 for the virtual GPU",
    ),
    41: (
        "on a GPU in confidential computing",
        "have its administrator switch the GPU to the devtools mode of confidential computing",
    ),
    42: (
        "on a GPU for mining (CMP)",
        "run on another GPU",
    ),
    43: (
        "on a part of a GPU (MIG)",
        "run on a whole GPU: `nvidia-smi -mig 0`, as administrator, switches MIG off",
    ),
    44: (
        "on GPUs that are linked by SLI",
        "switch SLI off",
    ),
    45: (
        "in Windows Subsystem for Linux",
        "update to WSL 2 and an NVIDIA driver of version 545 or later",
    ),
}
"""Situations in which CUPTI refuses, and the remedy, by CUPTI's result (`cupti_result.h`)."""

INSTEAD = "`--instrument sample` needs no counters"
"""Measurement that works without CUPTI's counters and samples."""


def refusal(code: int, detail: str, what: str) -> str:
    """Return a sentence on a refusal with a way out; '' where the result is no refusal.

    `detail` is the failed call with what CUPTI calls the result, `what` is what CUPTI does not do:
    the sentence's beginning, as "CUPTI reads no counters".
    """
    if code not in REFUSALS:
        return ""
    where, way = REFUSALS[code]
    if code == PERMISSION:
        way = permissions.refused_remedy()
    return f"{what} {where} ({detail}): {way}"
