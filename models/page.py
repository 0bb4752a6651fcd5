"""The record as a page of Markdown; it computes nothing."""

from typing import Any

from models.sizes import LARGE, SIZES, SMALL
from models.tokenizer import CONTEXT_TOKENS


def as_markdown(record: dict[str, Any]) -> str:
    corpus = record["corpus"]
    small, large = record["models"]
    ended = {n: sum(row[n]["ended"] for row in record["answers"]) for n in SIZES}
    rows = [
        ("parameters", f"{small['parameters']:,}", f"{large['parameters']:,}"),
        ("safetensors, fp16", _megabytes(small), _megabytes(large)),
        ("width, layers, feed-forward", _shape(small), _shape(large)),
        ("heads, key-value heads", _heads(small), _heads(large)),
        ("seed", small["size"]["seed"], large["size"]["seed"]),
        ("peak learning rate", small["size"]["learning_rate"], large["size"]["learning_rate"]),
        ("tokens of a step, at most", *(m["size"]["batch_tokens"] for m in (small, large))),
        ("steps", small["run"]["steps"], large["run"]["steps"]),
        ("tokens seen, padding included", _tokens(small), _tokens(large)),
        ("wall time, one CPU thread", _minutes(small), _minutes(large)),
        ("training loss, nats per token", _train_loss(small), _train_loss(large)),
        (
            "**held-out loss, nats per token**",
            f"**{small['held_out_loss_nats']:.4f}**",
            f"**{large['held_out_loss_nats']:.4f}**",
        ),
        ("answers that end by themselves", f"{ended[SMALL.name]}/20", f"{ended[LARGE.name]}/20"),
        ("price, input, USD per million tokens", _usd(small, "input"), _usd(large, "input")),
        ("price, output, USD per million tokens", _usd(small, "output"), _usd(large, "output")),
    ]
    table = "\n".join(f"| {label} | {one} | {two} |" for label, one, two in rows)
    answers = "\n".join(_answer_markdown(n, row) for n, row in enumerate(record["answers"], 1))
    return f"""# Training record

Written by `python -m models.record`; `python -m models.record --check` computes every loss and
every answer again. `python -m models.train` trains both models from nothing.

**Text:** {corpus["source"]}. **Licence of the text:** {corpus["licence"]}. The checkpoints are
Apache-2.0 like the rest of the repository. Seed {corpus["seed"]}; {corpus["train_samples"]:,}
samples for training ({corpus["train_characters"] / 1e6:.1f} million characters) and
{corpus["held_out_samples"]:,} held out, of which {corpus["held_out_samples_measured"]} are
measured. A sample is held out by the hash of its text, so no held-out text is in the training
text; both come from one generator, so the loss says how well the generator is learned and no more.
The training loss is the mean of the last 200 steps. Losses count what the assistant says and its
end token, but for what a form decides. The text differs from that of earlier records, and so do
its losses: names, numbers and words that nobody has seen can only be copied.

| | {SMALL.name} | {LARGE.name} |
|---|---|---|
{table}

Both share one byte-level BPE tokenizer of 2048 tokens, a context of {CONTEXT_TOKENS:,} tokens, Muon
for the matrices of the layers and AdamW for the rest (betas 0.9 and 0.98; weight decay 0.05), 3 %
warm-up and a cosine to 2 % of the peak, gradients clipped at 1, all in float32. A row longer than
a step's tokens is a step by itself.
{_notes(small, large)}
## Twenty prompts

Greedy answers in float32. None of these prompts is part of a user turn in the training text, though
other wordings of the same questions are.

{answers}"""


def _notes(*models: dict[str, Any]) -> str:
    """The notes of the runs that have one."""
    notes = [model["run"]["note"] for model in models if "note" in model["run"]]
    return "".join(f"\n{note}\n" for note in notes)


def _answer_markdown(number: int, row: dict[str, Any]) -> str:
    lines = [f"### {number}. {row['prompt']}", ""]
    for name in SIZES:
        answer = row[name]
        end = "ended" if answer["ended"] else "cut off"
        lines += [f"**{name}** ({answer['tokens']} tokens, {end}): {answer['text']}", ""]
    return "\n".join(lines)


def _megabytes(model: dict[str, Any]) -> str:
    return f"{model['safetensors_bytes'] / 1e6:.1f} MB"


def _shape(model: dict[str, Any]) -> str:
    return ", ".join(str(model["size"][key]) for key in ("width", "layers", "feed_forward"))


def _heads(model: dict[str, Any]) -> str:
    return f"{model['size']['heads']}, {model['size']['key_value_heads']}"


def _tokens(model: dict[str, Any]) -> str:
    return f"{model['run']['tokens_seen'] / 1e6:.1f} M"


def _minutes(model: dict[str, Any]) -> str:
    return f"{model['run']['wall_s'] / 60:.1f} min"


def _train_loss(model: dict[str, Any]) -> str:
    return f"{model['run']['train_loss_nats']:.4f}"


def _usd(model: dict[str, Any], side: str) -> str:
    return f"{model['size'][f'price_{side}_nanousd_per_mtok'] / 1e9:.2f}"
