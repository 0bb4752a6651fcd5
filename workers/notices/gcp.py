"""Notices of Compute Engine: `instance/preempted`, which is waited for, and `maintenance-event`.

Neither says when. A preempted machine has 30 s, one that maintenance ends has 60 s at least. Of a
machine that is migrated nothing ends.
"""

from collections.abc import Callable

from workers.notices.announcement import Announcement, WrongAnswer
from workers.notices.metadata import TIMEOUT_S, MetadataAnswer, MetadataAway, MetadataClient

URL = "http://metadata.google.internal"
HEADERS = {"Metadata-Flavor": "Google"}
PREEMPTED = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
PREEMPTION_S = 30.0
MAINTENANCE_S = 60.0
WAIT_S = 5
"""So long a question for a change stays open."""


class GcpNotices:
    def __init__(self, metadata: MetadataClient, now_s: Callable[[], float]) -> None:
        self._metadata = metadata
        self._now_s = now_s
        self._etag = ""
        self._since_s: float | None = None

    def look(self) -> Announcement | None:
        lasts_s, why = self._notice()
        if not why:
            self._since_s = None
            return None
        if self._since_s is None:
            self._since_s = self._now_s()
        return Announcement(self._since_s + lasts_s, why)

    def _notice(self) -> tuple[float, str]:
        if is_preempted(self._preempted().body):
            return PREEMPTION_S, "Compute Engine announced: preempted"
        if ends_by_maintenance(self._ask(MAINTENANCE).body):
            return MAINTENANCE_S, "Compute Engine announced: terminated for maintenance"
        return 0.0, ""

    def _preempted(self) -> MetadataAnswer:
        """At once the first time, and with its next change from then on."""
        query = f"?wait_for_change=true&timeout_sec={WAIT_S}&last_etag={self._etag}"
        answer = self._ask(PREEMPTED + (query if self._etag else ""))
        self._etag = answer.etag
        return answer

    def _ask(self, path: str) -> MetadataAnswer:
        answer = self._metadata.ask(path, HEADERS, timeout_s=WAIT_S + TIMEOUT_S)
        if answer.status != 200:
            self._etag = ""
            raise MetadataAway(f"status {answer.status}")
        return answer


def is_preempted(body: bytes) -> bool:
    """Raises WrongAnswer."""
    words = {b"TRUE": True, b"FALSE": False}
    if (word := body.strip().upper()) not in words:
        raise WrongAnswer(f"preempted: {body[:40]!r}")
    return words[word]


def ends_by_maintenance(body: bytes) -> bool:
    """Raises WrongAnswer."""
    words = {
        b"NONE": False,
        b"MIGRATE_ON_HOST_MAINTENANCE": False,
        b"TERMINATE_ON_HOST_MAINTENANCE": True,
    }
    if (word := body.strip()) not in words:
        raise WrongAnswer(f"maintenance-event: {body[:60]!r}")
    return words[word]
