"""The form that an answer's text is to have: any text, a JSON object, or JSON by a schema."""

from collections.abc import Mapping
from typing import Annotated, Any

from gateway.wire.bodies.checks import invalid_type, one_of, require_known, schema_size
from gateway.wire.bodies.rules import SWITCH, TEXT, Rule, needed, object_of, own, the
from gateway.wire.bodies.tools import FUNCTION_NAME
from gateway.wire.json_schema import ANYTHING, either, part
from gateway.wire.json_schema import one_of as enumerated

FORM = {
    "name": FUNCTION_NAME,
    "description": TEXT,
    "strict": SWITCH,
    "schema": needed(Rule(schema_size, ANYTHING)),
}
UNFORMED = part({"type": enumerated(("text", "json_object"))})
FORMED = object_of(
    {"type": the("json_schema"), "json_schema": object_of(FORM, "name", "schema")},
    *("type", "json_schema"),
)


def response_format(name: str, value: object) -> None:
    """The check; raises ApiError 400."""
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    one_of("text", "json_object", "json_schema")(f"{name}.type", value.get("type"))
    if value["type"] != "json_schema":
        require_known(name, value, "type")
        return
    FORMED.check(name, value)


def described(form: Mapping[str, Any] | None) -> str | None:
    """What a form is for, in words for a model that knows its schema by the grammar alone."""
    schema = (form or {}).get("json_schema")
    if schema is None or not schema.get("description"):
        return None
    return f"Answer in the form '{schema['name']}': {schema['description']}"


ResponseFormat = Annotated[dict[str, Any], own(response_format, either(UNFORMED, FORMED.schema))]
