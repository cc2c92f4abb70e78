"""The worker of one side: finds the kernels of the suite, and answers until it is asked to end.

    other     {"do": "begin"}                          load the suite
    worker    {"kernels": [{"name", "engine"}], "skipped": [{"name", "why"}], "facts": {…}}
    other     {"do": "form", "kernel", "controls", "passes"}
    worker    {"form": {…}}                            every form of the kernel
    other     {"do": "resume", "kernel", "step", "text"}
    worker    {"form": {…}}                            forms behind a step, from this text
    other     {"do": "ready", "kernel", "batch_ns"}    make arguments, and warm up
    worker    {"calls": n}                             calls of a batch
    other     {"do": "time", "kernel", "calls", "lead"}
    worker    {"ns": t}
    other     {"do": "end"}

A kernel is named by its place in the list. What goes wrong is `{"error", "hint"}`, and the worker
stays.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import random
import runpy
import sys
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from . import of_tileprof, of_triton, timing
from .cases import Case, Refused, Wanted

_NAME = "__compiled__"
"""Name of the suite's module; like a script's, it is no module's that could be imported."""
_MOST_CALLS = 1000
_MISSING = "Install the module in this environment, or add its folder to PYTHONPATH."


class _Worker:
    def __init__(self, orders: dict[str, Any]) -> None:
        self._suite = orders["suite"]
        self._folder = orders["folder"]
        self._wanted = Wanted(
            orders["target"], orders["device"], self._suite["values"], orders["controls"],
            os.path.dirname(os.path.abspath(self._suite["file"])), orders["seed"],
        )  # fmt: skip
        self.cases: list[Case] = []
        self._skipped: list[dict[str, str]] = []
        self._calls: dict[int, Any] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and return what came of it."""
        if order["do"] == "begin":
            return self._begin()
        case, wanted = self.cases[order["kernel"]], order["do"]
        if wanted == "form":
            return {"form": case.form(order["controls"], order["passes"])}
        if wanted == "resume":
            if case.resume is None:
                raise Refused(f"kernels of {case.engine} cannot be taken up in the middle")
            return {"form": case.resume(order["step"], order["text"])}
        if wanted == "ready":
            call = case.call()
            call()
            self._calls[order["kernel"]] = call
            return {"calls": timing.batch_size(call, order["batch_ns"], _MOST_CALLS)}
        call = self._calls[order["kernel"]]
        return {"ns": timing.batch_ns(call, order["calls"], order["lead"])}

    def _begin(self) -> dict[str, Any]:
        of_triton.prepare(self._folder)
        random.seed(self._wanted.seed)
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy").random.seed(self._wanted.seed)
        if self._wanted.device.startswith("cuda"):
            torch: Any = importlib.import_module("torch")
            torch.cuda.init()
            torch.manual_seed(self._wanted.seed)
        {"file": self._load_file, "script": self._run_script, "module": self._run_script}[
            self._suite["kind"]
        ]()
        return {
            "kernels": [{"name": each.name, "engine": each.engine} for each in self.cases],
            "skipped": self._skipped,
            "facts": self._facts(),
        }

    def _facts(self) -> dict[str, str]:
        """Return the versions that are in use, and where the compilers lie."""
        found = {"Python": sys.version.split()[0]}
        for name, title in (("tileprof", "tileprof"), ("triton", "Triton")):
            module = sys.modules.get(name)
            if module is not None:
                found[title] = str(getattr(module, "__version__", ""))
                found[f"{title} file"] = str(module.__file__)
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            found["PyTorch"] = str(torch.__version__)
            if torch.cuda.is_initialized():
                found["GPU"] = torch.cuda.get_device_name()
        return found

    # -- a file with kernels or functions

    def _load_file(self) -> None:
        unknown = self._set_controls()
        members = _load(self._suite["file"])
        names = self._suite["names"]
        every = not names
        for name in names or [n for n, v in members.items() if _is_kernel(v)]:
            if name not in members:
                raise Refused(f"{self._suite['file']} has no kernel or function `{name}`",
                              _held_names(members))  # fmt: skip
            try:
                self.cases += self._cases_of(name, members[name])
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if not every:
                    raise
                self._skipped.append({"name": name, "why": _said(error)})
        self._refuse(unknown)

    def _set_controls(self) -> tuple[str, ...]:
        """Set options of this side for kernels of tileprof; return those that it has not."""
        if not self._wanted.controls or not _finds("tileprof"):
            return ()
        return of_tileprof.set_controls(self._wanted.controls)

    def _refuse(self, unknown: tuple[str, ...]) -> None:
        """Refuse options that the compiler of the kernels has not. Where kernels of both are
        compared, each takes those that it knows."""
        engines = {each.engine for each in self.cases}
        if engines == {"triton"} and self._wanted.controls:
            of_triton.refuse_unknown(self._wanted)
        if engines == {"tileprof"} and unknown:
            raise Refused(
                f"this version of tileprof has no control `{unknown[0]}`",
                "`tileprof compile --control x=1` lists those of a version.",
            )

    def _cases_of(self, name: str, found: Any) -> list[Case]:
        for engine in (of_tileprof, of_triton):
            if engine.is_kernel(found):
                cases: list[Case] = engine.cases_of(name, found, self._wanted)
                return cases
        if not callable(found):
            raise Refused(f"`{name}` is neither a kernel nor a function")
        values = {
            n: v
            for n, v in self._suite["values"].items()
            if n in inspect.signature(found).parameters
        }
        made: Any = None
        with self._capturing() as launched:
            made = found(**values)
        if not launched and of_tileprof.is_kernel(made):
            return of_tileprof.cases_of(name, made, self._wanted)
        if not launched:
            raise Refused(f"`{name}` launches no kernel of tileprof or Triton")
        return launched

    @contextlib.contextmanager
    def _capturing(self) -> Iterator[list[Case]]:
        cases: list[Case] = []
        with contextlib.ExitStack() as stack:
            held = [
                stack.enter_context(engine.capturing(self._wanted))
                for name, engine in (("tileprof", of_tileprof), ("triton", of_triton))
                if _finds(name) and not (name == "triton" and self._wanted.target == "cpu")
            ]
            yield cases
        for each in held:
            cases += each

    # -- a script

    def _run_script(self) -> None:
        unknown = self._set_controls()
        file = self._suite["file"]
        sys.argv = [file, *self._suite["arguments"]]
        with self._capturing() as cases:
            try:
                if self._suite["kind"] == "module":
                    runpy.run_module(self._suite["file"], run_name="__main__", alter_sys=True)
                else:
                    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
                    runpy.run_path(file, run_name="__main__")
            except SystemExit as ending:
                if ending.code not in (None, 0):
                    raise Refused(f"the script ended with exit code {ending.code}") from None
        if not cases:
            raise Refused(
                "the script launches no kernel of tileprof or Triton",
                "Kernels of PyTorch and other libraries are not compared.",
            )
        self.cases += cases
        self._refuse(unknown)


def _is_kernel(value: Any) -> bool:
    return of_tileprof.is_kernel(value) or of_triton.is_kernel(value)


def _held_names(members: dict[str, Any]) -> str:
    names = sorted(n for n, v in members.items() if _is_kernel(v))
    return f"Its kernels are: {', '.join(names)}." if names else "It has no kernels."


def _finds(name: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(name) is not None
    return False


def _load(file: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(_NAME, file)
    if spec is None or spec.loader is None:
        raise Refused(f"{file} is not a Python file", "Its name has to end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    sys.modules[_NAME] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        hint = _MISSING if isinstance(error, ModuleNotFoundError) else ""
        raise Refused(f"{file} cannot be imported: {_said(error)}", hint) from error
    return vars(module)


def _said(error: BaseException) -> str:
    if isinstance(error, Refused):
        return str(error)
    if any(each.__name__ == "TileprofError" for each in type(error).__mro__):
        return str(getattr(error, "message", error))
    return f"{type(error).__name__}: {error}".removesuffix(": ").split("\n")[0]


def _hint(error: BaseException) -> str:
    return str(getattr(error, "hint", ""))


def main(path: str, number: int) -> int:
    """Answer orders until asked to end, or until the other side is gone."""
    with open(path, encoding="utf-8") as file:
        worker = _Worker(json.load(file))
    os.set_inheritable(number, False)
    pipe = Connection(number)
    while True:
        try:
            order = json.loads(pipe.recv_bytes())
        except EOFError:
            return 0
        if order["do"] == "end":
            return 0
        try:
            reply = worker.answer(order)
        except KeyboardInterrupt:
            return 130
        except BaseException as error:
            traceback.print_exc()
            reply = {"error": _said(error), "hint": _hint(error)}
        pipe.send_bytes(json.dumps(reply).encode())


def start() -> None:
    """Begin, with what stands on the command line."""
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
