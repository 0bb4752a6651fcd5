"""The one adapter for OpenAI-compatible servers: own workers and external URLs alike.

Bytes may be cut anywhere by TCP. An answer is complete once each of its choices has finished; a
malformed event, an earlier end or a silence beyond the idle bound is `Cut`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from billing.types import UNREADABLE, Usage
from gateway.call.frame import Frame, SoundChoice
from gateway.providers.triton import Awaited, Generated
from gateway.scores.answers import ReadDocument
from gateway.uploads.sent_form import SentForm
from gateway.upstream.answer import (
    Cut,
    HintsRefused,
    Late,
    Lost,
    Malformed,
    Misconfigured,
    Rejected,
    Rejection,
    Reported,
    Saturated,
    Unreachable,
    UpstreamError,
)
from gateway.upstream.blame import is_of_account, is_ours_to_answer_for
from gateway.upstream.chunks import read_answer, read_chunk, read_vectors
from gateway.upstream.doubt import Doubt
from gateway.upstream.fault import DETAIL_CHARS_MAX, Fault, fault_of, without_secrets
from gateway.upstream.hints import refused_hints, without_hints
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.errors import ConnectFailed, HttpError, TooLate
from gateway.upstream.http1.exchange import Response, SeenThrough
from gateway.wire.sse import DONE, SseDecoder
from routing.health.patience import DOCUMENT_TOKEN_S
from routing.health.retry_after import retry_after_s
from routing.policy.action import TIMEOUTS, Timeouts
from routing.types import Clock

ERROR_BODY_MAX = 64 * 1024
DOCUMENT_BYTES_MAX = 64 * 1024 * 1024
"""2,048 vectors of 4,096 numbers, in base64, and some room."""
SOUND_BYTES_MAX = 256 * 1024 * 1024
"""4,096 characters, slowly, as samples, and much room."""
LIST_BYTES_MAX = 8 * 1024 * 1024
"""Of models: hundreds of them, with all that is said of each."""
EVENTS = "text/event-stream"
IDENTITY = "identity"
"""The only encoding that is asked for."""
ENCODING_CHARS_MAX = 32
EVENTS_BEHIND_MAX = 64
"""What a server may add behind the end of an answer: its usage, and maybe more."""
SATURATED = (429, 503)
FORMER_TRY = "request_in_flight"
"""The worker has not yet let go of this call's former try."""
CALLERS_FAULT = (400, 413, 422)
NO_WORDS = "The server of this model refused the request and did not say why."


class Patience(msgspec.Struct, frozen=True):
    """How long a server may take for a connection and its first token, and be silent between two
    events of its answer: first one is passed over for the next candidate, then the answer is
    cut."""

    first_token_s: float = 60.0
    idle_s: float = 60.0
    connect_s: float = 2.0

    def by(self, timeouts: Timeouts) -> "Patience":
        """As a policy or a pool bounds it."""
        if timeouts == TIMEOUTS:
            return self
        return Patience(
            timeouts.first_token_s or self.first_token_s,
            timeouts.idle_s or self.idle_s,
            timeouts.connect_s or self.connect_s,
        )

    def of_a_document(self, output_tokens: int, work_s: float = 0.0) -> "Patience":
        """An answer in one piece is silent until its last token."""
        longest_s = self.first_token_s + DOCUMENT_TOKEN_S * output_tokens + work_s
        return Patience(longest_s, self.idle_s, self.connect_s)


class Whole(msgspec.Struct, frozen=True):
    """An answer asked for in one piece: how many tokens its prompt has, as far as we know, and how
    much longer than others its server may take."""

    prompt_tokens: int
    work_s: float = 0.0


class Target(msgspec.Struct, frozen=True):
    """Where an attempt goes: the URL, the headers and the JSON body to post; and what is awaited:
    so many choices, which are vectors where it `embeds`, and one document where `whole`."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    secrets: tuple[str, ...] = ()
    """What of the headers may stand in no record."""
    outside: bool = False
    """Whether it is a server of others."""
    choices: int = 1
    finished: frozenset[int] = frozenset()
    """Those of them that another server finished before it was lost."""
    embeds: bool = False
    reads: ReadDocument | None = None
    """What reads its answer, where that is a document of its own kind."""
    patience: Patience = Patience()
    whole: Whole | None = None
    left_out: tuple[str, ...] = ()
    """The hints that the call had and this server is not sent."""
    awaited: Awaited | None = None
    """Of a server that speaks Triton's generate extension."""
    form: SentForm | None = None
    """What is posted in place of the body, which has its text alone."""
    sound: Usage | None = None
    """What its answer costs, which is sound and does not say it."""
    rejection: Rejection | None = None
    """What this server has nothing for, so that it is not asked."""

    def without_hints(self) -> "Target":
        body, left_out = without_hints(self.body)
        return msgspec.structs.replace(self, body=body, left_out=self.left_out + left_out)


