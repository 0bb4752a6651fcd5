"""Webhooks by the admin API: made with a secret that is shown once, rotated, replayed, removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from billing.outbox import store as rows
from billing.outbox.event import EventType, OutboxEvent
from billing.outbox.usage.places import newest
from billing.settings import MailSettings
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.commands.conftest import one
from tests.gateway.edge import Edge

__all__ = ["one"]
WEBHOOKS = "/admin/v1/webhooks"


async def asked(one: Edge, method: str, path: str = "", sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, WEBHOOKS + path, raw, "admin")
    if status in (200, 201):
        assert_described(one.app, method, WEBHOOKS + path, status, answer)
    return status, answer


async def test_webhook_is_made_changed_rotated_replayed_and_removed(one: Edge) -> None:
    status, made = await asked(one, "POST", "", {"url": "https://example.com/h"})
    assert status == 201 and made["secret"].startswith("whsec_")
    path = f"/{made['id']}"
    _, page = await asked(one, "GET")
    assert page["data"] == [{k: v for k, v in made.items() if k != "secret"}]
    _, rotated = await asked(one, "POST", f"{path}/rotate", {})
    assert rotated["secret"] not in (made["secret"], "")
    event = OutboxEvent(EventType.INVOICE_PAID, "org_1", "inv_1", {}, 1)
    with one.parts.ledger.write() as conn:
        rows.tell(conn, event)
    _, page = await asked(one, "GET", f"{path}/deliveries?state=pending")
    assert [each["event"] for each in page["data"]] == [event.event_id]
    again = f"{path}/deliveries/{event.event_id}/replay"
    assert (await asked(one, "POST", again))[1]["deliveries"] == 1
    since = {"since": "1970-01-01T00:00:00Z"}
    assert (await asked(one, "POST", f"{path}/replay", since))[1]["deliveries"] == 1
    change = {"events": ["invoice.paid"], "enabled": False}
    _, changed = await asked(one, "PATCH", path, change)
    assert (changed["events"], changed["enabled"]) == (["invoice.paid"], False)
    assert (await asked(one, "DELETE", path))[0] == 200
    assert (await asked(one, "GET"))[1]["data"] == []


async def test_endpoint_may_be_mailed_where_a_mail_server_is_set(one: Edge) -> None:
    urls = "mailto:", "mailto:books@example.com"
    _, posted = await asked(one, "POST", "", {"url": "https://example.com/h"})
    for url in urls:
        for method, path in (("POST", ""), ("PATCH", f"/{posted['id']}")):
            status, answer = await asked(one, method, path, {"url": url})
            assert (status, answer["error"]["param"]) == (400, "url"), answer
    settings = one.parts.settings
    mail = MailSettings(host="smtp.example.com")
    one.app.state.parts = replace(one.parts, settings=settings.model_copy(update={"mail": mail}))
    for url in urls:
        status, made = await asked(one, "POST", "", {"url": url})
        assert (status, made["url"]) == (201, url)


async def test_usage_is_told_from_where_an_endpoint_begins_to_want_it(one: Edge) -> None:
    def followed() -> bool:
        with one.parts.ledger.read() as conn:
            return newest(conn) is not None

    await asked(one, "POST", "", {"url": "https://example.com/h"})
    assert not followed(), "[] is all others"
    usage = {"url": "https://example.com/u", "events": ["usage", "invoice.paid"]}
    _, made = await asked(one, "POST", "", usage)
    assert followed()
    for change, is_followed in (
        ({"enabled": False}, False),
        ({"enabled": True}, True),
        ({"events": []}, False),
        ({"events": ["usage"]}, True),
    ):
        assert (await asked(one, "PATCH", f"/{made['id']}", change))[0] == 200
        assert followed() == is_followed, change
    mailed = {"url": "mailto:a@example.com"}
    assert (await asked(one, "PATCH", f"/{made['id']}", mailed))[0] == 400
    usage["url"] = "mailto:"
    assert (await asked(one, "POST", "", usage))[0] == 400
    assert (await asked(one, "DELETE", f"/{made['id']}"))[0] == 200
    assert not followed()


async def test_what_is_wrong_is_refused(one: Edge) -> None:
    for url in ("ftp://a", "https://u:p@example.com/", "x", "mailto:a@b,c@d", "mailto:A <a@b>"):
        status, answer = await asked(one, "POST", "", {"url": url})
        assert (status, answer["error"]["param"]) == (400, "url"), answer
    assert (await asked(one, "POST", "", {"url": "https://a/", "events": ["x"]}))[0] == 400
    _, made = await asked(one, "POST", "", {"url": "https://example.com/h"})
    for method, path, sent in (
        ("PATCH", "/wh_0", {}),
        ("DELETE", "/wh_0", None),
        ("POST", "/wh_0/rotate", {}),
        ("GET", "/wh_0/deliveries", None),
        ("POST", f"/{made['id']}/deliveries/evt_0/replay", None),
    ):
        assert (await asked(one, method, path, sent))[0] == 404, path
