"""Draw architectures of the `transformers` library, and try each on the CPU.

    python -m benchmarks.programs.drawing [--count 24] [--jobs 2] [--known FILE] [-o FILE]

In: the library's auto mappings and a seed.  Out: `architectures.json`, with the entries that run,
their sizes and inputs, and every type that was drawn and does not, with the reason.  Nobody chooses
a model: types come in drawn order, those of a folder of models once, and the auto class is drawn
among those that the type has.  Training and inference alternate.

Sizes are the defaults of the configuration class.  Where weights with their gradients and what
AdamW keeps are too large, or a step would take too long, experts, layers and vocabulary are cut by
half in this order, the same for all.  An input is the first of a few general ones that runs.
A draw that was cut off goes on with `--known`, the file that it has written so far.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import io
import itertools
import json
import multiprocessing
import os
import random
import resource
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.analyzer_hash import analyzer_hash
from benchmarks.programs import architectures
from benchmarks.programs.catalog import SCRIPTS

SEED = 1
"""The draw's seed."""
COUNT = 24
DEVELOPED = frozenset({"bert", "gpt2", "llama", "t5", "vit"})
"""Folders of models that programs of `scripts` use, on which rules were developed."""
MOST_PARAMETERS = 6e8
"""Largest model: training takes 9.6 GB between steps, and nine processes have to fit a GPU."""
FASTEST_MS, SLOWEST_MS = 2.0, 150.0
"""Shortest and longest step that is drawn, as estimated here."""
WORK = 4e12
"""Floating-point operations that a batch is made for, about 0.1 s on an H200 in fp32."""
MOST_BATCH = 8
LONGEST = 512
"""Tokens of a text."""
_FLOPS, _BYTES, _LAUNCH_S = 45e12, 3.5e12, 8e-6
"""Rates of an H200, in operations of fp32 products and in bytes a second, and host time of a
launch in seconds; estimates."""
_LIMIT_S = 600.0
_PROCESSOR_S = 60
"""Seconds that an attempt may take of a processor."""
_ADDRESSES = 14 << 30
"""Bytes of address space that an attempt may take."""
_LAYERS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers",
    "num_decoder_layers", "num_encoder_layers", "encoder_num_layers", "depth", "depths", "layers",
)  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CUTS = ((_EXPERTS, 16), (_LAYERS, 4), (("vocab_size",), 16384), (_LAYERS, 2))
"""Names of sizes with the least that each is cut to, in the order in which they are cut."""
_INNER = ("intermediate_size", "moe_intermediate_size", "ffn_dim", "encoder_ffn_dim",
          "decoder_ffn_dim", "d_ff", "ffn_hidden_size")  # fmt: skip
_TINY = ((_EXPERTS, 16), (_LAYERS, 2), (_INNER, 256))
"""The same for a test, with widths that nothing else depends on."""
_LABELS = {
    "MODEL": "", "MODEL_FOR_CAUSAL_LM": "tokens", "MODEL_FOR_MASKED_LM": "tokens",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM": "target", "MODEL_FOR_SPEECH_SEQ_2_SEQ": "target",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT": "tokens", "MODEL_FOR_TOKEN_CLASSIFICATION": "classes",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION": "class", "MODEL_FOR_IMAGE_CLASSIFICATION": "class",
    "MODEL_FOR_AUDIO_CLASSIFICATION": "class", "MODEL_FOR_VIDEO_CLASSIFICATION": "class",
    "MODEL_FOR_CTC": "target",
}  # fmt: skip
"""Auto mappings among which a type's class is drawn, with the kind of their labels."""
_TOO_MUCH = "too much memory or time on a CPU"
_TWICE = "its folder was drawn before, or is that of one of our programs"
_WITH_VOCABULARY = ("_LM", "_TEXT", "_SEQ")
Json: TypeAlias = dict[str, Any]


class UnfitError(Exception):
    """An architecture that is left out, with the reason."""


def _library(name: str) -> Any:
    """Import a module of PyTorch or transformers, which other programs do without."""
    return import_module(name)


