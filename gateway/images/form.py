"""Images as their callers get them: what a server made, and what was charged for it."""

from collections.abc import Sequence

import msgspec

from billing.types import Usage
from gateway.wire.answer import AnswerHead
from gateway.wire.whole_choice import WholeChoice

Made = dict[str, msgspec.Raw]
"""What the server said of its images, unread: they are megabytes."""


class ImagesForm:
    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        made = msgspec.json.decode(choices[0].result, type=Made)
        read, shown = usage.image_input, usage.image_output
        tokens = {
            "input_tokens": usage.prompt,
            "output_tokens": usage.completion,
            "total_tokens": usage.total,
            "input_tokens_details": {"text_tokens": usage.prompt - read, "image_tokens": read},
            "output_tokens_details": {
                "text_tokens": usage.completion - shown,
                "image_tokens": shown,
            },
        }
        answer = {"created": head.created, **made, "usage": tokens | {"cost": cost}}
        return msgspec.json.encode(answer)
