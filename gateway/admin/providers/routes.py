"""`/admin/v1/providers`: accounts with providers, and their keys by name."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.pools.service import Checker
from gateway.admin.providers.schemas import (
    KeyBody,
    ProviderAnswer,
    ProviderBody,
    ProviderCheckAnswer,
    ProviderCheckBody,
)
from gateway.admin.providers.service import Providers
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.providers.key import KeyName

router = APIRouter(tags=["providers"])

ANY = ProviderCheckBody()
EQUAL = KeyBody()


@router.get("/providers", response_model=Page[ProviderAnswer])
async def list_providers(providers: Providers, request: Paged) -> Any:
    """Accounts, and providers that pools name, by their names."""
    return await providers.page(request)


@router.get("/providers/{name}", response_model=ProviderAnswer)
async def show_provider(providers: Providers, name: Label) -> Any:
    return await providers.provider(name)


@router.put("/providers/{name}", response_model=ProviderAnswer)
async def put_provider(providers: Providers, name: Label, body: ProviderBody) -> Any:
    """An account with these keys. Pools with this `provider` go with them, each call with one, and
    no longer with `api_key_env`. Keys are named here and never sent: each is in a variable or file
    of that name."""
    return await providers.put(name, body.keys)


@router.delete("/providers/{name}", response_model=ProviderAnswer)
async def delete_provider(providers: Providers, name: Label) -> Any:
    """As it was. Its pools go on with the keys that they name themselves."""
    return await providers.delete(name)


@router.put("/providers/{name}/keys/{key}", response_model=ProviderAnswer)
async def put_provider_key(
    providers: Providers, name: Label, key: KeyName, body: KeyBody = EQUAL
) -> Any:
    """One more key of the account, or another share and other limits."""
    return await providers.put_key(name, key, body)


@router.delete("/providers/{name}/keys/{key}", response_model=ProviderAnswer)
async def remove_provider_key(providers: Providers, name: Label, key: KeyName) -> Any:
    """No further call goes with it. Those that run end with it."""
    return await providers.remove_key(name, key)


@router.post("/providers/{name}/check", response_model=ProviderCheckAnswer)
async def check_provider(
    providers: Providers, checker: Checker, name: Label, body: ProviderCheckBody = ANY
) -> Any:
    """Makes one tiny call and tells what came; no tenant pays for it."""
    return await providers.check(name, body, checker)
