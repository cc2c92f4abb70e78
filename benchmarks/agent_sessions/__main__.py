"""A scripted client makes ten slow kernels faster; writes results/agent-sessions.json.

    python -m benchmarks.agent_sessions [--device cuda|cpu] [--only RE] [-o FILE]

The client does the same for every kernel and knows nothing of it but its folder:

1. it records `work.py`, reads the report, and the first finding in full;
2. it lists the kernels of the profile, and tunes the one that takes most time, whose extents are in
   the answer;
3. it writes the winner into the first line of `work.py`, and records again;
4. it reads the difference of both recordings.

A change is accepted if the kernel takes at most 1 / 1.1 of its time in the second recording and the
program prints the same checksum.  Tokens are those of all requests, answers and of the list of
tools, by `tileprof.agent`'s estimate; one call is one request.  With the `mcp` package calls go
through a server, without it to the tools that the server calls.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tileprof
from benchmarks.agent_sessions.slow import SLOW, Slow
from tileprof.agent import Tools
from tileprof.agent.pages import tokens
from tileprof.agent.server import build_server
from tileprof.bench import read_gpu
from tileprof.errors import MissingDependencyError, TileprofError
from tileprof.files import replace_bytes
from tileprof.profile import Profile, load

RESULT = Path(__file__).parents[1] / "results" / "agent-sessions.json"
LEAST = 1.1
ROOT = str(Path(__file__).parents[2])

Call = Callable[[str, Mapping[str, Any]], str]


class Session:
    """A client's calls, each counted with its tokens."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.calls: list[dict[str, Any]] = []

    def ask(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        began = time.perf_counter()
        answer = self._call(tool, arguments)
        self.calls.append(
            {
                "tool": tool,
                "arguments": arguments,
                "request_tokens": tokens(json.dumps({"name": tool, "arguments": arguments})),
                "answer_tokens": tokens(answer),
                "seconds": time.perf_counter() - began,
            }
        )
        return answer

    @property
    def tokens(self) -> int:
        """Tokens of all requests and answers."""
        return sum(each["request_tokens"] + each["answer_tokens"] for each in self.calls)


class Refused(Exception):
    """The client found nothing that it could change."""


def improved(session: Session, folder: Path, slow: Slow, device: str) -> dict[str, Any]:
    """Do what the client does; returns what came of it."""
    before = _recorded(session, folder, "before.tprof", device)
    listed = session.ask("report", file="before.tprof")
    found = re.search(r"^(\S+-[0-9a-f]{6})  ", listed, re.MULTILINE)
    if found is not None:
        session.ask("report", file="before.tprof", finding=found[1])
    kernels = session.ask("remarks", file="before.tprof")
    hottest = re.search(r"^k0 .*\)  (\w+) on ", kernels, re.MULTILINE)
    if hottest is None:
        raise Refused("the profile has no kernel")
    fixed = {n: e for n, e in slow.extents(device).items() if n != "half"}
    asked: dict[str, Any] = {"kernel": f"kernels.py:{hottest[1]}", "set": {**fixed, **slow.static}}
    text = session.ask("tune", **asked, **({"device": "cpu"} if device == "cpu" else {}))
    winner = re.search(r"^(.*\S)\s+\S+ [µm]?s +.* winner$", text, re.MULTILINE)
    if winner is None:
        raise Refused("no winner in the first page")
    chosen = dict(word.split("=") for word in winner[1].split() if "=" in word)
    changed = {name: ast.literal_eval(value) for name, value in chosen.items()}
    work = folder / "work.py"
    first, _, rest = work.read_text().partition("\n")
    held = ast.literal_eval(first.partition(" = ")[2])
    work.write_text(f"CONFIGURATION = { {**held, **changed} }\n{rest}")
    after = _recorded(session, folder, "after.tprof", device)
    session.ask("diff", old="before.tprof", new="after.tprof")
    times = [_kernel_ns(load(folder / f"{n}.tprof"), hottest[1]) for n in ("before", "after")]
    same = before == after
    return {
        "changed": changed,
        "before_us": times[0] / 1e3,
        "after_us": times[1] / 1e3,
        "gain": times[0] / times[1],
        "same_checksum": same,
        "accepted": same and times[0] >= LEAST * times[1],
    }


def _recorded(session: Session, folder: Path, output: str, device: str) -> str:
    on = {"device": device} if device == "cpu" else {}
    answer = session.ask("record", script="work.py", output=output, **on)
    said = re.search(r"checksum (\S+)", answer)
    if said is None or not (folder / output).exists():
        raise Refused(f"nothing was recorded: {answer[-300:]}")
    return said[1]


def _kernel_ns(profile: Profile, name: str) -> float:
    """Return the mean time of a launch of a kernel."""
    time_ns, count = profile.total("time"), profile.total("count")
    kernels = profile.tables.kernels
    nodes = [n for n, k in profile.tables.node_kernels.items() if kernels[k].name == name]
    launches = sum(float(count[node]) for node in nodes)
    return sum(float(time_ns[node]) for node in nodes) / launches


def connected(folder: Path) -> tuple[Call, int, str]:
    """Return how tools are called, tokens of their list, and over what."""
    tools = Tools(folder)
    try:
        server = build_server(tools)
        import anyio
        import mcp
    except (MissingDependencyError, ImportError):
        names = {"try": tools.try_changes}

        def direct(tool: str, arguments: Mapping[str, Any]) -> str:
            return str(names.get(tool, getattr(tools, tool, None))(**arguments))  # type: ignore[misc]

        return direct, 0, "tools, without a server"

    def over(tool: str, arguments: Mapping[str, Any]) -> str:
        async def run() -> Any:
            async with mcp.Client(server, read_timeout_seconds=900) as client:
                return await client.call_tool(tool, dict(arguments))

        answer = anyio.run(run)
        text = "".join(each.text for each in answer.content)
        if answer.is_error:
            raise Refused(text)
        return text

    async def listed() -> Any:
        async with mcp.Client(server) as client:
            return (await client.list_tools()).tools

    described = json.dumps([each.model_dump(mode="json") for each in anyio.run(listed)])
    return over, tokens(described), "MCP"


def row_of(slow: Slow, device: str) -> dict[str, Any]:
    """Return the session of a kernel."""
    with tempfile.TemporaryDirectory(prefix="tileprof-agent-") as folder:
        slow.write(Path(folder), device)
        call, of_list, transport = connected(Path(folder))
        session = Session(call)
        try:
            came: dict[str, Any] = improved(session, Path(folder), slow, device)
        except (Refused, TileprofError) as error:
            came = {"accepted": False, "error": str(error)}
        return {
            "kernel": slow.kernel,
            "slow": dict(slow.configuration),
            "extents": dict(slow.extents(device)),
            **came,
            "calls": len(session.calls),
            "tokens": of_list + session.tokens,
            "tokens_of_the_list_of_tools": of_list,
            "transport": transport,
            "each": session.calls,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all sessions, and write the results after each."""

    parser = argparse.ArgumentParser(
        "benchmarks.agent_sessions", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", help="regular expression on kernels")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    paths = [ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of the recorded programs
    gpu = read_gpu() if options.device == "cuda" else None
    rows = []
    for slow in SLOW:
        if not re.search(options.only, slow.kernel):
            continue
        rows.append(row := row_of(slow, options.device))
        came = "accepted" if row["accepted"] else row.get("error", "not accepted")
        print(
            f"{slow.kernel}: {came}, "
            f"{row['calls']} calls, {row['tokens']:,} tokens, gain {row.get('gain', 1):.2f}",
            flush=True,
        )
        accepted = [each for each in rows if each["accepted"]]
        held = {
            "schema": 1,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": gpu.name if gpu else f"CPU, {platform.machine()}",
            "gpu": gpu and {"driver": gpu.driver, "sm_mhz": gpu.sm_mhz, "celsius": gpu.celsius},
            "python": platform.python_version(),
            "tileprof": tileprof.__version__,
            "summary": {
                "kernels": len(rows),
                "accepted": len(accepted),
                "most_calls": max((each["calls"] for each in accepted), default=None),
                "most_tokens": max((each["tokens"] for each in accepted), default=None),
            },
            "rows": rows,
        }
        replace_bytes(options.output, (json.dumps(held, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
