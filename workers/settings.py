"""The settings of everything that runs workers: where data lies, the Ray cluster, the controller.

There is one TOML file (`SLUICE_CONFIG`), overridden by `SLUICE_...` variables with `__` between
section and name. Tables of other parts in the same file are ignored. An unknown key in ours is an
error.
"""

import os
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from workers.mix import MixSettings
from workers.nodes.node_type import NodeTypes, with_folder

PROJECT_ROOT = Path(__file__).resolve().parent.parent


LOOPBACK = "127.0.0.1"


class RaySettings(BaseModel):
    """[ray]: the cluster that `workers.ray.launch` starts on this machine, or joins."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str | None = None  # the dashboard of a cluster to join; None: one of our own
    join_wait_s: float = Field(default=20.0, ge=0)  # for a cluster that does not answer
    packages: tuple[str, ...] = ()  # Python packages that a joined cluster installs for replicas
    node_ip: str = LOOPBACK  # with any other address Ray's ports are open on every interface
    dashboard_host: str = "127.0.0.1"
    num_cpus: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    num_gpus: int | None = Field(default=None, ge=0)  # None: what Ray finds
    object_store_mb: int = Field(default=80, ge=76)  # Ray's own minimum is 75 MB
    spares: int = Field(default=1, ge=0, le=16)  # parked to become a replica
    worker_threads: int = Field(default=1, ge=1)  # threads of tensor libraries, per replica
    ports_first: int = Field(default=20_000, ge=1024)
    ports_last: int = Field(default=32_000, le=32_767)  # below the ephemeral range
    throughput_optimized: bool = True
    min_draining_s: float = Field(default=1.0, ge=0)
    port_quarantine_s: float = Field(default=30.0, ge=0)
    start_timeout_s: float = Field(default=90.0, gt=0)
    stop_grace_s: float = Field(default=3.0, gt=0)
    watch_interval_s: float = Field(default=0.5, gt=0)
    node_idle_s: float = Field(default=60.0, gt=0)  # a node of [[nodes]] without a replica goes
    weights_gb: float | None = Field(default=None, gt=0)  # of fetched checkpoints; None: no bound
    weights_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+(/[^\s]*)?$"
    )  # of a gateway, as nodes reach it; None: the one of this file
    temp_root: Path = Path("/tmp")  # sockets below it must stay under 107 characters

    @field_validator("address")
    @classmethod
    def _of_a_dashboard(cls, address: str | None) -> str | None:
        parts = urlsplit(address or "http://unset")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("name the dashboard of the cluster, as in http://HEAD:8265")
        return address or None

    @field_validator("node_ip")
    @classmethod
    def _one_loopback(cls, node_ip: str) -> str:
        """Ray's own loopback address in place of any other one. To Ray 127.0.0.2, once the default,
        is a network."""
        return LOOPBACK if ip_address(node_ip).is_loopback else node_ip


class GatewayPlace(BaseModel):
    """[gateway], as far as workers have to reach it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    host: str = LOOPBACK
    port: int = 8080

    @property
    def url(self) -> str:
        address = ip_address(self.host) if _is_address(self.host) else None
        if address is not None and address.is_unspecified:
            return f"http://{LOOPBACK}:{self.port}"
        host = f"[{self.host}]" if address is not None and address.version == 6 else self.host
        return f"http://{host}:{self.port}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class VllmSettings(BaseModel):
    """[vllm]: where vLLM's replicas run, and what each of them reserves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: Path = Path(".venv-vllm/bin/python")  # made by `make vllm`; relative to the project
    kv_cache_mb: int = Field(default=256, ge=1)  # for keys and values, on a CPU
    gpu_memory_share: float = Field(default=0.9, gt=0, le=1)  # for everything, on a GPU
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    sleep_level: Literal[1, 2] = 1  # 1: weights in the machine's memory, 2: read again
    memory_mb: int = Field(default=1000, ge=1)  # of a replica beside its cache; `up` wants it free

    @property
    def interpreter(self) -> Path:
        return PROJECT_ROOT / self.python


Seconds = Annotated[float, Field(ge=0)]


class TierTargets(BaseModel):
    """`ttft_s` by service tier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    priority: Seconds = Field(1.0, description="ttft_s of calls of service_tier priority")
    default: Seconds = Field(1.0, description="ttft_s of calls of the usual tier")
    flex: Seconds = Field(1.0, description="ttft_s of calls of service_tier flex")


