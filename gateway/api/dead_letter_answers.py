"""What the routes about dead letters answer, as JSON Schema."""

from gateway.api.json_schema import (
    BOOLEAN,
    COUNT,
    INTEGER,
    STRING,
    TIME,
    Schema,
    array,
    const,
    maybe,
    named,
    objects,
    one_of,
)

_LETTER: dict[str, Schema] = {
    "id": COUNT,
    "object": const("dead_letter"),
    "reason": STRING,
    "detail": STRING,
    "request": maybe(STRING),
    "kind": STRING,
    "shard": INTEGER,
    "entry": STRING,
    "created_at": TIME,
    "resolution": maybe(
        objects(
            {
                "outcome": one_of(("booked", "judged")),
                "by": STRING,
                "note": STRING,
                "resolved_at": TIME,
            }
        )
    ),
}
_PAYLOAD: Schema = {"description": "as JSON where it is JSON, else as text"}
DEAD_LETTER_COMPONENTS: dict[str, Schema] = {
    "DeadLetter": objects(_LETTER),
    "WholeDeadLetter": objects(_LETTER | {"payload": _PAYLOAD}),
    "DeadLetters": objects(
        {
            "object": const("list"),
            "data": array(named("DeadLetter")),
            "has_more": BOOLEAN,
            "last_id": maybe(COUNT),
        }
    ),
}

LETTERS = "/admin/v1/ledger/dead-letters"
DEAD_LETTER_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", LETTERS): named("DeadLetters"),
    ("get", LETTERS + "/{letter_id}"): named("WholeDeadLetter"),
    ("post", LETTERS + "/{letter_id}/retry"): named("DeadLetter"),
    ("post", LETTERS + "/{letter_id}/resolve"): named("DeadLetter"),
}
