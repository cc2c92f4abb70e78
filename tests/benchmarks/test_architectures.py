"""Drawn architectures of transformers: the frozen list, its programs, sizes that are cut."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.programs import architectures, drawing
from benchmarks.programs import run as running
from benchmarks.programs.catalog import CHANGES, SCRIPTS

sys.path[:0] = ["benchmarks"]
page_programs: Any = importlib.import_module("page_programs")
del sys.path[0]

ENTRY: dict[str, Any] = {
    "type": "some", "class": "SomeForCausalLM", "auto": "AutoModelForCausalLM",
    "module": "transformers.models.some.modeling_some", "parameters": 10, "batch": 4, "length": 8,
    "sizes": {"vocab_size": 101}, "tiny": {"vocab_size": 101}, "without": {},
    "convolutions": True, "eager": True, "odd_vocabulary": True,
}  # fmt: skip
IDS = {"input_ids": "torch.randint(0, 101, (BATCH, LENGTH))"}
LABELS = {"labels": "torch.randint(0, 101, (BATCH, LENGTH))"}
LIBRARY = """
from types import SimpleNamespace
import torch

class AutoConfig:
    @staticmethod
    def for_model(kind, **sizes):
        config = SimpleNamespace(**sizes)
        config.get_text_config = lambda: config
        return config

class Outputs(dict):
    loss = property(lambda self: self["loss"])

class AutoModelForCausalLM(torch.nn.Module):
    @classmethod
    def from_config(cls, config, attn_implementation):
        print("built", config.vocab_size, attn_implementation)
        return cls(config.vocab_size)

    def __init__(self, words):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(words, 8), torch.nn.Linear(8, words)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.table(input_ids))
        if labels is None:
            return Outputs(ids=input_ids, logits=logits)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Outputs(loss=loss, logits=logits)
"""


def test_frozen_draw_is_of_both_modes_and_names_what_it_left_out() -> None:
    """Each class is there once; a change that does not run is one that applies."""
    record = json.loads(architectures.DRAWN.read_text())
    drawn = record["drawn"]
    assert len(drawn) <= drawing.COUNT
    assert record["seed"] == drawing.SEED
    assert re.fullmatch(r"[0-9a-f]{64}", record["analyzer"])
    names = [each["class"] for each in drawn]
    assert len(set(names)) == len(names)
    folders = {each["module"].split(".")[2] for each in drawn}
    assert len(folders) == len(drawn)
    assert not folders & drawing.DEVELOPED
    assert not {each["type"] for each in drawn} & set(record["refused"])
    assert all(record["refused"].values())
    for entry in drawn:
        assert set(entry["without"]) < set(architectures.offered(entry))
        assert entry["parameters"] <= drawing.MOST_PARAMETERS
        assert entry["expected_ms"] <= drawing.SLOWEST_MS
    trained = sum(each["mode"] == "train" for each in drawn)
    assert len(drawn) / 4 < trained < len(drawn) * 3 / 4


def test_scripts_of_the_draw_have_the_switches_that_they_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs come in drawn order; their changes are of the catalog."""
    monkeypatch.setattr(architectures, "absent", lambda _: "")  # imports the library
    found, _ = architectures.programs(tmp_path)
    assert [each.name.split("_")[0] for each in found] == [
        entry["class"].split("_")[0] for entry in architectures.entries()
    ]
    for entry, program in zip(architectures.entries(), found, strict=True):
        text = program.script.read_text()
        ast.parse(text)
        assert set(re.findall(r'changed\("(.+?)"\)', text)) == set(architectures.offered(entry))
        assert set(program.changes) == set(architectures.offered(entry)) - set(entry["without"])
        assert set(program.changes) <= set(CHANGES)
        assert "(**batch)" in text


@pytest.mark.usefixtures("forked_of_torch")
@pytest.mark.parametrize(("mode", "inputs"), [
    ("train", {**IDS, **LABELS}), ("train", IDS), ("infer", IDS),
])  # fmt: skip
def test_a_script_runs_with_all_its_changes(
    mode: str, inputs: dict[str, str], tmp_path: Path
) -> None:
    """The loss is the labels' or that of the first floating tensor; switches reach the library."""
    pytest.importorskip("torch")
    (tmp_path / "transformers.py").write_text(LIBRARY)
    (tmp_path / "stepping.py").write_text((SCRIPTS / "stepping.py").read_text())
    program = architectures.program({**ENTRY, "mode": mode, "inputs": inputs}, tmp_path)
    results = []
    for changes in ((), tuple(each for each in program.changes if each != "cuda-graph")):
        environment = {
            **os.environ, "PROGRAM_DEVICE": "cpu", "PROGRAM_TINY": "1",
            "PROGRAM_CHANGE": ",".join(changes), "PYTHONPATH": str(tmp_path),
        }  # fmt: skip
        done = subprocess.run([sys.executable, str(program.script)], env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"built {'128 sdpa' if changes else '101 eager'}" in done.stdout
        results.append(float(done.stdout.split("result ")[1]))
    assert results[0] > 0
    assert results[0] == pytest.approx(results[1], rel=0.5)


class Config(SimpleNamespace):
    """A configuration as the library has them."""

    sub_configs: dict[str, type] = {"text_config": SimpleNamespace}  # noqa: RUF012


def test_sizes_are_halved_by_one_rule_in_all_parts() -> None:
    """Layers of every part go together, none below the least; other sizes stay."""
    text = Config(num_hidden_layers=5, hidden_size=64, num_experts=40)
    config = Config(depths=[2, 2, 18, 2], num_layers=2, text_config=text)
    layers, experts = drawing._LAYERS, drawing._EXPERTS
    assert drawing.cut(config, {}, layers, 4) == {
        "depths": [1, 1, 9, 1], "text_config": {"num_hidden_layers": 4}
    }  # fmt: skip
    assert drawing.cut(config, {"a": 1}, experts, 16) == {
        "a": 1,
        "text_config": {"num_experts": 20},
    }
    assert drawing.cut(config, {}, experts, 40) == {}


def test_drawn_tokens_are_no_special_ones() -> None:
    """They come from the longest run of ids between those that a configuration names."""
    text = Config(pad_token_id=0, eos_token_id=70)
    assert drawing._span(Config(image_token_index=90, text_config=text), 100) == "1, 70"


def test_what_the_installed_library_lacks_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is started; the record names the draw that it is of."""
    monkeypatch.setattr("importlib.util.find_spec",
                        lambda name: None if "." in name else object())  # fmt: skip
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.2")
    output = tmp_path / "found.json"
    words = ["run.py", "--architectures", "--device", "cpu", "--part", "2/24", "-o", str(output)]
    monkeypatch.setattr(sys, "argv", words)
    assert running.main() == 0
    record = json.loads(output.read_text())
    entry = architectures.entries()[1]
    assert record["skipped"] == {
        f"{entry['class']}_{entry['mode']}": f"transformers 1.2 has no {entry['type']}"
    }
    assert record["architectures"] == architectures.hash_of()


def test_sources_of_models_have_draws_of_their_own() -> None:
    """One analyzer may judge a draw of each; they stand in sections apart."""
    record = {"circumstances": {"device": "H200", "date": "2026-11-30 08:00"}, "skipped": {},
              "frozen": {"analyzer": "0123"}, "rows": []}  # fmt: skip
    lines = [*page_programs.others_page([{**record, key: "1"} for key in
                                         ("problems", "architectures")])]  # fmt: skip
    assert [each for each in lines if each.startswith("## ")] == [
        "## transformers, draw 1", "## KernelBench, draw 1", "## All changes"
    ]  # fmt: skip
