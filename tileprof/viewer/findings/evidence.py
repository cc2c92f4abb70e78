"""Kinds of evidence in words: for the line that says what was recorded, and for legends."""

from __future__ import annotations

from tileprof.analyzer.findings import Tier

WORDS: dict[Tier, str] = {
    "static": "the compiler's code and remarks",
    "host": "the host's time",
    "activities": "launch times",
    "scopes": "time inside kernels",
    "samples": "instruction samples",
    "counters": "hardware counters",
}
MEANINGS: dict[Tier, str] = {
    "static": "known without a run: what the compiler decided and why, and what the machine code"
    " holds",
    "host": "time of the host's threads, by line, scope and operation",
    "activities": "launches of kernels, copies and waits, with their times",
    "scopes": "time of parts of a kernel, by scopes in it or by samples that the compiler put"
    " there",
    "samples": "which instructions warps were at, and what they waited for, by the GPU's sampler",
    "counters": "what the hardware counted: bytes, hits, use of units; or executions of each"
    " instruction",
}
"""Explanation of each kind of evidence."""
