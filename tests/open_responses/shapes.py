"""What the Open Responses specification (openresponses.org, version 2026-04-24) says of answers, as
JSON Schema of our own writing: the fields that every response, item and event has to have, and
their types. Further fields may be there, as the specification allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
STATUS: Schema = {"enum": ["in_progress", "completed", "incomplete"]}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def const(value: str) -> Schema:
    return {"const": value}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def has(*, optional: Schema | None = None, **fields: Schema) -> Schema:
    """An object that has all these fields, and may have the optional ones."""
    properties = fields | (optional or {})
    return {"type": "object", "properties": properties, "required": list(fields)}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


LIKELY = has(token=STRING, logprob=NUMBER, bytes=array(INTEGER))
SCORED = has(token=STRING, logprob=NUMBER, bytes=array(INTEGER), top_logprobs=array(LIKELY))
OUTPUT_TEXT = has(
    type=const("output_text"), text=STRING, annotations=array(ANYTHING), logprobs=array(SCORED)
)
REFUSAL = has(type=const("refusal"), refusal=STRING)
REASONING_TEXT = has(type=const("reasoning_text"), text=STRING)
PART = either(OUTPUT_TEXT, REFUSAL, REASONING_TEXT)
MESSAGE = has(
    type=const("message"),
    id=STRING,
    status=STATUS,
    role={"enum": ["user", "assistant", "system", "developer"]},
    content=array(PART),
)
FUNCTION_CALL = has(
    type=const("function_call"),
    id=STRING,
    call_id=STRING,
    name=STRING,
    arguments=STRING,
    status=STATUS,
)
REASONING = has(
    type=const("reasoning"),
    id=STRING,
    summary=array(ANYTHING),
    optional={"content": array(PART)},
)
ITEM = either(MESSAGE, FUNCTION_CALL, REASONING)
TOOL = has(
    type=const("function"),
    name=STRING,
    description=maybe(STRING),
    parameters=maybe({"type": "object"}),
    strict=maybe(BOOLEAN),
)
FORMAT = either(
    has(type=const("text")),
    has(type=const("json_object")),
    has(type=const("json_schema"), name=STRING, description=maybe(STRING), strict=BOOLEAN),
)
NAMED = has(type=const("function"), optional={"name": STRING})
TOOL_CHOICE = either(
    {"enum": ["none", "auto", "required"]},
    NAMED,
    has(type=const("allowed_tools"), tools=array(NAMED), mode=STRING),
)
USAGE = has(
    input_tokens=INTEGER,
    output_tokens=INTEGER,
    total_tokens=INTEGER,
    input_tokens_details=has(cached_tokens=INTEGER),
    output_tokens_details=has(reasoning_tokens=INTEGER),
)
RESPONSE = has(
    id=STRING,
    object=const("response"),
    created_at=INTEGER,
    completed_at=maybe(INTEGER),
    status=STRING,
    incomplete_details=maybe(has(reason=STRING)),
    model=STRING,
    previous_response_id=maybe(STRING),
    instructions=maybe(STRING),
    output=array(ITEM),
    error=maybe(has(code=STRING, message=STRING)),
    tools=array(TOOL),
    tool_choice=TOOL_CHOICE,
    truncation={"enum": ["auto", "disabled"]},
    parallel_tool_calls=BOOLEAN,
    text=has(format=FORMAT, optional={"verbosity": {"enum": ["low", "medium", "high"]}}),
    top_p=NUMBER,
    presence_penalty=NUMBER,
    frequency_penalty=NUMBER,
    top_logprobs=INTEGER,
    temperature=NUMBER,
    reasoning=maybe(has(effort=maybe(STRING), summary=maybe(STRING))),
    usage=maybe(USAGE),
    max_output_tokens=maybe(INTEGER),
    max_tool_calls=maybe(INTEGER),
    store=BOOLEAN,
    background=BOOLEAN,
    service_tier=STRING,
    metadata=ANYTHING,
    safety_identifier=maybe(STRING),
    prompt_cache_key=maybe(STRING),
)
AT_ITEM: dict[str, Schema] = {"item_id": STRING, "output_index": INTEGER}
AT_PART = AT_ITEM | {"content_index": INTEGER}
WITH_SCORES: Schema = {"logprobs": array(SCORED)}


def event(kind: str, *, optional: Schema | None = None, **fields: Schema) -> tuple[str, Schema]:
    told = has(type=const(kind), sequence_number=INTEGER, optional=optional, **fields)
    return kind, told


EVENTS = dict(
    [
        *(
            event(f"response.{state}", response=RESPONSE)
            for state in ("created", "in_progress", "completed", "incomplete", "failed")
        ),
        event("response.output_item.added", output_index=INTEGER, item=maybe(ITEM)),
        event("response.output_item.done", output_index=INTEGER, item=maybe(ITEM)),
        event("response.content_part.added", **AT_PART, part=PART),
        event("response.content_part.done", **AT_PART, part=PART),
        event("response.output_text.delta", **AT_PART, delta=STRING, optional=WITH_SCORES),
        event("response.output_text.done", **AT_PART, text=STRING, optional=WITH_SCORES),
        event("response.refusal.delta", **AT_PART, delta=STRING),
        event("response.refusal.done", **AT_PART, refusal=STRING),
        event("response.function_call_arguments.delta", **AT_ITEM, delta=STRING),
        event("response.function_call_arguments.done", **AT_ITEM, arguments=STRING),
    ]
)
ENDS = ("response.completed", "response.incomplete", "response.failed")


def assert_response(found: Any) -> None:
    assert not (mistakes := wrong(RESPONSE, found)), "\n".join(mistakes)


def assert_stream(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Each event is one that the specification knows; answers the response at its end."""
    last: dict[str, Any] = {}
    for last in events:
        assert last["type"] in EVENTS, last["type"]
        mistakes = wrong(EVENTS[last["type"]], last)
        assert not mistakes, "\n".join([last["type"], *mistakes])
    assert last.get("type") in ENDS
    response: dict[str, Any] = last["response"]
    return response


def wrong(schema: Schema, found: Any) -> list[str]:
    errors = Draft202012Validator(schema).iter_errors(found)
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in errors]
