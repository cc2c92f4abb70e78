"""State of this process on Linux: what its threads wait for, and who holds its memory.

In: `/proc/self`, the allocator, the native recorder and PyTorch.  Out: a line for each thread, and
sizes of memory.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.reliability.heap import by_library, mallinfo
from tileprof.native import _recorder as _native

_FUTEX = "202"
"""Number of the system's call in which threads wait for locks, on x86-64."""


def print_state() -> None:
    """Print what threads wait for, in Python, in the kernel and, with py-spy, in C; and the GPU."""
    faulthandler.dump_traceback()
    for line in [*thread_states(1.0), *lock_words()]:
        print(line)
    py_spy = shutil.which("py-spy")
    native = [py_spy, "dump", "--native", "--pid", str(os.getpid())] if py_spy else None
    for command in filter(None, (native, ["nvidia-smi"])):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            print(done.stdout + done.stderr, flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{command[0]} failed: {error}", flush=True)


def thread_states(seconds: float) -> list[str]:
    """Return a line for each thread: its state, what it waits for in the kernel, and how long it
    ran on a processor in so many seconds from now.

    A thread that polls a device runs all the time, one that waits for a lock of another's never
    (`futex`): that tells a device that stands still from threads that wait for each other.
    """
    before = _processor_ticks()
    time.sleep(seconds)
    after, per_second = _processor_ticks(), os.sysconf("SC_CLK_TCK")
    lines = []
    for number in sorted(after):
        task = Path(f"/proc/self/task/{number}")
        try:
            name, kernel = (task / "comm").read_text().strip(), (task / "wchan").read_text().strip()
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended, or the system hides this
        ran = (after[number] - before.get(number, after[number])) / per_second
        lines.append(f"thread {number} {name}: {state} {kernel}, ran {ran:.2f} of {seconds:.2f} s")
    return lines


def lock_words() -> list[str]:
    """Return for each lock that threads wait for its address, who waits, and what is stored there.

    The words are 32 bits each, from 12 bytes below the address on. Of a `pthread_rwlock_t` readers
    wait at its third word and writers at its fourth, and its seventh is the thread that writes; of
    a `pthread_mutex_t` threads wait at its first word, and its third is the thread that has it.
    """
    waiting: dict[int, list[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            fields = (task / "syscall").read_text().split()
        except OSError:
            continue  # it has ended, or the system hides this
        if len(fields) > 1 and fields[0] == _FUTEX:
            waiting.setdefault(int(fields[1], 16), []).append(int(task.name))
    lines = []
    with open("/proc/self/mem", "rb") as memory:
        for address, threads in sorted(waiting.items()):
            try:
                memory.seek(address - 12)
                words = struct.unpack("10i", memory.read(40))
            except OSError:
                continue  # the thread has gone on, and the lock is no more
            lines.append(f"futex {address:#x}: {sorted(threads)} wait, words {list(words)}")
    return lines


def _processor_ticks() -> dict[int, int]:
    """Return for each thread how long it ran so far, in ticks of the system's clock."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found[int(task.name)] = int(fields[11]) + int(fields[12])
    return found


def held_parts() -> dict[str, Any]:
    """Return what this process holds, in MB: by allocator, holder and library."""
    parts: dict[str, Any] = {}
    for name, held in (("allocated", allocated_bytes()), *_native.gpu_held_bytes().items()):
        parts[name] = round(held / 2**20, 2)
    libraries, blocks = by_library()
    if libraries:
        parts["libraries"] = {name: round(held / 2**20, 2) for name, held in libraries.items()}
        parts["large blocks"] = [(name, round(held / 2**20, 2)) for name, held in blocks]
    parts["blocks of Python"] = sys.getallocatedblocks()
    if torch.cuda.is_available():
        parts["torch on the device"] = round(torch.cuda.memory_reserved() / 2**20, 2)
    return parts


def allocated_bytes() -> int:
    """Return bytes that `malloc` has given out and that were not freed; 0 where it cannot tell."""
    found = mallinfo()
    return 0 if found is None else int(found.uordblks + found.hblkhd)
