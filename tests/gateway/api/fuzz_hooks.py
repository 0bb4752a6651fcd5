"""What Schemathesis is told of the gateway that it looks at: names of things that are there.

Names at random are never those of a model or a key, so nothing would get past the first check. Of
what would be sent two thirds name something real.
"""

from __future__ import annotations

from typing import Any

import schemathesis

from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from tests.gateway.edge import EMBEDDINGS, POOLS

BODY = {"model": "tale", "organization": ORGANIZATION_ID, "project": PROJECT_ID}
PATH = {
    "organization_id": ORGANIZATION_ID,
    "scope": f"key:{KEY_ID}",
    "name": "tale",
    "key_id": "key_none",
}
"""No call may end the key that the others are made with."""
CHOICES_MAX = 128
"""More are refused."""
EXAMPLES = ("sluice-small", "minilm")
"""Models of the description's examples, which this gateway has under other names."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if isinstance(case.body, dict):
        _name(case.body, BODY | ({"model": "vectors"} if case.path == EMBEDDINGS else {}))
        _ask_for_one(case.body)
    if case.path_parameters:
        pool = {"name": POOLS[1]} if "pools" in case.path else {}
        _name(case.path_parameters, PATH | pool)


def _name(given: dict[str, Any], real: dict[str, str]) -> None:
    for field, name in real.items():
        value = given.get(field)
        if isinstance(value, str) and (len(value) % 3 or value in EXAMPLES):
            given[field] = name


def _ask_for_one(body: dict[str, Any]) -> None:
    """The server behind this gateway says one answer, whatever it is asked for."""
    choices = body.get("n")
    if isinstance(choices, int) and 1 < choices <= CHOICES_MAX:
        body["n"] = 1
    prompts = body.get("prompt")
    if isinstance(prompts, list) and all(isinstance(prompt, str) for prompt in prompts):
        body["prompt"] = prompts[:1]
