"""Names of organizations, projects and keys by their ids, for pages.

A name does not change once it is given, so each is looked up once; at most NAMES_MAX are kept.
An id that nobody knows stands for itself.
"""

from collections import OrderedDict
from collections.abc import Iterable

from gateway.tenants.store import TenantStore
from gateway.tenants.tables import ApiKey, Organization, Project

NAMES_MAX = 4096


class Names:
    def __init__(self, tenants: TenantStore) -> None:
        self._tenants = tenants
        self._known: OrderedDict[str, str] = OrderedDict()

    def learn(self, ids: Iterable[str]) -> None:
        """Look up those that are not known yet. Blocking."""
        for identity in ids:
            if identity not in self._known and (name := self._look_up(identity)):
                self._known[identity] = name
                if len(self._known) > NAMES_MAX:
                    self._known.popitem(last=False)

    def of(self, identity: str) -> str:
        return self._known.get(identity, identity)

    def _look_up(self, identity: str) -> str:
        kind = identity.partition("_")[0]
        if kind == "org":
            organization = self._tenants.one(Organization, identity)
            return organization.name if organization else ""
        if kind == "proj":
            project = self._tenants.one(Project, identity)
            return project.name if project else ""
        key = self._tenants.one(ApiKey, identity)
        return (key.name or key.prefix) if key else ""
