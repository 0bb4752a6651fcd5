"""What the routes about credits answer, as JSON Schema."""

from gateway.api.json_schema import (
    BOOLEAN,
    COUNT,
    NUMBER,
    STRING,
    TIME,
    USD,
    Schema,
    array,
    const,
    maybe,
    named,
    objects,
    one_of,
)

_THRESHOLDS: dict[str, Schema] = {"below_usd": array(USD), "below_percent": array(COUNT)}
CREDIT_COMPONENTS: dict[str, Schema] = {
    "CreditGrant": objects(
        {
            "id": STRING,
            "object": const("credit_grant"),
            "organization": STRING,
            "category": one_of(("paid", "promotional")),
            "status": one_of(("scheduled", "active", "used_up", "expired", "voided")),
            "amount_usd": USD,
            "remaining_usd": USD,
            "priority": COUNT,
            "models": array(STRING),
            "effective_at": TIME,
            "expires_at": maybe(TIME),
            "voided_at": maybe(TIME),
            "created_at": TIME,
            "note": STRING,
        }
    ),
    "CreditGrants": objects(
        {
            "object": const("list"),
            "data": array(named("CreditGrant")),
            "has_more": BOOLEAN,
            "last_id": maybe(STRING),
        }
    ),
    "CreditAlerts": objects(
        {
            "object": const("credit_alerts"),
            "organization": STRING,
            **_THRESHOLDS,
            "granted_usd": USD,
            "remaining_usd": USD,
            "told": objects(_THRESHOLDS),
        }
    ),
    "CreditAlert": objects(
        {
            "object": const("credit.alert"),
            "organization": STRING,
            "percent": maybe(COUNT),
            "limit_usd": USD,
            "remaining_usd": USD,
            "granted_usd": USD,
            "raised_at": TIME,
        }
    ),
    "Credits": objects(
        {
            "object": const("credits"),
            "organization": STRING,
            "data": objects({"total_credits": NUMBER, "total_usage": NUMBER}),
            "balance_usd": USD,
            "held_usd": USD,
            "credit_limit_usd": maybe(USD),
            "available_usd": maybe(USD),
            "grants": array(named("CreditGrant")),
        }
    ),
}

ALERTS = "/admin/v1/organizations/{organization_id}/credit-alerts"
CREDIT_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", ALERTS): named("CreditAlerts"),
    ("put", ALERTS): named("CreditAlerts"),
    ("get", "/v1/credits"): named("Credits"),
    ("post", "/admin/v1/credits"): named("CreditGrant"),
    ("get", "/admin/v1/credits"): named("CreditGrants"),
    ("get", "/admin/v1/credits/{grant_id}"): named("CreditGrant"),
    ("post", "/admin/v1/credits/{grant_id}/void"): named("CreditGrant"),
}
