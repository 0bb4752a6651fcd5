"""Models by declaration: the document of `models.toml`, as JSON."""

import logging
from typing import Any

from fastapi import APIRouter, Request

from billing.prices import PriceError
from gateway.admin.apply import Application, ModelsApply
from gateway.admin.declaration import BadDeclaration, read_document
from gateway.api.admin_tenants import attempt
from gateway.api.needs import parts_of
from gateway.errors import ApiError, bad_request
from gateway.weights.cache import CacheError, WeightCache
from gateway.weights.hub import HubError

log = logging.getLogger(__name__)
router = APIRouter()


@router.post("/models/apply")
async def apply_models(
    request: Request, document: dict[str, Any], dry_run: bool = False, verify: bool = False
) -> dict[str, Any]:
    """Add or change models, pools and prices as declared; paths are absolute here. Answers when
    all of it is done, downloads included; 400 names every mistake."""
    parts = parts_of(request)
    use_case = ModelsApply(
        tenants=parts.tenants,
        ledger=parts.ledger,
        cache=WeightCache(parts.settings.weights, tell=log.info),
        clock=parts.outside.clock,
        tell=log.info,
    )

    def work() -> Application:
        declaration = read_document(document)
        return use_case.apply(declaration, relative_to=None, dry_run=dry_run, verify=verify)

    try:
        done = await attempt(work)
    except BadDeclaration as bad:
        raise bad_request(str(bad), bad.mistakes[0].place or None) from bad
    except PriceError as wrong:
        raise bad_request(str(wrong), "prices") from wrong
    except HubError as failed:
        raise ApiError(502, str(failed), type="server_error", code="hub_failed") from failed
    except CacheError as failed:
        raise ApiError(507, str(failed), type="server_error", code="weights_not_kept") from failed
    await parts.catalog.refresh()
    return _application(done, dry_run=dry_run)


def _application(done: Application, *, dry_run: bool) -> dict[str, Any]:
    return {
        "object": "models_application",
        "dry_run": dry_run,
        "applied": done.is_applied,
        "weights_written": list(done.fetched),
        "notes": list(done.notes),
        "changes": [
            {"kind": c.kind, "name": c.name, "change": c.sign, "details": list(c.details)}
            for c in done.plan.changes
        ],
    }
