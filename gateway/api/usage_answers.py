"""What the routes about usage, the ledger and invoices answer, as JSON Schema."""

from gateway.api.asked import OTHERS
from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
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
)


def buckets(result: Schema) -> Schema:
    """OpenAI's page of buckets of results."""
    return objects(
        {
            "object": const("page"),
            "data": array(
                objects(
                    {
                        "object": const("bucket"),
                        "start_time": INTEGER,
                        "end_time": INTEGER,
                        "results": array(result),
                    }
                )
            ),
            "has_more": BOOLEAN,
            "next_page": maybe(STRING),
        }
    )


USAGE_COMPONENTS: dict[str, Schema] = {
    "CompletionsUsage": objects(
        {
            "object": const("organization.usage.completions.result"),
            "input_tokens": COUNT,
            "input_cached_tokens": COUNT,
            "output_tokens": COUNT,
            "num_model_requests": COUNT,
            "project_id": maybe(STRING),
            "api_key_id": maybe(STRING),
            "model": maybe(STRING),
            "batch": maybe(BOOLEAN),
            "service_tier": maybe(STRING),
        }
    ),
    "EmbeddingsUsage": objects(
        {
            "object": const("organization.usage.embeddings.result"),
            "input_tokens": COUNT,
            "num_model_requests": COUNT,
            "project_id": maybe(STRING),
            "api_key_id": maybe(STRING),
            "model": maybe(STRING),
        }
    ),
    "Costs": objects(
        {
            "object": const("organization.costs.result"),
            "amount": objects({"value": NUMBER, "currency": const("usd")}),
            "line_item": maybe(STRING),
            "project_id": maybe(STRING),
            "api_key_id": maybe(STRING),
            "quantity": maybe(NUMBER),
        }
    ),
    "UsageSum": objects(
        {
            "group": ANYTHING,
            "requests": COUNT,
            "usage": objects({"input": COUNT, "cached_input": COUNT, "output": COUNT}),
            "cost_usd": USD,
            "from": TIME,
            "to": TIME,
        },
        "from",
        "to",
    ),
    "UsageSums": objects(
        {
            "object": const("list"),
            "from": TIME,
            "to": TIME,
            "data": array(named("UsageSum")),
            "has_more": BOOLEAN,
            "next_page": maybe(STRING),
        }
    ),
    "LedgerAccount": objects({"code": STRING, "debits_usd": USD, "credits_usd": USD}),
    "Transfer": objects(
        {"transfer_id": STRING, "kind": STRING, "amount_usd": USD, "booked_at": TIME}
    ),
    "LedgerReport": objects(
        {
            "ok": BOOLEAN,
            "checks": array(objects({"outcome": STRING})),
        }
    ),
    "Invoice": objects(
        {
            "id": STRING,
            "organization": STRING,
            "period": STRING,
            "status": STRING,
            "draft_because": array(STRING),
            "number": maybe(STRING),
            "currency": STRING,
            "period_start_us": INTEGER,
            "period_end_us": INTEGER,
            "subtotal_usd": USD,
            "rounding_usd": USD,
            "total_usd": USD,
            "total_cents": INTEGER,
            "computed_us": INTEGER,
            "lines": array(ANYTHING),
        }
    ),
}
USAGE_ANSWERS: dict[tuple[str, str], Schema] = {
    **{("get", f"/v1/organization/usage/{kind}"): buckets(ANYTHING) for kind in OTHERS},
    ("get", "/v1/organization/usage/completions"): buckets(named("CompletionsUsage")),
    ("get", "/v1/organization/usage/embeddings"): buckets(named("EmbeddingsUsage")),
    ("get", "/v1/organization/costs"): buckets(named("Costs")),
    ("get", "/admin/v1/usage"): named("UsageSums"),
    ("get", "/admin/v1/ledger/accounts"): listed("LedgerAccount"),
    ("get", "/admin/v1/ledger/transfers"): listed("Transfer"),
    ("get", "/admin/v1/ledger/verify"): named("LedgerReport"),
    ("post", "/admin/v1/invoices"): listed("Invoice"),
    ("get", "/admin/v1/invoices"): listed("Invoice"),
}
