"""The checkpoint of one replica, where the replica is: a folder that is here already, or one of its
node's store, fetched first. Blocking: a replica says nothing of loading before its files are here.
"""

import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from workers.weights.reports import REPORT_PATH, FetchProgress, HeldWeights, WeightsReport
from workers.weights.sources import SECRET_HEADER, GatewayStore, open_source
from workers.weights.store import NodeStore
from workers.weights.wanted import FOLDER, GB, OWN, WantedWeights, WeightsHere

EVERYWHERE = Path("~/.cache/sluice/weights")
"""Of nodes that say nothing: those of a cluster that others run."""
TELL_EVERY_S = 1.0
TELL_TIMEOUT_S = 2.0


def weights_here(
    path: Path,
    wanted: WantedWeights | None,
    *,
    node: str,
    replica: str,
    secret: str,
    variables: Mapping[str, str] = os.environ,
) -> WeightsHere:
    """The checkpoint at `path` if that is a folder of this machine, else the wanted one. Raises
    WeightsError."""
    if wanted is None or (path.is_dir() and wanted.source is None and not variables.get(OWN)):
        return WeightsHere(path)
    began_s = time.monotonic()  # noqa: TID251 a replica is a composition root
    teller = Teller(wanted, node=node, replica=replica, secret=secret)
    store = node_store(variables, wanted.gb)
    gateway = GatewayStore(wanted.gateway, wanted.id, secret)
    source = gateway
    if wanted.source is not None:
        source = open_source(wanted.source, variables, _now)  # type: ignore[assignment]
    try:
        lease = store.use(wanted.id, gateway, source, teller.note)
    finally:
        teller.tell(HeldWeights(tuple(each.id for each in store.whole())), None)
    fetch_s = time.monotonic() - began_s if teller.has_fetched else 0.0  # noqa: TID251
    return WeightsHere(lease.folder, fetch_s, lease)


def node_store(variables: Mapping[str, str], gb: float | None = None) -> NodeStore:
    """The store of this node."""
    folder = variables.get(FOLDER)
    bound = float(variables[GB]) if variables.get(GB) else gb
    return NodeStore(
        Path(folder) if folder else EVERYWHERE.expanduser(),
        bytes_max=None if bound is None else round(bound * 1e9),
        now_ns=time.time_ns,  # noqa: TID251
        pause=time.sleep,
    )


class Teller:
    """Tells a gateway how a fetch goes, every second or so. Where it cannot, the fetch goes on."""

    def __init__(self, wanted: WantedWeights, *, node: str, replica: str, secret: str) -> None:
        self._wanted = wanted
        self._node = node
        self._replica = replica
        self._secret = secret
        self._began: tuple[float, int] | None = None
        self._told_s = float("-inf")

    @property
    def has_fetched(self) -> bool:
        return self._began is not None

    def note(self, here: int, total: int) -> None:
        now_s = time.monotonic()  # noqa: TID251
        if self._began is None:
            self._began = now_s, here
        if now_s - self._told_s < TELL_EVERY_S:
            return
        self._told_s = now_s
        began_s, at_first = self._began
        passed_s = now_s - began_s
        per_s = round((here - at_first) / passed_s) if passed_s > 0 else 0
        self.tell(None, FetchProgress(self._wanted.id, here, total, max(0, per_s)))

    def tell(self, held: HeldWeights | None, fetch: FetchProgress | None) -> None:
        report = WeightsReport(self._node, self._replica, held, fetch)
        request = urllib.request.Request(
            self._wanted.gateway.rstrip("/") + REPORT_PATH,
            data=msgspec.json.encode(report),
            headers={SECRET_HEADER: self._secret, "content-type": "application/json"},
            method="PUT",
        )
        with suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(request, timeout=TELL_TIMEOUT_S).close()


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251
