"""The fields of `workers/sampling.py` in a body: checked by their declarations, and passed on where
they ask for anything. Beside them what vLLM's clients send that nobody here does."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.inspect import StructType, type_info

from gateway.errors import bad_request
from gateway.wire.bodies.checks import (
    BIASES_MAX,
    boolean,
    integer,
    invalid_type,
    number,
    require_known,
    schema_size,
    string,
)
from gateway.wire.bodies.checks import TOKEN_ID as TOKEN_ID_TEXT
from gateway.wire.bodies.prompts import TOKEN_ID, WORDS, token_ids
from gateway.wire.bodies.rules import Rule, as_neutral, neutral_rules, rule_of, some
from gateway.wire.json_schema import (
    ANYTHING,
    BOOLEAN,
    Schema,
    array,
    between,
    const,
    either,
    part,
    text,
)
from workers.sampling import STOP_TOKENS_MAX, TEMPLATE_RESERVED, Prompting, Rendering, Sampling

Fields = Mapping[str, Any]

REGEX_MAX = 4096
GRAMMAR_MAX = 64 * 1024
CHOICES_MAX = 1024
BIASES: Schema = {
    "type": "object",
    "additionalProperties": between(-100, 100),
    "propertyNames": {"pattern": f"^({TOKEN_ID_TEXT.pattern})$"},
    "maxProperties": BIASES_MAX,
}
TRUNCATED = either(const(-1), between(1, 2**31, "integer"))


def _logit_bias(name: str, value: object) -> None:
    """Token ids, as JSON writes keys, to what is added to their logits."""
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    if len(value) > BIASES_MAX:
        raise bad_request(f"'{name}' takes at most {BIASES_MAX} tokens.", name, "invalid_value")
    for token, bias in value.items():
        if not TOKEN_ID_TEXT.fullmatch(token):
            message = f"Invalid key in '{name}': {token}. Keys are token ids."
            raise bad_request(message, name, "invalid_value")
        number(-100, 100)(f"{name}.{token}", bias)


def _stop_token_ids(name: str, value: object) -> None:
    token_ids(name, value)
    if isinstance(value, list) and len(value) > STOP_TOKENS_MAX:
        message = f"'{name}' takes at most {STOP_TOKENS_MAX} tokens."
        raise bad_request(message, name, "invalid_value")


def _truncated(name: str, value: object) -> None:
    integer(-1, 2**31)(name, value)
    if value == 0:
        message = f"Invalid '{name}': must be -1 or at least 1, but got 0 instead."
        raise bad_request(message, name, "invalid_value")


def _template_kwargs(name: str, value: object) -> None:
    schema_size(name, value)
    if isinstance(value, dict) and (reserved := sorted(value.keys() & TEMPLATE_RESERVED)):
        message = f"Invalid '{name}': '{reserved[0]}' is not for the caller to say."
        raise bad_request(message, f"{name}.{reserved[0]}", "invalid_value")


def _structured_outputs(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    require_known(name, value, *FORMS, *UNSTRUCTURED)
    for field, rule in UNSTRUCTURED.items():
        if value.get(field) is not None:
            rule.check(f"{name}.{field}", value[field])
    forms = [form for form in FORMS if value.get(form) not in (None, False)]
    if len(forms) != 1:
        message = f"'{name}' has one of {', '.join(map(repr, FORMS))}."
        raise bad_request(message, name, "invalid_value")
    FORMS[forms[0]].check(f"{name}.{forms[0]}", value[forms[0]])


def _json(name: str, value: object) -> None:
    schema_size(name, _decoded(name, value))


def _decoded(name: str, value: object) -> object:
    """vLLM takes a schema as text as well."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as broken:
        message = f"Invalid '{name}': not valid JSON: {broken}."
        raise bad_request(message, name, "invalid_value") from broken


def _text(most: int) -> Rule:
    def check(name: str, value: object) -> None:
        string(name, value)
        if isinstance(value, str) and not 1 <= len(value) <= most:
            message = f"Invalid '{name}': must have 1 to {most} characters, but has {len(value)}."
            raise bad_request(message, name, "invalid_value")

    return Rule(check, text(minLength=1, maxLength=most))


def _choice(name: str, value: object) -> None:
    if not isinstance(value, list) or not value or len(value) > CHOICES_MAX:
        raise invalid_type(name, f"an array of 1 to {CHOICES_MAX} strings", value)
    for index, each in enumerate(value):
        REGEX.check(f"{name}[{index}]", each)


REGEX = _text(REGEX_MAX)
FORMS: dict[str, Rule] = {
    "json": Rule(_json, either(ANYTHING, WORDS)),
    "json_object": Rule(boolean, BOOLEAN),
    "regex": REGEX,
    "choice": Rule(_choice, array(REGEX.schema, minItems=1, maxItems=CHOICES_MAX)),
    "grammar": _text(GRAMMAR_MAX),
}
UNSTRUCTURED: dict[str, Rule] = {
    "disable_any_whitespace": as_neutral(False),
    "disable_additional_properties": as_neutral(False),
    "whitespace_pattern": as_neutral(None),
    "structural_tag": as_neutral(None),
}
STRUCTURED = {name: rule.schema for name, rule in (FORMS | UNSTRUCTURED).items()}
SPECIAL: dict[str, Rule] = {
    "logit_bias": Rule(_logit_bias, BIASES),
    "stop_token_ids": Rule(_stop_token_ids, array(TOKEN_ID, maxItems=STOP_TOKENS_MAX)),
    "truncate_prompt_tokens": Rule(_truncated, TRUNCATED),
    "chat_template_kwargs": Rule(_template_kwargs, ANYTHING),
}


