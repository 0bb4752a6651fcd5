"""What the routes that call a model answer, as JSON Schema: OpenAI's and Anthropic's shapes, and
our own words in them (`usage.cost`, and in streams `sluice`)."""

from dataclasses import dataclass

from gateway.api.openapi import messages, responses
from gateway.wire.json_schema import (
    ANYTHING,
    COUNT,
    INTEGER,
    NUMBER,
    STRING,
    USD,
    Schema,
    array,
    const,
    either,
    maybe,
    objects,
    one_of,
)


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """Of one route; `whole` is the component of its whole answer, None where that is sound."""

    summary: str
    whole: str | None
    streams: bool = True
    may_be_text: bool = False


FINISH = maybe(one_of(("stop", "length", "tool_calls", "content_filter", "function_call")))
ENDED = maybe(one_of(("stop", "length", "content_filter")))
REASONING = STRING | {
    "description": "What a server outside thought before it answered, also in the deltas of a"
    " stream. OpenAI's document has no such field; its tokens are billed as reasoning or output."
}
SERVED = maybe(one_of(("default", "priority", "flex")))
USAGE = objects(
    {
        "prompt_tokens": COUNT,
        "completion_tokens": COUNT,
        "total_tokens": COUNT,
        "prompt_tokens_details": objects({"cached_tokens": COUNT}),
        "completion_tokens_details": ANYTHING,
        "cost": USD,
    }
)
OF_IMAGES = objects({"text_tokens": COUNT, "image_tokens": COUNT})
CALL = objects(
    {
        "id": STRING,
        "type": const("function"),
        "function": objects({"name": STRING, "arguments": STRING}),
    }
)


def answered(name: str, choice: Schema) -> Schema:
    return objects(
        {
            "id": STRING,
            "object": const(name),
            "created": INTEGER,
            "model": STRING,
            "service_tier": SERVED,
            "choices": array(objects(choice)),
            "usage": USAGE,
        }
    )


GENERATED_COMPONENTS: dict[str, Schema] = {
    "ChatCompletion": answered(
        "chat.completion",
        {
            "index": COUNT,
            "message": objects(
                {
                    "role": const("assistant"),
                    "content": maybe(STRING),
                    "refusal": maybe(STRING),
                    "annotations": array(ANYTHING),
                    "tool_calls": array(CALL),
                    "reasoning_content": REASONING,
                },
                "annotations",
                "tool_calls",
                "reasoning_content",
            ),
            "logprobs": maybe(ANYTHING),
            "finish_reason": FINISH,
        },
    ),
    "Completion": answered(
        "text_completion",
        {
            "text": STRING,
            "index": COUNT,
            "logprobs": maybe(ANYTHING),
            "finish_reason": ENDED,
        },
    ),
    "Embeddings": objects(
        {
            "object": const("list"),
            "data": array(
                objects(
                    {
                        "object": const("embedding"),
                        "index": COUNT,
                        "embedding": either(array(NUMBER), STRING),
                    }
                )
            ),
            "model": STRING,
            "usage": objects({"prompt_tokens": COUNT, "total_tokens": COUNT, "cost": USD}),
        }
    ),
    "Ranking": objects(
        {
            "id": STRING,
            "object": const("list"),
            "model": STRING,
            "results": array(
                objects(
                    {
                        "index": COUNT,
                        "relevance_score": NUMBER,
                        "document": objects({"text": STRING}),
                    },
                    "document",
                )
            ),
            "usage": objects({"prompt_tokens": COUNT, "total_tokens": COUNT, "cost": USD}),
            "meta": objects(
                {
                    "api_version": objects({"version": STRING}),
                    "billed_units": objects(
                        {"search_units": COUNT, "input_tokens": COUNT},
                        *("search_units", "input_tokens"),
                    ),
                }
            ),
        }
    ),
    "Moderation": objects({"id": STRING, "model": STRING, "results": array(ANYTHING)}),
    "Transcript": objects(
        {
            "text": STRING,
            "usage": ANYTHING,
            "language": STRING,
            "duration": NUMBER,
            "segments": array(ANYTHING),
            "words": array(ANYTHING),
        },
        *("language", "duration", "segments", "words"),
    ),
    "Images": objects(
        {
            "created": INTEGER,
            "data": array(
                objects(
                    {"b64_json": STRING, "url": STRING, "revised_prompt": STRING},
                    *("b64_json", "url", "revised_prompt"),
                )
            ),
            "background": STRING,
            "output_format": STRING,
            "size": STRING,
            "quality": STRING,
            "usage": objects(
                {
                    "input_tokens": COUNT,
                    "output_tokens": COUNT,
                    "total_tokens": COUNT,
                    "input_tokens_details": OF_IMAGES,
                    "output_tokens_details": OF_IMAGES,
                    "cost": USD,
                }
            ),
        },
        *("background", "output_format", "size", "quality"),
    ),
    "Response": responses.ANSWER,
    "Message": messages.ANSWER,
    "MessageError": messages.ERROR,
}

GENERATED_ANSWERS: dict[str, GeneratedAnswer] = {
    "/v1/chat/completions": GeneratedAnswer("Answer a conversation", "ChatCompletion"),
    "/v1/completions": GeneratedAnswer("Go on with a text", "Completion"),
    "/v1/embeddings": GeneratedAnswer("Place texts in a vector space", "Embeddings", streams=False),
    "/v1/rerank": GeneratedAnswer(
        "Order documents by their relevance to a query", "Ranking", streams=False
    ),
    "/v2/rerank": GeneratedAnswer("The same, for Cohere's clients", "Ranking", streams=False),
    "/v1/moderations": GeneratedAnswer(
        "Say what of a text or an image may harm", "Moderation", streams=False
    ),
    "/v1/audio/transcriptions": GeneratedAnswer(
        "Write down what is said in a file", "Transcript", streams=False, may_be_text=True
    ),
    "/v1/audio/translations": GeneratedAnswer(
        "Write it down in English", "Transcript", streams=False, may_be_text=True
    ),
    "/v1/audio/speech": GeneratedAnswer("Speak a text", None, streams=False),
    "/v1/images/generations": GeneratedAnswer(
        "Make images of what a text describes", "Images", streams=False
    ),
    "/v1/images/edits": GeneratedAnswer(
        "Make images of other images and of words", "Images", streams=False
    ),
    "/v1/responses": GeneratedAnswer("Answer a conversation, in items", "Response"),
    "/v1/messages": GeneratedAnswer("Answer a conversation, in Anthropic's shapes", "Message"),
}
