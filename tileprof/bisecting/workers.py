"""A worker seen from here: started in the interpreter of a side, asked, and ended.

In: a side, a suite, a target.  Out: the kernels of the suite, their forms, and times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof.errors import ExecutionError
from tileprof.trying.piped import PipedProcess

from .forms import Engine, Forms, read_forms
from .sides import Side
from .suites import Suite

_INSIDE = Path(__file__).resolve().parent / "inside"
_ROOT = _INSIDE.parents[2]
"""Folder of the tileprof that runs here."""
_BEGIN = (
    # The current folder, which `-c` puts in front, may hold another version of the compiler.
    "import sys; sys.path[:] = [each for each in sys.path if each];"
    "import importlib.util as u;"
    "s = u.spec_from_file_location('_bisect', {init!r}, submodule_search_locations=[{folder!r}]);"
    "m = u.module_from_spec(s); sys.modules['_bisect'] = m; s.loader.exec_module(m);"
    "from _bisect.main import start; start()"
)


class SideError(ExecutionError):
    """A side failed: its interpreter, its suite, or one of its kernels."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that a worker found."""

    name: str
    """Its name, with its place among those of that name."""
    engine: Engine
    place: int
    """Its place in the worker's list."""


@dataclass(frozen=True, slots=True)
class Place:
    """Target, device and limits that both sides have in common."""

    target: str
    device: str
    """`cuda:N`, `cpu`; empty where kernels are only compiled."""
    below: Path | None = None
    """Path of the suite's file in the trees of both sides; None where it is the same file."""
    seed: int = 0
    limit_s: float = 600.0
    """Longest time for an answer."""


class Worker:
    """One worker; as a context, it is ended at the end."""

    def __init__(self, side: Side, suite: Suite, place: Place, folder: Path) -> None:
        self.side = side
        self._suite, self._place, self._folder = suite, place, folder
        self._process = PipedProcess(
            folder, place.limit_s, lambda what: SideError(f"{side}: its process {what}")
        )
        self.kernels: tuple[Kernel, ...] = ()
        self.skipped: dict[str, str] = {}
        """Kernels of the file that could not be taken, and why."""
        self.facts: Mapping[str, str] = {}
        """Versions of the side."""

    def start(self) -> None:
        """Start it, and let it load the suite; come back at once."""
        self._start()
        self._process.say({"do": "begin"})

    def __enter__(self) -> Worker:
        """Wait until it has loaded the suite."""
        try:
            if not self._process.started:
                self.start()
            self._begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *ending: object) -> None:
        self.end()

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        suite = self._suite
        orders = {
            "suite": {
                "kind": suite.kind, "file": suite.on(self.side.tree, self._place.below),
                "names": list(suite.names), "values": dict(suite.values),
                "arguments": list(suite.arguments),
            },
            "target": self._place.target, "device": self._place.device,
            "controls": dict(self.side.controls), "seed": self._place.seed,
            "folder": str(self._folder),
        }  # fmt: skip
        path = self._folder / "orders.json"
        path.write_text(json.dumps(orders))
        begin = _BEGIN.format(init=str(_INSIDE / "__init__.py"), folder=str(_INSIDE))
        try:
            self._process.start([self.side.python, "-c", begin, str(path)], self._environment())
        except OSError as error:
            raise SideError(f"{self.side.python} cannot be started: {error.strerror}") from None

    def _environment(self) -> dict[str, str]:
        held = dict(os.environ)
        given = [each for each in held.get("PYTHONPATH", "").split(os.pathsep) if each]
        if self.side.isolated:
            given = [each for each in given if not (Path(each) / "tileprof").is_dir()]
        else:
            given.append(str(_ROOT))
        held["PYTHONPATH"] = os.pathsep.join([*self.side.paths, *given])
        # Hashes of texts decide the order of sets.
        held["PYTHONHASHSEED"] = str(self._place.seed)
        return held

    def _begin(self) -> None:
        reply = self._hear()
        counts: dict[str, int] = {}
        found = []
        for at, each in enumerate(reply["kernels"]):
            counts[each["name"]] = count = counts.get(each["name"], 0) + 1
            name = each["name"] if count == 1 else f"{each['name']} #{count}"
            found.append(Kernel(name, each["engine"], at))
        self.kernels = tuple(found)
        self.skipped = {each["name"]: each["why"] for each in reply["skipped"]}
        self.facts = reply["facts"]

    # -- what it is asked

    def kernel(self, name: str) -> Kernel | None:
        """Return the kernel of that name; None where this side has none."""
        return next((each for each in self.kernels if each.name == name), None)

    def forms(
        self, kernel: Kernel, controls: Mapping[str, Any] | None = None, *, passes: bool = False
    ) -> Forms:
        """Return the forms of a kernel, compiled with these controls beside those of the side."""
        order = {"do": "form", "kernel": kernel.place, "controls": dict(controls or {}),
                 "passes": passes}  # fmt: skip
        return read_forms(kernel.name, kernel.engine, self._ask(order)["form"])

    def resumed(self, kernel: Kernel, step: str, text: str) -> Forms:
        """Return the forms that this side makes of another side's program after a step."""
        order = {"do": "resume", "kernel": kernel.place, "step": step, "text": text}
        return read_forms(kernel.name, kernel.engine, self._ask(order)["form"])

    def ready(self, kernel: Kernel, batch_ns: float) -> int:
        """Prepare a kernel for timing, and return how many calls make a batch."""
        order = {"do": "ready", "kernel": kernel.place, "batch_ns": batch_ns}
        return int(self._ask(order)["calls"])

    def time(self, kernel: Kernel, calls: int, lead: int) -> float:
        """Return the time of one call in ns, after `lead` that are not timed."""
        order = {"do": "time", "kernel": kernel.place, "calls": calls, "lead": lead}
        return float(self._ask(order)["ns"])

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        self._process.say(order)
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        reply = self._process.hear()
        if "error" in reply:
            raise SideError(f"{self.side}: {reply['error']}", hint=reply["hint"])
        return reply
