"""Signals that end a process: its profiles are written first, and it dies of the signal then.

In: SIGTERM and SIGHUP, where nobody else handles them, and crashes, of which the native recorder
tells (`recorder/host/crashes.cpp`): the crashed thread waits for the others to write.  Out: the
files of all sessions, or a sentence that says why there are none; then the death that was asked
for, within `SAVE_S` seconds.

The handler of a signal runs between two instructions of the main thread, which may hold any lock
there. So it takes none and waits for none: it starts a thread that finalizes, and another one that
ends the process when the time is over, whatever the first one waits for. Where the main thread
holds a lock of the profiler, its handler returns and the program goes on until the file is written:
otherwise the finalizing thread would wait for that lock. Else it sleeps in its handler meanwhile.

Python runs the handler when a blocking call is over, or never, if the call goes on after signals as
a wait for a GPU does. So signals also ring a bell, and a thread that listens to it does the same.
It needs the GIL for that: where C code keeps it, the signal waits for the end of that code.
"""

from __future__ import annotations

import _thread
import ctypes
import faulthandler
import gc
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from tileprof.profiler import locks
from tileprof.profiler.endings.finalizing import Finalizable, finalize_each, say_unwritten
from tileprof.profiler.native import native_recorder
from tileprof.runtime import hooks

SAVE_S = 20.0
"""Seconds that writing profiles may take once the process is to end. Schedulers kill 30 s after
their request."""
HOLD_S = 2.0
"""Seconds that the main thread sleeps in its handler. It may hold a lock that is not the profiler's
and that the finalizing thread waits for, so the program continues after that."""
CRASH_S = 5.0
"""Seconds that writing profiles may take after a crash: the data that it needs may be damaged, or
the crashed thread may hold a lock."""
_CRASH = 0x80
"""Added by `recorder/host/crashes.cpp` to the signal number of a crash."""

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_leave = os._exit
"""The function itself, whatever stands in its place while a program runs."""


class EndingRecording(Protocol):
    """Recording whose sessions are finalized when a signal ends the process."""

    @property
    def sessions(self) -> Sequence[Finalizable]:
        """Sessions that are open now."""

    def attend(self, termination: Termination | None) -> None:
        """Take over the handling of signals around forks, or let go of it with None."""


class EndingSession(Protocol):
    """Session whose file is written before a signal ends the process."""

    path: Path | None

    @property
    def recording(self) -> EndingRecording:
        """Recording that the session belongs to."""


