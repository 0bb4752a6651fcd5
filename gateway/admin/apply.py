"""Applying a declaration: check all of it, take the weights, then prices and catalog. Blocking.

Nothing is changed before everything was checked. Weights go into the cache first, where nobody
looks at them yet; prices follow, so that a model is never there without one; models and pools
come last, in one transaction with their audit row and a new catalog revision, which gateways and
the controller notice by their polls. Applying the same again finds nothing to do.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlmodel import Session, select

from billing import prices
from billing.store.engine import Store
from gateway.admin.declaration import BadDeclaration, Declaration, Mistake
from gateway.admin.plan import Known, Plan, ServedModel, contradictions, plan, task_contradictions
from gateway.admin.weights import ModelWeights, WeightSources
from gateway.store import TenantStore
from gateway.tables import Audit, ModelRow, PoolRow
from gateway.weights.cache import WeightCache
from routing.types import Clock

ROWS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Application:
    """What was planned, and whether anything was changed; `fetched` weights were not there;
    `notes` are worth knowing and no mistakes."""

    plan: Plan
    is_applied: bool
    fetched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelsApply:
    """`tell` hears of whatever takes long."""

    tenants: TenantStore
    ledger: Store
    cache: WeightCache
    clock: Clock
    tell: Callable[[str], None]

    def apply(
        self,
        declaration: Declaration,
        *,
        relative_to: Path | None,
        dry_run: bool = False,
        verify: bool = False,
    ) -> Application:
        """Raises BadDeclaration with everything that is wrong, CacheError, HubError, or what SQL
        raises; the catalog is then as it was. Relative paths need `relative_to`."""
        known = self._known()
        if mistakes := [*declaration.mistakes, *contradictions(declaration, known)]:
            raise BadDeclaration(mistakes)
        with self._weights(declaration, known, relative_to, verify) as weights:
            models = [found.model for found in weights]
            if mistakes := task_contradictions(declaration, models, known):
                raise BadDeclaration(mistakes)
            planned = plan(declaration, models, known, self._now_us())
            if dry_run:
                return Application(planned, is_applied=False, notes=self._notes(declaration))
            fetched = [w.model.declared.name for w in weights if w.keep(self.cache, verify=verify)]
        if not planned.is_empty:
            self._write(declaration, models, known, planned)
        notes = self._notes(declaration)
        return Application(planned, not planned.is_empty, tuple(fetched), notes)

    @contextmanager
    def _weights(
        self, declaration: Declaration, known: Known, relative_to: Path | None, verify: bool
    ) -> Iterator[list[ModelWeights]]:
        """Every model with what its checkpoint says; what was downloaded is gone afterwards."""
        origins = {
            row.origin: row.checksum for row in known.models.values() if row.origin and row.checksum
        }
        with ExitStack() as downloads:
            sources = WeightSources(self.cache, downloads, origins, relative_to, verify, self.tell)
            found: list[ModelWeights] = []
            mistakes: list[Mistake] = []
            for index, model in declaration.models.items():
                try:
                    found.append(sources.read(model, f"models.{index}"))
                except BadDeclaration as bad:
                    mistakes += bad.mistakes
            if mistakes:
                raise BadDeclaration(mistakes)
            yield found

    def _write(
        self, declaration: Declaration, models: list[ServedModel], known: Known, planned: Plan
    ) -> None:
        now_us = self._now_us()
        if planned.rates:
            note = "by a declaration of models"
            prices.amend(self.ledger, planned.rates, created_by="admin", now_us=now_us, note=note)
        names = [row.name for row in planned.models] + [row.name for row in planned.pools]
        if not names:
            return
        audit = Audit(
            at_us=now_us,
            actor="admin",
            action="models.apply",
            object=",".join(names),
            detail={"changes": [str(change) for change in planned.changes]},
        )

        def work(session: Session) -> Audit:
            """Planned again on what is there now: another administrator may have been faster."""
            now = replace(_known(session), rates=(*known.rates, *planned.rates))
            if mistakes := contradictions(declaration, now):
                raise BadDeclaration(mistakes)
            fresh = plan(declaration, models, now, now_us)
            for model in fresh.models:
                session.merge(model)
            session.flush()
            for pool in fresh.pools:
                session.merge(pool)
            return audit

        self.tenants.change(audit, work)

    def _notes(self, declaration: Declaration) -> tuple[str, ...]:
        """A version of the book replaces all of it, so one that waits may forget a model."""
        now_us, declared = self._now_us(), {p.model for p in declaration.prices.values()}
        return tuple(
            f"price version {version.version_id}, which waits for its time, has no price for {name}"
            for version in prices.list_versions(self.ledger)
            if (version.effective_from_us or 0) > now_us and not version.org
            for name in sorted(declared - {rate.model for rate in version.rates})
        )

    def _known(self) -> Known:
        models = self.tenants.every(ModelRow, limit=ROWS_MAX)
        pools = self.tenants.every(PoolRow, limit=ROWS_MAX)
        return Known(
            models={row.name: row for row in models},
            pools={row.name: row for row in pools},
            rates=prices.rates_in_force(self.ledger, self._now_us()),
        )

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _known(session: Session) -> Known:
    """Copies: rows of the session itself would be written as they are compared."""
    models = [ModelRow(**row.model_dump()) for row in session.exec(select(ModelRow))]
    pools = [PoolRow(**row.model_dump()) for row in session.exec(select(PoolRow))]
    return Known({row.name: row for row in models}, {row.name: row for row in pools}, ())
