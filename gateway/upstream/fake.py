"""A misbehaving OpenAI-compatible server, for tests and for trying things out: real sockets, real
bytes. It can be slow, refuse, stall, talk nonsense, cut its own words anywhere and hang up at any
point. Knows nothing of the adapter that it torments.
"""

import asyncio
import json
import ssl
import struct
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from types import TracebackType
from typing import Any, Self

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes of the body, written at once."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the connection, outside of HTTP's own rules: heads, chunk sizes and worse."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing, until somebody says so."""

    until: asyncio.Event


@dataclass(frozen=True, slots=True)
class Reset:
    """Hang up with a TCP reset, as a killed process does."""


@dataclass(frozen=True, slots=True)
class Close:
    """Hang up with the body unfinished."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Say nothing more, until the other side hangs up."""


Act = Send | Raw | Pause | Wait | Reset | Close | Stall


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: a status, headers, and what happens after them. No status: not even a line, and
    no end but the connection's."""

    acts: Sequence[Act]
    status: int | None = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    form: bytes = b""
    """The body, where it is a form."""


Behaviour = Callable[[Request], Script]


class FakeUpstream:
    """Serves on a free loopback port, by TLS if it has one; `scripts` are used up first, then
    `behaviour` answers."""

    def __init__(self, behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self.behaviour = behaviour
        self._tls = tls
        self.scripts: deque[Script] = deque()
        self.requests: list[Request] = []
        self.open = 0
        self.sent_bytes = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        assert self._server is not None, "the fake has an address while it serves"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None, "the fake is left after it was entered"
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _count(self, sent_bytes: int) -> None:
        self.sent_bytes += sent_bytes

    def hang_up(self) -> None:
        """On everybody, in the middle of whatever is said."""
        for connection in list(self._connections):
            connection.cancel()

    async def all_hung_up(self, *, within_s: float) -> None:
        """Return once no connection is open; raises TimeoutError."""
        async with asyncio.timeout(within_s):
            while self._connections:
                await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        await asyncio.wait({connection})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            request = await _read_request(reader)
            self.requests.append(request)
            script = self.scripts.popleft() if self.scripts else self.behaviour(request)
            await _perform(script, reader, writer, self._count)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the other side hung up first: the fake has nobody left to torment
        finally:
            self.open -= 1
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    is_form = headers.get("content-type", "").startswith("multipart/")
    fields = {} if is_form else json.loads(body or b"{}")
    return Request(first.split(" ")[1], headers, fields, body if is_form else b"")


async def _perform(
    script: Script,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    note_sent: Callable[[int], None],
) -> None:
    if script.status is not None:
        lines = [f"HTTP/1.1 {script.status} Fake", "transfer-encoding: chunked"]
        lines.append("connection: close")
        lines += [f"{name}: {value}" for name, value in script.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for act in script.acts:
        match act:
            case Send(data=data):
                writer.write(b"%x\r\n%b\r\n" % (len(data), data) if data else b"")
                await writer.drain()
                note_sent(len(data))
            case Raw(data=data):
                writer.write(data)
                await writer.drain()
            case Pause(seconds=seconds):
                await asyncio.sleep(seconds)
            case Wait(until=until):
                await until.wait()
            case Reset():
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
                writer.transport.abort()
                return
            case Close():
                return
            case Stall():
                await reader.read()
                return
    if script.status is not None:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


# --- what there is to say -----------------------------------------------------------------------


def own_frame(
    text: str,
    output: int,
    *,
    prompt: int = 10,
    cached: int = 0,
    finish: str | None = None,
    index: int = 0,
    tokens: Sequence[str] | None = None,
    busy_us: int = 0,
    token_ids: Sequence[int] | None = None,
) -> bytes:
    """An event as an own worker sends it: `output` tokens so far, usage cumulative over every
    choice; `tokens` with a log probability each; the share of its time so far; the ids of its
    tokens, without which nobody else can go on with it."""
    choice: dict[str, Any] = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    if tokens is not None:
        choice["logprobs"] = {"content": [scored(token) for token in tokens]}
    return own_event([choice], prompt - cached, cached, output, busy_us, token_ids)


def own_vectors(vectors: Mapping[int, Sequence[float]], prompt: int) -> bytes:
    """An event as an embedding worker sends it, `prompt` tokens so far."""
    choices = [
        {"index": index, "embedding": base64_of(vector), "finish_reason": "stop"}
        for index, vector in vectors.items()
    ]
    return own_event(choices, prompt, 0, 0)


def own_event(
    choices: Sequence[object],
    fresh: int,
    cached: int,
    output: int,
    busy_us: int = 0,
    token_ids: Sequence[int] | None = None,
) -> bytes:
    usage = {"input": fresh, "cached_input": cached, "output": output}
    notes = {"v": 1, "position": output, "busy_us": busy_us, "usage": usage}
    if token_ids is not None:
        notes["token_ids"] = token_ids
    return event({"choices": choices, "sluice": notes})


def scored(token: str, logprob: float = -0.5) -> dict[str, Any]:
    """A token with one that was likelier."""
    likelier = {"token": f"~{token}", "logprob": -0.25, "bytes": list(f"~{token}".encode())}
    own = {"token": token, "logprob": logprob, "bytes": list(token.encode())}
    return own | {"top_logprobs": [likelier]}


def base64_of(vector: Sequence[float]) -> str:
    """As OpenAI says vectors: little-endian float32."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def plain_frame(text: str | None = None, finish: str | None = None, index: int = 0) -> bytes:
    """An event as an external server sends it, without a word on usage."""
    delta = {} if text is None else {"content": text}
    return event({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]})


def plain_text(text: str, finish: str | None = None, index: int = 0) -> bytes:
    """The same of a plain completion."""
    return event({"choices": [{"index": index, "text": text, "finish_reason": finish}]})


def plain_vectors(vectors: Sequence[object], prompt: int) -> Script:
    """A document of embeddings as an external server gives it, in one piece."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    body = json.dumps({"object": "list", "data": data, "usage": usage}).encode()
    return Script([Send(body)], headers=(("content-type", "application/json"),))


def plain_usage(
    prompt: int, output: int, cached: int = 0, reasoning: int = 0, cache_write: int = 0
) -> bytes:
    """What an external server says that a call used: whatever it likes, whatever it has sent."""
    return event(
        {"choices": [], "usage": usage_document(prompt, output, cached, reasoning, cache_write)}
    )


def usage_document(
    prompt: int, output: int, cached: int = 0, reasoning: int = 0, cache_write: int = 0
) -> dict[str, Any]:
    """`usage` in OpenAI's words: `prompt` and `output` are the wholes, the others parts of them."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_write},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def plain_thought(text: str, index: int = 0) -> bytes:
    """A piece of reasoning, as vLLM and others say it."""
    delta = {"reasoning_content": text}
    return event({"choices": [{"index": index, "delta": delta, "finish_reason": None}]})


def plain_document(
    texts: Sequence[str], usage: Mapping[str, Any] | None, reasoning: str = ""
) -> Script:
    """A whole answer of several choices in one piece; `usage` None: without a word on it."""
    message = {"role": "assistant"} | ({"reasoning_content": reasoning} if reasoning else {})
    choices = [
        {"index": index, "message": message | {"content": text}, "finish_reason": "stop"}
        for index, text in enumerate(texts)
    ]
    body = json.dumps({"choices": choices} | ({"usage": usage} if usage is not None else {}))
    return Script([Send(body.encode())], headers=(("content-type", "application/json"),))


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def stream(*parts: bytes, then: Iterable[Act] = ()) -> Script:
    """These bytes one after the other, and then a proper end unless `then` hangs up."""
    return Script([*(Send(part) for part in parts), *then])


def refusal(
    status: int, error: dict[str, Any] | bytes, headers: tuple[tuple[str, str], ...] = ()
) -> Script:
    """An answer that is no stream: OpenAI's error object, or whatever bytes."""
    body = error if isinstance(error, bytes) else json.dumps({"error": error}).encode()
    return Script([Send(body)], status, (("content-type", "application/json"), *headers))


def cut_into(data: bytes, places: Iterable[int]) -> list[Act]:
    """The same bytes, written in pieces that end at `places`."""
    ends = [*sorted({p for p in places if 0 < p < len(data)}), len(data)]
    starts = [0, *ends[:-1]]
    return [Send(data[start:end]) for start, end in zip(starts, ends, strict=True)]
