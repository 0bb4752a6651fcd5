"""What the routes about our own costs answer, as JSON Schema."""

from gateway.api.json_schema import (
    ANYTHING,
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
)

_EARNED: dict[str, Schema] = {
    "requests": COUNT,
    "revenue_usd": USD,
    "cogs_usd": USD,
    "margin_usd": USD,
}
UNRECORDED = (
    "decimal USD: what replicas have reported to have computed, less what records of calls tell of."
    " A replica reports every `life_report_s` (a minute), a call when it ends: so it is below zero"
    " while calls are told of that were computed since the last report, or computed before the"
    " first of these hours. What was not reported yet is not in `bill_usd`, `unallocated_usd` and"
    " `net_margin_usd` either"
)
_CAPACITY: dict[str, Schema] = {
    **{
        name: USD
        for name in (
            *("bill_usd", "unallocated_usd", "idle_usd", "cold_start_usd", "wasted_usd"),
            "net_margin_usd",
        )
    },
    "unrecorded_usd": USD | {"description": UNRECORDED},
    **{name: NUMBER for name in ("replica_s", "cold_start_s", "busy_s")},
}
MARGIN_COMPONENTS: dict[str, Schema] = {
    "Margin": objects({"group": ANYTHING} | _EARNED | _CAPACITY, *_CAPACITY),
    "Margins": objects(
        {
            "object": const("list"),
            "from": TIME,
            "to": TIME,
            "fleet": objects(_EARNED | _CAPACITY),
            "data": array(named("Margin")),
            "has_more": BOOLEAN,
            "next_page": maybe(STRING),
        }
    ),
    "CostedExplanation": {
        "allOf": [
            named("Explanation"),
            objects(
                {
                    "cogs": objects(
                        {"cogs_usd": USD, "wasted_usd": USD, "margin_usd": USD},
                    )
                }
            ),
        ]
    },
}
MARGIN_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", "/admin/v1/margins"): named("Margins"),
    ("get", "/admin/v1/requests/{request_id}"): named("CostedExplanation"),
}
