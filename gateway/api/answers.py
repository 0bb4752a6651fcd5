"""What the routes of the API answer, as JSON Schema: one table by method and path.

The routes of FastAPI make plain dictionaries; what they hold is told here and held to it by tests.
"""

from typing import Any

from sqlmodel import SQLModel

from gateway.api.budget_answers import BUDGET_ANSWERS, BUDGET_COMPONENTS
from gateway.api.credit_answers import CREDIT_ANSWERS, CREDIT_COMPONENTS
from gateway.api.dead_letter_answers import DEAD_LETTER_ANSWERS, DEAD_LETTER_COMPONENTS
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
    one_of,
)
from gateway.api.margin_answers import MARGIN_ANSWERS, MARGIN_COMPONENTS
from gateway.api.price_answers import PRICE_ANSWERS, PRICE_COMPONENTS
from gateway.api.usage_answers import USAGE_ANSWERS, USAGE_COMPONENTS
from gateway.errors import QuotaStatus
from gateway.tables import POSTPAID, PREPAID, Entitlement, Limits, ModelRow, PoolRow
from routing.types import CapacityClass, Tier


def row(kind: type[SQLModel], name: str, *left_out: str) -> Schema:
    """A row as it is shown: all columns, beside its `object`."""
    schema = kind.model_json_schema()
    columns = {k: v for k, v in schema["properties"].items() if k not in left_out}
    return objects({"object": const(name)} | columns)


TIERS = one_of(Tier)
USED = objects({"input": COUNT, "cached_input": COUNT, "output": COUNT})
PRICES = objects({"input": USD, "cached_input": USD, "output": USD, "request": USD})
CANDIDATE = objects(
    {
        "pool": STRING,
        "model": STRING,
        "variant": STRING,
        "capacity_class": one_of(CapacityClass),
        "tier": TIERS,
        "eligible": BOOLEAN,
        "score_usd": USD,
        "cost_usd": USD,
        "wait_s": NUMBER,
        "reason": STRING,
    }
)
ERROR = objects({"message": STRING, "type": STRING, "param": maybe(STRING), "code": maybe(STRING)})
BUDGET_NOW: dict[str, Schema] = {
    "window": one_of(("total", "month")),
    "limit_usd": maybe(USD),
    "spent_usd": USD,
    "held_usd": USD,
}
LIMITS: dict[str, Schema] = {
    name: maybe(COUNT)
    for name in (
        *("requests_per_minute", "request_burst", "tokens_per_minute", "token_burst"),
        *("input_tokens_per_minute", "input_token_burst"),
        *("output_tokens_per_minute", "output_token_burst", "concurrency"),
    )
}
GENERATION: dict[str, Schema] = {
    "id": STRING,
    "object": const("generation"),
    "organization": STRING,
    "project": STRING,
    "key": STRING,
    "model_requested": STRING,
    "model": STRING,
    "variant": STRING,
    "pool": STRING,
    "capacity_class": STRING,
    "service_tier": STRING,
    "status": STRING,
    "finish_reason": maybe(STRING),
    "error_code": maybe(STRING),
    "usage_source": STRING,
    "usage": USED,
    "price_version": STRING,
    "cost_usd": USD,
    "created_at": TIME,
}
API_KEY: dict[str, Schema] = {
    "id": STRING,
    "object": const("api_key"),
    "project": STRING,
    "organization": STRING,
    "name": STRING,
    "redacted": STRING,
    "created_at": TIME,
    "expires_at": maybe(TIME),
    "revoked_at": maybe(TIME),
}