def rules_of(kind: type[msgspec.Struct]) -> dict[str, Rule]:
    info = type_info(kind)
    assert isinstance(info, StructType)
    types = {field.encode_name: some(field.type) for field in info.fields}
    return {name: SPECIAL.get(name) or rule_of(type_) for name, type_ in types.items()}


def _neutral(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(kind()))
    return values


ALWAYS_EXPLICIT = ("temperature", "top_p")
"""Servers outside may have defaults of their own."""
_SAMPLING = {n: None if n in ALWAYS_EXPLICIT else v for n, v in _neutral(Sampling).items()}
_RENDERING = _neutral(Rendering)
_PASSED = {"stop": None, "seed": None}
EVERY_TOKEN = -1
"""Of `top_k`, in newer words."""


def steered(fields: Any) -> dict[str, Any]:
    """What both kinds of generation are asked for, by their fields. `sampling` goes to the engine
    as it is: what is null or neutral asks for nothing."""
    sampling = _not_neutral(SAMPLED, _sampled(fields))
    if sampling.get("top_k") == EVERY_TOKEN:
        del sampling["top_k"]
    form = fields.structured_outputs
    return {
        "sampling": sampling,
        "truncate_prompt_tokens": fields.truncate_prompt_tokens,
        "prompt_logprobs": fields.prompt_logprobs,
        "structured_outputs": None if form is None else {"structured_outputs": form},
    }


def rendering(fields: Any) -> dict[str, Any]:
    return _not_neutral(_RENDERING, _rendered(fields))


def _not_neutral(neutral: Mapping[str, Any], values: tuple[Any, ...]) -> dict[str, Any]:
    if values.count(None) == len(values):
        return {}
    pairs = zip(neutral.items(), values, strict=True)
    return {name: v for (name, nothing), v in pairs if v is not None and v != nothing}


def structured_outputs(fields: Fields) -> dict[str, Any] | None:
    """The one form that is asked for, as our engines read it."""
    outputs = fields.get("structured_outputs")
    if outputs is None:
        return None
    form = next(name for name in FORMS if outputs.get(name) not in (None, False))
    value = _decoded("structured_outputs.json", outputs[form]) if form == "json" else outputs[form]
    return {form: value}


def require_sensible(fields: Any, output_tokens_max: int | None) -> None:
    """Raises ApiError 400 for fields that contradict each other."""
    least = fields.min_tokens
    if least and output_tokens_max is not None and least > output_tokens_max:
        message = (
            f"Invalid 'min_tokens': must be between 0 and 'max_tokens', which is"
            f" {output_tokens_max}, but got {least} instead."
        )
        raise bad_request(message, "min_tokens", "invalid_value")
    if fields.prompt_logprobs is not None and fields.stream:
        message = "'prompt_logprobs' are not available where 'stream' is true."
        raise bad_request(message, "prompt_logprobs", "invalid_value")


def require_sensible_chat(fields: Any) -> None:
    """The same of fields that only conversations have."""
    if fields.structured_outputs is not None:
        for other in ("response_format", "tools"):
            if getattr(fields, other):
                message = f"An answer has one form: 'structured_outputs' or '{other}'."
                raise bad_request(message, "structured_outputs", "invalid_value")
    if fields.continue_final_message and fields.add_generation_prompt is not False:
        message = (
            "'continue_final_message' goes with 'add_generation_prompt' of false: either the last"
            " message goes on, or an answer begins."
        )
        raise bad_request(message, "continue_final_message", "invalid_parameter_combination")


SAMPLED: Mapping[str, Any] = _SAMPLING | _PASSED
_sampled, _rendered = attrgetter(*SAMPLED), attrgetter(*_RENDERING)
STEERED = rules_of(Prompting) | {
    "structured_outputs": Rule(_structured_outputs, part(STRUCTURED, *STRUCTURED))
}
"""What both kinds of generation take."""
RENDERED = rules_of(Rendering)
"""What conversations take."""
NOT_DONE = neutral_rules(
    {
        "use_beam_search": False,
        "early_stopping": False,
        "length_penalty": 1,
        "bad_words": [],
        "allowed_token_ids": None,
        "logprob_token_ids": None,
        "spaces_between_special_tokens": True,
        "truncation_side": None,
        "return_tokens_as_token_ids": False,
        "return_token_ids": False,
        "return_token_offsets": False,
        "priority": 0,
        "cache_salt": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "vllm_xargs": None,
        "repetition_detection": None,
        "thinking_token_budget": None,
        "stream_interval": None,
        "watermarking": None,
        "detokenize": True,
    }
)
"""Other fields of vLLM, which nobody here does: a neutral value asks for nothing."""
NOT_DONE_IN_CHAT = neutral_rules(
    {
        "echo": False,
        "add_special_tokens": False,
        "documents": None,
        "chat_template": None,
        "media_io_kwargs": None,
        "mm_processor_kwargs": None,
        "include_reasoning": True,
        "store": False,
        "modalities": ["text"],
        "functions": [],
        "audio": None,
        "moderation": None,
        "prediction": None,
        "web_search_options": None,
    }
)
