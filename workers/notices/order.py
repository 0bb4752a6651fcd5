"""What a watcher is told."""

import msgspec


class WatchOrder(msgspec.Struct, frozen=True):
    """`url`: of the metadata server, where it is not the provider's own."""

    node: str
    folder: str
    provider: str
    url: str | None = None
