"""Somebody else's OpenAI-compatible server: real HTTP, plain frames, as slow or broken as told."""

from __future__ import annotations

import json
import select
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOLD_S = 30.0
ARRIVE_S = 0.3
"""Before a cut, so that it does not overtake what was sent: a reader may drop that then."""
LOOK_EVERY_S = 0.02


@dataclass
class Script:
    """What the server does with a call: each word is one chunk, then usage and `[DONE]`."""

    words: tuple[str, ...] = ("Once ", "upon ", "a ", "time.")
    prompt_tokens: int = 9
    cached_tokens: int = 4
    hold_after: int | None = None
    """After this many words it waits until it is released or its client leaves."""
    cut_after: int | None = None
    """After this many words it closes the connection in the middle of the answer."""
    status: int = 200
    tool_calls: tuple[list[dict[str, Any]], ...] = ()
    """Pieces of calls after the words, one chunk for each list."""
    thoughts: tuple[str, ...] = ()
    """Before the words, as vLLM and others say them; each is a token of reasoning."""
    finish_reason: str = "stop"
    reports: dict[str, int] = field(default_factory=dict)
    """What it says it used in the place of what it has sent: `prompt_tokens` and so on."""


@dataclass
class Outside:
    """The running server and what it has seen. A context manager."""

    script: Script = field(default_factory=Script)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    left: int = 0
    """Callers that closed their side before the answer was complete."""
    release: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        handler = type("Handler", (_Handler,), {"outside": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(LOOK_EVERY_S,))

    def begin(self, script: Script) -> None:
        """Forget what was seen and follow another script."""
        self.release.clear()
        self.script, self.left = script, 0
        self.bodies.clear()
        self.keys.clear()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Outside:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(HOLD_S)


class _Left(Exception):
    """The caller closed its side."""


class _Handler(BaseHTTPRequestHandler):
    outside: Outside
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        outside, script = self.outside, self.outside.script
        length = int(self.headers["content-length"])
        outside.bodies.append(json.loads(self.rfile.read(length)))
        outside.keys.append(self.headers.get("authorization"))
        try:
            if script.status != 200:
                self._refuse(script.status)
            elif self.path.endswith("/embeddings"):
                self._document(script, outside.bodies[-1]["input"])
            else:
                self._answer(outside, script)
        except (_Left, ConnectionError):
            outside.left += 1

    def end_headers(self) -> None:
        """One call a connection, and says so: else its client may send the next into its end."""
        self.send_header("connection", "close")
        super().end_headers()

    def _refuse(self, status: int) -> None:
        self._whole(status, {"error": {"message": "not today", "code": "busy"}})

    def _document(self, script: Script, inputs: list[object]) -> None:
        """Vectors as numbers, whatever was asked for; some servers know nothing else."""
        data = [{"index": index, "embedding": [0.5, -index]} for index in range(len(inputs))]
        used = {"prompt_tokens": script.prompt_tokens, "total_tokens": script.prompt_tokens}
        self._whole(200, {"object": "list", "data": data, "usage": used})

    def _whole(self, status: int, answer: object) -> None:
        payload = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _answer(self, outside: Outside, script: Script) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._delta("", None)
        for thought in script.thoughts:
            said = {"index": 0, "delta": {"reasoning": thought}, "finish_reason": None}
            self._event(json.dumps({"choices": [said]}))
        for count, word in enumerate(script.words):
            if count == script.hold_after:
                self._hold(outside)
            if count == script.cut_after:
                outside.release.wait(ARRIVE_S)
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._delta(word, None)
        for pieces in script.tool_calls:
            said = {"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": None}
            self._event(json.dumps({"choices": [said]}))
        self._delta("", "tool_calls" if script.tool_calls else script.finish_reason)
        output_tokens = len(script.words) * outside.bodies[-1].get("n", 1) + len(script.thoughts)
        used = {
            "prompt_tokens": script.prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": script.prompt_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": script.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": len(script.thoughts)},
        } | script.reports
        self._event(json.dumps({"choices": [], "usage": used}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _hold(self, outside: Outside) -> None:
        for _ in range(int(HOLD_S / LOOK_EVERY_S)):
            if outside.release.wait(LOOK_EVERY_S):
                return
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _Left

    def _delta(self, text: str, finish_reason: str | None) -> None:
        """A chunk of a conversation or of a plain completion, for each answer that is wanted."""
        is_chat = self.path.endswith("/chat/completions")
        said = {"delta": {"role": "assistant", "content": text}} if is_chat else {"text": text}
        for index in range(self.outside.bodies[-1].get("n", 1)):
            choice = {"index": index, "finish_reason": finish_reason, **said}
            self._event(json.dumps({"choices": [choice]}))

    def _event(self, payload: str) -> None:
        event = f"data: {payload}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")

    def log_message(self, *words: object) -> None:
        """Quiet."""
