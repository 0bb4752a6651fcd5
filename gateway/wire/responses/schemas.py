"""What a body of `/v1/responses` holds, as JSON Schema: its items and the form of the answer, as
`items.py` and `parts.py` read them."""

from gateway.wire.bodies.messages import DETAIL, IMAGE_URL, REFUSAL_PART
from gateway.wire.bodies.response_format import FORM, UNFORMED
from gateway.wire.bodies.rules import object_of, the
from gateway.wire.json_schema import (
    ANYTHING,
    NUMBER,
    STRING,
    Schema,
    array,
    between,
    const,
    either,
    maybe,
    objects,
    one_of,
    part,
)
from gateway.wire.responses.items import PHASES
from gateway.wire.responses.parts import STATUSES
from gateway.wire.responses.tool_schemas import calls

STATUS = one_of(STATUSES)
FORMAT = either(
    UNFORMED,
    object_of({"type": the("json_schema")} | FORM, "type", "name", "schema").schema,
)
LIKELY: dict[str, Schema] = {
    "token": STRING,
    "logprob": NUMBER,
    "bytes": maybe(array(between(0, 255, "integer"))),
}
SCORES = array(
    objects(LIKELY | {"top_logprobs": array(objects(LIKELY, "bytes"))}, "bytes", "top_logprobs")
)
ASKED_PART = part({"type": const("input_text"), "text": STRING})
IMAGE_PART = part(
    {"type": const("input_image"), "image_url": IMAGE_URL, "detail": DETAIL.schema}, "detail"
)
ANSWERED_PART = part(
    {
        "type": const("output_text"),
        "text": STRING,
        "annotations": array(ANYTHING, maxItems=0),
        "logprobs": SCORES,
    },
    "annotations",
    "logprobs",
)


def _content(*kinds: Schema) -> Schema:
    return either(STRING, array(either(*kinds), minItems=1))


SAID_BY = (
    ("user", _content(ASKED_PART, IMAGE_PART)),
    ("assistant", _content(ANSWERED_PART, REFUSAL_PART)),
    ("system", _content(ASKED_PART)),
    ("developer", _content(ASKED_PART)),
)
BOOKED: dict[str, Schema] = {"id": STRING, "status": STATUS}
"""What an earlier answer said of its own items."""
THOUGHT = array(part({"type": const("reasoning_text"), "text": STRING}))
ITEM = either(
    *(
        part(
            BOOKED
            | {"type": const("message"), "role": const(role), "content": content}
            | {"phase": one_of(PHASES)},
            "type",
            "phase",
            *BOOKED,
        )
        for role, content in SAID_BY
    ),
    part(
        BOOKED
        | {
            "type": const("reasoning"),
            "content": THOUGHT,
            "summary": array(part({"type": const("summary_text"), "text": STRING})),
        },
        "content",
        "summary",
        *BOOKED,
    ),
    *calls(BOOKED, _content(ASKED_PART, IMAGE_PART)),
)
INPUT = either(STRING, array(ITEM, minItems=1))
