"""Notices of EC2: `spot/instance-action`, by IMDSv2. A 404 there says that nothing is announced.

A rebalance recommendation has no deadline, and the machine may live on for hours: it is logged.
"""

import logging
from collections.abc import Callable
from datetime import datetime

import msgspec

from workers.notices.announcement import Announcement, WrongAnswer
from workers.notices.metadata import MetadataAnswer, MetadataAway, MetadataClient

log = logging.getLogger(__name__)

URL = "http://169.254.169.254"
TOKEN = "/latest/api/token"
TOKEN_S = 21_600
INSTANCE_ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"


class _InstanceAction(msgspec.Struct):
    """`action` is `terminate`, `stop` or `hibernate`."""

    action: str
    time: str


class AwsNotices:
    def __init__(self, metadata: MetadataClient, now_s: Callable[[], float]) -> None:
        self._metadata = metadata
        self._token = ""
        self._is_rebalance_logged = False

    def look(self) -> Announcement | None:
        answer = self._ask(INSTANCE_ACTION)
        if answer.status == 200:
            return instance_action(answer.body)
        self._note_rebalance()
        return None

    def _note_rebalance(self) -> None:
        is_recommended = self._ask(REBALANCE).status == 200
        if is_recommended and not self._is_rebalance_logged:
            log.info("EC2 recommends a rebalance; it announces no end yet")
        self._is_rebalance_logged = is_recommended

    def _ask(self, path: str) -> MetadataAnswer:
        """With a token, which is made anew once it is not taken any more."""
        for _ in range(2):
            if not self._token:
                self._token = self._new_token()
            answer = self._metadata.ask(path, {"X-aws-ec2-metadata-token": self._token})
            if answer.status in (200, 404):
                return answer
            self._token = ""
        raise MetadataAway(f"status {answer.status}")

    def _new_token(self) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
        answer = self._metadata.ask(TOKEN, headers, method="PUT")
        if answer.status != 200:
            raise MetadataAway(f"no token: status {answer.status}")
        return answer.body.decode("ascii", "replace").strip()


def instance_action(body: bytes) -> Announcement:
    """Raises WrongAnswer."""
    try:
        notice = msgspec.json.decode(body, type=_InstanceAction)
        ends = datetime.fromisoformat(notice.time)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as wrong:
        raise WrongAnswer(f"instance-action: {wrong}") from wrong
    if ends.tzinfo is None:
        raise WrongAnswer("instance-action: a time without its zone")
    return Announcement(ends.timestamp(), f"EC2 announced: {notice.action[:20]}")
