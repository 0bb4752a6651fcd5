"""What the record must show of the two models, as lists of sentences that are empty when all is
well."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.answer import Answer

TOKENS_MIN = 20
ENDED_SHARE_MIN = 0.9
SAME_SHARE_MAX = 0.1
WORDS_OF_A_REPEAT = 8
PARAMETER_RATIO_MIN = 4


@dataclass(frozen=True, slots=True)
class Pair:
    prompt: str
    small: Answer
    large: Answer


@dataclass(frozen=True, slots=True)
class Measure:
    parameters: int
    held_out_loss_nats: float


def broken_laws(pairs: Sequence[Pair], small: Measure, large: Measure) -> list[str]:
    return [*_broken_by_sizes(small, large), *_broken_by_answers(pairs)]


def repeats(text: str, length: int = WORDS_OF_A_REPEAT) -> bool:
    """Whether any run of `length` words comes twice."""
    words = text.casefold().split()
    runs = [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]
    return len(set(runs)) < len(runs)


def _broken_by_sizes(small: Measure, large: Measure) -> Iterator[str]:
    if large.parameters < PARAMETER_RATIO_MIN * small.parameters:
        yield f"the larger model has less than {PARAMETER_RATIO_MIN} times the parameters"
    if large.held_out_loss_nats >= small.held_out_loss_nats:
        yield "the larger model has no lower held-out loss"


def _broken_by_answers(pairs: Sequence[Pair]) -> Iterator[str]:
    same = [pair.prompt for pair in pairs if pair.small.text == pair.large.text]
    if len(same) > SAME_SHARE_MAX * len(pairs):
        yield f"both models give the same answer to {same}"
    for pair in pairs:
        for one in (pair.small, pair.large):
            if one.tokens < TOKENS_MIN:
                yield f"an answer of {one.tokens} tokens to {pair.prompt!r}"
            if repeats(one.text):
                yield f"an answer repeats {WORDS_OF_A_REPEAT} words: {pair.prompt!r}"
    for name, answers in (("small", [p.small for p in pairs]), ("large", [p.large for p in pairs])):
        if sum(a.ended for a in answers) < ENDED_SHARE_MIN * len(answers):
            yield f"too many answers of the {name} model do not end"
