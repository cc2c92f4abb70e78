"""Causes of a defect that a tool may state, in words of this benchmark, and rules that state them.

In: the code of a cause.  Out: names of rules. A rule that has a cause's own name says it too, so
that operators need not know the rules there are.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CAUSES", "rules_for"]

CAUSES: dict[str, tuple[str, ...]] = {
    "atomic-traffic": ("epilogue-drain", "excess-traffic"),
    "bank-conflict": ("bank-conflict",),
    "block-order": ("excess-traffic",),
    "bulky-code": ("icache-unroll",),
    "cache-policy": ("excess-traffic",),
    "early-reduction": ("barrier-imbalance",),
    "idle-lanes": ("wasted-lanes", "barrier-imbalance"),
    "late-warps": ("barrier-imbalance",),
    "layout-change": ("layout-convert",),
    "long-end": ("epilogue-drain",),
    "low-occupancy": ("occupancy-limited",),
    "many-launches": ("small-kernels", "launch-bound"),
    "masked-work": ("wasted-lanes",),
    "narrow-access": ("narrow-access",),
    "needless-pass": ("fusion", "small-kernels", "excess-traffic"),
    "no-tensor-core": ("tensor-core-missed",),
    "redundant-arithmetic": ("redundant-work", "slow-math"),
    "redundant-traffic": ("excess-traffic",),
    "scattered-access": ("uncoalesced-global",),
    "serial-products": ("wgmma-serialized",),
    "serial-work": ("barrier-imbalance", "small-grid"),
    "shallow-pipeline": ("pipeline-too-shallow",),
    "slow-arithmetic": ("slow-math",),
    "small-grid": ("small-grid",),
    "spill": ("spill-hot",),
    "synchronous-copy": ("missed-async-copy",),
    "tail-wave": ("tail-wave",),
    "wide-arithmetic": ("redundant-work", "slow-math"),
}
"""Rules by cause; a rule that does not exist yet is never said, and so never right."""


def rules_for(causes: Iterable[str]) -> tuple[str, ...]:
    """Return the names of rules that state one of the causes.

    Raises:
        KeyError: a cause is not in the table.
    """
    found = (name for cause in causes for name in (cause, *CAUSES[cause]))
    return tuple(dict.fromkeys(found))
