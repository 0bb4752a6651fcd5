"""Prompts of a call that may end on several models: one tokenizer estimates them for all, and a
model's own counts where money may be held for it.

A tokenizer takes about a millisecond for a thousand tokens. Guards two laws: a model on which a
call may end has counted the prompt itself, and a call makes at most `OWN_COUNTS_MAX` such counts
after the first, unless its prompt is nearly as long as a context.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.call.context import cut, held_tokens, require_countable, room_for
from gateway.call.model_limits import narrowed, only
from gateway.call.open_call import Quote
from gateway.call.request import GeneratingRequest
from gateway.catalog.catalog import Catalog
from gateway.catalog.tokenizers import ByteBound, TokenCounter
from gateway.errors import ApiError
from routing.types import Call, Decision, Model

OWN_COUNTS_MAX = 2
"""Tokenizers: that of the chosen model, and that of one to fall back on."""
SPREAD = 3
"""One tokenizer makes at most so many times as many tokens of a text as another. Whether a prompt
fits is not left to an estimate that could be wrong about it by so much."""
NOT_COUNTED = "its tokenizer was not asked: models of others come before it"

Lengths = Sequence[int]
"""Tokens of each prompt."""


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """By model. Those of `estimated` were counted by the tokenizer of another model."""

    of: Mapping[str, Lengths]
    estimated: frozenset[str]


def lengths_of(
    models: Sequence[Model],
    counters: Mapping[str, TokenCounter],
    request: GeneratingRequest,
    body_bytes: int,
) -> PromptLengths:
    """The tokenizer that most models share counts first. One of several models that cannot be asked
    this (it knows no tools, say) is passed over as long as another can. Raises ApiError 400."""
    payload, lengths, estimated = request.payload, dict[str, Lengths](), set[str]()
    countable, refusals = [], []
    for model in models:
        try:
            require_countable(model, payload, body_bytes)
            countable.append(model)
        except ApiError as refused:
            refusals.append(refused)
    estimate: Lengths | None = None
    for counter, sharing in _by_counter(countable, counters):
        names = [model.name for model in sharing]
        if estimate is not None and not _is_own_needed(counter, sharing, estimate, request):
            lengths |= dict.fromkeys(names, estimate)
            estimated.update(names)
            continue
        try:
            sizes = payload.prompt_tokens(counter)
        except ApiError as refused:
            refusals.append(refused)
            continue
        lengths |= dict.fromkeys(names, sizes)
        estimate = estimate or sizes
    if not lengths:
        raise refusals[0]
    in_order = {model.name: lengths[model.name] for model in models if model.name in lengths}
    return PromptLengths(in_order, frozenset(estimated))


def units_of(request: GeneratingRequest, prompts: Mapping[str, Lengths]) -> dict[str, int]:
    """By model the most units that a call comes to."""
    sold = request.sold_by
    if sold is None:
        return {}
    return {model: sold.units(lengths) for model, lengths in prompts.items()}


def _by_counter(
    models: Iterable[Model], counters: Mapping[str, TokenCounter]
) -> list[tuple[TokenCounter, list[Model]]]:
    """Bounds by bytes come last: no other model's tokens are told from them."""
    sharing: dict[TokenCounter, list[Model]] = {}
    for model in models:
        sharing.setdefault(counters[model.name], []).append(model)
    return sorted(sharing.items(), key=lambda each: (isinstance(each[0], ByteBound), -len(each[1])))


def _is_own_needed(
    counter: TokenCounter, sharing: Iterable[Model], estimate: Lengths, request: GeneratingRequest
) -> bool:
    """Bytes are counted at once. Else where a model's context is so near that it decides."""
    if isinstance(counter, ByteBound):
        return True
    longest, answer = max(estimate), request.output_tokens_max or 1
    return any(
        longest / SPREAD + answer <= model.context_tokens < longest * SPREAD + answer
        for model in sharing
    )


def counted(
    call: Call, quote: Quote, decision: Decision, request: GeneratingRequest, catalog: Catalog
) -> tuple[Call, Quote, Decision]:
    """The call on models that have counted its prompt themselves: those that had already, and the
    first ones of the decision. Raises ApiError 400 where none of these can be asked this."""
    if not call.estimated:
        return call, quote, decision
    counts = _OwnCounts(request, catalog)
    for candidate in decision.eligible:
        if candidate.model in call.estimated:
            counts.add(candidate.model)
    models = tuple([m for m in call.models if m not in call.estimated or m in counts.left])
    decision = narrowed(decision, models, NOT_COUNTED)
    if not decision.chosen.eligible:
        raise counts.refusals[0]
    call, quote = only(call, quote, models)
    return _sized(call, counts), quote, decision


@dataclass(slots=True)
class _OwnCounts:
    """`whole` and `left`, by model, before and after the call has its prompts truncated."""

    request: GeneratingRequest
    catalog: Catalog
    whole: dict[str, Lengths] = field(default_factory=dict)
    left: dict[str, Lengths] = field(default_factory=dict)
    refusals: list[ApiError] = field(default_factory=list)
    _of: dict[TokenCounter, Lengths] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Of this model too, if its tokenizer was asked already or may still be."""
        if name in self.left:
            return
        model, counter = self.catalog.models[name], self.catalog.counters[name]
        if counter not in self._of and len(self._of) == OWN_COUNTS_MAX:
            return
        try:
            whole = self._of.get(counter) or self.request.payload.prompt_tokens(counter)
            cut_sizes = cut(self.request, [model], {name: whole})[name]
            room_for(self.request, [model], {name: cut_sizes})
        except ApiError as refused:
            self.refusals.append(refused)
            return
        self._of[counter] = self.whole[name] = whole
        self.left[name] = cut_sizes


def _sized(call: Call, counts: _OwnCounts) -> Call:
    """With the lengths that are known by now, and the ceiling that all its models have room for."""
    request, models = counts.request, [counts.catalog.models[name] for name in call.models]
    before = call.longest_prompt_tokens or call.prompt_tokens
    longest = {**before} | {name: max(left) for name, left in counts.left.items()}
    room = room_for(request, models, {name: [tokens] for name, tokens in longest.items()})
    prompt_tokens = {
        model.name: held_tokens(model, counts.whole[model.name], counts.left[model.name])
        for model in models
        if model.name in counts.left
    }
    units = units_of(request, counts.whole)
    return call._replace(
        units={model: units.get(model, most) for model, most in call.units.items()},
        prompt_tokens={**call.prompt_tokens} | prompt_tokens,
        longest_prompt_tokens=longest,
        output_tokens_max=room.output_tokens_each * request.payload.choices,
        estimated=frozenset(),
    )
