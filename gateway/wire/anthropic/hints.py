"""How hard a caller of `/v1/messages` would have a model think, and what it would have it forget.

Hints: the models here have nothing to steer by them, and no request is refused for one. A server
outside is told an effort, `reasoning_effort` of chat. That mapping stands here and nowhere else:

    output_config.effort   low, medium, high: the same; xhigh, max: high, the most that all know
    thinking.budget_tokens up to 2,048: low; up to 8,192: medium; more: high
    thinking               adaptive or disabled says nothing by itself

What is said first in this list counts.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from gateway.wire.bodies.checks import integer, invalid_type, string
from gateway.wire.bodies.rules import Rule, in_words, object_of, union_of, variant, word_of
from gateway.wire.json_schema import STRING, array, between, objects

EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
LOW_TOKENS_MAX, MEDIUM_TOKENS_MAX = 2048, 8192
DISPLAYS = ("summarized", "omitted")
DISPLAY = word_of(*DISPLAYS)
BUDGET = Rule(integer(1, 2**31), between(1, 2**31, "integer"))
THINKING = union_of(
    variant("enabled", {"budget_tokens": BUDGET, "display": DISPLAY}),
    variant("adaptive", {"display": DISPLAY}),
    variant("disabled", {}),
)


def _edits(name: str, value: object) -> None:
    if not isinstance(value, list):
        raise invalid_type(name, "an array of objects", value)
    for index, edit in enumerate(value):
        if not isinstance(edit, dict):
            raise invalid_type(f"{name}[{index}]", "an object", edit)
        string(f"{name}[{index}].type", edit.get("type"))


def chat_effort(
    thinking: Mapping[str, Any] | None, config: Mapping[str, Any] | None
) -> dict[str, str]:
    """`reasoning_effort` of chat, of fields that passed their checks."""
    thinking, effort = thinking or {}, (config or {}).get("effort")
    budget = thinking.get("budget_tokens")
    if thinking.get("type") == "disabled":
        return {}
    if effort is not None:
        return {"reasoning_effort": EFFORTS[effort]}
    if budget is None:
        return {}
    level = "low" if budget <= LOW_TOKENS_MAX else "medium"
    return {"reasoning_effort": level if budget <= MEDIUM_TOKENS_MAX else "high"}


def tells_thoughts(thinking: Mapping[str, Any] | None) -> bool:
    """Whether the caller asked for thinking and wants to read it."""
    thinking = thinking or {}
    return thinking.get("type") in ("enabled", "adaptive") and thinking.get("display") != "omitted"


EDITS = object_of({"edits": Rule(_edits, array(objects({"type": STRING})))})
"""Edits to the conversation. None is ever applied, and the answer says so."""
Thinking = Annotated[dict[str, Any], in_words(THINKING)]
Edits = Annotated[dict[str, Any], in_words(EDITS)]
