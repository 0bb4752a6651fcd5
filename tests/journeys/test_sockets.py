"""Who can reach what: this machine alone."""

from __future__ import annotations

import stat
from urllib.parse import urlsplit

import psutil

from tests.stack import Stack
from workers.ray.file import read_ray_file

LOOPBACK = ("127.", "::1", "::ffff:127.")


def test_every_socket_is_on_loopback(stack: Stack) -> None:
    """Of the gateway, of each replica, and of Ray: its store, its nodes, its metrics, its proxy."""
    stack.wake("small-reserved")
    ray = read_ray_file(stack.data / "ray.json")
    assert ray is not None
    warm = [r for pool in stack.fleet().values() for r in pool["replicas"] if r["state"] == "WARM"]
    assert warm
    replicas = {urlsplit(replica["address"]).port for replica in warm}
    rays_own = {urlsplit(f"//{ray.gcs_address}").port, urlsplit(ray.dashboard_url).port}
    listening = [(psutil.Process(pid).name(), address) for pid, address in stack.listening()]
    assert {address.port for _, address in listening} >= {stack.port} | replicas | rays_own
    assert [found for found in listening if not found[1].ip.startswith(LOOPBACK)] == []


def test_worker_answers_only_who_knows_its_secret(stack: Stack) -> None:
    stack.wake("small-reserved")
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
