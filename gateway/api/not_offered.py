"""What of OpenAI's API is not offered here, and why, in words that say what to do instead."""

TRAINING = (
    "This service runs models and does not train them: fine-tune elsewhere, and declare the"
    " checkpoint as a model."
)
WITHOUT_MODEL = "No model or provider for this is configured here."

REASONS = {
    "/v1/fine_tuning": TRAINING,
    "/v1/evals": TRAINING,
    "/v1/images": (
        "Images are made of words and of other images here: 'POST /v1/images/generations' and"
        " 'POST /v1/images/edits'."
    ),
    "/v1/videos": WITHOUT_MODEL,
    "/v1/realtime": WITHOUT_MODEL,
    "/v1/assistants": "Assistants are kept state; this service is stateless: send the messages.",
    "/v1/conversations": "Conversations are kept state; this service is stateless: send the items.",
    "/v1/responses": (
        "Responses are not kept here, so none can be read, cancelled or deleted: keep yours, and"
        " send its items as 'input'."
    ),
    "/v1/threads": "Threads are kept state; this service is stateless: send the messages.",
}


def reason_for(path: str) -> str | None:
    """Why a path of OpenAI's is not served; None for one that nobody knows."""
    return next(
        (why for root, why in REASONS.items() if path == root or path.startswith(f"{root}/")), None
    )
