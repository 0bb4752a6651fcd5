"""What each model can be asked for, by the names of parameters and in a few words."""

from collections.abc import Mapping

from gateway.catalog.tokenizers import CheckpointTokens, TokenCounter
from gateway.wire.bodies.conversation import HINTS
from gateway.wire.bodies.steering import RENDERED, SAMPLED
from routing.types import Model, Task

CHAT = (
    *SAMPLED,
    *RENDERED,
    "truncate_prompt_tokens",
    "prompt_logprobs",
    "structured_outputs",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "logprobs",
    "top_logprobs",
    "response_format",
    "stream",
    "stream_options",
)
TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
OF_EDITS = ("input_fidelity", "mask")
OF_TASKS: Mapping[Task, tuple[str, ...]] = {
    Task.EMBED: ("dimensions", "encoding_format", "truncate_prompt_tokens"),
    Task.RERANK: ("top_n", "return_documents", "max_tokens_per_doc"),
    Task.MODERATE: (),
    Task.SPEAK: ("instructions", "response_format", "speed", "voice"),
    Task.TRANSCRIBE: (
        *("language", "prompt", "response_format", "temperature", "timestamp_granularities"),
    ),
    Task.IMAGE: (
        *("n", "size", "quality", "response_format", "output_format", "output_compression"),
        *("background", "moderation", "style"),
    ),
}


def supported_parameters(model: Model, tokens: TokenCounter) -> list[str]:
    """What shapes an answer; a server outside is asked for all of it, and may refuse."""
    if model.task is not Task.GENERATE:
        return sorted((*OF_TASKS[model.task], *(OF_EDITS if _edits(model, tokens) else ())))
    hints = () if isinstance(tokens, CheckpointTokens) else HINTS
    return sorted((*CHAT, *hints, *(TOOLS if takes_tools(tokens) else ())))


def capabilities(model: Model, tokens: TokenCounter) -> Mapping[str, bool]:
    generates = model.task is Task.GENERATE
    return {
        "chat": generates,
        "completions": generates,
        "embeddings": model.task is Task.EMBED,
        "rerank": model.task is Task.RERANK,
        "moderations": model.task is Task.MODERATE,
        "transcriptions": model.task is Task.TRANSCRIBE,
        "translations": model.task is Task.TRANSCRIBE,
        "speech": model.task is Task.SPEAK,
        "images": model.task is Task.IMAGE,
        "image_edits": _edits(model, tokens),
        "streaming": generates,
        "json_schema": generates,
        "tools": generates and takes_tools(tokens),
        "vision": generates and tokens.image_tokens is not None,
    }


def _edits(model: Model, tokens: TokenCounter) -> bool:
    """A model that makes images takes some only where it says what they cost it."""
    return model.task is Task.IMAGE and tokens.image_tokens is not None


def takes_tools(tokens: TokenCounter) -> bool:
    return not isinstance(tokens, CheckpointTokens) or tokens.takes_tools