COMPONENTS: dict[str, Schema] = USAGE_COMPONENTS | {
    "ApiError": ERROR,
    "ErrorResponse": objects({"error": named("ApiError")}),
    "Health": objects({"status": const("ok")}),
    "Readiness": objects(
        {
            "status": one_of(("ready", "not ready")),
            "checks": {"type": "object", "additionalProperties": BOOLEAN},
        }
    ),
    "OwnKey": objects(
        {
            "id": STRING,
            "object": const("key"),
            "organization": STRING,
            "project": STRING,
            "expires_at": maybe(TIME),
            "models": maybe(array(STRING)),
            "tiers": maybe(array(TIERS)),
            "capacity_classes": maybe(array(one_of(CapacityClass))),
            "scopes": array(
                objects(
                    {"scope": STRING}
                    | LIMITS
                    | {"budget": objects(BUDGET_NOW | {"remaining_usd": maybe(USD)})}
                )
            ),
            "narrow_limits": array(objects({"scope": STRING} | LIMITS)),
            "budgets": array(named("WindowBudget")),
            "end_user_required": BOOLEAN,
        }
    ),
    "Quote": objects(
        {
            "object": const("quote"),
            "url": STRING,
            "model": STRING,
            "service_tier": TIERS,
            "price_version": STRING,
            "output_tokens_max": COUNT,
            "hold_usd": USD,
            "models": array(
                objects(
                    {
                        "model": STRING,
                        "prompt_tokens": COUNT,
                        "prompt_usd": USD,
                        "request_usd": USD,
                        "max_usd": USD,
                    }
                )
            ),
            "rule": maybe(STRING),
            "policy_revision": maybe(INTEGER),
            "candidates": array(CANDIDATE),
            "error": maybe(
                objects(ERROR["properties"] | {"status": INTEGER}),
            ),
        }
    ),
    "Model": objects(
        {
            "id": STRING,
            "object": const("model"),
            "created": INTEGER,
            "owned_by": STRING,
            "task": one_of(("generate", "embed")),
            "context_length": COUNT,
            "max_output_tokens": COUNT,
            "supported_parameters": array(STRING),
            "capabilities": {"type": "object", "additionalProperties": BOOLEAN},
            "pricing": {"type": "object", "additionalProperties": PRICES},
        }
    ),
    "Generation": objects(GENERATION),
    "Explanation": objects(
        GENERATION
        | {
            "timeline": objects(
                {
                    "admitted_at": TIME,
                    "first_token_at": maybe(TIME),
                    "ended_at": TIME,
                    "booked_at": TIME,
                }
            ),
            "rule": maybe(STRING),
            "policy_revision": maybe(INTEGER),
            "candidates": array(CANDIDATE),
            "attempts": array(ANYTHING),
            "charge": objects(
                {"input_usd": USD, "cached_input_usd": USD, "output_usd": USD, "request_usd": USD}
            ),
            "transfers": array(named("Transfer")),
        }
    ),
    "Tokens": objects(
        {
            "count": COUNT,
            "max_model_len": COUNT,
            "tokens": array(COUNT),
            "token_strs": maybe(array(STRING)),
        }
    ),
    "Prompt": objects({"prompt": STRING}),
    "Organization": objects(
        {
            "id": STRING,
            "object": const("organization"),
            "name": STRING,
            "slug": STRING,
            "status": one_of(("active", "frozen")),
            "settlement_mode": one_of((POSTPAID, PREPAID)),
            "credit_limit_usd": maybe(USD),
            "insufficient_quota_status": {"enum": [status.value for status in QuotaStatus]},
            "created_at": TIME,
        }
    ),
    "Project": objects(
        {
            "id": STRING,
            "object": const("project"),
            "organization": STRING,
            "name": STRING,
            "status": STRING,
            "created_at": TIME,
        }
    ),
    "ApiKey": objects(API_KEY),
    "ApiKeyWithSecret": objects(API_KEY | {"secret": STRING}),
    "Entitlement": row(Entitlement, "entitlement"),
    "Limits": row(Limits, "limits", "budget_nanousd", "budget_window"),
    "Outage": objects(
        {
            "object": const("outage"),
            "organization": STRING,
            "mode": maybe(one_of(("local", "deny"))),
            "spend_cap_usd": maybe(USD),
        }
    ),
    "Budget": objects({"object": const("budget"), "scope": STRING} | BUDGET_NOW),
    "ModelRow": row(ModelRow, "model"),
    "PoolRow": row(PoolRow, "pool"),
    "Fleet": objects(
        {
            "object": const("fleet"),
            "age_s": NUMBER,
            "pools": array(
                objects(
                    {
                        "name": STRING,
                        "target": COUNT,
                        "reason": STRING,
                        "cold_start_s": maybe(NUMBER),
                        "waiting": COUNT,
                        "blocked": maybe(STRING),
                        "replicas": array(ANYTHING),
                    }
                )
            ),
            "gateway": objects(
                {
                    "open_calls": COUNT,
                    "unsettled_calls": COUNT,
                    "in_flight": {"type": "object", "additionalProperties": COUNT},
                }
            ),
        }
    ),
    "ModelsApplication": objects(
        {
            "object": const("models_application"),
            "dry_run": BOOLEAN,
            "applied": BOOLEAN,
            "weights_written": array(STRING),
            "notes": array(STRING),
            "changes": array(
                objects(
                    {
                        "kind": STRING,
                        "name": STRING,
                        "change": one_of(("added", "changed", "unchanged")),
                        "details": array(STRING),
                    }
                )
            ),
        }
    ),
}
COMPONENTS |= CREDIT_COMPONENTS | PRICE_COMPONENTS | BUDGET_COMPONENTS | MARGIN_COMPONENTS
COMPONENTS |= DEAD_LETTER_COMPONENTS

