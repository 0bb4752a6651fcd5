"""Models as an administrator keeps them, one by one or by a declaration."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session, col, select

from billing.prices.versions import PriceError
from gateway.admin.use_cases import ADMIN, AdminStore, admin_store, attempt, must_get
from gateway.api.dependencies import parts_of
from gateway.catalog.apply import Application, ModelsApply
from gateway.catalog.catalog import unreadable_because
from gateway.catalog.declaration import BadDeclaration, read_document
from gateway.catalog.tables import ModelRow, PoolRow, VariantRow
from gateway.catalog.weights.cache import CacheError, WeightCache
from gateway.catalog.weights.facts import tokenizer_mistake
from gateway.catalog.weights.hub import HubError
from gateway.errors import ApiError, bad_request
from gateway.tenants.store import Conflict
from routing.types import AUTO_MODEL, Task

log = logging.getLogger(__name__)

Refresh = Callable[[], Awaitable[None]]
"""The gateway that made a change sees it at once; the others within one poll."""


@dataclass(frozen=True, slots=True)
class ModelService:
    """Raises ApiError: 404 for an unknown model, 409 for one that a pool still serves, 400 for a
    folder that cannot be served."""

    store: AdminStore
    refresh: Refresh

    async def put(self, name: str, columns: Mapping[str, Any]) -> ModelRow:
        if name == AUTO_MODEL:
            message = f"'{AUTO_MODEL}' asks the router to choose and names no model."
            raise bad_request(message, "name")
        row = ModelRow(name=name, source=ADMIN, **columns)
        await _require_readable(row)

        def work(session: Session) -> ModelRow:
            model_before = session.get(ModelRow, name)
            _require_same_tokenizer(session, row)
            row.created_us = model_before.created_us if model_before else self.store.now_us
            return session.merge(row)

        stored = await self.store.change("model.put", name, work, **columns)
        await self.refresh()
        return stored

    async def disable(self, name: str) -> ModelRow:
        def work(session: Session) -> ModelRow:
            row = must_get(session, ModelRow, name)
            serving = select(PoolRow).where(PoolRow.model == name, col(PoolRow.enabled))
            if session.exec(serving).first():
                raise Conflict(f"a pool still serves {name!r}")
            row.enabled, row.source = False, ADMIN
            session.add(row)
            return row

        row = await self.store.change("model.disable", name, work)
        await self.refresh()
        return row


async def _require_readable(model: ModelRow) -> None:
    if (path := model.path) is not None:
        reason = await attempt(lambda: unreadable_because(path, Task(model.task)))
        if reason is not None:
            raise bad_request(reason, "path")


def _require_same_tokenizer(session: Session, model: ModelRow) -> None:
    """Raises Conflict where a variant of the model would have another one."""
    of_model = select(VariantRow).where(VariantRow.model == model.name, col(VariantRow.enabled))
    for variant in session.exec(of_model):
        if words := tokenizer_mistake(variant.path, model.path):
            raise Conflict(f"the variant {variant.name!r}: {words}")


@dataclass(frozen=True, slots=True)
class DeclarationService:
    """Raises ApiError: 400 with every mistake, 502 where the hub fails, 507 where weights cannot be
    kept."""

    declarations: ModelsApply
    refresh: Refresh

    async def apply(
        self, document: Mapping[str, Any], *, dry_run: bool, verify: bool
    ) -> Application:
        """Done when all of it is done, downloads included; paths are absolute here."""

        def work() -> Application:
            declaration = read_document(document)
            return self.declarations.apply(
                declaration, relative_to=None, dry_run=dry_run, verify=verify
            )

        try:
            application = await attempt(work)
        except BadDeclaration as bad:
            raise bad_request(str(bad), bad.mistakes[0].place or None) from bad
        except PriceError as wrong:
            raise bad_request(str(wrong), "prices") from wrong
        except HubError as failed:
            raise ApiError(502, str(failed), type="server_error", code="hub_failed") from failed
        except CacheError as failed:
            code = "weights_not_kept"
            raise ApiError(507, str(failed), type="server_error", code=code) from failed
        await self.refresh()
        return application


async def models_of(request: Request) -> ModelService:
    parts = parts_of(request)
    return ModelService(admin_store(parts), parts.catalog.refresh)


async def declarations_of(request: Request) -> DeclarationService:
    parts = parts_of(request)
    use_case = ModelsApply(
        tenants=parts.tenants,
        ledger=parts.ledger,
        cache=WeightCache(parts.settings.weights, tell=log.info),
        rules=parts.settings.gateway.external_rules,
        nodes=parts.settings.nodes,
        mixes=parts.settings.mixes,
        environment=parts.provider_keys.secrets,
        clock=parts.outside.clock,
        tell=log.info,
    )
    return DeclarationService(use_case, parts.catalog.refresh)


Models = Annotated[ModelService, Depends(models_of)]
Declarations = Annotated[DeclarationService, Depends(declarations_of)]
