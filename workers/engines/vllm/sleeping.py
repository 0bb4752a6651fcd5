"""vLLM's own sleep, on a GPU alone. Level 1 keeps the weights in the memory of the machine, level 2
throws them away. Both forget keys and values. Process, graphs and compiled kernels stay."""

from __future__ import annotations

from typing import Any

FORGOTTEN = 2
"""The level at which the weights have to be read again."""


class VllmSleep:
    """`llm` is an `LLMEngine` whose `enable_sleep_mode` is set. Called on the engine's thread."""

    def __init__(self, llm: Any, *, level: int) -> None:
        self._llm = llm
        self._level = level

    def sleep(self) -> None:
        self._llm.reset_prefix_cache()  # its blocks would name what is forgotten
        self._llm.sleep(level=self._level)

    def wake(self) -> None:
        """Weights come before the room of keys and values, so that reading them finds memory."""
        if self._level < FORGOTTEN:
            self._llm.wake_up()
            return
        self._llm.wake_up(tags=["weights"])
        self._llm.collective_rpc("reload_weights")
        self._llm.wake_up(tags=["kv_cache"])


class NoSleep:
    """vLLM on a CPU has no sleep: such a replica keeps its weights, and takes no call."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    def sleep(self) -> None:
        self._llm.reset_prefix_cache()

    def wake(self) -> None: ...
