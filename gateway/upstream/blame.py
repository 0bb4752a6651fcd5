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
WORDS_OF_ACCOUNT = frozenset(
    {
        "account_deactivated",
        "authentication_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_quota",
        "invalid_api_key",
        "permission_error",
    }
)
"""Of an error's `code` and `type`."""
WORDS_OF_MODELS = frozenset({"invalid_model", "model_not_found"})
OF_ACCOUNT = frozenset({401, 402, 403})


def is_ours_to_answer_for(status: int, error: Mapping[str, Any]) -> bool:
    """`error` is the server's error object, or empty."""
    if status in OURS or status in REDIRECTS:
        return True
    if status not in EITHERS:
        return False
    ours = WORDS_OF_ACCOUNT | WORDS_OF_MODELS
    return error.get("param") == "model" or not _words(error).isdisjoint(ours)


def is_of_account(status: int, error: Mapping[str, Any]) -> bool:
    """Of what is ours: whether it is our key or our account, and so holds for all its pools."""
    return status in OF_ACCOUNT or not _words(error).isdisjoint(WORDS_OF_ACCOUNT)


def _words(error: Mapping[str, Any]) -> set[str]:
    return {word for key in ("code", "type") if isinstance(word := error.get(key), str)}
