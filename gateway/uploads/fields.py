"""The fields of a form as a body of JSON would have said them: a form can only spell."""

import math
import re
from typing import Any

from gateway.errors import bad_request
from gateway.uploads.form import UploadedForm
from gateway.wire.bodies.rules import Reader
from gateway.wire.json_schema import Schema

INTEGER = re.compile(r"-?[0-9]{1,15}")


def fields_of(form: UploadedForm, reader: Reader[Any]) -> dict[str, Any]:
    """By their names, files too, which are named alone. Raises ApiError 400 for a field that is
    there twice."""
    texts = {name: _value(form, name, reader.schema.get(name, {})) for name in form.texts}
    return dict.fromkeys(form.files, "") | texts


def _value(form: UploadedForm, name: str, schema: Schema) -> Any:
    texts, kind = form.texts[name], _kind_of(schema)
    if kind == "array" or name in form.lists:
        return texts
    if len(texts) > 1:
        raise bad_request(f"Invalid '{name}': it is there {len(texts)} times.", name)
    text = texts[0]
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in ("integer", "number"):
        return _number(text)
    return text or None


def _kind_of(schema: Schema) -> str | None:
    """What it takes as JSON; of a field that may only ask for nothing, what that is."""
    if "const" in schema:
        return {bool: "boolean", int: "integer"}.get(type(schema["const"]))
    kind: str | None = schema.get("type")
    return kind


def _number(text: str) -> float | str:
    """Text that is none is left for the check to name."""
    if INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
