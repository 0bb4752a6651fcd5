"""The attributes of a call, as the clauses of a policy read them."""

from collections.abc import Mapping

from gateway.call.request import GeneratingRequest
from routing.policy.attributes import Attributes
from routing.types import AUTO_MODEL, Call

USE_CASE = "use_case"
"""The key of a request's `metadata` that names its use case."""
HOUR_S, HOURS, WEEKDAYS, EPOCH_WEEKDAY = 3600, 24, 7, 3


def attributes_of(
    call: Call,
    request: GeneratingRequest,
    params_b: Mapping[str, float],
    remaining_usd: float,
    now_s: float,
) -> Attributes:
    """All of them. `params_b` are billions of parameters by model, as far as they are known."""
    hours = int(now_s // HOUR_S)
    is_named = call.model_requested != AUTO_MODEL
    return {
        "req.model": call.model_requested,
        "req.service_tier": call.tier.value,
        "req.est_tokens": max([call.prompt_tokens[model] for model in call.models]),
        "req.max_tokens": call.output_tokens_max,
        "req.stream": call.stream,
        "req.tools": request.has_tools,
        "req.use_case": request.metadata.get(USE_CASE, ""),
        "req.metadata": request.metadata,
        "tenant.organization": call.organization,
        "tenant.project": call.project,
        "tenant.key": call.key,
        "tenant.tier": call.tenant_tier,
        "budget.remaining_usd": remaining_usd,
        "model.name": call.models[0] if is_named else AUTO_MODEL,
        "model.params_b": max([params_b.get(model, 0.0) for model in call.models]),
        "time.hour": hours % HOURS,
        "time.weekday": (hours // HOURS + EPOCH_WEEKDAY) % WEEKDAYS,
    }
