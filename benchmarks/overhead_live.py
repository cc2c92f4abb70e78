"""Cost of control for a server: requests a second while it is paused and while it records, and the
longest request, in ms, while a recording begins, is written, and ends.

    python benchmarks/overhead_live.py [--generations 3] [--rounds 8] [--seconds 1] [-o FILE]

A plain process and one under `tileprof run --paused` serve in turns, each for some seconds: the
pairs of a round are plain and paused, and plain and recording. A request is a forward pass of a
small network, whose result is read back. On a GPU where there is one. Prints, and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from overhead_ratios import Pairs, ratio_interval

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "overhead_live.json"
ASKED = {"paused": 0.99, "recording": 0.95, "stall_ms": 50.0}
AIM = {"paused": 1.0, "recording": 0.98, "stall_ms": 10.0}

SERVER = """
import json, os, sys, time
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(8)]
model = torch.nn.Sequential(*layers).to(device).eval()
given = torch.ones(4, 256, device=device)
torch.set_num_threads(1)

@torch.inference_mode()
def request():
    return float(model(given).sum())

for _ in range(200):
    request()
print(json.dumps({"pid": os.getpid(), "device": device}), flush=True)
for line in sys.stdin:
    until, count, worst = time.perf_counter() + float(line), 0, 0.0
    began = now = time.perf_counter()
    while now < until:
        request()
        after = time.perf_counter()
        worst, now = max(worst, after - now), after
        count += 1
    print(json.dumps({"rate": count / (now - began), "worst_ms": worst * 1e3}), flush=True)
"""


class Server:
    """A process that serves for as long as it is told to."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command, "server.py"], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        ready = self._hear()
        self.pid, self.device = ready["pid"], ready["device"]

    def serve(self, seconds: float) -> dict[str, float]:
        """Return requests a second, and the longest one in ms."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it, and wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)

    def ask(self, *words: str) -> None:
        """Have it start, stop, or write; CalledProcessError where it refuses."""
        command = [sys.executable, "-m", "tileprof", "ctl", str(self.pid), *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Yield a plain process, and one under control that is paused."""
    (folder / "server.py").write_text(SERVER)
    plain = Server((), folder)
    controlled = Server(("-m", "tileprof", "run", "--quiet", "--paused"), folder)
    try:
        yield plain, controlled
    finally:
        plain.close()
        controlled.close()


def generation(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure with two new processes; ratios of each round, and the longest requests."""
    found: dict[str, list[float]] = {"paused": [], "recording": [], "plain again": []}
    stalls: dict[str, list[float]] = {"start": [], "snapshot": [], "stop": [], "none": []}
    with servers(folder) as (plain, controlled):
        for _ in range(rounds):
            base = plain.serve(seconds)
            found["paused"].append(controlled.serve(seconds)["rate"] / base["rate"])
            for name, words in (
                ("start", ("start", "--clear")), ("snapshot", ("snapshot", "x.tprof")),
                ("stop", ("stop",)),
            ):  # fmt: skip
                if name == "snapshot":
                    again = plain.serve(seconds)
                    found["plain again"].append(again["rate"] / base["rate"])
                    recording = controlled.serve(seconds)
                    found["recording"].append(recording["rate"] / again["rate"])
                    stalls["none"].append(recording["worst_ms"])
                asking = threading.Timer(seconds / 3, controlled.ask, words)
                asking.start()
                stalls[name].append(controlled.serve(max(seconds, 1.0))["worst_ms"])
                asking.join()
    return {"ratios": found, "stalls_ms": stalls, "device": plain.device}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generations", type=int, default=3, help="sets of new processes")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    began = time.perf_counter()
    taken = []
    for _ in range(args.generations):
        with tempfile.TemporaryDirectory() as folder:
            taken.append(generation(Path(folder), args.rounds, args.seconds))
    held: dict[str, Any] = {
        "device": taken[0]["device"], "date": time.strftime("%Y-%m-%d %H:%M"),
        "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "python": platform.python_version(), "torch": metadata.version("torch"),
    }  # fmt: skip
    if held["device"] == "cuda":
        import measuring

        held["circumstances"] = measuring.circumstances()
    held |= {"asked": ASKED, "aim": AIM, "rates": {}, "stalls_ms": {}}
    for name in taken[0]["ratios"]:
        pairs: Pairs = [each["ratios"][name] for each in taken]
        held["rates"][name] = asdict(ratio_interval(pairs))
        told = held["rates"][name]
        print(f"{name:12} {told['value']:.3f} [{told['low']:.3f}, {told['high']:.3f}] of plain")
    for name in taken[0]["stalls_ms"]:
        worst = [max(each["stalls_ms"][name]) for each in taken]
        held["stalls_ms"][name] = {
            "worst": max(worst),
            "each": [each["stalls_ms"][name] for each in taken],
        }
        print(f"longest request, {name:9} {max(worst):.1f} ms")
    held["seconds"] = time.perf_counter() - began
    args.output.write_text(json.dumps(held, indent=1) + "\n")


if __name__ == "__main__":
    main()
