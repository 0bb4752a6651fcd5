"""Steps at which a process ends itself as kill -9 would: `<name>:<before|after>:<n-th time>`."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from typing import Any


class Death:
    """Waits for one step. Every other one is passed through."""

    def __init__(self, step: str) -> None:
        self._name, _, when = step.partition(":")
        self._when, _, left = when.partition(":")
        self._left = int(left or 0)

    def at(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, which ends the process if it is the one to end it."""
        if name != self._name:
            return method
        return self._async(method) if inspect.iscoroutinefunction(method) else self._sync(method)

    def _sync(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self._left -= 1
            self._die("before")
            answer = method(*args, **named)
            self._die("after")
            return answer

        return call

    def _async(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **named: Any) -> Any:
            self._left -= 1
            self._die("before")
            answer = await method(*args, **named)
            self._die("after")
            return answer

        return call

    def _die(self, now: str) -> None:
        if self._left == 0 and self._when == now:
            os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A part whose methods may be a death: `<name>.<method>`."""

    def __init__(self, inner: Any, name: str, death: Death) -> None:
        self._inner = inner
        self._name = name
        self._death = death

    def __getattr__(self, method: str) -> Any:
        return self._death.at(f"{self._name}.{method}", getattr(self._inner, method))
