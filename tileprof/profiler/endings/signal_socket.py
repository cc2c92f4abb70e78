"""A socket that signals write to, and the thread that waits for it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

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
        return not self.is_alive()
