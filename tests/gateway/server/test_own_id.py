"""A gateway's id is the name of its spool folder: made once, kept, and nobody else's."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from billing.spool.segments import gateways
from billing.spool.spool import Spool, SpoolInUse, replay
from gateway.server.own_id import own_id
from tests.billing.calls import opened_call

CALL = opened_call()


def test_it_is_made_once_and_kept_with_the_spool(tmp_path: Path) -> None:
    first = own_id(tmp_path / "spool", 8080, Random(1).randbytes)
    assert re.fullmatch(r"gw-8080-[0-9a-f]{12}", first)
    assert own_id(tmp_path / "spool", 8080, Random(2).randbytes) == first


def test_two_folders_and_two_ports_have_ids_of_their_own(tmp_path: Path) -> None:
    chance = Random(1).randbytes
    asked = [("a", 8080), ("b", 8080), ("a", 808), ("a", 80801)]
    assert len({own_id(tmp_path / name, port, chance) for name, port in asked}) == len(asked)


async def test_spool_of_an_earlier_version_goes_on_under_the_id(tmp_path: Path) -> None:
    """What was in flight when the gateway was replaced is settled by the one that came."""
    async with Spool(tmp_path, "gw-8080") as former:
        former.opened(CALL)
    name = own_id(tmp_path, 8080, Random(1).randbytes)
    async with Spool(tmp_path, name):
        assert [call.opened for call in replay(tmp_path, name)] == [CALL]
    assert gateways(tmp_path) == [name]


async def test_spool_that_an_earlier_version_still_writes_to_is_not_taken(tmp_path: Path) -> None:
    async with Spool(tmp_path, "gw-8080") as former:
        with pytest.raises(SpoolInUse, match="another gateway writes to the spool"):
            own_id(tmp_path, 8080, Random(1).randbytes)
        former.opened(CALL)
    assert [call.opened for call in replay(tmp_path, "gw-8080")] == [CALL]
