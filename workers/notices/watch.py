"""Looks at what a cloud announces, and hands on the first end of the machine, once. What goes wrong
is logged when it changes, and asked again later and later. Owns no clock and no sleep."""

import logging
from collections.abc import Callable

from workers.notices.announcement import Announcement, Provider, WrongAnswer
from workers.notices.metadata import MetadataAway

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
PAUSE_S_MAX = 10.0
"""Between two looks where nobody answers."""


class NoticeWatch:
    def __init__(self, provider: Provider, announce: Callable[[Announcement], None]) -> None:
        self._provider = provider
        self._announce = announce
        self._pause_s = LOOK_EVERY_S
        self._trouble = ""
        self._known: Announcement | None = None
        self._is_handed_on = False

    def look(self) -> float:
        """Look once. Returns how many seconds the next look comes later."""
        try:
            self._hear(self._provider.look())
        except (MetadataAway, WrongAnswer, OSError) as wrong:
            self._note(f"{type(wrong).__name__}: {wrong}")
            self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)
            return self._pause_s
        self._note("")
        self._pause_s = LOOK_EVERY_S
        return LOOK_EVERY_S

    def _hear(self, announced: Announcement | None) -> None:
        if announced is None and self._known is not None:
            log.warning("%s: withdrawn; the node drains all the same", self._known.why)
        elif announced is not None and not self._is_handed_on:
            self._announce(announced)
            self._is_handed_on = True
            log.warning("%s", announced.why)
        self._known = announced

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.info("no notices can be heard: %s", trouble)
        elif self._trouble and not trouble:
            log.info("notices are heard")
        self._trouble = trouble
