"""`python -m workers.notices ORDER`: watches the notices of one node's cloud, in the foreground.

It is started by its node, started again if it ends, and ends with it: its input is a pipe that the
node holds. What it hears it writes down as the notice of the node (`workers.nodes.folder`), so the
node drains as by anybody's order.
"""

import logging
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from workers.nodes.folder import NodesFolder, Notice
from workers.notices import aws, azure, gcp
from workers.notices.announcement import Announcement, Provider
from workers.notices.metadata import MetadataClient
from workers.notices.order import WatchOrder
from workers.notices.watch import NoticeWatch

Make = Callable[[MetadataClient, Callable[[], float]], Provider]
PROVIDERS: dict[str, tuple[Make, str]] = {
    "aws": (aws.AwsNotices, aws.URL),
    "gcp": (gcp.GcpNotices, gcp.URL),
    "azure": (azure.AzureNotices, azure.URL),
}


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="notices: %(message)s")
    order = msgspec.json.decode(sys.argv[1], type=WatchOrder)
    make, url = PROVIDERS[order.provider]
    now_s = time.time  # noqa: TID251 composition root
    folder = NodesFolder(Path(order.folder))

    def announce(end: Announcement) -> None:
        now_ms = round(now_s() * 1000)
        deadline_ms = max(now_ms, round(end.deadline_s * 1000))
        folder.note_notice(order.node, Notice(deadline_ms, end.why, now_ms))

    watch = NoticeWatch(make(MetadataClient(order.url or url), now_s), announce)
    while not _has_ended(within_s=watch.look()):
        pass
    return 0


def _has_ended(*, within_s: float) -> bool:
    """Whether the node is gone, waiting for that as long."""
    readable, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(readable)


if __name__ == "__main__":
    sys.exit(main())
