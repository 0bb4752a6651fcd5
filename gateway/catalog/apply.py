"""Applying a declaration: check all of it, take the weights, then prices and catalog. Blocking.

Nothing is changed before everything was checked. Weights go into the cache first, where nobody
looks at them yet; prices follow, so that a model is never there without one; models and pools
come last, in one transaction with their audit row and a new catalog revision, which gateways and
the controller notice by their polls. Applying the same again finds nothing to do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlmodel import Session, select

from billing.db.engine import Store
from billing.prices import versions
from gateway.catalog.declaration import BadDeclaration, Declaration, Mistake
from gateway.catalog.external import ExternalRules, reach_of
from gateway.catalog.plan import (
    Known,
    Plan,
    ServedModel,
    ServedVariant,
    contradictions,
    fit_contradictions,
    plan,
    simulated_models,
    task_contradictions,
)
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.catalog.weights.cache import WeightCache
from gateway.catalog.weights.facts import tokenizer_mistake
from gateway.catalog.weights.files import UnfitWeights, check_weights
from gateway.catalog.weights.sources import (
    ModelWeights,
    VariantWeights,
    WeightSources,
)
from gateway.providers.tables import bought_models
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Audit
from routing.types import Clock
from workers.mix import Mix
from workers.nodes.node_type import NodeType
from workers.weights.sources import is_source

ROWS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Application:
    """What was planned, and whether anything was changed; `fetched` weights were not there;
    `notes` are worth knowing and no mistakes."""

    plan: Plan
    notes: tuple[str, ...]
    is_dry_run: bool = False
    fetched: tuple[str, ...] = ()

    @property
    def is_applied(self) -> bool:
        return not (self.is_dry_run or self.plan.is_empty)


@dataclass(frozen=True, slots=True)
class AllWeights:
    """What a declaration has weights of."""

    models: list[ModelWeights] = field(default_factory=list)
    variants: list[VariantWeights] = field(default_factory=list)

    @property
    def all(self) -> list[ModelWeights | VariantWeights]:
        return [*self.models, *self.variants]

    def tokenizer_mistakes(self, declaration: Declaration, known: Known) -> Iterator[Mistake]:
        """Variants, declared here or before, whose tokenizer is not that of their model."""
        models = {name: row.path for name, row in known.models.items()}
        models |= {each.name: each.folder for each in self.models}
        for index, weights in zip(declaration.variants, self.variants, strict=True):
            if words := tokenizer_mistake(weights.folder, models[weights.variant.key[0]]):
                yield Mistake(f"variants.{index}.path", words)
        declared = {each.variant.key for each in self.variants}
        for index, model in zip(declaration.models, self.models, strict=True):
            for key, row in known.variants.items():
                if key[0] != model.name or not row.enabled or key in declared:
                    continue
                if words := tokenizer_mistake(row.path, model.folder):
                    yield Mistake(f"models.{index}", f"variant {row.name}: {words}")


@dataclass(frozen=True, slots=True)
class ModelsApply:
    """`tell` hears of whatever takes long."""

    tenants: TenantStore
    ledger: Store
    cache: WeightCache
    rules: ExternalRules
    environment: Mapping[str, str]
    clock: Clock
    tell: Callable[[str], None]
    nodes: Sequence[NodeType] = ()
    mixes: Sequence[Mix] = ()
    is_gateway: bool = True
    """Whether the environment is that of a gateway, or of somebody's shell."""

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
        mistakes = [*declaration.mistakes, *self._external_mistakes(declaration)]
        mistakes += _without_weights(declaration, known)
        if mistakes := [*mistakes, *contradictions(declaration, known)]:
            raise BadDeclaration(mistakes)
        with self._weights(declaration, known, relative_to, verify) as weights:
            models = [each.model for each in weights.models]
            variants = [each.variant for each in weights.variants]
            mistakes = task_contradictions(declaration, models, known)
            now_us = self._now_us()
            mistakes += fit_contradictions(declaration, models, variants, known, now_us)
            mistakes += weights.tokenizer_mistakes(declaration, known)
            if mistakes:
                raise BadDeclaration(mistakes)
            planned = plan(declaration, models, variants, known, now_us)
            if dry_run:
                return Application(planned, self._notes(declaration), is_dry_run=True)
            fetched = [w.name for w in weights.all if w.keep(self.cache, verify=verify)]
        if not planned.is_empty:
            self._write(declaration, models, variants, known, planned)
        return Application(planned, self._notes(declaration), fetched=tuple(fetched))

    @contextmanager
    def _weights(
        self, declaration: Declaration, known: Known, relative_to: Path | None, verify: bool
    ) -> Iterator[AllWeights]:
        """Every model and variant with what its checkpoint says; what was downloaded is gone
        afterwards."""
        origins = {
            row.origin: row.checksum for row in known.models.values() if row.origin and row.checksum
        }
        with ExitStack() as downloads:
            sources = WeightSources(
                *(self.cache, downloads, origins, relative_to, verify, self.tell),
                simulated=simulated_models(declaration, known),
            )
            weights = AllWeights()
            mistakes: list[Mistake] = []
            for index, model in declaration.models.items():
                try:
                    weights.models.append(sources.read(model, f"models.{index}"))
                except BadDeclaration as bad:
                    mistakes += bad.mistakes
            for index, variant in declaration.variants.items():
                try:
                    weights.variants.append(sources.read_variant(variant, f"variants.{index}"))
                except BadDeclaration as bad:
                    mistakes += bad.mistakes
            if mistakes:
                raise BadDeclaration(mistakes)
            yield weights

    def _write(
        self,
        declaration: Declaration,
        models: list[ServedModel],
        variants: list[ServedVariant],
        known: Known,
        planned: Plan,
    ) -> None:
        now_us = self._now_us()
        if planned.rates:
            note = "by a declaration of models"
            versions.amend(self.ledger, planned.rates, created_by="admin", now_us=now_us, note=note)
        names = planned.names
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
            rates = (*known.rates, *planned.rates)
            known_now = _known(session, now_us)
            now = replace(known_now, rates=rates, nodes=self.nodes, mixes=self.mixes)
            mistakes = contradictions(declaration, now)
            mistakes += fit_contradictions(declaration, models, variants, now, now_us)
            if mistakes:
                raise BadDeclaration(mistakes)
            fresh = plan(declaration, models, variants, now, now_us)
            for part in fresh.hardware:
                session.merge(part)
            for model in fresh.models:
                session.merge(model)
            session.flush()
            for variant in fresh.variants:
                session.merge(variant)
            for pool in fresh.pools:
                session.merge(pool)
            return audit

        self.tenants.change(audit, work)

    def _external_mistakes(self, declaration: Declaration) -> list[Mistake]:
        return [
            Mistake(f"pools.{index}.{key}", words)
            for index, pool in declaration.pools.items()
            for key, words in self.rules.mistakes(pool.base_url, pool.api_key_env)
        ]

    def _notes(self, declaration: Declaration) -> tuple[str, ...]:
        notices = (*declaration.notices, *self._unusable(declaration))
        return (*notices, *self._undeclared(declaration), *self._forgotten(declaration))

    def _undeclared(self, declaration: Declaration) -> tuple[str, ...]:
        """Pools whose variant is a mere label although their model has declared ones: a slip of the
        pen, perhaps."""
        named = {(row.model, row.name) for row in self.tenants.every(VariantRow) if row.enabled}
        named |= {(each.model, each.name) for each in declaration.variants.values()}
        models = {model for model, _ in named}
        return tuple(
            f"pool {pool.name}: {pool.model} has no variant {pool.variant}, so it is validated for"
            " no use case"
            for pool in declaration.pools.values()
            if pool.model in models and (pool.model, pool.variant) not in named
        )

    def _unusable(self, declaration: Declaration) -> tuple[str, ...]:
        return tuple(
            self._why(pool.name, why)
            for pool in declaration.pools.values()
            if (why := self.rules.why_unusable(*reach_of(pool, self.environment)))
        )

    def _why(self, pool: str, why: str) -> str:
        if self.is_gateway:
            return f"pool {pool} takes no call: {why}"
        return (
            f"pool {pool}: {why} in this shell. It takes no call unless the gateway was started"
            f" with it, as `sluice pools check {pool}` says"
        )

    def _forgotten(self, declaration: Declaration) -> tuple[str, ...]:
        """A version of the book replaces all of it, so one that waits may forget a model."""
        now_us, declared = self._now_us(), {p.model for p in declaration.prices.values()}
        return tuple(
            f"price version {version.version_id}, which waits for its time, has no price for {name}"
            for version in versions.list_versions(self.ledger)
            if (version.effective_from_us or 0) > now_us and not version.org
            for name in sorted(declared - {rate.model for rate in version.rates})
        )

    def _known(self) -> Known:
        models = self.tenants.every(ModelRow)
        pools = self.tenants.every(PoolRow)
        return Known(
            models={row.name: row for row in models},
            pools={row.name: row for row in pools},
            rates=versions.rates_in_force(self.ledger, self._now_us()),
            variants={(row.model, row.name): row for row in self.tenants.every(VariantRow)},
            hardware={row.name: row for row in self.tenants.every(HardwareRow)},
            nodes=self.nodes,
            mixes=self.mixes,
            bought=self.tenants.bought_models(self._now_us()),
        )

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _known(session: Session, now_us: int) -> Known:
    """Copies: rows of the session itself would be written as they are compared."""
    models = [ModelRow(**row.model_dump()) for row in session.exec(select(ModelRow))]
    pools = [PoolRow(**row.model_dump()) for row in session.exec(select(PoolRow))]
    variants = [VariantRow(**row.model_dump()) for row in session.exec(select(VariantRow))]
    hardware = [HardwareRow(**row.model_dump()) for row in session.exec(select(HardwareRow))]
    return Known(
        models={row.name: row for row in models},
        pools={row.name: row for row in pools},
        rates=(),
        variants={(row.model, row.name): row for row in variants},
        hardware={row.name: row for row in hardware},
        bought=bought_models(session, now_us),
    )


def _without_weights(declaration: Declaration, known: Known) -> list[Mistake]:
    """Pools that take the place of simulated ones, for which the model needed no weights."""
    simulated = simulated_models(Declaration(), known) - simulated_models(declaration, known)
    declared = {model.name for model in declaration.models.values()}
    mistakes = []
    for index, pool in declaration.pools.items():
        model = known.models.get(pool.model)
        if pool.model not in simulated - declared or model is None or model.path is None:
            continue
        if is_source(model.origin or ""):
            continue  # its weights are elsewhere
        try:
            check_weights(Path(model.path))
        except UnfitWeights as unfit:
            mistakes.append(Mistake(f"pools.{index}.model", f"{pool.model}: {unfit}"))
    return mistakes
