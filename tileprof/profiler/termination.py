"""SIGTERM: the profile is written first, and the process dies of the signal, as soon as it can.

Python runs a signal's handler between two bytecodes of the main thread. A signal that comes right
before a blocking call is thus handled when the call is over, and so is one during a call that goes
on after signals, such as a wait for a GPU. So every signal also rings for the helping thread, which
interrupts the main thread until the handler has begun, and at last does the handler's work itself.
It needs the GIL for that: where C code keeps it, the signal waits for the end of that code.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileprof.profiler.recording import Recording
    from tileprof.profiler.session import Session

POKE_S = 0.05
"""Time between two interruptions of the main thread, in seconds."""
PATIENCE_S = 1.0
"""How long the main thread has to begin; and after that, the helping thread to end it."""

_CREDENTIALS = struct.Struct("3i")
_WOKEN = b"\0"


def finalize_on_terminate(session: Session) -> Termination | None:
    """Let a SIGTERM that would kill the process write the profiles first.

    None where the signal is the program's own affair, or there is no file to write.
    """
    free = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not free or session.path is None:
        return None
    termination = Termination(session.recording)
    termination.install()
    return termination


class Bell:
    """A socket that signals ring; what another process rings (a fork's, say) does not count."""

    def __init__(self) -> None:
        self._heard, self._rung = socket.socketpair()
        self._heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._rung.setblocking(False)
        self._write = ctypes.PyDLL(None).write

    def wait(self, seconds: float) -> bytes:
        """Return what it rang for: numbers of signals, or 0; nothing when the time is over."""
        self._heard.settimeout(max(seconds, 0.001))
        try:
            rung, credentials, *_ = self._heard.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            return b""
        senders = [_CREDENTIALS.unpack(data)[0] for _, _, data in credentials]
        return rung if senders == [os.getpid()] else b""

    def ring(self) -> None:
        """Let the waiting thread go on."""
        # Without giving up the GIL, as `send` does: the waiting thread would take it at once. What
        # it returns does not matter, for a full socket wakes as well.
        self._write(self._rung.fileno(), _WOKEN, 1)

    def fileno(self) -> int:
        """Return what `signal.set_wakeup_fd` takes."""
        return self._rung.fileno()

    def close(self) -> None:
        """Give its descriptors back; nobody may wait any more."""
        self._heard.close()
        self._rung.close()


class Termination:
    """What a process does about SIGTERM while a recording writes files."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._handler = self._handle
        self._guard = threading.RLock()
        self._begun = False
        self._helped = False
        self._bell: Bell | None = None

    @property
    def rings(self) -> bool:
        """Whether `wait` hears of signals."""
        return self._bell is not None

    def install(self) -> None:
        """Handle the signal from now on; called in the main thread."""
        signal.signal(signal.SIGTERM, self._handler)
        self._listen()
        self._recording.attend(self)

    def restore(self) -> None:
        """Leave the signal as it was found, unless somebody else has taken it since."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._recording.attend(None)
        if self._handles():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._bell is not None:
            self._swap(self._bell, -1)
            self._bell.close()
            self._bell = None

    def after_fork(self) -> None:
        """Have a bell of its own in a forked child, where that of the parent was in use."""
        inherited, self._bell = self._bell, None
        if inherited is not None:
            if self._swap(inherited, -1):
                self._listen()
            inherited.close()

    def wait(self, seconds: float) -> None:
        """Wait as the helping thread does, which `wake` ends; see to a SIGTERM that comes."""
        bell = self._bell
        assert bell is not None
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            rung = bell.wait(left)
            if signal.SIGTERM in rung:
                self._help()
            if _WOKEN in rung:
                return

    def wake(self) -> None:
        """End a `wait`."""
        if self._bell is not None:
            self._bell.ring()

    def _listen(self) -> None:
        # Only Linux tells who rang; elsewhere the signal of a forked child could end its parent.
        if not hasattr(socket, "SO_PASSCRED"):
            return
        bell = Bell()
        before = signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
        if before == -1:
            self._bell = bell
        else:
            signal.set_wakeup_fd(before)
            bell.close()

    def _swap(self, bell: Bell, other: int) -> bool:
        """Let signals ring elsewhere; False and nothing changed if they do not ring here now."""
        now = signal.set_wakeup_fd(other)
        if now not in (-1, bell.fileno()):
            signal.set_wakeup_fd(now)
        return now == bell.fileno()

    def _handles(self) -> bool:
        return signal.getsignal(signal.SIGTERM) is self._handler

    def _handle(self, number: int, frame: FrameType | None) -> None:
        with self._guard:
            # From here on a further signal kills at once; one under way is forgotten.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._begun = True
        if self._helped:
            time.sleep(PATIENCE_S)
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            self._end()

    def _help(self) -> None:
        """Interrupt the main thread until its handler has begun; at last, do its work."""
        main = threading.main_thread().ident
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            time.sleep(POKE_S)
            # The guard, for an interruption after the handler has begun would kill.
            with self._guard:
                if self._begun or not self._handles() or main is None:
                    return
                signal.pthread_kill(main, signal.SIGTERM)
        with self._guard:
            if self._begun or not self._handles():
                return
            self._helped = True
            # `signal.signal` is for the main thread alone.
            for action in (signal.SIG_IGN, signal.SIG_DFL):
                ctypes.pythonapi.PyOS_setsig(signal.SIGTERM, ctypes.c_void_p(action))
        self._end()

    def _end(self) -> None:
        # The signal may have come in the middle of anything, and no finalizer was to run any more.
        gc.disable()
        try:
            for session in self._recording.sessions[:]:
                # Nobody is left to tell what went wrong.
                with suppress(Exception):
                    session.finalize()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