def _parts(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a configuration and those inside it, with their paths."""
    yield path, config
    for name, value in vars(config).items():
        if name in config.sub_configs and hasattr(value, "sub_configs"):
            yield from _parts(value, (*path, name))


def _changed(sizes: Json, path: tuple[str, ...], value: Any) -> Json:
    """Return nested sizes with one of them changed."""
    first, *rest = path
    return {**sizes, first: _changed(sizes.get(first, {}), tuple(rest), value) if rest else value}


def cut(config: Any, sizes: Json, names: tuple[str, ...], least: int) -> Json:
    """Return sizes with every size of these names halved, none to less than `least`."""
    for path, part in _parts(config):
        for name in names:
            value = vars(part).get(name)
            if isinstance(value, int) and value > least:
                sizes = _changed(sizes, (*path, name), max(least, value // 2))
            elif isinstance(value, list) and max(value, default=0) > least:
                sizes = _changed(sizes, (*path, name), [max(1, each // 2) for each in value])
    return sizes


def _smallest(config: Callable[[Json], Any], sizes: Json) -> Json:
    """Return sizes for a test."""
    for names, least in _TINY:
        while (less := cut(config(sizes), sizes, names, least)) != sizes:
            sizes = less
    return sizes


def _special(config: Any) -> set[int]:
    """Return ids of tokens that mean something to a model."""
    return {
        value
        for _, part in _parts(config)
        for name, value in vars(part).items()
        if name.endswith(("token_id", "token_index", "_id")) and isinstance(value, int)
    }


def _span(config: Any, vocabulary: int) -> str:
    """Return the bounds of the longest run of token ids that mean nothing special, as text."""
    ends = sorted({-1, vocabulary} | {each for each in _special(config) if 0 <= each < vocabulary})
    begin, end = max(itertools.pairwise(ends), key=lambda pair: pair[1] - pair[0])
    return f"{begin + 1}, {end}"


def _first(config: Any, *names: str) -> Any:
    """Return the first attribute of these names that a configuration or one inside it has."""
    for name in names:
        for _, part in _parts(config):
            if (value := getattr(part, name, None)) is not None:
                return value
    return None


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, dict):
        return int(value["height"]), int(value["width"])
    height, width = value if isinstance(value, (list, tuple)) else (value, value)
    return int(height), int(width)


def _media(config: Any, names: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], float]]:
    """Yield inputs of images or sound that a model may take, each with its length in tokens."""
    if "pixel_values" in names:
        height, width = _pair(_first(config, "image_size", "img_size") or 224)
        channels = _first(config, "num_channels", "in_channels", "in_chans") or 3
        frames = _first(config, "num_frames")
        extents = (*([frames] if frames else []), channels, height, width)
        tokens = height * width / 256 * (frames or 1)
        yield {"pixel_values": f"torch.randn(BATCH, {', '.join(map(str, extents))})"}, tokens
    mels = _first(config, "num_mel_bins", "input_feat_per_channel", "feature_size")
    if "input_features" in names and mels:
        frames = 2 * (_first(config, "max_source_positions") or 500)
        for shape in (f"{mels}, {frames}", f"{frames}, {mels}"):
            yield {"input_features": f"torch.randn(BATCH, {shape})"}, frames / 2
    if "input_values" in names:
        if mels and (length := _first(config, "max_length")):
            yield {"input_values": f"torch.randn(BATCH, {length}, {mels})"}, length * mels / 200
        for shape in ("80000", "1, 80000"):
            yield {"input_values": f"torch.randn(BATCH, {shape})"}, 250


def _images(config: Any, model: Any, media: dict[str, str]) -> tuple[int, int] | None:
    """Return the token that stands for an image's features, and how many an image has."""
    token = _first(config, "image_token_id", "image_token_index")
    if token is None or not hasattr(model, "get_image_features"):
        return None
    torch = _library("torch")
    with torch.no_grad():
        values = eval(media["pixel_values"], {"torch": torch, "BATCH": 1})
        found = model.get_image_features(pixel_values=values)
    found = getattr(found, "pooler_output", found)
    parts = found if isinstance(found, (list, tuple)) else [found]
    return token, sum(each.numel() // each.shape[-1] for each in parts)


def _texts(
    config: Any, names: Mapping[str, Any], labels: str, image: tuple[int, int] | None = None
) -> dict[str, str]:
    """Return the inputs of tokens that a model takes, and the labels that belong to its class."""
    found = dict[str, str]()
    vocabulary = getattr(config.get_text_config(), "vocab_size", None)
    more = f"{image[1]} + " if image else ""
    if "input_ids" in names and vocabulary:
        ids = f"torch.randint({_span(config, vocabulary)}, (BATCH, LENGTH))"
        if image:
            ids = f"torch.cat([torch.full((BATCH, {image[1]}), {image[0]}), {ids}], 1)"
        found["input_ids"] = ids
        if "attention_mask" in names:
            some = "torch.randint(LENGTH // 2, LENGTH + 1, (BATCH, 1))"
            found["attention_mask"] = f"(torch.arange({more}LENGTH) < {more}{some}).long()"
    bounds = _span(config, vocabulary) if vocabulary else ""
    if "decoder_input_ids" in names and labels != "target" and vocabulary:
        found["decoder_input_ids"] = f"torch.randint({bounds}, (BATCH, LENGTH // 4))"
    if labels and "labels" in names:
        found["labels"] = {
            "tokens": f"torch.randint({bounds}, (BATCH, {more}LENGTH))",
            "target": f"torch.randint({bounds}, (BATCH, LENGTH // 4))",
            "classes": f"torch.randint(0, {config.num_labels}, (BATCH, {more}LENGTH))",
            "class": f"torch.randint(0, {config.num_labels}, (BATCH,))",
        }[labels]
    return found


def _inputs(
    config: Any, model: Any, names: Mapping[str, Any], labels: str
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield inputs that a model may take, each with its length in tokens."""
    length = _length(config)
    for media, tokens in _media(config, names):
        image = _images(config, model, media) if "pixel_values" in media else None
        texts = _texts(config, names, labels, image)
        yield {**media, **texts}, tokens + ("input_ids" in texts) * length
    if "input_ids" in names:
        yield _texts(config, names, labels), length


def _length(config: Any) -> int:
    most = getattr(config.get_text_config(), "max_position_embeddings", None)
    return min(LONGEST, most) if isinstance(most, int) and most > 0 else LONGEST


def _made(inputs: Mapping[str, str], batch: int, length: int) -> dict[str, Any]:
    """Return the tensors of inputs."""
    known = {"torch": _library("torch"), "BATCH": batch, "LENGTH": length}
    return {name: eval(each, known) for name, each in inputs.items()}


def _estimate(model: Any, inputs: Mapping[str, str], entry: Json, tokens: float) -> Json:
    """Estimate a step on an H200 from a run on the meta device, or from parameters where that does
    not go: operations, floating-point operations, milliseconds."""
    torch = _library("torch")
    counter = _library("torch.utils.flop_counter").FlopCounterMode(display=False)
    mode: Any = _library("torch.utils._python_dispatch").TorchDispatchMode
    count = 0

    class Counted(mode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += 1
            return func(*args, **(kwargs or {}))

    trained = entry["mode"] == "train"
    try:
        with torch.no_grad():
            batch = _made(inputs, entry["batch"], entry["length"])
            # Of a mask, models read whether it masks anything, which the meta device cannot say.
            with counter, Counted():
                model(
                    **{
                        name: each.to("meta")
                        for name, each in batch.items()
                        if name != "attention_mask"
                    }
                )
        flops, source = float(counter.get_total_flops()), "meta"
    except Exception:
        flops, source = 2.0 * entry["products"] * tokens * entry["batch"], "parameters"
        count = 8 * sum(1 for each in model.modules() if not list(each.children()))
    moved = entry["parameters"] * (48 if trained else 4)  # weights, gradients, AdamW's passes
    device = flops * (3 if trained else 1) / _FLOPS + moved / _BYTES
    host = count * (2.5 if trained else 1) * _LAUNCH_S
    return {"operations": count, "flops": flops, "estimated_by": source,
            "expected_ms": round(1e3 * max(device, host), 1)}  # fmt: skip


def _forms(kind: str, mapping: str) -> tuple[Callable[[Json], Any], Callable[[Any, str], Any]]:
    """Return how a type's configuration is made of sizes, and its model of the two."""
    library, torch = _library("transformers"), _library("torch")
    auto = getattr(library, _auto(mapping))

    def config(sizes: Json) -> Any:
        return library.AutoConfig.for_model(kind, **sizes)

    def model(config: Any, device: str) -> Any:
        with torch.device(device):
            return auto.from_config(config)

    return config, model


def _auto(mapping: str) -> str:
    """Return the auto class of a mapping, as users write it."""
    auto = _library("transformers.models.auto.modeling_auto")
    wanted = getattr(auto, f"{mapping}_MAPPING")
    names: list[str] = [
        name
        for name, each in vars(auto).items()
        if name.startswith("AutoModel") and getattr(each, "_model_mapping", None) is wanted
    ]
    return min(names)


def attempt(kind: str, mapping: str, mode: str, eager: bool) -> Json:
    """Return the entry of an architecture, or raise why there is none."""
    torch = _library("torch")
    torch.set_num_threads(1)
    config_of, model_of = _forms(kind, mapping)
    sizes: Json = {}
    config = config_of(sizes)
    if "SEQUENCE_CLASSIFICATION" in mapping and config.get_text_config().pad_token_id is None:
        sizes["pad_token_id"] = 0
    entry: Json = {"type": kind, "auto": _auto(mapping), "mode": mode}
    trained = mode == "train"
    cuts, inputs = list(_CUTS), None
    while True:
        config = config_of(sizes)
        model = model_of(config, "meta")
        entry["parameters"] = sum(each.numel() for each in model.parameters())
        entry["products"] = entry["parameters"] - sum(
            each.weight.numel() for each in model.modules() if isinstance(each, torch.nn.Embedding)
        )
        if entry["parameters"] <= MOST_PARAMETERS:
            if inputs is None:
                inputs, tokens = _runnable(entry, config_of, model_of, sizes, _LABELS[mapping])
            entry["length"] = _length(config)
            work = entry["products"] * tokens * (6 if trained else 2)
            entry["batch"] = MOST_BATCH
            while entry["batch"] > 1 and work * entry["batch"] > WORK:
                entry["batch"] //= 2
            entry.update(_estimate(model, inputs, entry, tokens))
            if entry["expected_ms"] < FASTEST_MS:
                raise UnfitError(f"a step would take {entry['expected_ms']} ms")
            if entry["expected_ms"] <= SLOWEST_MS:
                break
            why = f"a step would take {entry['expected_ms']:.0f} ms"
        else:
            why = f"{entry['parameters'] / 1e9:.1f}e9 parameters"
        while cuts and (less := cut(config, sizes, *cuts[0])) == sizes:
            cuts.pop(0)
        if not cuts:
            raise UnfitError(f"{why} with the least sizes that are cut to")
        sizes = less
    vocabulary = getattr(config.get_text_config(), "vocab_size", 0) or 0
    convolutions = [
        each
        for each in model.modules()
        if isinstance(each, torch.nn.Conv2d) and each.groups < each.in_channels
    ]
    return {
        **entry, "class": type(model).__name__, "module": type(model).__module__,
        "sizes": sizes, "tiny": _smallest(config_of, sizes), "inputs": inputs,
        "convolutions": len(convolutions) > 3 and "pixel_values" in inputs,
        "eager": eager and bool(model._supports_sdpa),
        "odd_vocabulary": bool(vocabulary % 64) and any(
            each in mapping for each in _WITH_VOCABULARY),
    }  # fmt: skip


def _runnable(
    entry: Json, config_of: Callable[[Json], Any], model_of: Callable[[Any, str], Any],
    sizes: Json, labels: str,
) -> tuple[dict[str, str], float]:  # fmt: skip
    """Return the first inputs with which a small model runs, and their length in tokens."""
    torch = _library("torch")
    config = config_of(_smallest(config_of, sizes))
    trained = entry["mode"] == "train"
    model = model_of(config, "cpu").train(trained)
    names = dict(inspect.signature(model.forward).parameters)
    why = f"no general input for {', '.join(list(names)[:4])}"
    kind = labels if trained else ""
    try:
        for inputs, tokens in _inputs(config, model, names, kind):
            try:
                with torch.set_grad_enabled(trained):
                    outputs = model(**_made(inputs, 2, 16))
                if trained:
                    found = [each for each in outputs.values() if isinstance(each, torch.Tensor)]
                    next(each for each in found if each.is_floating_point()).mean().backward()
            except Exception as error:
                why = _said(error)
            else:
                return inputs, tokens
    except Exception as error:
        why = _said(error)
    raise UnfitError(why)


def _said(error: BaseException) -> str:
    """Return an error's kind and first line."""
    if isinstance(error, UnfitError):
        return str(error)
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:300]


def apart(work: Callable[[], Any], seconds: float = _LIMIT_S) -> Any:
    """Do something in a forked process, and return its result.

    Raises:
        UnfitError: it raised, ended, or took longer.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def run(end: Connection) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                end.send((True, work()))
        except BaseException as error:
            end.send((False, _said(error)))
        os._exit(0)

    process = context.Process(target=run, args=(theirs,))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise UnfitError(f"not over after {seconds:.0f} s on a CPU")
        good, found = ours.recv()
    except EOFError:
        raise UnfitError(_TOO_MUCH) from None
    finally:
        process.kill()
        process.join()
    if not good:
        raise UnfitError(found)
    return found


def dry(entry: Json, folder: Path, *changes: str) -> None:
    """Run the script of an entry with tiny sizes and some changes, or with none."""
    sys.modules.pop("stepping", None)
    os.environ.update(PROGRAM_TINY="1", PROGRAM_DEVICE="cpu", PROGRAM_CHANGE=",".join(changes))
    runpy.run_path(str(architectures.program(entry, folder).script), run_name="__main__")


def tried(entry: Json) -> Json:
    """Run an entry with its changes, and return it with those that do not run, and why.

    All changes go together first, which is mostly enough; a CUDA graph needs a GPU.

    Raises:
        Exception: it does not run as it is.
    """
    entry = {**entry, "without": {}}
    found = dict[str, str]()
    changes = [each for each in architectures.offered(entry) if each != "cuda-graph"]
    with tempfile.TemporaryDirectory(prefix="drawn") as scratch:
        shutil.copy(SCRIPTS / "stepping.py", scratch)
        sys.path.insert(0, scratch)
        try:
            dry(entry, Path(scratch), *changes)
        except Exception:
            dry(entry, Path(scratch))
            for each in changes:
                try:
                    dry(entry, Path(scratch), each)
                except Exception as error:
                    found[each] = _said(error)
    return {**entry, "without": found}


def draw_all(
    count: int, jobs: int, known: Json, keep: Callable[[list[Json], dict[str, str]], None]
) -> None:
    """Keep the first `count` entries of the draw that run, and by type why others do not.

    `known` is the record of a draw by this seed that was cut off; its types are not tried again,
    but for those that took too long then.
    """
    entries = {each["type"]: each for each in known.get("drawn", ())}
    refusals = {kind: why for kind, why in known.get("refused", {}).items() if why != _TOO_MUCH}
    auto = _library("transformers.models.auto.modeling_auto")
    folder_of = _library("transformers.models.auto.configuration_auto").model_type_to_module_name
    held, refused, seen = list[Json](), dict[str, str](), set[str](DEVELOPED)
    draw = random.Random(SEED)
    kinds = sorted(auto.MODEL_MAPPING_NAMES)
    draw.shuffle(kinds)
    waiting = list[tuple[str, Future[Json] | None]]()
    with ThreadPoolExecutor(jobs) as pool:
        for number, kind in enumerate(kinds):
            mapping = draw.choice([name for name in _LABELS
                                   if kind in getattr(auto, f"{name}_MAPPING_NAMES")])  # fmt: skip
            mode, eager = ("train", "infer")[number % 2], draw.random() < 0.5
            work = partial(_entry, kind, mapping, mode, eager)
            tries = folder_of(kind) not in seen and kind not in entries and kind not in refusals
            waiting.append((kind, pool.submit(apart, work) if tries else None))
            seen.add(folder_of(kind))
        for kind, future in waiting:
            try:
                if kind in refusals or (future is None and kind not in entries):
                    raise UnfitError(refusals.get(kind, _TWICE))
                held.append(entry := future.result() if future else entries[kind])
                print(f"{len(held)} {entry['class']} {entry['mode']}: {entry['expected_ms']} ms,"
                      f" {entry['parameters'] / 1e6:.0f}e6 parameters, {entry['sizes']},"
                      f" without {entry['without']}", flush=True)  # fmt: skip
            except UnfitError as error:
                refused[kind] = str(error)
                print(f"  {kind}: {error}", flush=True)
            keep(held, refused)
            if len(held) == count:
                break
        pool.shutdown(wait=False, cancel_futures=True)


def _entry(kind: str, mapping: str, mode: str, eager: bool) -> Json:
    return tried(attempt(kind, mapping, mode, eager))


def main() -> int:
    """Draw, try, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--jobs", type=int, default=2, help="architectures tried at once")
    parser.add_argument("--known", type=Path, metavar="FILE", help="go on with this draw")
    parser.add_argument("-o", "--output", type=Path, default=architectures.DRAWN)
    args = parser.parse_args()
    # Children are forked with what they need.
    for name in ("torch._dynamo", "torch.utils.flop_counter", "transformers.modeling_utils"):
        _library(name)
    gc.freeze()  # else each child goes through all that was imported, again and again
    os.environ["HF_HUB_OFFLINE"] = "1"

    analyzer = analyzer_hash()

    def keep(held: list[Json], refused: dict[str, str]) -> None:
        record = {
            "seed": SEED,
            "transformers": _library("transformers").__version__,
            "torch": _library("torch").__version__,
            "analyzer": analyzer,
            "frozen": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            "drawn": held,
            "refused": refused,
        }
        args.output.write_text(json.dumps(record, indent=1) + "\n")

    known = json.loads(args.known.read_text()) if args.known else {}
    draw_all(args.count, args.jobs, known, keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
