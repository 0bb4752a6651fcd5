"""Notices of Azure: Scheduled Events. The document lists events of all machines of a group, so the
machine asks for its own name first."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime

import msgspec

from workers.notices.announcement import Announcement, WrongAnswer
from workers.notices.metadata import MetadataAway, MetadataClient

URL = "http://169.254.169.254"
HEADERS = {"Metadata": "true"}
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
OWN_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
ENDINGS = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})
"""A machine that freezes goes on."""
HAPPENS = frozenset({"Scheduled", "Started"})
FIRST_TIMEOUT_S = 120.0
"""The first question turns the service on."""


class _Event(msgspec.Struct, rename="pascal"):
    event_type: str
    event_status: str = "Scheduled"
    not_before: str = ""
    resources: tuple[str, ...] = ()


class _Document(msgspec.Struct, rename="pascal"):
    events: tuple[_Event, ...] = ()


class AzureNotices:
    def __init__(self, metadata: MetadataClient, now_s: Callable[[], float]) -> None:
        self._metadata = metadata
        self._now_s = now_s
        self._own_name = ""

    def look(self) -> Announcement | None:
        if not self._own_name:
            self._own_name = self._ask(OWN_NAME).decode("utf-8", "replace").strip()
            return scheduled(self._ask(EVENTS, FIRST_TIMEOUT_S), self._own_name, self._now_s())
        return scheduled(self._ask(EVENTS), self._own_name, self._now_s())

    def _ask(self, path: str, timeout_s: float = 2.0) -> bytes:
        answer = self._metadata.ask(path, HEADERS, timeout_s=timeout_s)
        if answer.status != 200:
            raise MetadataAway(f"status {answer.status}")
        return answer.body


def scheduled(body: bytes, own_name: str, now_s: float) -> Announcement | None:
    """The first end of this machine. An event that has begun says no time. Raises WrongAnswer."""
    try:
        events = msgspec.json.decode(body, type=_Document).events
        ends = [
            Announcement(_at_s(event, now_s), f"Azure announced: {event.event_type}")
            for event in events
            if event.event_type in ENDINGS
            and event.event_status in HAPPENS
            and own_name in event.resources
        ]
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as wrong:
        raise WrongAnswer(f"scheduledevents: {wrong}") from wrong
    return min(ends, key=lambda each: each.deadline_s, default=None)


def _at_s(event: _Event, now_s: float) -> float:
    if not event.not_before:
        return now_s
    return parsedate_to_datetime(event.not_before).timestamp()
