"""`/console`, to which `/` leads: its doors, its pages and their files, none of them described."""

from fastapi import APIRouter

from gateway.console import assets, login
from gateway.console.pages.call import page as explain
from gateway.console.pages.catalogue import page as catalogue
from gateway.console.pages.fleet import page as fleet
from gateway.console.pages.invoices import files
from gateway.console.pages.invoices import page as invoices
from gateway.console.pages.overview import page as overview
from gateway.console.pages.policies import editor, version
from gateway.console.pages.policies import page as policies
from gateway.console.pages.providers import page as providers
from gateway.console.pages.refusals import page as refusals
from gateway.console.pages.top_ups import page as top_ups

router = APIRouter()
for part in (
    login.front,
    login.router,
    overview.router,
    fleet.router,
    explain.router,
    catalogue.router,
    providers.router,
    files.router,
    invoices.router,
    top_ups.router,
    policies.router,
    editor.router,
    version.router,
    refusals.router,
    assets.router,
):
    router.include_router(part)
