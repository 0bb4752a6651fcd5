"""A look at the database whose answer is kept for a while, however many people watch.

One look at a time, off the event loop. The dearer it is, the longer its answer is kept, so that
looking never takes more than a share of SHARE_MAX of the time.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

SHARE_MAX = 0.05


class Cached(Generic[T]):
    def __init__(self, age_max_s: float, now_s: Callable[[], float] | None = None) -> None:
        """`now_s` is the clock; the running event loop's if there is none."""
        self._age_max_s = age_max_s
        self._now_s = now_s
        self._one_at_a_time = asyncio.Lock()
        self._answer: tuple[Hashable, float, T] | None = None

    async def get(self, question: Hashable, look: Callable[[], T]) -> T:
        """The answer to `question`, asked anew with `look` when it has become too old."""
        now_s = self._now_s or asyncio.get_running_loop().time
        async with self._one_at_a_time:
            if self._answer is not None:
                last_question, good_until_s, answer = self._answer
                if last_question == question and now_s() < good_until_s:
                    return answer
            began_s = now_s()
            answer = await asyncio.to_thread(look)
            took_s = now_s() - began_s
            good_s = max(self._age_max_s, took_s / SHARE_MAX)
            self._answer = (question, now_s() + good_s, answer)
            return answer
