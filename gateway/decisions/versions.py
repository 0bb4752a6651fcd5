"""Versions of the routing policy as they were, for whoever makes a decision again."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from gateway.policies.document import compiled
from gateway.policies.source import InvalidDocument
from gateway.versions.store import VersionStore
from routing.policy.rules import RoutingPolicy

VERSIONS_MAX: Final = 16


class PolicyVersions:
    """Compiled versions, the last ones that were asked for. Blocking; for any thread."""

    def __init__(self, store: VersionStore) -> None:
        self._store = store
        self._known: OrderedDict[int, RoutingPolicy] = OrderedDict()
        self._lock = Lock()

    def of(self, version: int) -> RoutingPolicy | None:
        """None where there is no such version, or this release cannot read its document."""
        with self._lock:
            if version in self._known:
                self._known.move_to_end(version)
                return self._known[version]
        stored = self._store.version(version)
        try:
            policy = None if stored is None else compiled(stored.row.document, revision=version)
        except InvalidDocument:
            return None
        if policy is not None:
            self._keep(policy)
        return policy

    def _keep(self, policy: RoutingPolicy) -> None:
        with self._lock:
            self._known[policy.revision] = policy
            while len(self._known) > VERSIONS_MAX:
                self._known.popitem(last=False)
