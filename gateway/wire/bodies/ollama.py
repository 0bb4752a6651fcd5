"""What Ollama's clients, Open WebUI first, send of its options to any server of OpenAI's words.

How Ollama runs a model is a hint here, where a model runs already. What would make another answer
is refused, with the field that does it here.
"""

from gateway.errors import bad_request
from gateway.wire.bodies.checks import invalid_type
from gateway.wire.bodies.rules import Rule, text_of
from gateway.wire.json_schema import BOOLEAN, NUMBER, STRING, const, either


def _hint(name: str, value: object) -> None:
    """A number, a switch or a word."""
    if isinstance(value, dict | list):
        raise invalid_type(name, "a number, a boolean or a string", value)


def _instead(advice: str, neutral: object) -> Rule:
    """Refuses all but what changes nothing."""

    def check(name: str, value: object) -> None:
        if value != neutral or isinstance(value, bool) != isinstance(neutral, bool):
            message = f"Unsupported parameter: '{name}' is an option of Ollama's; {advice}."
            raise bad_request(message, name, "unsupported_parameter")

    return Rule(check, const(neutral))


NO_MIROSTAT = "use 'temperature', 'top_p' or 'min_p'"
RUNS = (
    *("num_ctx", "num_batch", "num_keep", "num_thread", "num_gpu", "use_mmap", "use_mlock"),
    *("keep_alive", "mirostat_eta", "mirostat_tau", "repeat_last_n"),
)
"""How a model is run, and the details of what is off."""
NAME = text_of(512)
HINT = Rule(_hint, either(NUMBER, BOOLEAN, STRING))
OLLAMA: dict[str, Rule] = dict.fromkeys(RUNS, HINT) | {
    "chat_id": NAME,
    "session_id": NAME,
    "mirostat": _instead(NO_MIROSTAT, 0),
    "tfs_z": _instead(NO_MIROSTAT, 1),
    "repeat_penalty": _instead("use 'repetition_penalty' or 'frequency_penalty'", 1),
    "think": _instead("use 'reasoning_effort'", False),
    "format": _instead("use 'response_format'", ""),
    "template": _instead("a model has its own", ""),
}
"""Beside the options that are OpenAI's or vLLM's too."""