def finalize_on_terminate(
    session: EndingSession, written: Callable[[str], None] | None = None
) -> Termination | None:
    """Let a signal that would kill the process write the profiles first.

    `written` writes them, is given the signal's name, and says how the program ended; `tileprof
    run` has one.

    None where the signals are the program's own affair, or there is no file to write.
    """
    if threading.current_thread() is not threading.main_thread() or session.path is None:
        return None
    free = [number for number in ENDING_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    if not free:
        return None
    termination = Termination(session.recording, free, written)
    termination.install()
    return termination


class Ending:
    """The end of a process that was asked for by a signal; it happens once."""

    def __init__(
        self, recording: EndingRecording, written: Callable[[str], None] | None = None
    ) -> None:
        self._recording = recording
        self._written = written
        self._free = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()

    @property
    def begun(self) -> bool:
        """Whether the process is about to end."""
        return self._free.locked()

    def begin(self, die: Callable[[], None], seconds: float, how: str = "") -> bool:
        """Write the profiles and call `die`, in other threads; False where that is under way.

        `how` is the name of the signal that ends the program; empty for a crash.
        `die` is called after `seconds` at the latest.
        """
        if not self._free.acquire(blocking=False):
            return False
        try:
            _thread.start_new_thread(self._finish, (die, how))
        except RuntimeError:
            # No thread can be made: the interpreter ends, or there are too many of them.
            if locks.held():
                self._free.release()
                return False
            self._finish(die, how)
        with suppress(RuntimeError):
            _thread.start_new_thread(self._watch, (die, seconds))
        return True

    def _finish(self, die: Callable[[], None], how: str) -> None:
        # The signal may have come in the middle of anything, and no finalizer was to run any more.
        gc.disable()
        if self._written is not None and how:
            self._written(how)
        else:
            finalize_each(self._recording.sessions)
        with suppress(RuntimeError):
            self._over.release()
        die()

    def _watch(self, die: Callable[[], None], seconds: float) -> None:
        if not self._over.acquire(timeout=seconds):
            say_unwritten(self._recording.sessions, seconds)
            die()


class Termination:
    """Handling of signals that end a process while a recording writes files."""

    def __init__(
        self,
        recording: EndingRecording,
        numbers: list[int],
        written: Callable[[str], None] | None = None,
    ) -> None:
        self._recording = recording
        self._numbers = numbers
        self._handler = self._handle
        self._written = written
        self._ending = Ending(recording, written)
        self._holds = False
        """Whether the main thread sleeps in its handler, or has done so."""
        self._bell: SignalSocket | None = None
        self._listener: SignalThread | None = None

    def install(self) -> None:
        """Handle the signals from now on; called in the main thread."""
        for number in self._numbers:
            signal.signal(number, self._handler)
        self._listen()
        self._recording.attend(self)

    def restore(self) -> None:
        """Leave the signals as they were found, unless somebody else has taken them since."""
        if threading.current_thread() is not threading.main_thread() or self._ending.begun:
            return
        self._recording.attend(None)
        for number in self._numbers:
            if self._handles(number):
                signal.signal(number, signal.SIG_DFL)
        if self._bell is not None:
            self._swap(self._bell, -1)
            if (native := native_recorder()) is not None:
                native.forget_crashes()
        if self.pause() and self._bell is not None:
            self._bell.close()
        self._bell = None

    def blocked(self) -> set[int]:
        """Return the signals that may wait for a fork: those that it handles."""
        return {number for number in self._numbers if self._handles(number)}

    def pause(self) -> bool:
        """Have no thread that listens, until `go_on`; tell whether there is none."""
        listener, self._listener = self._listener, None
        return listener is None or listener.stop()

    def go_on(self) -> None:
        """Listen again."""
        if self._bell is not None and self._listener is None:
            self._listener = SignalThread(self._bell, self._hear)
            self._listener.start()

    def after_fork(self) -> None:
        """Have a bell of its own in a forked child, where that of the parent was in use."""
        self._ending, self._holds = Ending(self._recording, self._written), False
        inherited, self._bell, self._listener = self._bell, None, None
        if inherited is not None:
            if self._swap(inherited, -1):
                self._listen()
            inherited.close()

    def _listen(self) -> None:
        # Only Linux tells who rang; elsewhere the signal of a forked child could end its parent.
        if not hasattr(socket, "SO_PASSCRED"):
            return
        bell = SignalSocket()
        before = signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
        if before == -1:
            self._bell = bell
            self.go_on()
            if (native := native_recorder()) is not None:
                # It waits a little longer than we do, for the sentence that there was no time.
                native.watch_crashes(bell.fileno(), CRASH_S + 1, faulthandler.is_enabled())
        else:
            signal.set_wakeup_fd(before)
            bell.close()

    def _swap(self, bell: SignalSocket, other: int) -> bool:
        """Let signals ring elsewhere; False and nothing changed if they do not ring here now."""
        now = signal.set_wakeup_fd(other)
        if now not in (-1, bell.fileno()):
            signal.set_wakeup_fd(now)
        return now == bell.fileno()

    def _handles(self, number: int) -> bool:
        return number in self._numbers and signal.getsignal(number) is self._handler

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._ending.begin(lambda: die_of(number), SAVE_S, _how(number))
        if not self._holds and not locks.held():
            self._holds = True
            time.sleep(HOLD_S)

    def _hear(self, number: int) -> None:
        native = native_recorder()
        if number & _CRASH and native is not None:
            self._ending.begin(native.crash_written, CRASH_S)
        elif self._handles(number):
            self._ending.begin(lambda: die_of(number), SAVE_S, _how(number))


def _how(number: int) -> str:
    """Return the name of a signal that ends the program."""
    return signal.Signals(number).name


def die_of(number: int) -> None:
    """End the process by a signal, whoever handles it; called in any thread."""
    # `signal.signal` is for the main thread alone.
    ctypes.pythonapi.PyOS_setsig(number, ctypes.c_void_p(int(signal.SIG_DFL)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.raise_signal(number)
    # The first process of a container does not die of its own signals.
    _leave(128 + number)


_CREDENTIALS = struct.Struct("3i")
_WOKEN = b"\0"
_JOIN_S = 1.0
"""Longest wait for the thread to end, in seconds."""


class SignalSocket:
    """A socket that signals ring; what another process rings (a fork's, say) does not count."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._rung.setblocking(False)

    def wait(self) -> bytes:
        """Return what it rang for: numbers of signals, or 0; nothing where others rang."""
        rung, credentials, *_ = self._heard.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
        senders = [_CREDENTIALS.unpack(data)[0] for _, _, data in credentials]
        return rung if senders == [os.getpid()] else b""

    def ring(self) -> None:
        """Let the waiting thread go on."""
        # A full socket wakes as well.
        with suppress(OSError):
            self._rung.send(_WOKEN)

    def fileno(self) -> int:
        """Return what `signal.set_wakeup_fd` takes."""
        return self._rung.fileno()

    def close(self) -> None:
        """Give its descriptors back; nobody may wait any more."""
        self._heard.close()
        self._rung.close()


class SignalThread(threading.Thread):
    """Waits for a bell; the thread holds no lock while it waits, nor when it is stopped."""

    def __init__(self, bell: SignalSocket, heard: Callable[[int], None]) -> None:
        super().__init__(name="tileprof signals", daemon=True)
        self._bell = bell
        self._heard = heard
        self._over = False

    def start(self) -> None:
        """Begin, as a thread that is no part of the program when this returns.

        As one of the program's it would make PyTorch's operations be observed in all threads, which
        costs a training step a tenth of its time (see `observer_threads`).
        """
        super().start()
        if self.ident is not None:
            hooks.own_threads.add(self.ident)

    def run(self) -> None:
        """Tell of each signal, until it is stopped."""
        while not self._over:
            for number in self._bell.wait():
                if number:
                    self._heard(number)

    def stop(self) -> bool:
        """End it; tell whether it has ended."""
        self._over = True
        self._bell.ring()
        self.join(_JOIN_S)
        if self.is_alive():
            return False
        if self.ident is not None:
            hooks.own_threads.discard(self.ident)
        return True
