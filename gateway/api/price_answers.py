"""What the routes about the price book answer, as JSON Schema."""

from billing.pricebook import Component
from billing.prices import DISCOUNT
from gateway.api.json_schema import (
    BOOLEAN,
    COUNT,
    STRING,
    TIME,
    USD,
    Schema,
    array,
    const,
    listed,
    maybe,
    named,
    objects,
    one_of,
)

CHANGED = (
    "usd_per_mtok_before",
    "usd_per_mtok_after",
    "units_max_before",
    "units_max_after",
    "basis_points_before",
    "basis_points_after",
)

PRICE_COMPONENTS: dict[str, Schema] = {
    "PriceVersion": objects(
        {
            "object": const("price_version"),
            "id": STRING,
            "organization": maybe(STRING),
            "status": one_of(("draft", "approved", "active")),
            "effective_from": maybe(TIME),
            "created_at": TIME,
            "created_by": STRING,
            "approved_at": maybe(TIME),
            "approved_by": maybe(STRING),
            "activated_by": maybe(STRING),
            "note": maybe(STRING),
            "rates": array(
                objects(
                    {
                        "model": STRING,
                        "tier": STRING,
                        "batch": BOOLEAN,
                        "component": one_of(Component),
                        "usd_per_mtok": USD,
                        "prompt_from_tokens": COUNT,
                        "units_max": maybe(COUNT),
                    }
                )
            ),
            "discounts": array(objects({"model": maybe(STRING), "basis_points": COUNT})),
        }
    ),
    "PriceVersionDeleted": objects(
        {"object": const("price_version.deleted"), "id": STRING, "deleted": const(True)}
    ),
    "PriceDifference": objects(
        {
            "object": const("price_difference"),
            "from": STRING,
            "to": STRING,
            "data": array(
                objects(
                    {
                        "model": maybe(STRING),
                        "tier": maybe(STRING),
                        "batch": BOOLEAN,
                        "component": one_of((*Component, DISCOUNT)),
                        "prompt_from_tokens": COUNT,
                        "usd_per_mtok_before": maybe(USD),
                        "usd_per_mtok_after": maybe(USD),
                        "units_max_before": maybe(COUNT),
                        "units_max_after": maybe(COUNT),
                        "basis_points_before": maybe(COUNT),
                        "basis_points_after": maybe(COUNT),
                    },
                    *CHANGED,
                )
            ),
        }
    ),
}

PRICES = "/admin/v1/prices"
PRICE_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", PRICES): listed("PriceVersion"),
    ("post", PRICES): named("PriceVersion"),
    ("get", PRICES + "/{version_id}"): named("PriceVersion"),
    ("put", PRICES + "/{version_id}"): named("PriceVersion"),
    ("delete", PRICES + "/{version_id}"): named("PriceVersionDeleted"),
    ("post", PRICES + "/{version_id}/approve"): named("PriceVersion"),
    ("post", PRICES + "/{version_id}/activate"): named("PriceVersion"),
    ("get", PRICES + "/{version_id}/difference"): named("PriceDifference"),
}
