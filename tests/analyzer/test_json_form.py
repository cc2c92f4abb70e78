"""A report as JSON: every field, and the page that says what each is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.analyzer.made import FILE, Made, program, remark
from tests.analyzer.reports import finding, recorded, report_with
from tests.analyzer.test_account import claim, made
from tests.analyzer.test_account import steps as device_steps
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.json_form import account_json, phases_json, steps_json, to_json
from tileprof.analyzer.program.phases import Phase
from tileprof.analyzer.program.training_steps import Parts, TrainingSteps
from tileprof.analyzer.reasons import reasons
from tileprof.analyzer.shortfalls import Shortfall
from tileprof.errors import Location
from tileprof.remarks.copies import LoadsAndStores, RowStride, Tma
from tileprof.remarks.products import ExtentMultiple, GemmInstruction, InstructionCandidate

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def fields(value: Any, name: str = "") -> Iterator[str]:
    """The names of all fields of a document: `findings[].gain.kernel`."""
    if name.endswith(("remark", "_facts")):
        yield name  # what it has inside is declared by its code
        return
    if isinstance(value, dict):
        if name.endswith(("location", "account")):
            yield name  # which may be null
        for key, held in value.items():
            yield from fields(held, f"{name}.{key}".lstrip("."))
        return
    yield name.removesuffix("[]")
    if isinstance(value, list):
        for each in value:
            yield from fields(each, f"{name}[]") if isinstance(each, dict) else ()


def test_the_page_names_every_field() -> None:
    """No more, no less."""
    document = to_json(report_with(finding("suggestion", gain=1.5)))
    assert document["steps"] is None
    place, inside = Location("train.py", 8), np.zeros(1, bool)
    steps = TrainingSteps(3, 8.0, "host", Parts(1.0, 2.0, 0.0, 4.0, 1.0), place, inside)
    document["steps"] = steps_json(steps)
    assert document["phases"] == []
    document["phases"] = phases_json([Phase("training", 24.0, place)])
    assert document["account"] is None
    held, nodes = device_steps()
    account = made(held, claim(0.1, nodes["memory"]))
    limits: dict[Shortfall, float] = {"layout": 1.0}
    kernels = tuple(replace(each, shortfalls=limits) for each in account.kernels)
    account = replace(account, shortfalls=tuple(limits.items()), kernels=kernels)
    document["account"] = account_json(account)
    table = PAGE.read_text().partition("## As JSON")[2]
    told = re.findall(r"^\| `(\S+)` \|", table, re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(told) == set(fields(document))


def test_a_finding() -> None:
    """All that is known of it."""
    document = to_json(report_with(finding("suggestion", "b", gain=1.5), finding("warning", "c")))
    first, second = document["findings"]
    assert first == {
        "rule": "b",
        "severity": "suggestion",
        "title": "what `b` is about",
        "place": {
            "path": ["main", "step", "matmul"],
            "kernel": "matmul",
            "op": "copy A → A_shared",
            "location": {"file": FILE, "line": 7, "function": ""},
            "sass": [64, 128],
        },
        "evidence": {
            "static": [
                {
                    "tier": "static",
                    "text": "rows of 200 bytes are no multiple of 16",
                    "samples": 0,
                    "remark": None,
                }
            ],
            "dynamic": [
                {
                    "tier": "samples",
                    "text": "31.0 % of the samples wait for it",
                    "samples": 12_400,
                    "remark": None,
                }
            ],
        },
        "gain": {"kernel": [1.25, 1.5, 2.0], "program": [1.0, 1.25, 1.5]},
        "confidence": "medium",
        "suggestion": {
            "author": "Pad rows to 16 bytes.",
            "compiler": "See why its rows have such a length.",
        },
        "fixes": [],
    }
    assert second["gain"] == {"kernel": None, "program": None}


def test_what_stands_around_findings() -> None:
    """Kernels with all suggestions together, runs, reasons."""
    document = to_json(report_with(finding("suggestion", "b", gain=1.5)))
    assert document["schema"] == 2
    assert document["tiers"] == ["static", "activities"]
    (kernel,) = document["kernels"]
    assert (kernel["name"], kernel["device"], kernel["time"]) == ("matmul", "cuda:0", 1e6)
    assert (kernel["share"], kernel["launches"], kernel["findings"]) == (1, 1, 1)
    assert kernel["together"] == [1.5, 1.8, 2.5]
    (run,) = document["runs"]
    assert (run["tier"], run["rules"]) == ("samples", ["b"])
    (reason,) = document["reasons"]
    assert (reason["op"], reason["candidate"], reason["kernels"]) == ("copy", "tma", 1)


@pytest.mark.parametrize("name", ["h200-stalls", "h200-gemm"])
def test_it_is_json(name: str) -> None:
    """Numbers and texts of Python's own, no infinity among them."""
    document = to_json(recorded(name))
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_reasons_come_by_the_time_of_their_kernels() -> None:
    """Those that differ in a number are one; a kernel counts once for each."""
    narrow, narrower = (RowStride(stride, 16, "TMA") for stride in (200, 72))
    short, wgmma = ExtentMultiple("M", 32, 64), InstructionCandidate("wgmma")
    copies = [
        remark(f"copy {name}", line, LoadsAndStores(), (Tma(), why))
        for name, line, why in (("A → B", 2, narrow), ("X → Y", 5, narrower))
    ]
    gemm = remark("gemm", 8, GemmInstruction("mma", "m16n8k16 warps=1x1"), (wgmma, short))
    kernels = (
        Made("a", 1e6, remarks=[copies[0]] * 2),
        Made("b", 3e6, remarks=[copies[1]]),
        Made("c", 9e6, remarks=[gemm]),
    )
    found = reasons(Program(program(*kernels)).kernels)
    assert [(each.op, each.candidate, each.time, each.kernels) for each in found] == [
        ("gemm", wgmma, 9e6, 1),
        ("copy", Tma(), 4e6, 2),
    ]
    assert (found[1].kernel, found[1].reason) == ("b", narrower)


def test_the_public_name() -> None:
    """As documentation has it."""
    assert tileprof.analyze is analyze
    assert "analyze" in tileprof.__all__
