"""Models that a call left after it was decided, and why. Pure.

A decision names every model that the rule may end on. A model that has not counted the prompt
itself, or that the tenant's money does not cover, is ruled out before admission.
"""

from gateway.call.model_limits import narrowed
from routing.types import Decision

LeftOut = tuple[tuple[str, str], ...]
"""Models, each with its reason."""


def models_left_out(decided: Decision, admitted: Decision) -> LeftOut:
    """What the second decision rules out and the first one did not."""
    if admitted is decided:
        return ()
    before = {(each.pool, each.model) for each in decided.eligible}
    ruled = [each for each in admitted.candidates if not each.eligible]
    return tuple(sorted({(e.model, e.reason) for e in ruled if (e.pool, e.model) in before}))


def without(decision: Decision, left_out: LeftOut) -> Decision:
    for model, reason in left_out:
        others = {each.model for each in decision.candidates} - {model}
        decision = narrowed(decision, others, reason)
    return decision
