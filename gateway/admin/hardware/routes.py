"""`/admin/v1/hardware`: the parts that the field `hardware` of a pool may name."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from gateway.admin.hardware.schemas import HardwareAnswer, HardwareBody
from gateway.admin.hardware.service import HardwareParts
from gateway.api.pages import Key, Paged, Source, read_page
from gateway.api.schemas import Page
from gateway.catalog.pool import HardwareName
from gateway.errors import ApiError
from routing.hardware.catalogue import Hardware

router = APIRouter(prefix="/hardware", tags=["hardware"])


@router.get("", response_model=Page[HardwareAnswer])
async def list_hardware(hardware: HardwareParts, page: Paged) -> Any:
    parts = await hardware.parts()
    return read_page(page, Source((str,), lambda key, limit: _behind(parts, key, limit)))


@router.get("/{name}", response_model=HardwareAnswer)
async def show_hardware(hardware: HardwareParts, name: HardwareName) -> Any:
    part = (await hardware.parts()).get(name)
    if part is None:
        raise ApiError(404, f"There is no '{name}'.", code="not_found")
    return part


@router.put("/{name}", response_model=HardwareAnswer)
async def put_hardware(hardware: HardwareParts, name: HardwareName, body: HardwareBody) -> Any:
    """A part of your own. Those that ship stay as they are."""
    return await hardware.put(name, body)


@router.delete("/{name}", response_model=HardwareAnswer)
async def disable_hardware(hardware: HardwareParts, name: HardwareName) -> Any:
    return await hardware.disable(name)


def _behind(
    parts: Mapping[str, Hardware], key: Key | None, limit: int
) -> list[tuple[Key, Hardware]]:
    names = sorted(name for name in parts if key is None or (name,) > key)
    return [((name,), parts[name]) for name in names[:limit]]
