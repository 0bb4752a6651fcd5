"""Gateways that others make, in front of the same upstream: how each is started for a comparison.

nginx comes from PATH; the others are looked for in a folder that holds one virtual environment
each, made once by

    python -m venv PEERS/sglang  && PEERS/sglang/bin/pip  install sglang-router==0.3.2
    python -m venv PEERS/vllm    && PEERS/vllm/bin/pip    install vllm-router==0.1.17
    python -m venv PEERS/litellm && PEERS/litellm/bin/pip install 'litellm[proxy]' redis

LiteLLM runs as it would have to for what Sluice does: a key check, limits in Redis and one usage
record a call, by its own hooks (litellm_hooks.py). The routers and nginx do nothing of the kind.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
KEY = "sk-peer-1234"


@dataclass(frozen=True)
class Peer:
    """Its port, its command (None: already there) and what its environment has to say."""

    port: int
    command: tuple[str, ...] | None
    environment: dict[str, str] = field(default_factory=dict)
    is_slow: bool = False
    """Cannot take the load of the others: it is measured under a tenth of it."""


def peers(folder: Path, work: Path, upstream_port: int, redis_port: int) -> dict[str, Peer]:
    """Those that are installed; their settings are written into `work`."""
    found = {"direct": Peer(upstream_port, None)}
    if nginx := shutil.which("nginx"):
        config = work / "nginx.conf"
        config.write_text(_NGINX.format(work=work, port=upstream_port))
        found["nginx"] = Peer(8101, (nginx, "-p", str(work), "-c", str(config)))
    for port, name, options in ((8103, "sglang", ("launch",)), (8104, "vllm", ())):
        router = folder / name / "bin" / f"{name}-router"
        if router.exists():
            command = (str(router), *options, *_ROUTER, "--port", str(port))
            command += ("--worker-urls", f"http://127.0.0.1:{upstream_port}")
            command += ("--prometheus-port", str(20_000 + port))
            found[f"{name}-router"] = Peer(port, command)
    litellm = folder / "litellm" / "bin" / "litellm"
    if litellm.exists():
        shutil.copy(HERE / "litellm_hooks.py", work)
        config = work / "litellm.yaml"
        config.write_text(_LITELLM.format(upstream=upstream_port, redis=redis_port))
        found["litellm, limits"] = Peer(
            8111,
            (str(litellm), "--host", "127.0.0.1", "--port", "8111", "--config", str(config)),
            {
                "LITELLM_LOG": "ERROR",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "PYTHONPATH": str(work),
                "BENCH_REDIS_PORT": str(redis_port),
                "BENCH_KEY": KEY,
            },
            is_slow=True,
        )
    return {name: _with_path(peer) for name, peer in found.items()}


def _with_path(peer: Peer) -> Peer:
    return Peer(peer.port, peer.command, os.environ | peer.environment, peer.is_slow)


_ROUTER = ("--host", "127.0.0.1", "--policy", "round_robin")
_NGINX = """worker_processes 1; daemon off; pid {work}/nginx.pid; error_log {work}/nginx.err warn;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000; tcp_nodelay on;
  client_body_temp_path {work}/b; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f;
  uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
  upstream models {{
    server 127.0.0.1:{port}; keepalive 1024; keepalive_requests 1000000;
  }}
  server {{
    listen 127.0.0.1:8101 backlog=4096;
    location / {{
      proxy_pass http://models; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
_LITELLM = """model_list:
  - model_name: mock
    litellm_params:
      model: openai/mock
      api_base: "http://127.0.0.1:{upstream}/v1"
      api_key: unused
      rpm: 100000000
      tpm: 10000000000
  - model_name: mock-5ms
    litellm_params:
      model: openai/mock-5ms
      api_base: "http://127.0.0.1:{upstream}/v1"
      api_key: unused
router_settings: {{redis_host: 127.0.0.1, redis_port: {redis}, redis_password: ""}}
litellm_settings:
  telemetry: false
  num_retries: 0
  cache: true
  cache_params: {{type: redis, host: 127.0.0.1, port: {redis}, supported_call_types: []}}
  callbacks: litellm_hooks.meter
general_settings:
  master_key: sk-master-of-the-bench
  custom_auth: litellm_hooks.authenticate
"""
