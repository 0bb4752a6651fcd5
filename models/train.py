"""Trains the two checkpoints from nothing: `python -m models.train [--minutes 45] [--only NAME]`.

It owns the order of things: corpus, tokenizer, steps, saving. The run is a function of its seeds
and its number of steps; when `--minutes` is over before the steps are, the learning rate has come
down by then all the same, and the outcome says how many steps were taken.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random

import torch
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from models.batches import Batch, draw_batches, encode_rows, fixed_batches
from models.checkpoint import save_checkpoint
from models.corpus import Split, draw_split, text_of
from models.growth import grow
from models.learner import Learner, schedule, start_learner
from models.loss import mean_loss_over
from models.network import build_network, parameter_count
from models.prompts import PROMPTS
from models.sizes import SIZES, Size
from models.tokenizer import train_tokenizer

CORPUS_SEED = 7
SAMPLES = 64_000
TOKENIZER_SAMPLES = 20_000
HELD_OUT_SAMPLES = 800
RECENT_STEPS = 200
LOG_EVERY_STEPS = 50
SAVE_EVERY_S = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    parameters: int
    seed: int
    steps: int
    tokens_seen: int
    train_loss_nats: float
    held_out_loss_nats: float
    wall_s: float
    torch: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """The inputs of one training run."""

    size: Size
    tokenizer: PreTrainedTokenizerFast
    batches: Iterator[Batch]
    held_out: list[Batch]
    out: Path
    limit_s: float
    resume: bool
    grown_from: Size | None


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    split = draw_corpus()
    tokenizer = load_or_train_tokenizer(split, options.out)
    for size in [SIZES[options.only]] if options.only else SIZES.values():
        if not options.minutes:
            save_checkpoint(build_network(size, tokenizer), tokenizer, options.out / size.name)
            continue
        lesson = prepare(size, split, tokenizer, options)
        outcome = train(lesson, time.monotonic)
        path = options.out / f"{size.name}.outcome.json"
        path.write_text(json.dumps(asdict(outcome), indent=2) + "\n")


def draw_corpus() -> Split:
    return draw_split(Random(CORPUS_SEED), SAMPLES, PROMPTS)


def load_or_train_tokenizer(split: Split, out: Path) -> PreTrainedTokenizerFast:
    """One tokenizer for both models, trained on the first call and kept under `out/.state`."""
    folder = out / ".state" / "tokenizer"
    if not folder.exists():
        texts = (text_of(sample) for sample in islice(split.train, TOKENIZER_SAMPLES))
        train_tokenizer(text for text in texts if text.isascii()).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def held_out_batches(split: Split, tokenizer: PreTrainedTokenizerFast) -> list[Batch]:
    rows = encode_rows(split.held_out[:HELD_OUT_SAMPLES], tokenizer)
    return fixed_batches(rows, tokenizer.pad_token_id)


def prepare(
    size: Size, split: Split, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
) -> Lesson:
    return Lesson(
        size=size,
        tokenizer=tokenizer,
        batches=draw_batches(split.train, tokenizer, Random(size.seed), size.batch_tokens),
        held_out=held_out_batches(split, tokenizer),
        out=options.out,
        limit_s=options.minutes * 60,
        resume=options.resume,
        grown_from=SIZES[options.grown_from] if options.grown_from else None,
    )


def train(lesson: Lesson, now: Callable[[], float]) -> Outcome:
    """Train until the steps of the size or `limit_s` are used up, whichever is first."""
    size, state = lesson.size, lesson.out / ".state" / f"{lesson.size.name}.pt"
    torch.manual_seed(size.seed)
    network = build_network(size, lesson.tokenizer)
    if lesson.grown_from is not None:
        _grow(lesson.grown_from, network, lesson)
    learner = start_learner(network, size.learning_rate)
    if lesson.resume and state.exists():
        learner.load(state)
    _say(size, f"{parameter_count(learner.network):,} parameters, from step {learner.step}")

    started = now() - learner.spent_s
    saved = now()
    losses: list[float] = []
    for batch in islice(lesson.batches, learner.step, None):
        progress = max(learner.step / size.steps, learner.spent_s / lesson.limit_s)
        if progress >= 1:
            break
        losses.append(learner.learn(batch, size.learning_rate * schedule(progress)))
        learner.spent_s = now() - started
        if learner.step % LOG_EVERY_STEPS == 0:
            _say(size, _progress_line(learner, progress, losses[-LOG_EVERY_STEPS:]))
        if now() - saved > SAVE_EVERY_S:
            saved = now()
            save_checkpoint(learner.network, lesson.tokenizer, lesson.out / size.name)
            learner.save(state)
    held_out_loss = _save(lesson, learner)
    learner.save(state)
    return Outcome(
        name=size.name,
        parameters=parameter_count(learner.network),
        seed=size.seed,
        steps=learner.step,
        tokens_seen=learner.tokens,
        train_loss_nats=_mean(losses[-RECENT_STEPS:]),
        held_out_loss_nats=held_out_loss,
        wall_s=learner.spent_s,
        torch=torch.__version__,
    )


def _grow(smaller: Size, network: LlamaForCausalLM, lesson: Lesson) -> None:
    """Begin with the smaller network as it was last saved."""
    state = torch.load(lesson.out / ".state" / f"{smaller.name}.pt")
    grown = build_network(smaller, lesson.tokenizer)
    grown.load_state_dict(state["network"])
    grow(grown, network, torch.Generator().manual_seed(lesson.size.seed))
    _say(lesson.size, f"grown from {smaller.name}, step {state['step']}")


def _save(lesson: Lesson, learner: Learner) -> float:
    """Write the checkpoint, and return its held-out loss."""
    save_checkpoint(learner.network, lesson.tokenizer, lesson.out / lesson.size.name)
    loss = mean_loss_over(learner.network, lesson.held_out)
    _say(lesson.size, f"saved; held-out loss {loss:.4f} nats per token")
    return loss


def _progress_line(learner: Learner, progress: float, losses: list[float]) -> str:
    pace = learner.tokens / learner.spent_s
    return (
        f"step {learner.step:5d}  {progress:6.1%}  loss {_mean(losses):.4f}"
        f"  {pace:6.0f} tokens/s  {learner.spent_s / 60:5.1f} min"
    )


def _say(size: Size, line: str) -> None:
    print(f"{size.name}: {line}", flush=True)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("models"))
    parser.add_argument("--minutes", type=float, default=45.0, help="at most, for each model")
    parser.add_argument("--only", choices=sorted(SIZES))
    parser.add_argument("--grown-from", choices=sorted(SIZES), help="begin as this saved network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the state saved last")
    return parser.parse_args()


if __name__ == "__main__":
    main()
