"""How answers of `/v1/responses` look: the Response object, whole or at the ends of its stream."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from billing.types import Usage
from gateway.wire.answer import AnswerHead
from gateway.wire.responses.output import INCOMPLETE, gathered_output
from gateway.wire.responses.stream import ResponseChunks
from gateway.wire.responses.tools import Tool, shown
from gateway.wire.whole_choice import WholeChoice

Json = dict[str, Any]

NO_TOOLS: Mapping[str, Tool] = {}
DEFAULTS: Json = {
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
}
"""What an answer repeats of its call, and what it says where the call did not."""


class ResponseForm:
    """Of one call; `fields` are those of its body. `scored`: log probabilities were asked for.
    `tools` are, by the names of functions, what the caller knows by other names."""

    def __init__(
        self, fields: Mapping[str, Any], *, scored: bool, tools: Mapping[str, Tool] = NO_TOOLS
    ) -> None:
        self._fields = fields
        self.scored = scored
        self.tools = tools

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        [choice] = choices
        output = gathered_output(head.id, choice, self.scored, self.tools)
        return msgspec.json.encode(self.ended(head, output, choice.finish_reason, usage, cost))

    def chunks(self, head: AnswerHead, includes_usage: bool) -> ResponseChunks:
        return ResponseChunks(self, head)

    def begun(self, head: AnswerHead) -> Json:
        fields = self._fields
        text = fields.get("text") or {}
        effort = (fields.get("reasoning") or {}).get("effort")
        echo = {n: fields[n] if fields.get(n) is not None else v for n, v in DEFAULTS.items()}
        if fields.get("user") is not None:
            echo["user"] = fields["user"]
        return echo | {
            "id": f"resp_{head.id}",
            "object": "response",
            "created_at": head.created,
            "status": "in_progress",
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "max_tool_calls": None,
            "model": head.model,
            "output": [],
            "previous_response_id": None,
            "reasoning": {"effort": effort, "summary": None},
            "service_tier": head.service_tier,
            "store": False,
            "text": {
                "format": text.get("format") or {"type": "text"},
                "verbosity": text.get("verbosity") or "medium",
            },
            "tools": shown(fields.get("tools")),
            "truncation": "disabled",
            "usage": None,
        }

    def ended(
        self, head: AnswerHead, output: Sequence[Json], finish_reason: str, usage: Usage, cost: str
    ) -> Json:
        lacks = INCOMPLETE.get(finish_reason)
        return self.begun(head) | {
            "status": "incomplete" if lacks else "completed",
            "completed_at": None if lacks else head.now(),
            "incomplete_details": {"reason": lacks} if lacks else None,
            "output": output,
            "usage": usage_shape(usage) | {"cost": cost},
        }


def usage_shape(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
