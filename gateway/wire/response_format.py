"""The form that an answer's text is to have: any text, a JSON object, or JSON by a schema."""

from collections.abc import Mapping
from typing import Any

from gateway.wire.checks import (
    boolean,
    invalid_type,
    missing,
    one_of,
    require_known,
    schema_size,
    string,
)
from gateway.wire.tools import function_name


def response_format(name: str, value: object) -> None:
    """The check; raises ApiError 400."""
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    one_of("text", "json_object", "json_schema")(f"{name}.type", value.get("type"))
    if value["type"] != "json_schema":
        require_known(name, value, "type")
        return
    require_known(name, value, "type", "json_schema")
    _json_schema(f"{name}.json_schema", value.get("json_schema"))


def described(form: Mapping[str, Any] | None) -> str | None:
    """What a form is for, in words for a model that knows its schema by the grammar alone."""
    schema = (form or {}).get("json_schema")
    if schema is None or not schema.get("description"):
        return None
    return f"Answer in the form '{schema['name']}': {schema['description']}"


def _json_schema(name: str, value: object) -> None:
    if value is None:
        raise missing(name)
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    require_known(name, value, "name", "description", "schema", "strict")
    function_name(f"{name}.name", value.get("name"))
    if value.get("description") is not None:
        string(f"{name}.description", value["description"])
    if value.get("strict") is not None:
        boolean(f"{name}.strict", value["strict"])
    if value.get("schema") is None:
        raise missing(f"{name}.schema")
    schema_size(f"{name}.schema", value["schema"])
