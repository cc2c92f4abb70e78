"""Selection of the nodes that keep the estimate of bytes that operations have to move.

In: by node, `op_bytes` of every operation whose tensors were sampled, and what devices did.  Out:
`op_bytes` at those operations alone that launch work of a device themselves: an operation that
calls others, or only makes a view, moves nothing. Nodes of a backward pass, whose operations are
not observed, get what their forward operation moves, for each of their visits; half as much again
where the gradient of one tensor needs that tensor, or what was made of it, as well.
"""

from __future__ import annotations

import re

from tileprof.profile import DEVICE_WORK
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals, LaunchTotals
from tileprof.profiler.tree.tree import Node

_METRIC = "op_bytes"
_READS_ANOTHER = re.compile(
    r"(Cudnn|Miopen|Native)BatchNorm|Native(Layer|Group)Norm|Fused(Rms|RMS)Norm|(Safe|Log)?Softmax"
    r"|Relu|LeakyRelu|Threshold|Elu|Gelu|Silu|Mish|Sigmoid|Tanh|Hardswish|Hardsigmoid|Softplus"
)
"""Operations of one large tensor whose gradient reads two, and writes one."""
_GRADIENT = re.compile(r"(\w+)Backward\d+")


def give_op_bytes(
    nodes: list[Node],
    host: list[HostTotals | None],
    launches: list[LaunchTotals | None],
    device: list[DeviceTotals | None],
) -> None:
    """Keep the estimates of operations with device work of their own, and take off all others."""
    found: dict[int, float] = {}
    for node in nodes:
        worked = launches[node.index] is not None or device[node.index] is not None
        if node.kind not in DEVICE_WORK or not worked:
            continue
        op = _operation(node)
        if op is not None and op.index < len(nodes) and op.index not in found:
            found[op.index] = _bytes(op, host)
    for index, totals in enumerate(host):
        if (totals is not None and _METRIC in (totals.metrics or {})) or found.get(index):
            host[index] = _with(totals, found.get(index, 0.0))


def _operation(node: Node) -> Node | None:
    """Return the innermost operation around a node."""
    around = node.parent
    while around is not None and around.kind != "op":
        around = around.parent
    return around


def _bytes(op: Node, host: list[HostTotals | None]) -> float:
    """Return the bytes of an operation; 0 where they are known exactly, or not at all."""
    said = host[op.index]
    if said is None or (said.metrics or {}).get("bytes"):
        return 0.0
    if op.phase != "backward" or (said.metrics or {}).get(_METRIC):
        return float((said.metrics or {}).get(_METRIC, 0))
    forward: Node | None = op
    while forward is not None and forward.phase == "backward":
        forward = _operation(forward)
    # An operation that is one with that around it has its visits there.
    while forward is not None:
        of = host[forward.index]
        if of is not None and of.count:
            metrics = of.metrics or {}
            moved = metrics.get("bytes") or metrics.get(_METRIC, 0)
            return float(moved) / of.count * said.count * _times(op.name)
        above = _operation(forward)
        forward = above if above is not None and above.name == forward.name else None
    return 0.0


def _times(gradient: str) -> float:
    """Return how many times the bytes of its operation a gradient moves at least, by its name."""
    found = _GRADIENT.fullmatch(gradient)
    return 1.5 if found and _READS_ANOTHER.fullmatch(found[1]) else 1.0


def _with(totals: HostTotals | None, moved: float) -> HostTotals:
    """Return a copy with other estimated bytes; 0: none."""
    made = HostTotals()
    if totals is not None:
        made.take(totals)
    made.metrics = {name: held for name, held in (made.metrics or {}).items() if name != _METRIC}
    if moved:
        made.metrics[_METRIC] = moved
    return made
