"""How an answer of a server outside goes on at a second one: its text is continued where the second
is declared able to (`continues` of its pool), else the call is asked anew and compared. Pure.

A text is continued as vLLM has it: the last message is the assistant's, and is not closed
(`continue_final_message`). A plain completion has its text behind its prompt.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from billing.types import Usage
from gateway.moves.joint import Joint
from gateway.moves.said import SentChoice
from routing.types import Continues, Pool

FORMED = frozenset(
    {
        "tools",
        "functions",
        "response_format",
        "structured_outputs",
        "logprobs",
        "prompt_logprobs",
        "echo",
        "suffix",
        "truncate_prompt_tokens",
    }
)
"""Fields whose answers have a form of their own, which the rest of a text would not have."""
GUIDED = "guided_"
"""How vLLM's older names of such fields begin."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """`sent` is what callers have of each choice, and `base` what was delivered. `is_anew`: no
    server is asked to continue a text, since one has refused."""

    sent: tuple[SentChoice, ...]
    base: Usage
    is_anew: bool = False

    def body(self, pool: Pool, body: bytes) -> bytes | None:
        """The body that has this pool continue the text. None: it is asked anew, with its own."""
        if self.is_anew or pool.continues is not Continues.PREFIX or len(self.sent) != 1:
            return None
        [sent] = self.sent
        if sent.reasoning or not sent.content:
            return None
        continued = continued_body(msgspec.json.decode(body), _text(sent), self.base.completion)
        return None if continued is None else msgspec.json.encode(continued)

    def joint(self, *, by_prefix: bool) -> Joint:
        if not by_prefix:
            return Joint(self.sent)
        [sent] = self.sent
        return Joint([SentChoice(sent.content[len(_text(sent)) :])], self.base)


def _text(sent: SentChoice) -> str:
    """Chat templates cut white space off the end of a message, so it is compared, not continued."""
    return sent.content.rstrip()


def continued_body(body: dict[str, Any], text: str, tokens: int) -> dict[str, Any] | None:
    """The body of a call whose answer goes on behind `text`, of which `tokens` came. None where a
    text alone does not say how."""
    left = body["max_tokens"] - tokens
    if not text or left <= 0 or body.get("n", 1) != 1 or _is_formed(body):
        return None
    body = body | {"max_tokens": left}
    if "min_tokens" in body:
        body["min_tokens"] = max(0, body["min_tokens"] - tokens)
    if "messages" not in body:
        prompt = body["prompt"]
        return body | {"prompt": prompt + text} if isinstance(prompt, str) else None
    *before, last = body["messages"]
    if body.get("continue_final_message"):
        if not isinstance(last["content"], str):
            return None
        messages = [*before, last | {"content": last["content"] + text}]
    else:
        messages = [*before, last, {"role": "assistant", "content": text}]
    return body | {
        "messages": messages,
        "continue_final_message": True,
        "add_generation_prompt": False,
    }


def _is_formed(body: dict[str, Any]) -> bool:
    return not FORMED.isdisjoint({k for k, v in body.items() if v}) or any(
        name.startswith(GUIDED) for name in body
    )
