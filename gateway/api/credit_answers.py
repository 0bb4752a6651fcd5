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

CREDIT_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", "/v1/credits"): named("Credits"),
    ("post", "/admin/v1/credits"): named("CreditGrant"),
    ("get", "/admin/v1/credits"): named("CreditGrants"),
    ("get", "/admin/v1/credits/{grant_id}"): named("CreditGrant"),
    ("post", "/admin/v1/credits/{grant_id}/void"): named("CreditGrant"),
}
