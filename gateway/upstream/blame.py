"""Whose fault a refusal of a server outside is: ours, who set up its pool, or the call's. Pure.

Such servers are asked with our key, at our URL, for a model that the pool names, and on our
account. What they say of any of these is no business of the tenant's.
"""

from collections.abc import Mapping
from typing import Any

REDIRECTS = range(300, 400)
"""Never followed: a key goes where the pool says and nowhere else."""
OURS = frozenset({401, 402, 403, 404, 405, 406, 407, 409, 410, 421, 423, 424, 425, 426, 451})
EITHERS = frozenset({400, 422, 429})
"""Servers differ in what these mean: their words decide."""
WORDS_OF_OURS = frozenset(
    {
        "account_deactivated",
        "authentication_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_model",
        "model_not_found",
        "permission_error",
    }
)
"""Of an error's `code` and `type`."""


def is_ours_to_answer_for(status: int, error: Mapping[str, Any]) -> bool:
    """`error` is the server's error object, or empty."""
    if status in OURS or status in REDIRECTS:
        return True
    if status not in EITHERS:
        return False
    words = {word for key in ("code", "type") if isinstance(word := error.get(key), str)}
    return error.get("param") == "model" or not words.isdisjoint(WORDS_OF_OURS)