class ControllerSettings(BaseModel):
    """[controller]: how replica counts follow demand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    import_path: str = "workers.deployments.engine_app:build"
    tick_s: float = Field(default=0.1, gt=0)  # how often waiting callers are looked for
    observe_s: float = Field(default=0.3, gt=0)  # how often everything is observed when quiet,
    observe_moving_s: float = Field(default=0.2, gt=0)  # and while a count changes
    lease_ttl_s: float = Field(default=1.5, gt=0)
    ray_timeout_s: float = Field(default=15.0, gt=0)
    ray_patience_s: float = Field(default=1.0, gt=0)  # then a round goes on with what is known
    stats_timeout_s: float = Field(default=1.0, gt=0)
    stats_stale_s: float = Field(default=15.0, gt=0)  # how long old numbers of a slow replica count
    up_delay_s: float = Field(default=2.0, ge=0)
    ttft_s: Seconds | TierTargets = 1.0  # the goal for a first token when a pool is full
    panic_s: float = Field(default=10.0, ge=1)  # a load of this window may double a pool at once
    stable_s: float = Field(
        default=3600.0, ge=1
    )  # the usual load of this one is held; or of idle_s
    down_s: float = Field(default=180.0, ge=0)  # fewer must have done for so long, or for idle_s
    wait_usd_per_s: float = Field(default=0.0001, ge=0)  # what a second of a caller is worth
    forecast: bool = True  # start replicas before their calls, where that saves more than it costs
    sleep_cost_share: float = Field(default=0.1, ge=0, le=1)  # of its price, while one sleeps
    settle_s: float = Field(default=0.6, ge=0)  # between published DRAINING and refusing work
    drain_timeout_s: float = Field(default=60.0, gt=0)
    replace_drain_s: float = Field(default=600.0, gt=0)  # for the calls of replaced replicas
    start_timeout_s: float = Field(default=900.0, gt=0)
    start_attempts: int = Field(default=3, ge=1, le=3)  # Serve gives up after three by itself
    backoff_s: float = Field(default=5.0, gt=0)
    backoff_max_s: float = Field(default=300.0, gt=0)
    cold_start_weight: float = Field(default=0.3, gt=0, le=1)
    life_report_s: float = Field(default=60.0, gt=0)  # how often the ledger is told of each life
    waiting_max: int = Field(default=10_000, ge=1)  # callers in one pool's waiting room
    graceful_shutdown_s: float = Field(default=120.0, gt=0)
    health_check_period_s: float = Field(default=0.5, gt=0)
    health_check_timeout_s: float = Field(default=30.0, gt=0)

    @property
    def ttft_s_by_tier(self) -> dict[str, float]:
        """The target of each service tier."""
        if isinstance(self.ttft_s, TierTargets):
            return self.ttft_s.model_dump()
        return {tier: self.ttft_s for tier in TierTargets.model_fields}


class WorkersSettings(BaseSettings):
    """What `workers.ray.launch` and `workers.controller` read at start."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_",
        env_nested_delimiter="__",
        extra="ignore",
        populate_by_name=True,
        frozen=True,
    )

    data: Path = Path(".sluice")
    engine: str = "continuous"  # a name in workers/engines/registry.py
    redis_url: str = "redis://127.0.0.1:6379/0"
    worker_secret: SecretStr = SecretStr("")
    ray_auth_token: SecretStr = Field(
        default=SecretStr(""), validation_alias=AliasChoices("ray_auth_token", "RAY_AUTH_TOKEN")
    )
    ray: RaySettings = RaySettings()
    vllm: VllmSettings = VllmSettings()
    controller: ControllerSettings = ControllerSettings()
    nodes: NodeTypes = ()
    mixes: MixSettings = ()
    gateway: GatewayPlace = GatewayPlace()

    @property
    def weights_url(self) -> str:
        """Where nodes fetch checkpoints."""
        return self.ray.weights_url or self.gateway.url

    @property
    def weights(self) -> Path:
        """What nodes of this machine have fetched: a folder for each, and one that others share."""
        return self.data.absolute() / "node-weights"

    @property
    def grows(self) -> bool:
        """Whether a replica without a place may bring a node."""
        return bool(self.nodes) or self.ray.address is not None

    @property
    def ray_file(self) -> Path:
        """The file with the running cluster's addresses, without its token."""
        return self.data / "ray.json"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        config = os.environ.get("SLUICE_CONFIG")
        if config is None:
            return init_settings, env_settings
        return init_settings, env_settings, _File(settings_cls, Path(config))


class _File(TomlConfigSettingsSource):
    """The file, with the folder that its relative paths are in."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        return with_folder(super()._read_file(file_path), Path(file_path).parent)


class SettingsError(Exception):
    """One line for the user: the key, and what is wrong with it."""


def load_settings() -> WorkersSettings:
    """Read the file and the environment. Raises SettingsError.

    Both secrets must be set. Without them everybody could drive the cluster and its workers.
    """
    try:
        settings = WorkersSettings()
    except ValidationError as mistakes:
        first = mistakes.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{key}: {first['msg']}") from mistakes
    except (OSError, tomllib.TOMLDecodeError) as unreadable:
        raise SettingsError(f"SLUICE_CONFIG: {unreadable}") from unreadable
    if not settings.ray_auth_token.get_secret_value():
        raise SettingsError("RAY_AUTH_TOKEN is not set")
    if not settings.worker_secret.get_secret_value():
        raise SettingsError("SLUICE_WORKER_SECRET is not set")
    return settings