ANSWERS: dict[tuple[str, str], Schema] = USAGE_ANSWERS | {
    ("get", "/healthz"): named("Health"),
    ("get", "/readyz"): named("Readiness"),
    ("get", "/v1/key"): named("OwnKey"),
    ("post", "/v1/quote"): named("Quote"),
    ("get", "/v1/models"): listed("Model"),
    ("get", "/v1/models/{name}"): named("Model"),
    ("get", "/v1/generations/{request_id}"): named("Explanation"),
    ("post", "/v1/tokenize"): named("Tokens"),
    ("post", "/v1/messages/count_tokens"): named("InputTokens"),
    ("post", "/v1/detokenize"): named("Prompt"),
    ("post", "/admin/v1/organizations"): named("Organization"),
    ("get", "/admin/v1/organizations"): listed("Organization"),
    ("patch", "/admin/v1/organizations/{organization_id}"): named("Organization"),
    ("post", "/admin/v1/projects"): named("Project"),
    ("get", "/admin/v1/projects"): listed("Project"),
    ("post", "/admin/v1/keys"): named("ApiKeyWithSecret"),
    ("get", "/admin/v1/keys"): listed("ApiKey"),
    ("delete", "/admin/v1/keys/{key_id}"): named("ApiKey"),
    ("post", "/admin/v1/keys/{key_id}/rotate"): named("ApiKeyWithSecret"),
    ("put", "/admin/v1/entitlements/{scope}"): named("Entitlement"),
    ("patch", "/admin/v1/entitlements/{scope}"): named("Entitlement"),
    ("get", "/admin/v1/entitlements"): listed("Entitlement"),
    ("put", "/admin/v1/limits/{scope}"): named("Limits"),
    ("patch", "/admin/v1/limits/{scope}"): named("Limits"),
    ("get", "/admin/v1/limits"): listed("Limits"),
    ("put", "/admin/v1/outages/{organization_id}"): named("Outage"),
    ("get", "/admin/v1/outages"): listed("Outage"),
    ("get", "/admin/v1/models"): listed("ModelRow"),
    ("put", "/admin/v1/models/{name}"): named("ModelRow"),
    ("delete", "/admin/v1/models/{name}"): named("ModelRow"),
    ("get", "/admin/v1/pools"): listed("PoolRow"),
    ("put", "/admin/v1/pools/{name}"): named("PoolRow"),
    ("patch", "/admin/v1/pools/{name}"): named("PoolRow"),
    ("delete", "/admin/v1/pools/{name}"): named("PoolRow"),
    ("get", "/admin/v1/fleet"): named("Fleet"),
    ("post", "/admin/v1/models/apply"): named("ModelsApplication"),
    ("get", "/admin/v1/requests"): listed("Generation"),
}
ANSWERS |= CREDIT_ANSWERS | PRICE_ANSWERS | BUDGET_ANSWERS | MARGIN_ANSWERS
ANSWERS |= DEAD_LETTER_ANSWERS


def answer(method: str, path: str) -> dict[str, Any] | None:
    """The schema of what a route answers when all is well."""
    return ANSWERS.get((method, path))
