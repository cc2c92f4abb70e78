"""Forms of a compiled kernel: everything between its Python source and its launch.

In: what a worker sent, or files that Triton left.  Out: `Forms`. Nothing here is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tileprof.errors import UsageError

from .inside.of_triton import RESULTS

Engine: TypeAlias = Literal["tileprof", "triton"]

_BANNER = re.compile(r"^// ?-----// .*$", re.M)
_DUMP = re.compile(r"// -----// IR Dump Before (?P<name>[^({\n:]+)(?P<rest>.*)$")
_PLACE = re.compile(r"\('[\w.]+' operation.*$")
_STAGES = {".ttir": "TTIR", ".ttgir": "TTGIR", ".llir": "LLVM IR"}


@dataclass(frozen=True, slots=True)
class Step:
    """A program as it is after one step of its compilation."""

    name: str
    """Name of the pass or stage."""
    text: str


@dataclass(frozen=True, slots=True)
class Forms:
    """Every form of one kernel on one side; empty where it is not known."""

    kernel: str
    engine: Engine
    source: str
    """Python source, with that of functions that the kernel calls."""
    specialisation: Mapping[str, str]
    """Type, constant and attributes of each argument."""
    options: Mapping[str, str]
    """Lowering controls, or Triton's options."""
    ir: tuple[Step, ...]
    """The program as lowered from Python, and after each pass of the IR of tiles."""
    code: tuple[Step, ...]
    """Code made of the IR: CUDA C++ with its headers, C++, or TTGIR and LLVM IR."""
    flags: tuple[str, ...]
    """Flags of the compiler that takes the code."""
    ptx: str
    cubin: bytes
    launch: Mapping[str, str]
    tools: Mapping[str, str]
    """Versions of what compiles the code."""
    passes: tuple[Step, ...] = ()
    """Triton's program in front of each pass of MLIR, in order."""
    missing: str = ""
    """Package that is not installed and whose forms are therefore missing."""


def read_forms(kernel: str, engine: Engine, sent: Mapping[str, Any]) -> Forms:
    """Return the forms that a worker sent."""
    return Forms(
        kernel,
        engine,
        sent.get("source", ""),
        sent.get("specialisation", {}),
        sent.get("options", {}),
        tuple(Step(*each) for each in sent.get("ir", ())),
        tuple(Step(*each) for each in sent.get("code", ())),
        tuple(sent.get("flags", ())),
        sent.get("ptx", ""),
        bytes.fromhex(sent.get("cubin", "")),
        sent.get("launch", {}),
        sent.get("tools", {}),
        tuple(dumped(sent.get("dump", ""))),
        sent.get("missing", ""),
    )


def dumped(text: str) -> Iterator[Step]:
    """Yield the programs that `MLIR_ENABLE_DUMP=1` prints, each with the pass it stands before.

    The name has the pass's options, as Triton since 3.6 prints them: a pass that is given other
    options is another one.
    """
    heads = list(_BANNER.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends):
        found = _DUMP.match(head[0])
        if found is None:  # a program in the middle of a pass
            continue
        rest = _PLACE.sub("", found["rest"]).strip(" :-/")
        options = rest[rest.find("{") :] if "{" in rest else ""
        name = f"{found['name'].strip()} {options}".strip()
        yield Step(name, text[head.end() : end])


def stored_forms(folder: Path) -> list[Forms]:
    """Return the forms of each kernel in a folder that Triton cached or dumped (`TRITON_CACHE_DIR`,
    `TRITON_DUMP_DIR`), the oldest first; UsageError where there are none."""
    found: list[tuple[float, Forms]] = []
    for path in sorted(folder.rglob("*.ttir")):
        texts = {s: path.with_suffix(s) for s in (*_STAGES, ".ptx", ".cubin", ".json")}
        held = {suffix: _read(file) for suffix, file in texts.items()}
        metadata = _metadata(held[".json"], texts[".json"])
        stages = [Step(_STAGES[s], held[s].decode(errors="replace")) for s in _STAGES if held[s]]
        ptx = held[".ptx"].decode(errors="replace")
        found.append(
            (
                path.stat().st_mtime,
                Forms(
                    path.stem, "triton", "", {}, _options(metadata), tuple(stages[:1]),
                    tuple(stages[1:]), (), ptx, held[".cubin"], _launch(metadata),
                    _tools(metadata, ptx),
                ),
            )
        )  # fmt: skip
    if not found:
        raise UsageError(
            f"{folder} holds no kernels",
            hint="A folder is a source tree, an environment, or what Triton cached "
            "(TRITON_CACHE_DIR) or dumped (TRITON_KERNEL_DUMP=1 with TRITON_DUMP_DIR).",
        )
    return [forms for _, forms in sorted(found, key=lambda each: each[0])]


def has_stored(folder: Path) -> bool:
    """Return whether Triton left kernels in a folder."""
    return next(folder.rglob("*.ttir"), None) is not None


def _options(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in metadata.items() if name not in RESULTS}


def _launch(metadata: Mapping[str, Any]) -> dict[str, str]:
    if not metadata:
        return {}
    warps = metadata.get("num_warps")
    return {
        "threads": str(warps * (metadata.get("warp_size") or 32)) if warps else "",
        "dynamic shared bytes": str(metadata.get("shared", "")),
    }


def _tools(metadata: Mapping[str, Any], ptx: str) -> dict[str, str]:
    found = {"Triton": str(metadata.get("triton_version", ""))}
    version = re.search(r"^\.version\s+(\S+)", ptx, re.M)
    if version:
        found["PTX"] = version[1]
    return {name: text for name, text in found.items() if text}


def _metadata(content: bytes, path: Path) -> Mapping[str, Any]:
    if not content:
        return {}
    try:
        held = json.loads(content)
    except ValueError:
        raise UsageError(
            f"{path} is not JSON", hint="Leave the folder as Triton wrote it."
        ) from None
    return held if isinstance(held, dict) else {}


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def named(forms: Sequence[Forms]) -> dict[str, Forms]:
    """Return forms by name; a second kernel of the same name is `name #2`."""
    counts: dict[str, int] = {}
    found = {}
    for each in forms:
        counts[each.kernel] = count = counts.get(each.kernel, 0) + 1
        found[each.kernel if count == 1 else f"{each.kernel} #{count}"] = each
    return found
