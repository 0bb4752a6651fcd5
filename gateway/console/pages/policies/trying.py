"""One call, tried with the policy that stands in the editor: a body that was pasted, as it would be
decided now, or a recent call, decided again from its record. Changes nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from billing import queries
from billing.queries import DecidedCall
from gateway.admin.route.schemas import ExplainBody
from gateway.admin.route.service import RoutingService
from gateway.admin.use_cases import attempt
from gateway.console.context import ConsoleContext
from gateway.console.formatting import short_id
from gateway.console.pages.policies.trial import TrialView, trial_view
from gateway.errors import ApiError
from gateway.server.routes import quoted_routes
from routing.policy.rules import RoutingPolicy

CALLS_SHOWN = 25
WRONG_POLICY = "The document has mistakes. Mend them, then try the call."
NO_JSON = "The body is no JSON object."
NOTHING_KEPT = "What this call was decided from is not kept any more."


@dataclass(frozen=True, slots=True)
class RecentCall:
    rid: str
    words: str


@dataclass(frozen=True, slots=True)
class TryView:
    """What was given, and what came of it."""

    urls: tuple[str, ...]
    calls: tuple[RecentCall, ...]
    keys: tuple[tuple[str, str], ...]
    """Ids with names: those that called last."""
    url: str
    key: str
    body: str
    rid: str
    problem: str
    result: TrialView | None


async def tried(
    desk: ConsoleContext, policy: RoutingPolicy | None, fields: Mapping[str, str]
) -> TryView:
    """Tries nothing unless the form asks for it."""
    ledger = desk.parts.ledger
    calls = await desk.calls.get(CALLS_SHOWN, lambda: queries.recent_decided(ledger, CALLS_SHOWN))
    problem, result = "", None
    if fields.get("act") == "try":
        try:
            result = trial_view(await _explained(desk, policy, fields))
        except ApiError as refused:
            problem = refused.message
    return await attempt(lambda: _view(desk, calls, fields, problem, result))


async def _explained(
    desk: ConsoleContext, policy: RoutingPolicy | None, fields: Mapping[str, str]
) -> Any:
    """Raises ApiError, in the words in which the call itself would be refused."""
    if policy is None:
        raise ApiError(400, WRONG_POLICY)
    if rid := fields.get("rid", ""):
        decision = await attempt(lambda: desk.parts.decision_reader.under(rid, policy))
        if decision is None:
            raise ApiError(404, NOTHING_KEPT)
        return decision
    route = await RoutingService(desk.parts).explain(_asked(fields), policy)
    return route.decision


def _asked(fields: Mapping[str, str]) -> ExplainBody:
    try:
        body = json.loads(fields.get("body", ""))
        return ExplainBody(url=fields.get("url", ""), body=body, key=fields.get("key", "").strip())
    except (ValueError, ValidationError, RecursionError) as wrong:
        raise ApiError(400, NO_JSON) from wrong


def _view(
    desk: ConsoleContext,
    calls: Sequence[DecidedCall],
    fields: Mapping[str, str],
    problem: str,
    result: TrialView | None,
) -> TryView:
    """Blocking: it may look up names."""
    keys = list(dict.fromkeys(call.usage.key for call in calls))
    desk.names.learn(keys)
    urls = sorted(quoted_routes(desk.parts.catalog))
    return TryView(
        urls=tuple(urls),
        calls=tuple([RecentCall(call.usage.rid, _words(call)) for call in calls]),
        keys=tuple([(key, desk.names.of(key)) for key in keys]),
        url=fields.get("url", "/v1/chat/completions"),
        key=fields.get("key", keys[0] if keys else ""),
        body=fields.get("body", ""),
        rid=fields.get("rid", ""),
        problem=problem,
        result=result,
    )


def _words(call: DecidedCall) -> str:
    used = call.usage
    return f"{short_id(used.rid)}: {used.model_requested}, {used.tier}, {used.pool or used.status}"
