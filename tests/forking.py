"""A process that forks for each program, and the state that such a program begins with.

In: over a socket, words of a command line, a folder, the environment and streams.  Out: the
number of a process, whose parent is the one that asks.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def serve(words: Sequence[str]) -> tuple[dict[str, Any], list[int]]:
    """Fork for each program, and return in its process: what is asked for, and its streams.

    Args:
        words: the number of the socket, and modules to import.
    """
    for name in words[1:]:
        importlib.import_module(name)
    # The collector never visits frozen objects, so their pages stay shared between processes.
    gc.collect()
    gc.freeze()
    channel = socket.socket(fileno=int(words[0]))
    while True:
        begun, streams, *_ = socket.recv_fds(channel, 1, 8)
        if not begun:
            os._exit(0)
        (size,) = struct.unpack("!I", channel.recv(4, socket.MSG_WAITALL))
        order = json.loads(channel.recv(size, socket.MSG_WAITALL))
        number, told = os.pipe()
        if (between := os.fork()) == 0:
            ended, held = os.pipe()
            if pid := os.fork():
                os.write(told, struct.pack("!I", pid))
                os._exit(0)
            for each in (held, number, told):
                os.close(each)
            channel.close()
            # From here on its parent is who asked.
            os.read(ended, 1)
            os.close(ended)
            return order, streams
        os.waitpid(between, 0)
        channel.sendall(os.read(number, 4))
        for each in (number, told, *streams):
            os.close(each)


def run(order: dict[str, Any], streams: Sequence[int]) -> None:
    """Run a program as `python` does, and end as it does."""
    # Out of the way of the numbers that they get.
    apart = [fcntl.fcntl(stream, fcntl.F_DUPFD, 200) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, stream in zip(order["numbers"], apart):
        os.dup2(stream, number)
        os.close(stream)
    if order["session"]:
        os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.orig_argv = order["words"]
    _, first, *rest = sys.orig_argv
    target = rest.pop(0) if first in ("-c", "-m") else first
    sys.argv = [first if target != first else target, *rest]
    sys.path[0] = {"-c": "", "-m": os.getcwd()}.get(first, os.path.dirname(os.path.abspath(first)))
    for each in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if each and each not in sys.path:
            sys.path.insert(1, each)
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    try:
        if first == "-m":
            runpy._run_module_as_main(target)  # type: ignore[attr-defined]
        elif first == "-c":
            exec(compile(target, "<string>", "exec", dont_inherit=True), main.__dict__)
        else:
            main.__dict__["__file__"] = target
            with open(target, "rb") as file:
                text = file.read()
            exec(compile(text, target, "exec", dont_inherit=True), main.__dict__)
    except Exception as error:
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None
