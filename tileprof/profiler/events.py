"""What the native recorder sees, added to the nodes of a recording's tree.

In: contexts with host times of operations and calls.  Out: numbers at nodes; `collect` adds what
is new. The recorder in Python asks `inside` and `here` where a scope or a launch of ours happens
within an operation, which only the native side knows.
"""

from __future__ import annotations

from types import FrameType, ModuleType

from tileprof.errors import Location
from tileprof.profiler.native import Contexts, native_recorder
from tileprof.profiler.tree import Node, Tree

_recordings = 0


class Events:
    """The native side of one recording; there is one recording at a time."""

    def __init__(self, native: ModuleType, tree: Tree, scope_variable: object) -> None:
        global _recordings
        _recordings += 1
        self._native = native
        self._tree = tree
        self._epoch = 0
        native.set_scope_variable(scope_variable, _recordings)
        self._contexts = Contexts(native, tree, _recordings)
        self.inside = native.inside
        """Whether the calling thread is in an operation that is inside the innermost scope."""
        self.claimed = native.claimed
        """Host time that operations took, in ns by thread, cumulative."""

    def begin(self, frames: bool) -> None:
        """Record from here on, as something new."""
        self._epoch += 1
        self._native.set_frames(frames)
        self._native.set_epoch(self._epoch)

    def end(self) -> None:
        """Record nothing until `begin`."""
        self._native.set_epoch(0)

    def set_base(self, frame: FrameType | None) -> None:
        """Name the frame that runs the user's program, in the thread that calls this."""
        self._native.set_base(frame)

    def here(self) -> Node:
        """Return the node of the calling thread's path."""
        return self._contexts.node(self._native.here())

    def below(self, name: str, location: Location | None) -> Node:
        """Return the node of a scope that is opened now."""
        return self._tree.child(self.here(), "scope", name, location)

    def collect(self) -> None:
        """Add what was measured since the last time to the nodes."""
        for part in self._contexts.host_parts():
            host = part.node.host
            host.count += part.count
            host.own_ns += part.own_ns
            host.claimed_ns += part.claimed_ns
            for metric, value in (("flops", part.flops), ("bytes", part.bytes)):
                if value:
                    host.add(metric, value)

    def after_fork(self) -> None:
        """Forget, in a forked child, what the parent measured."""
        self._native.after_fork()
        self._contexts.skip()


def native_events(tree: Tree, scope_variable: object) -> Events | None:
    """Return the native side for a tree, None where it is not installed."""
    native = native_recorder()
    return Events(native, tree, scope_variable) if native is not None else None
