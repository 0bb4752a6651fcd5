"""How a provider misbehaves: one function for each way, named as the scenarios name it.

A behaviour answers a request that streams with events, and another one with a document. `Provider`
is a server that has a queue of behaviours and then one for ever, and counts what it was asked.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle

from gateway.upstream import fake

WORDS = ("Once ", "upon ", "a ", "time ", "there ", "was ", "a ", "gate, ", "and ", "it held.")
"""The whole answer, a token each."""
TEXT = "".join(WORDS)
PROMPT_TOKENS = 7
JSON = (("content-type", "application/json"),)

Behaviour = fake.Behaviour


class Provider(fake.FakeUpstream):
    """Behaves as `next` says, request by request, and then as `behaviour` does."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        super().__init__(self._behave)
        self.then: Behaviour = behaviour or well
        self.next: deque[Behaviour] = deque()

    def _behave(self, request: fake.Request) -> fake.Script:
        behaviour = self.next.popleft() if self.next else self.then
        return behaviour(request)

    @property
    def asked(self) -> int:
        """How many requests came."""
        return len(self.requests)


def well(request: fake.Request) -> fake.Script:
    """The whole answer, without a fault."""
    return says(WORDS)(request)


def says(
    words: Sequence[str], *, finish: str = "stop", has_done: bool = True, has_usage: bool = True
) -> Behaviour:
    def behave(request: fake.Request) -> fake.Script:
        used = fake.usage_document(PROMPT_TOKENS, len(words))
        if not request.body.get("stream"):
            message = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            document = {"choices": [choice]} | ({"usage": used} if has_usage else {})
            return fake.Script([fake.Send(json.dumps(document).encode())], headers=JSON)
        parts = [fake.plain_frame(word) for word in words] + [fake.plain_frame(finish=finish)]
        parts += [fake.plain_usage(PROMPT_TOKENS, len(words))] if has_usage else []
        return fake.stream(*parts, *([fake.DONE] if has_done else []))

    return behave


def refuses(status: int, *, retry_after: str | None = None, code: str | None = None) -> Behaviour:
    """A status with an error object, and `retry-after` where one is given."""
    headers = (("retry-after", retry_after),) if retry_after is not None else ()
    error = {"message": f"no: {status}", "type": "error", "code": code}
    return lambda _: fake.refusal(status, error, headers)


def resets(_: fake.Request) -> fake.Script:
    """A TCP reset before any byte."""
    return fake.Script([fake.Reset()], status=None)


def silent(_: fake.Request) -> fake.Script:
    """Takes the request and never says anything."""
    return fake.Script([fake.Stall()], status=None)


def late(seconds: float) -> Behaviour:
    """The whole answer, whose first token comes after so long. The head of a stream comes at
    once."""

    def behave(request: fake.Request) -> fake.Script:
        whole = well(request)
        return replace(whole, acts=[fake.Pause(seconds), *whole.acts])

    return behave


def cut_after(words: int) -> Behaviour:
    """A stream that is reset after so many words; a document that is reset in its middle."""
    return _broken_after(words, fake.Reset())


def stalls_after(words: int) -> Behaviour:
    return _broken_after(words, fake.Stall())


def malformed_after(words: int, garbage: bytes = b"data: {not json\n\n") -> Behaviour:
    """One event of a stream is garbage; all words come."""

    def behave(request: fake.Request) -> fake.Script:
        whole = well(request)
        if not request.body.get("stream"):
            return fake.Script([fake.Send(b"{not json")], headers=JSON)
        acts = [*whole.acts[:words], fake.Send(garbage), *whole.acts[words:]]
        return replace(whole, acts=acts)

    return behave


def without_done(request: fake.Request) -> fake.Script:
    """All words and a finish reason, and no `[DONE]`."""
    return says(WORDS, has_done=False)(request)


def ends_after(words: int) -> Behaviour:
    """A stream that ends properly in the middle: no finish reason, no usage, no `[DONE]`."""

    def behave(request: fake.Request) -> fake.Script:
        whole = well(request)
        if not request.body.get("stream"):
            return _half_a_document(whole, [])
        return replace(whole, acts=whole.acts[:words])

    return behave


def filtered(request: fake.Request) -> fake.Script:
    """The provider's content filter ends the answer after three words."""
    return says(WORDS[:3], finish="content_filter")(request)


CONTEXT_LENGTH = "context_length_exceeded"


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other, request by request, and from the first one on again."""
    turns = cycle(behaviours)
    return lambda request: next(turns)(request)


def boasts(request: fake.Request) -> fake.Script:
    """The whole answer, and a usage that cannot be."""
    used = 10**12
    whole = well(request)
    if request.body.get("stream"):
        acts = [*whole.acts[:-2], fake.Send(fake.plain_usage(used, used)), whole.acts[-1]]
        return replace(whole, acts=acts)
    return fake.plain_document([TEXT], fake.usage_document(used, used))


def babbles(request: fake.Request) -> fake.Script:
    """The whole answer, and then more text, a second end and a second `[DONE]`."""
    whole = well(request)
    if not request.body.get("stream"):
        return whole
    more = [fake.plain_frame("and more"), fake.plain_frame(finish="stop"), fake.DONE]
    return replace(whole, acts=[*whole.acts, *map(fake.Send, more)])


def shows_a_page(_: fake.Request) -> fake.Script:
    """A page for people, as a proxy on the way has it, with a status of 200."""
    return fake.Script(
        [fake.Send(b"<html>Welcome</html>")], headers=(("content-type", "text/html"),)
    )


def flaps(clock: Callable[[], float], period_s: float, bad: Behaviour) -> Behaviour:
    """Behaves badly in the first half of each period, and well in the second, by that clock."""

    def behave(request: fake.Request) -> fake.Script:
        is_bad = clock() % period_s < period_s / 2
        return (bad if is_bad else well)(request)

    return behave


def _broken_after(words: int, end: fake.Act) -> Behaviour:
    def behave(request: fake.Request) -> fake.Script:
        whole = well(request)
        if not request.body.get("stream"):
            return _half_a_document(whole, [end])
        return replace(whole, acts=[*whole.acts[:words], fake.Pause(0.05), end])

    return behave


def _half_a_document(whole: fake.Script, then: Sequence[fake.Act]) -> fake.Script:
    (sent,) = whole.acts
    assert isinstance(sent, fake.Send)
    return replace(whole, acts=[fake.Send(sent.data[: len(sent.data) // 2]), *then])
