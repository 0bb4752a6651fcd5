"""Learned quality over the admin API and from a terminal: into force, back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.tenants.tables import Audit
from routing.quality.document import QualityDocument, written
from routing.quality.features import NUMBERS
from routing.quality.model import LinearModel, QualityModel
from tests.gateway.api.asgi import ask
from tests.gateway.commands.conftest import one, sluice
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge

__all__ = ["one", "sluice"]
WHY = {"comment": "because"}


def document(average: float) -> str:
    linear = LinearModel(average, 0.0, (0.0,) * len(NUMBERS), ())
    return written(QualityDocument(QualityModel({}, (), {"tale": linear}), {}))


async def quality(one: Edge, method: str, path: str = "", sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    return await ask(one.app, method, f"/admin/v1/quality{path}", raw, "admin")


async def test_a_document_comes_into_force_and_goes_back(one: Edge) -> None:
    keeper = one.parts.quality_keeper
    assert (await quality(one, "GET", "/active"))[0] == 404 and keeper.version == 0
    for average in (0.0, 1.0):
        status, made = await quality(one, "POST", "", {"document": document(average), **WHY})
        assert (status, made["object"], made["status"]) == (201, "quality", "draft"), made
        status, active = await quality(one, "POST", f"/{made['version']}/activate", WHY)
        assert (status, active["status"], keeper.version) == (200, "active", made["version"])
        assert keeper._active.current.models["tale"].average == average
    _, now = await quality(one, "GET", "/active")
    assert [each["version"] for each in now["gateways"]] == [2]
    status, active = await quality(one, "POST", "/rollback", WHY)
    assert (status, active["version"], keeper.version) == (200, 1, 1)
    status, error = await quality(one, "POST", "/2/activate", {**WHY, "expects": 2})
    assert (status, error["error"]["message"]) == (409, "version 1 is active, and not 2")
    assert (await quality(one, "GET", "/1"))[1]["document"] == document(0.0)
    actions = [row.action for row in one.parts.tenants.every(Audit) if "quality" in row.action]
    assert actions == [f"quality.{verb}" for verb in ("create", "activate") * 2 + ("rollback",)]


async def test_the_first_document_can_be_taken_back(one: Edge) -> None:
    status, error = await quality(one, "POST", "/rollback", WHY)
    assert (status, error["error"]["code"]) == (409, "conflict"), "nothing is in force"
    await quality(one, "POST", "", {"document": document(1.0), **WHY})
    await quality(one, "POST", "/1/activate", WHY)
    status, active = await quality(one, "POST", "/rollback", WHY)
    assert (status, active["version"], active["status"]) == (200, 2, "active")
    assert one.parts.quality_keeper._active.current.models == {}
    status, active = await quality(one, "POST", "/rollback", WHY)
    assert (status, active["version"]) == (200, 1), "and back again"
    audit = [row for row in one.parts.tenants.every(Audit) if row.action == "quality.rollback"]
    assert [(row.object, row.detail["before"]) for row in audit] == [("2", 1), ("1", 2)]


async def test_what_is_wrong_with_a_document_is_named_and_nothing_is_stored(one: Edge) -> None:
    for text, named in (("{", 1), ('{"form": 1, "words": [1]}', 6), ("x" * 1_100_000, 1)):
        status, answer = await quality(one, "POST", "", {"document": text})
        error = answer["error"]
        assert (status, error["param"], error["code"]) == (400, "document", "invalid_quality")
        assert len(error["errors"]) == named
    assert (await quality(one, "GET"))[1]["data"] == []


async def test_a_terminal_puts_a_file_into_force_and_takes_it_back(
    sluice: Sluice, tmp_path: Path
) -> None:
    assert await sluice("quality", "list") == "there is no version\n"
    for average in (0.0, 1.0):
        file = tmp_path / "quality.json"
        file.write_text(document(average))
        active = await sluice.json("quality", "activate", str(file), "--comment", "because")
    assert (active["version"], active["status"]) == (2, "active")
    back = await sluice.json("quality", "rollback", "--comment", "worse")
    assert (back["version"], back["activation_comment"]) == (1, "worse")
    await sluice.json("quality", "activate", "2", "--comment", "again", "--expects", "1")
    listed = (await sluice("quality", "list")).splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["2", "active"], ["1", "retired"]]
    wrong = await sluice.refused("quality", "activate", "none.json", "--comment", "x")
    assert "none.json" in wrong