class OpenAIUpstream:
    """Opens streams over one shared client."""

    def __init__(self, client: Http1Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def open(
        self,
        target: Target,
        within_s: float | None = None,
        seen_through: SeenThrough | None = None,
    ) -> "OpenAIAnswer":
        """Post and return once the status is 200; raises one of the UpstreamErrors. An answer has
        `within_s` seconds from now until it has `begun`, and is `Late` otherwise."""
        if target.rejection is not None:
            raise Rejected(target.rejection)
        bound_s = target.patience.first_token_s if within_s is None else within_s
        try:
            response = await self._client.post(
                target.url,
                target.headers,
                target.form or target.body,
                within_s=bound_s,
                connect_s=target.patience.connect_s,
                seen_through=seen_through,
            )
        except HttpError as failed:
            raise _not_answered(failed) from failed
        encoding = response.headers.get("content-encoding", IDENTITY).strip().lower()
        if response.status == 200 and encoding == IDENTITY:
            return OpenAIAnswer(response, target)
        try:
            if response.status == 200:
                raise Cut(f"the answer is compressed ({encoding[:ENCODING_CHARS_MAX]})")
            raise await _refusal(response, target, self._clock())
        finally:
            response.close()

    async def document(self, target: Target) -> bytes:
        """What is there at a URL; raises one of the UpstreamErrors."""
        within_s = target.patience.first_token_s
        try:
            response = await self._client.get(target.url, target.headers, within_s=within_s)
        except HttpError as failed:
            raise _not_answered(failed) from failed
        try:
            if response.status != 200:
                raise await _refusal(response, target, self._clock())
            body = await _whole_body(response, LIST_BYTES_MAX)
        except HttpError as broken:
            raise _broken(broken) from broken
        finally:
            response.close()
        if len(body) > LIST_BYTES_MAX:
            raise Cut("a list was larger than any list may be")
        return body


class OpenAIAnswer:
    """One opened answer: a document, or a stream of frames. Leaving the block before all of it was
    read closes the connection, which aborts it."""

    def __init__(self, response: Response, target: Target) -> None:
        self._response = response
        self._idle_s = target.patience.idle_s
        self._embeds = target.embeds
        self._reads = target.reads
        self._whole = target.whole
        self.choices = target.choices
        self._unfinished = set(range(target.choices)) - target.finished
        self._decoder = SseDecoder()
        self._cut: Cut | None = None
        self._target = target
        self._is_begun = False
        self._is_broken = False
        self._behind = 0
        self._texts = 0
        self._sound_bytes = 0
        self._doubt: Doubt | None = None
        self._generated = Generated(target.awaited) if target.awaited else None
        self._read = read_chunk if self._generated is None else self._generated.read
        self._quiet_since_s: float | None = None
        self.is_over = False
        """All its choices have finished, and nothing more comes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self._unfinished and not self._is_broken:
            self._response.leave()
        else:
            self._response.close()

    def interrupt(self) -> None:
        """Have `more` raise Interrupted; it may be asked for more afterwards."""
        self._response.interrupt()

    def begun(self) -> None:
        """Its first token is here: from now on only silences are too long."""
        self._is_begun = True
        self._response.begun(self._idle_s)

    @property
    def is_document(self) -> bool:
        """Servers outside give their vectors in one piece, and most give answers so if asked to."""
        if self._reads is not None:
            return True
        may_be = self._embeds or self._whole is not None
        return may_be and _content_type(self._response) != EVENTS

    async def document(self) -> Frame:
        """All of it; raises Cut where any choice is unfinished."""
        try:
            body = await _whole_body(self._response, DOCUMENT_BYTES_MAX)
        except HttpError as broken:
            raise _broken(broken) from broken
        if len(body) > DOCUMENT_BYTES_MAX:
            raise Cut("a document was larger than any document may be")
        if self._reads is not None:
            frame = await asyncio.to_thread(self._reads, body)
        elif self._whole is None:
            frame = await asyncio.to_thread(read_vectors, body)
        else:
            try:
                frame = self._read_whole(body, self._whole)
            except Reported as reported:
                raise self._failure(reported) from reported
        self._note(frame)
        self._end([])
        return frame

    def _read_whole(self, body: bytes, whole: Whole) -> Frame:
        if self._generated is not None:
            return self._generated.whole(body)
        return read_answer(body, whole.prompt_tokens)

    async def more(self) -> list[Frame]:
        """Of a stream: the frames that have come since the last time, none only where it is over.

        Raises Cut if it ends any other way, once the frames before that have been given,
        Interrupted where it is to be left before its end, and Misconfigured where the server
        reports before its first token that it refuses us.
        """
        frames: list[Frame] = []
        while not frames and not self.is_over:
            if self._cut is not None:
                raise self._failure(self._cut)
            try:
                received = await self._response.read()
            except HttpError as broken:
                if self._unfinished:
                    raise self._lost(broken) from broken
                received, self._is_broken = b"", True  # with all it had to say
            texts = self._texts
            try:
                self._take(received, frames)
                is_quiet = self._texts == texts or self._quiet_since_s is not None
                if is_quiet or not self._unfinished:
                    self._look_for_chatter(frames)
            except Cut as cut:
                self._cut = cut
        return frames

    def _look_for_chatter(self, frames: list[Frame]) -> None:
        """A server that says something, but no token for longer than it may be silent, stalls.
        Raises Late. Behind the end of its answer it is not listened to for long."""
        if not self._unfinished and not self.is_over:
            self._behind += len(frames) + 1
            if self._behind > EVENTS_BEHIND_MAX:
                self._is_broken = True
                self._end(frames)
        is_held = self._doubt is not None and self._doubt.was_told()
        if is_held or any(frame.says_something for frame in reversed(frames)):
            self._quiet_since_s = None
        elif self._is_begun and not self.is_over:
            now_s = asyncio.get_running_loop().time()
            self._quiet_since_s = self._quiet_since_s or now_s
            if now_s - self._quiet_since_s > self._idle_s:
                raise Late(f"no token for {self._idle_s:.3f} s")

    def _lost(self, broken: HttpError) -> Cut:
        """A server that has begun to answer and whose connection breaks is gone."""
        cut = _broken(broken)
        return cut if isinstance(cut, Late) or not self._is_begun else _gone(cut)

    def _failure(self, cut: Cut) -> UpstreamError:
        """What a server reports before its first token is a refusal like any other; behind that
        it may tell of the answer, and is not kept."""
        if self._is_begun and not self._target.outside and isinstance(cut, Reported | Lost):
            return _gone(cut)
        if not isinstance(cut, Reported) or self._is_begun:
            return cut
        code, target = cut.error.get("code"), self._target
        status = code if isinstance(code, int) else 400
        report = msgspec.json.encode({"error": cut.error})
        failure: UpstreamError = cut
        if hints_failure := _hints_refused(status, cut.error, report, target):
            failure = hints_failure
        elif target.outside and is_ours_to_answer_for(status, cut.error):
            of_account = is_of_account(status, cut.error)
            failure = Misconfigured(f"reported {code}", is_of_account=of_account)
        failure.fault = fault_of(self._response.status, report, target.secrets, target.body)
        return failure

    def _take(self, received: bytes, frames: list[Frame]) -> None:
        """Reads the frames of what was received into `frames`, up to the end or what cuts it."""
        if self._target.sound is not None:
            self._take_sound(received, self._target.sound, frames)
            return
        for payload in self._decoder.feed(received):
            if payload == DONE:
                self._end(frames)
                return
            try:
                frame = self._read(payload)
            except Malformed as malformed:
                self._leave_out(payload, malformed, frames)
                continue
            if self._doubt is None:  # as nearly always: no further function for each chunk
                self._note(frame)
                frames.append(frame)
            else:
                self._keep(frame, len(payload), frames)
        if self._decoder.is_too_large:
            raise Cut("an event was larger than any event may be")
        if not received:
            if self._generated is not None and self._generated.is_begun:
                self._keep(self._generated.end(), 0, frames)
            try:
                self._end(frames)
            except Cut as cut:
                raise _gone(cut) from cut

    def _take_sound(self, received: bytes, usage: Usage, frames: list[Frame]) -> None:
        """All that a server sends is its answer, unless it says that it is text."""
        self._sound_bytes += len(received)
        media = _content_type(self._response)
        if media.startswith("text/") or media.endswith("json") or not self._sound_bytes:
            raise Cut(f"no sound, but {media[:ENCODING_CHARS_MAX] or 'nothing'}")
        if self._sound_bytes > SOUND_BYTES_MAX:
            raise Cut("more sound than any text has")
        finish = None if received else "stop"
        choice = SoundChoice(sound=received, finish_reason=finish)
        self._keep(Frame((choice,), usage), 0, frames)
        if finish is not None:
            self._end(frames)

    def _keep(self, frame: Frame, size: int, frames: list[Frame]) -> None:
        self._note(frame)
        if self._doubt is None:
            frames.append(frame)
        else:
            self._texts -= frame.texts
            self._doubt.hold(frame, size)

    def _leave_out(self, payload: bytes, malformed: Malformed, frames: Sequence[Frame]) -> None:
        """A server outside that has said a token may say nonsense now and then; before that, others
        are asked. Raises `malformed`."""
        has_spoken = self._is_begun or any(frame.says_something for frame in frames)
        if not self._target.outside or not has_spoken:
            raise malformed
        if not self._unfinished:
            return
        if self._doubt is None:
            self._doubt = Doubt()
        self._doubt.leave_out(payload, malformed)

    def _note(self, frame: Frame) -> None:
        if self._embeds and frame.usage is not None and frame.usage.output:
            raise Cut("vectors have no output tokens")
        for choice in frame.choices:
            if choice.index >= self.choices:
                raise Cut(f"a choice {choice.index} where there are {self.choices}")
            if self._embeds and choice.embedding is None:
                raise Cut(f"choice {choice.index} has no vector")
            self._texts += choice.has_text
            if choice.finish_reason is not None:
                self._unfinished.discard(choice.index)

    def _end(self, frames: list[Frame]) -> None:
        if self._unfinished:
            raise Cut(f"the stream ended before {len(self._unfinished)} choices had finished")
        if self._doubt is not None:
            doubt, self._doubt = self._doubt, None
            frames += doubt.released(self._texts)
        self.is_over = True


def _gone(cut: Cut) -> Lost:
    lost = Lost(str(cut))
    lost.fault = cut.fault
    return lost


def _not_answered(error: HttpError) -> UpstreamError:
    if not isinstance(error, ConnectFailed):
        return _broken(error)
    unreachable = Unreachable(str(error))
    unreachable.fault = Fault(None, str(error)[:DETAIL_CHARS_MAX])
    return unreachable


def _broken(error: HttpError) -> Cut:
    message = f"the stream broke: {error}"
    broken = Late(str(error)) if isinstance(error, TooLate) else Cut(message)
    broken.fault = Fault(None, str(broken)[:DETAIL_CHARS_MAX])
    return broken


async def _refusal(response: Response, target: Target, now_s: float) -> UpstreamError:
    """The error that a status other than 200 stands for, with what was said."""
    try:
        body = await _whole_body(response, ERROR_BODY_MAX)
    except HttpError:
        body = b""
    error = _error_object(body)
    refusal = _hints_refused(response.status, error, body, target)
    refusal = refusal or _refusal_of(response, error, target, now_s)
    refusal.fault = fault_of(response.status, body, target.secrets, target.body)
    return refusal


def _hints_refused(
    status: int, error: Mapping[str, Any], answer: bytes, target: Target
) -> UpstreamError | None:
    hints = refused_hints(status, error, answer, target.body) if target.outside else ()
    return HintsRefused(_rejection(status, error, target), hints) if hints else None


def _rejection(status: int, error: Mapping[str, Any], target: Target) -> Rejection:
    message = without_secrets(str(error.get("message") or NO_WORDS), target.secrets)
    return Rejection(status, message, _word(error.get("code")), _word(error.get("param")))


def _refusal_of(
    response: Response, error: dict[str, Any], target: Target, now_s: float
) -> UpstreamError:
    status, rejection = response.status, _rejection(response.status, error, target)
    code, message = rejection.code, rejection.message
    if code == "worker_draining":
        return Unreachable(message)
    if target.outside and is_ours_to_answer_for(status, error):
        return Misconfigured(f"status {status}", is_of_account=is_of_account(status, error))
    if status in SATURATED or code == FORMER_TRY:
        asked, date = response.headers.get("retry-after"), response.headers.get("date")
        return Saturated(message, retry_after_s(asked, date, now_s))
    if status in CALLERS_FAULT and target.awaited is None:  # Triton says 400 of any failure
        return Rejected(rejection)
    return Cut(f"status {status}: {message}")


def _error_object(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else {}


async def _whole_body(response: Response, bytes_max: int) -> bytes:
    """All of it, however TCP cut it, but hardly more than `bytes_max`."""
    parts = []
    size = 0
    while size <= bytes_max and (part := await response.read()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _content_type(response: Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _word(value: object) -> str | None:
    """Some servers put numbers where OpenAI has words: ours are words or nothing."""
    return value if isinstance(value, str) else None
