"""What a call says of how it is answered beyond OpenAI's own fields, and of how tokens are chosen.

Each field, its bounds and its neutral value are declared here, once: the gateway checks and
describes bodies by these structs (`gateway/wire/bodies/steering.py`), workers read bodies into
them, and engines are handed them. The default of a field is its neutral value: it asks for nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

TOKEN_ID_MAX = 2**31 - 1
STOP_TOKENS_MAX = 128
LOGPROBS_MAX = 20

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Repetition = Annotated[float, Meta(ge=0.01, le=10)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
TokenId = Annotated[int, Meta(ge=0, le=TOKEN_ID_MAX)]
StopTokens = Annotated[tuple[TokenId, ...], Meta(max_length=STOP_TOKENS_MAX)]


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How each token is chosen and where an answer ends, in the words of OpenAI and vLLM.

    The penalties of presence and frequency lower the logits of tokens that the answer has already,
    once or for each time; `repetition_penalty` divides those (or multiplies, where they are below
    zero) of tokens that the prompt or the answer has. `top_k` of 0 or -1 is every token; `min_p` is
    a share of the likeliest token's probability. Before `min_tokens` nothing ends an answer, and
    with `ignore_eos` the model's own end does not either. The text of a stop string is left out
    without `include_stop_str_in_output`, that of control tokens with `skip_special_tokens`.
    """

    temperature: Temperature = 1.0
    top_p: Share = 1.0
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = 0
    min_p: Share = 0.0
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    repetition_penalty: Repetition = 1.0
    logit_bias: dict[int, Bias] = {}
    min_tokens: Count = 0
    ignore_eos: bool = False
    stop_token_ids: StopTokens = ()
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True

    @property
    def penal(self) -> bool:
        """What the answer has already weighs on what comes next."""
        return bool(self.presence_penalty or self.frequency_penalty)


class Prompting(Sampling, frozen=True, kw_only=True):
    """And what becomes of a prompt before a model reads it. Of a prompt longer than
    `truncate_prompt_tokens` so many tokens are left, the last ones of what is to be gone on with
    and the first ones of what is to be embedded; -1 is as many as there is room for.
    `prompt_logprobs` is how many of the likeliest tokens each of its tokens comes with."""

    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=2**31)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=LOGPROBS_MAX)] | None = None


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation becomes a prompt: what the model's template is told beside the messages,
    whether it opens an answer, and whether the last message goes on instead."""

    chat_template_kwargs: dict[str, Any] = {}
    add_generation_prompt: bool = True
    continue_final_message: bool = False


TEMPLATE_RESERVED = frozenset(
    {
        "messages",
        "conversation",
        "conversations",
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "sanitize_control_tokens",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
        "kwargs",
        "self",
    }
)
"""What renders a template is told by others, under these names."""
RENDERING = Rendering()
"""As nearly all conversations are rendered."""


def names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_fields__
