"""Hears of kernel launches: the call path before, the numbers after."""

from __future__ import annotations

import sys
import threading

from tileprof.errors import Location
from tileprof.profiler.host.entries import NODE, STOP, THREAD, Entry, ThreadState, enclosing, top
from tileprof.profiler.host.late_measurements import Late
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.tree.path_cache import Link, follow
from tileprof.profiler.tree.paths import place_of
from tileprof.profiler.tree.tree import Node
from tileprof.runtime.hooks import Instrument, Launch, LaunchedKernel

_get_ident = threading.get_ident
_getframe = sys._getframe


class Listener:
    """Records launches with the recorder; sits in `runtime.hooks.listener`."""

    def __init__(self, recorder: Recorder, instrument: Instrument) -> None:
        self.instrument: Instrument = instrument
        self._recorder = recorder
        self.late: Late = recorder.late
        self._entered = threading.local()

    @property
    def times_gpus(self) -> bool:
        """Whether records of GPUs are read; launches then do not wait for their time."""
        events = self._recorder.events
        return events is not None and events.gpu.running

    def begin(self, kernel: LaunchedKernel) -> int:
        """Take the host call path; the token is the index of the kernel's node."""
        recorder = self._recorder
        above = top.get()
        if above[THREAD].ident != _get_ident():
            above = recorder.adopt(above)
        anchor = above[NODE].cache.launches.get(kernel.key)
        node: Node | None = None
        if recorder.events is not None and recorder.events.inside():
            node = self._node(recorder.events.here(), kernel)
        elif anchor is not None:
            stop = above[STOP]
            node = follow(anchor, _getframe(1), stop) if recorder.frames else anchor.at_stop
        if node is None:
            node = self._learn(kernel, above, anchor)
        thread: ThreadState = above[THREAD]
        thread.launching = True
        if node.host.thread != thread.key:
            launched = node.launches.count if node.launches is not None else 0
            node.host.enter_thread(thread.key, launched)
        if recorder.events is not None:
            self._entered.context = recorder.events.enter_kernel(node.index)
        return node.index

    def end(self, token: int, launch: Launch) -> None:
        """Record a launch; its wall time is not the enclosing scope's."""
        totals = self._recorder.tree.nodes[token].launches
        if totals is not None:
            totals.add(launch)
        self._recorder.device_ns += max(launch.time_ns, 0)
        self.abandon(token)
        if self._recorder.events is None:
            if totals is not None:
                totals.wall += launch.wall_ns
            top.get()[THREAD].last += launch.wall_ns

    def abandon(self, token: int) -> None:
        """Forget that a launch is under way."""
        top.get()[THREAD].launching = False
        if self._recorder.events is not None:
            self._recorder.events.leave(self._entered.context)

    def _node(self, parent: Node, kernel: LaunchedKernel) -> Node:
        recorder = self._recorder
        node = recorder.tree.child(parent, "kernel", kernel.name, kernel.location, (kernel.key,))
        if node.index not in recorder.kernel_of:
            recorder.kernel_of[node.index] = recorder.kernel_index(kernel)
        return node

    def _learn(self, kernel: LaunchedKernel, above: Entry, anchor: Link[Node] | None) -> Node:
        recorder = self._recorder
        frame = _getframe(2)
        around = enclosing(above, frame)
        if around is not above:
            anchor = around[NODE].cache.launches.get(kernel.key)
        parent: Node = around[NODE]
        anchor = anchor or Link()

        def finish(last: Node, place: Location | None) -> Node:
            return self._node(last, kernel)

        if recorder.frames:
            node, kept = recorder.paths.find(anchor, frame, parent, around[STOP], finish)
        else:
            node, kept = finish(parent, place_of(frame)), True
            anchor.at_stop = node
        if kept and not parent.suspends:
            parent.cache.launches[kernel.key] = anchor
        return node
