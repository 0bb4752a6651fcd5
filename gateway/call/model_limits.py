"""Models of a call that limits or money leave out before it is admitted.

Pure. Where the own limits of the model that is chosen are used up, the others are asked in its
stead. A model that the money left does not cover is no second choice.
"""

from collections.abc import Container

import msgspec

from gateway.call.open_call import Quote
from routing.types import Call, Decision

NOT_COVERED = "what is left of its budget or credit covers the model that was chosen, not this one"


def without(call: Call, quote: Quote, model: str | None) -> tuple[Call, Quote] | None:
    """The call on the other models; None if there are none."""
    models = others(call, model)
    return only(call, quote, models) if models else None


def others(call: Call, model: str | None) -> tuple[str, ...]:
    """The models of the call but one; none where it is none of them."""
    models = tuple([m for m in call.models if m != model])
    return models if len(models) < len(call.models) else ()


def only(call: Call, quote: Quote, models: tuple[str, ...]) -> tuple[Call, Quote]:
    prices = {model: quote.prices[model] for model in models}
    return call._replace(models=models), msgspec.structs.replace(quote, prices=prices)


def without_dearest(
    call: Call, quote: Quote, decision: Decision, output_tokens: int
) -> tuple[Call, Quote, Decision] | None:
    """The call without the dearest model beside the chosen one, and without any where that is the
    dearest; None if there is no other."""
    chosen = decision.chosen.model
    behind = [model for model in call.models if model != chosen]
    if not behind:
        return None
    holds = {model: quote.hold_of(call, model, output_tokens) for model in call.models}
    dearest = max(behind, key=holds.__getitem__)
    models = tuple([model for model in call.models if model != dearest])
    if holds[dearest] <= holds[chosen]:
        models = (chosen,)
    return *only(call, quote, models), narrowed(decision, models, NOT_COVERED)


def narrowed(decision: Decision, models: Container[str], reason: str) -> Decision:
    """The decision with every other model ruled out, for this reason."""
    candidates = [
        c if c.model in models or not c.eligible else c._replace(eligible=False, reason=reason)
        for c in decision.candidates
    ]
    in_order = sorted(candidates, key=lambda candidate: not candidate.eligible)
    return decision._replace(candidates=tuple(in_order))
