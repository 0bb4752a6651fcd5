"""Who can reach what: this machine alone, but for the ports that Ray opens for itself."""

from __future__ import annotations

import stat
from urllib.parse import urlsplit

import psutil

from tests.stack import Stack
from workers.ray_file import read_ray_file
from workers.ray_session import members

LOOPBACK = ("127.", "::1", "::ffff:127.")


def test_every_socket_of_ours_is_on_loopback(stack: Stack) -> None:
    """Gateway, ledger, controller and Redis listen nowhere else; replicas answer HTTP there."""
    ray = read_ray_file(stack.data / "ray.json")
    assert ray is not None
    rays_own = {process.pid for process in members(ray.session)}
    ours = [(pid, address) for pid, address in stack.listening() if pid not in rays_own]
    assert {address.port for _, address in ours} >= {stack.port}
    assert [a for _, a in ours if not a.ip.startswith(LOOPBACK)] == []
    replicas = [r for pool in stack.fleet().values() for r in pool["replicas"]]
    assert replicas
    for replica in replicas:
        assert urlsplit(replica["address"]).hostname.startswith(LOOPBACK)
    ingress = {urlsplit(replica["address"]).port for replica in replicas}
    inside = [a for pid, a in stack.listening() if pid in rays_own and a.port in ingress]
    assert inside and all(address.ip.startswith(LOOPBACK) for address in inside)


def test_worker_answers_only_who_knows_its_secret(stack: Stack) -> None:
    address = stack.replicas("small-reserved", "WARM")[0]["address"]
    for path in ("/v1/chat/completions", "/v1/sluice/drain", "/v1/sluice/stats"):
        method = "GET" if path.endswith("stats") else "POST"
        for headers in ({}, {"x-sluice-worker-secret": "wrong"}):
            response = stack.http.request(method, address + path, headers=headers, json={})
            assert response.status_code == 401, path


def test_what_holds_secrets_is_for_the_owner_alone(stack: Stack) -> None:
    for name in ("secrets.json", "ready.json", "ray.json"):
        mode = stat.S_IMODE((stack.data / name).stat().st_mode)
        assert mode == 0o600, name
    words = [" ".join(psutil.Process(pid).cmdline()) for pid in stack.pids().values()]
    for secret in (stack.ready["admin_key"], stack.ready["api_key"]):
        assert not any(secret in line for line in words), "a command line is read by everybody"
