"""A policy whose default route is the one that a test wants, in force in one gateway."""

from __future__ import annotations

import httpx2 as httpx

from tests.gateway.edge import Edge

DOCUMENT = """\
apiVersion: gateway/v1
kind: RoutingPolicy
rules: []
default: {{route: {route}}}
"""


async def put_policy(edge: Edge, route: str) -> None:
    """Over the admin API; `route` is YAML, as `{hedge: {share: 0.5}}`."""
    transport, admin = httpx.ASGITransport(app=edge.app), {"authorization": "Bearer admin"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway", headers=admin
    ) as http:
        document = {"document": DOCUMENT.format(route=route), "comment": "test"}
        made = await http.post("/admin/v1/policies", json=document)
        assert made.status_code == 201, made.text
        path = f"/admin/v1/policies/{made.json()['version']}/activate"
        activated = await http.post(path, json={"comment": "test"})
        assert activated.status_code == 200, activated.text
    await edge.parts.policy_keeper.refresh()
