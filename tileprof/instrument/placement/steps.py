"""Steps of a kernel that was lowered for a GPU: what each op does, in its author's words.

In: a launch after all passes.  Out: for each op a `Step`: a wait, a load, the start of a product,
arithmetic, a write; or None for what takes no time of its own: index arithmetic, views, and the
glue of rings and groups, which goes with the step before (`is_glue`) or after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileprof import ir

from .stages import buffer_name, listed, op_kind

StepKind = Literal[
    "wait slot", "load", "wait tile", "wait turn", "issue", "wait products", "wait copies",
    "wait stores", "barrier", "compute", "write",
]  # fmt: skip

_GLUE = (
    ir.RingCommit, ir.RingRelease, ir.Commit, ir.Fence, ir.TurnStart, ir.TurnPass, ir.Yield,
    ir.Break, ir.Continue,
)  # fmt: skip
_Waiting = ir.RingAcquire | ir.RingWait | ir.Wait | ir.Barrier | ir.TurnWait
_FUNCTIONS_SHOWN = 2
_RING = "ring of "


@dataclass(frozen=True, slots=True)
class Step:
    """Action of one op; the queues are as in `ir.Site`."""

    kind: StepKind
    name: str
    what: tuple[str, ...] = ()
    """Names in a list of several steps: tensors of loads and writes, kinds of arithmetic."""
    issues: str = ""
    retires: str = ""
    pending: int = 0

    @property
    def queued(self) -> bool:
        """True where each visit counts on a queue, so that it must not be joined with another."""
        return bool(self.issues or self.retires)

    @property
    def guarded(self) -> bool:
        """True where the step advances a ring."""
        return self.kind in ("wait slot", "wait tile") or self.issues.startswith(_RING)

    @property
    def title(self) -> str:
        """Name of a run of steps like this one, of which `what` lists the parts."""
        match self.kind:
            case "load" | "write":
                return f"{self.kind} {listed(self.what)}"
            case "compute":
                return f"compute ({listed(self.what)})" if self.what else "compute"
            case _:
                return self.name


def is_glue(op: ir.OpBase) -> bool:
    """Return whether an op without a step of its own goes with the step before it."""
    return isinstance(op, _GLUE)


class Steps:
    """The steps of one launch; names depend on what else there is in it."""

    def __init__(self, launch: ir.Launch) -> None:
        self._tiles: dict[ir.Value, list[str]] = {}
        """Shared tiles that each ring guards."""
        self._copied: list[str] = []
        """Shared tiles that cp.async fills."""
        self._stored: list[str] = []
        """Tensors that asynchronous stores write."""
        self._staged: dict[str, str] = {}
        """The tensor that a shared tile is stored to."""
        sums: set[str] = set()
        for op in ir.walk(launch.body):
            match op:
                case ir.AsyncCopy() | ir.Copy():
                    self._note_copy(op)
                case ir.Gemm() | ir.AsyncGemm():
                    sums.add(buffer_name(op.c))
        self._many_sums = len(sums) > 1

    def _note_copy(self, op: ir.AsyncCopy | ir.Copy) -> None:
        source, target = buffer_name(op.source), buffer_name(op.target)
        if op.source.buffer.space == "shared" and op.target.buffer.space == "global":
            self._staged[source] = target
        if isinstance(op, ir.Copy):
            return
        if op.ring is not None:
            self._tiles.setdefault(op.ring, []).append(target)
        elif op.target.buffer.space == "shared":
            self._copied.append(target)
        else:
            self._stored.append(target)

    def of(self, op: ir.OpBase) -> Step | None:
        """Return the step of an op that holds no blocks, or of a `parallel`."""
        match op:
            case ir.RingAcquire() | ir.RingWait() | ir.Wait() | ir.Barrier() | ir.TurnWait():
                return self._waiting(op)
            case ir.NextTile() | ir.RingSend() | ir.RingReceive():
                return _next_tile(op)
            case ir.AsyncCopy():
                return self._starting(op)
            case ir.Copy(source=source, target=target):
                return self._copy(buffer_name(source), buffer_name(target), source, target)
            case ir.Parallel():
                return self._parallel(op)
            case ir.AsyncGemm(c=c):
                return Step("issue", self._gemm(c), ("gemm",), issues="wgmma")
            case ir.Gemm(c=c):
                return Step("compute", self._gemm(c), ("gemm",))
            case ir.TileAtomic(kind=kind, target=target) | ir.Atomic(kind=kind, buffer=target):
                return self._to(target, f"atomic {kind}")
            case ir.Store(buffer=target):
                return None if target.buffer.space == "local" else self._to(target, "store")
            case ir.Fill(target=target):
                return self._to(target, "fill")
            case ir.AllReduce(kind=kind, target=target):
                name = f"all-reduce {kind}"
                return Step("compute", f"{name} → {buffer_name(target)}", (name,))
            case ir.ConvertLayout(source=source):
                name = "convert layout"
                return Step("compute", f"{name} of {buffer_name(source)}", (name,))
            case _ if isinstance(op, ir.TileOp):
                name = op_kind(op)
                written = next(each.value for each in op.accesses() if each.writes)
                return Step("compute", f"{name} → {buffer_name(written)}", (name,))
            case _:
                return None

    # -- waits

    def _waiting(self, op: _Waiting) -> Step:
        match op:
            case ir.RingAcquire(ring=ring):
                of = f" of {listed(self._tiles.get(ring, []))}" if len(self._tiles) > 1 else ""
                return Step("wait slot", f"wait for a free slot{of}")
            case ir.RingWait(ring=ring):
                tiles = listed(self._tiles.get(ring, []))
                return Step("wait tile", f"wait for {tiles}", retires=self._queue(ring))
            case ir.Wait(queue="wgmma", held=held, pending=pending):
                of = f" → {listed(map(buffer_name, held))}" if held and self._many_sums else ""
                name = f"wait for gemm{of}"
                return Step("wait products", name, retires="wgmma", pending=pending)
            case ir.Wait(queue="cp.async", pending=pending):
                name = f"wait for {listed(self._copied)}"
                return Step("wait copies", name, retires="cp.async", pending=pending)
            case ir.Wait(pending=pending):
                tensors = tuple(dict.fromkeys(self._stored))
                name = f"wait for stores of {listed(tensors)}"
                return Step("wait stores", name, tensors, retires="bulk", pending=pending)
            case ir.Barrier():
                return Step("barrier", "barrier")
            case ir.TurnWait():
                return Step("wait turn", "wait for the turn")

    def _queue(self, ring: ir.Value) -> str:
        return f"{_RING}{', '.join(dict.fromkeys(self._tiles.get(ring, [])))}"

    # -- work

    def _starting(self, op: ir.AsyncCopy) -> Step:
        source, target = buffer_name(op.source), buffer_name(op.target)
        if op.ring is not None:
            return Step("load", f"load {source}", (source,), issues=self._queue(op.ring))
        if op.target.buffer.space == "shared":
            return Step("load", f"load {source}", (source,), issues="cp.async")
        return Step("write", f"write {target}", (target,), issues="bulk")

    def _copy(self, source: str, target: str, read: ir.Value, written: ir.Value) -> Step:
        """Return a copy that the threads do themselves."""
        if written.buffer.space == "global":
            return Step("write", f"write {target}", (target,))
        if read.buffer.space == "global":
            return Step("load", f"load {source}", (source,))
        name = f"copy {source} → {target}"
        if target in self._staged:
            return Step("write", name, (self._staged[target],))
        return Step("compute", name, ("copy",))

    def _to(self, target: ir.Value, how: str) -> Step:
        name = buffer_name(target)
        if target.buffer.space == "global":
            return Step("write", f"{how} {name}", (name,))
        return Step("compute", f"{how} {name}", (how,))

    def _gemm(self, sums: ir.Value) -> str:
        return f"gemm → {buffer_name(sums)}" if self._many_sums else "gemm"

    def _parallel(self, op: ir.Parallel) -> Step:
        inside = list(ir.walk(op.body))
        reads = [o.buffer for o in inside if isinstance(o, ir.Load)]
        writes = [o.buffer for o in inside if isinstance(o, (ir.Store, ir.Atomic))]
        if op.origin == "copy" and reads and writes:
            names = [listed([*dict.fromkeys(map(buffer_name, each))]) for each in (reads, writes)]
            return self._copy(names[0], names[1], reads[0], writes[0])
        targets = listed(map(buffer_name, writes))
        if op.origin == "fill" and writes:
            return self._to(writes[0], "fill")
        functions = dict.fromkeys(name for name in map(_function, inside) if name)
        known = list(functions)[:_FUNCTIONS_SHOWN]
        stored = {buffer_name(v): v for v in writes}
        outside = all(v.buffer.space == "global" for v in stored.values())
        if stored and outside and not any(v.buffer.space == "global" for v in reads):
            return Step("write", f"write {targets}", tuple(stored))
        shown = f" ({', '.join(known)})" if known else ""
        return Step("compute", f"compute {targets}{shown}".replace("  ", " "), tuple(known))


def _function(op: ir.OpBase) -> str:
    """Return the name of a function that takes more than an instruction or two."""
    match op:
        case ir.Unary(kind=kind) if kind not in ("neg", "not", "abs"):
            return kind
        case ir.Binary(kind=("div" | "pow" | "atan2") as kind) if op.result.dtype.kind == "float":
            return kind
        case _:
            return ""


def _next_tile(op: ir.NextTile | ir.RingSend | ir.RingReceive) -> Step:
    """Return the step between two tiles of blocks that take the next tile when they are free."""
    match op:
        case ir.NextTile():
            return Step("load", "take the next tile", ("the next tile",))
        case ir.RingSend():
            return Step("wait slot", "hand over the next tile")
        case ir.RingReceive():
            return Step("wait tile", "wait for the next tile")
