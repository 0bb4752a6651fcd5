"""Log probabilities as plain completions say them: four lists of one length.

Made from what workers say of each token; a server outside that says them in this form already is
believed as it is.
"""

from codecs import getincrementaldecoder
from typing import Any

from gateway.call.frame import Likely, Logprobs, PromptLogprobs, Scored
from gateway.wire.prompt_logprobs import is_own


class LegacyLogprobs:
    """Of one choice, piece by piece: it knows how much text there was before."""

    def __init__(self, prompt: PromptLogprobs | None = None) -> None:
        """With a `prompt` that is said again, whose first token has no probability."""
        self._first_unknown = prompt is not None and is_own(prompt)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def shape(self, logprobs: Logprobs | None) -> dict[str, Any] | None:
        if logprobs is None:
            return None
        if logprobs.content is None:
            return {
                "tokens": logprobs.tokens or [],
                "token_logprobs": logprobs.token_logprobs or [],
                "top_logprobs": logprobs.top_logprobs,
                "text_offset": logprobs.text_offset or [],
            }
        logprob: list[float | None] = [token.logprob for token in logprobs.content]
        top: list[dict[str, float] | None] = [_by_spelling(token) for token in logprobs.content]
        if self._first_unknown and logprob:
            logprob[0] = top[0] = None
            self._first_unknown = False
        return {
            "tokens": [_spelled(token) for token in logprobs.content],
            "token_logprobs": logprob,
            "top_logprobs": top,
            "text_offset": [self._offset_of(token) for token in logprobs.content],
        }

    def _offset_of(self, token: Scored) -> int:
        """Where the token begins in the text, in characters."""
        before = self._offset
        self._offset += len(self._decoder.decode(_bytes(token)))
        return before


def _by_spelling(token: Scored) -> dict[str, float]:
    """The likeliest, and the token itself where it is not among them."""
    logprobs = {_spelled(likely): likely.logprob for likely in token.top_logprobs}
    return logprobs | {_spelled(token): token.logprob}


def _spelled(token: Likely) -> str:
    """Half a character is spelled as its bytes, as OpenAI does: `bytes:\\xe2\\x82`."""
    raw = _bytes(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _bytes(token: Likely) -> bytes:
    return token.token.encode() if token.bytes is None else bytes(token.bytes)
