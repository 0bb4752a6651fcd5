"""`/console`: its doors, its pages and their files, none of them part of the API's description."""

from fastapi import APIRouter

from gateway.console import assets, doors, explain, overview

router = APIRouter()
for part in (doors, overview, explain, assets):
    router.include_router(part.router)
