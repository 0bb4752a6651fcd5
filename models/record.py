"""The training record: `python -m models.record` writes it and, with `--check`, proves it.

It owns RECORD.md and record.json and what they say of the corpus, the runs and the twenty answers.
Checking computes losses and answers again from the committed checkpoints.
"""

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models.answer import Answer, Speaker, answer, load_speaker
from models.corpus import LICENCE, Split, text_of
from models.laws import Measure, Pair, broken_laws
from models.loss import mean_loss_over
from models.network import parameter_count
from models.page import as_markdown
from models.prompts import PROMPTS
from models.sizes import LARGE, SIZES, SMALL
from models.train import CORPUS_SEED, HELD_OUT_SAMPLES, SAMPLES, draw_corpus, held_out_batches

LOSS_TOLERANCE_NATS = 2e-3


def main() -> int:
    options = _options()
    folder: Path = options.out
    speakers = {name: load_speaker(folder / name) for name in SIZES}
    split = draw_corpus()
    record = compose_record(folder, speakers, split)
    if options.check:
        problems = differences(json.loads((folder / "record.json").read_text()), record)
    else:
        problems = []
        (folder / "record.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        (folder / "RECORD.md").write_text(as_markdown(record))
    problems += broken_laws(read_pairs(record), read_measure(record, 0), read_measure(record, 1))
    print("\n".join(problems) or "the record holds")
    return 1 if problems else 0


def compose_record(folder: Path, speakers: dict[str, Speaker], split: Split) -> dict[str, Any]:
    return {
        "corpus": describe_corpus(split),
        "models": [describe_model(folder, speakers[name], split) for name in SIZES],
        "answers": [
            {"prompt": prompt}
            | {name: asdict(answer(speaker, prompt)) for name, speaker in speakers.items()}
            for prompt in PROMPTS
        ],
    }


def describe_corpus(split: Split) -> dict[str, Any]:
    return {
        "source": "models/corpus, a generator of simple stories, dialogues, forms and tool calls",
        "licence": LICENCE,
        "seed": CORPUS_SEED,
        "drawn": SAMPLES,
        "train_samples": len(split.train),
        "train_characters": sum(len(text_of(sample)) for sample in split.train),
        "held_out_samples": len(split.held_out),
        "held_out_samples_measured": HELD_OUT_SAMPLES,
    }


def describe_model(folder: Path, speaker: Speaker, split: Split) -> dict[str, Any]:
    """The size, the run, and the held-out loss of the checkpoint as it is on disk."""
    run = json.loads((folder / f"{speaker.name}.outcome.json").read_text())
    loss = mean_loss_over(speaker.network, held_out_batches(split, speaker.tokenizer))
    size = folder / speaker.name / "model.safetensors"
    return {
        "size": asdict(SIZES[speaker.name]),
        "parameters": parameter_count(speaker.network),
        "safetensors_bytes": size.stat().st_size,
        "dtype": "float16",
        "held_out_loss_nats": round(loss, 4),
        "run": run,
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    problems = []
    if old["corpus"] != new["corpus"]:
        problems.append("the corpus is another one")
    for was, now in zip(old["models"], new["models"], strict=True):
        loss_was, loss_now = was.pop("held_out_loss_nats"), now["held_out_loss_nats"]
        if not math.isclose(loss_was, loss_now, abs_tol=LOSS_TOLERANCE_NATS):
            problems.append(f"{was['size']['name']}: the held-out loss is {loss_now}")
        if was != {key: value for key, value in now.items() if key != "held_out_loss_nats"}:
            problems.append(f"{was['size']['name']}: the description has changed")
    for was, now in zip(old["answers"], new["answers"], strict=True):
        if was != now:
            problems.append(f"another answer to {now['prompt']!r}")
    return problems


def read_pairs(record: dict[str, Any]) -> list[Pair]:
    return [
        Pair(row["prompt"], Answer(**row[SMALL.name]), Answer(**row[LARGE.name]))
        for row in record["answers"]
    ]


def read_measure(record: dict[str, Any], index: int) -> Measure:
    model = record["models"][index]
    return Measure(model["parameters"], model["held_out_loss_nats"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("models"))
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
