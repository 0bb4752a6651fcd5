"""Forms that change money: fields, what follows, and a box to tick before anything happens.

What is offered is data, and one macro writes it down. A form that was refused comes back open, with
what was typed. Pure, but for reading the request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError

from gateway.api.schemas import Body
from gateway.console.forms import read_form
from gateway.errors import ApiError, bad_request

FORM_BYTES_MAX = 4096
SURE = "sure"
Model = TypeVar("Model", bound=Body)


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    label: str
    is_required: bool = True
    is_amount: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True)
class ActionForm:
    """`words` say what follows, `sure` what is ticked. `name` is the last part of its address."""

    name: str
    title: str
    words: str
    sure: str
    fields: tuple[FormField, ...] = ()
    is_final: bool = False
    """Whether nothing takes it back."""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """An action that was not done, why, and what had been typed."""

    action: str
    message: str
    status: int
    typed: Mapping[str, str]


def with_typed(form: ActionForm, refused: RefusedAction | None) -> ActionForm:
    """The form as it comes back."""
    if refused is None or refused.action != form.name:
        return form
    fields = tuple(replace(each, value=refused.typed.get(each.name, "")) for each in form.fields)
    return replace(form, fields=fields, is_open=True)


async def read_action(request: Request) -> Mapping[str, str]:
    return await read_form(request, bytes_max=FORM_BYTES_MAX)


def body_of(model: type[Model], form: Mapping[str, str]) -> Model:
    """The body that the admin API would be sent. Raises ApiError 400."""
    given: dict[str, Any] = {name: value for name, value in form.items() if name != SURE}
    try:
        return model.model_validate(given)
    except ValidationError as wrong:
        field = str((*wrong.errors()[0]["loc"], "the form")[0])
        words = f"Nothing was changed: {field.replace('_', ' ')} is missing, or cannot be so."
        raise bad_request(words, field) from wrong


def must_be_sure(form: Mapping[str, str]) -> None:
    """Raises ApiError 400."""
    if not form.get(SURE):
        raise ApiError(400, "Nothing was changed: tick the box first.", code="not_confirmed")
