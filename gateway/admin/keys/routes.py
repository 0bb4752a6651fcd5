"""`/admin/v1/keys`."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.keys.schemas import ApiKeyAnswer, ApiKeyWithSecret, NewKey, Rotation
from gateway.admin.keys.service import Keys
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.tenants.tables import ApiKey

router = APIRouter(prefix="/keys", tags=["keys"])


@router.post("", status_code=201, response_model=ApiKeyWithSecret)
async def create_key(keys: Keys, body: NewKey) -> Any:
    """The answer carries `secret`, this once."""
    row, secret = await keys.create(body.project, body.name, body.expires_at)
    return row.model_dump() | {"secret": secret}


@router.get("", response_model=Page[ApiKeyAnswer])
async def list_keys(keys: Keys, page: Paged, project: Label | None = None) -> Any:
    equals = {"project_id": project} if project else {}
    return await keys.store.page(page, ApiKey, equals=equals)


@router.delete("/{key_id}", response_model=ApiKeyAnswer)
async def revoke_key(keys: Keys, key_id: Label) -> Any:
    return await keys.revoke(key_id)


@router.post("/{key_id}/rotate", response_model=ApiKeyWithSecret)
async def rotate_key(keys: Keys, key_id: Label, body: Rotation | None = None) -> Any:
    """The answer carries the new `secret`, this once; limits and spending stay the key's."""
    row, secret = await keys.rotate(key_id, body.overlap_s if body else 0.0)
    return row.model_dump() | {"secret": secret}
