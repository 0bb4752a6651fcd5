"""All settings of all parts, from one TOML file and `SLUICE_...` variables, which win.

Composes the tables that `billing` and `workers` own with those of the edge, the supervisor and
the catalog that a new data folder starts with. An unknown key anywhere is an error that names
the file (or the variable) and the key. `sluice.toml` at the root of the project lists every
setting with its default; it is also what is used when no file is given.
"""

import os
import ssl
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from billing.settings import LedgerSettings, PriceSettings
from gateway.errors import QuotaStatus
from routing.types import AUTO_MODEL
from workers.settings import ControllerSettings, RaySettings, VllmSettings

PREFIX = "SLUICE_"
FILE_NAME = "sluice.toml"
HTTP_URL = r"^https?://[^\s/]+\S*$"
PACKAGE = "package:"
IMAGE_TOKENS_MAX = 1_000_000
CATALOG_POLL_S_MAX = 4.0
"""A key is to stop within 5 s: this much to notice its revocation, and the rest to read it."""


class SettingsError(Exception):
    """One line for the user: which file or variable, which key, what is wrong with it."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IdempotencySettings(Section):
    """[gateway.idempotency]: answers kept for calls that are sent again under their key."""

    ttl_s: float = Field(3600.0, gt=0)
    answer_bytes_max: int = Field(4 << 20, gt=0)
    organization_bytes_max: int = Field(64 << 20, gt=0)
    lease_s: float = Field(10.0, gt=0)
    finish_within_s: float = Field(600.0, gt=0)
    poll_s: float = Field(0.05, gt=0)
    followers_max: int = Field(256, gt=0)
    settle_wait_s: float = Field(5.0, gt=0)


class LimiterSettings(Section):
    """[gateway.limiter]: what is asked of Redis, and what happens while it is away."""

    connect_timeout_ms: float = Field(50.0, gt=0)
    timeout_ms: float = Field(100.0, gt=0)
    failures_max: int = Field(5, gt=0)
    open_s: float = Field(2.0, gt=0)
    local_share: float = Field(0.8, gt=0, le=1)
    local_buckets_max: int = Field(10_000, gt=0)
    local_spend_cap_nanousd: int = Field(1_000_000_000, ge=0)


class GatewaySettings(Section):
    """[gateway]: the edge."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=1, le=65535)
    body_bytes_max: int = Field(4 << 20, gt=0)
    body_timeout_s: float = Field(30.0, gt=0)
    head_bytes_max: int = Field(65536, gt=0)
    head_timeout_s: float = Field(30.0, gt=0)
    calls_max: int = Field(2000, gt=0)
    deadline_priority_s: float = Field(60.0, gt=0)
    deadline_default_s: float = Field(120.0, gt=0)
    deadline_flex_s: float = Field(600.0, gt=0)
    commit_after_s: float = Field(5.0, gt=0)
    keepalive_s: float = Field(5.0, gt=0)
    output_slice_tokens: int = Field(256, gt=0)
    lease_s: float = Field(30.0, gt=0)
    renew_s: float = Field(2.0, gt=0)
    connect_timeout_s: float = Field(2.0, gt=0)
    first_token_timeout_s: float = Field(60.0, gt=0)
    idle_timeout_s: float = Field(60.0, gt=0)
    external_first_token_timeout_s: float = Field(30.0, gt=0)
    external_idle_timeout_s: float = Field(60.0, gt=0)
    external_ca_file: str = ""
    slow_reader_timeout_s: float = Field(30.0, gt=0)
    write_buffer_bytes: int = Field(65536, gt=0)
    catalog_poll_s: float = Field(1.0, gt=0, le=CATALOG_POLL_S_MAX)
    fleet_poll_s: float = Field(0.15, gt=0)
    spool_segment_bytes: int = Field(16 << 20, gt=0)
    spool_fsync_ms: float = Field(20.0, gt=0)
    drain_s: float = Field(8.0, ge=0)
    metrics_open: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    limiter: LimiterSettings = LimiterSettings()
    idempotency: IdempotencySettings = IdempotencySettings()

    @field_validator("external_ca_file")
    @classmethod
    def holds_authorities(cls, path: str) -> str:
        if path:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
            except OSError as wrong:
                reason = wrong.strerror or wrong
                raise ValueError(f"no certificate authorities in '{path}': {reason}") from wrong
        return path


class SupervisorSettings(Section):
    """[supervisor]: how `sluice up` starts, watches and stops the parts."""

    memory_min_mb: int = Field(3000, ge=0)
    ready_timeout_s: float = Field(120.0, gt=0)
    pools_timeout_s: float = Field(120.0, gt=0)
    start_attempts: int = Field(3, ge=1)
    stop_timeout_s: float = Field(15.0, gt=0)
    restart_backoff_s: float = Field(0.5, gt=0)
    restart_backoff_max_s: float = Field(15.0, gt=0)
    steady_after_s: float = Field(60.0, gt=0)
    log_bytes_max: int = Field(32 << 20, gt=0)


class BootstrapSettings(Section):
    """[bootstrap]: the organization, project and limits of the key that `up` prints."""

    organization: str = "Default"
    project: str = "default"
    requests_per_minute: int | None = None
    request_burst: int | None = None
    tokens_per_minute: int | None = None
    token_burst: int | None = None
    input_tokens_per_minute: int | None = None
    input_token_burst: int | None = None
    output_tokens_per_minute: int | None = None
    output_token_burst: int | None = None
    concurrency: int | None = None
    budget_nanousd: int | None = None
    budget_window: Literal["total", "month"] = "month"
    insufficient_quota_status: QuotaStatus = QuotaStatus.TOO_MANY_REQUESTS


class ModelSettings(Section):
    """[[models]]: a public model name and its checkpoint folder: relative to the file, or
    `package:NAME/FOLDER` for one inside an installed Python package."""

    name: str
    path: str | None = None
    context_tokens: int = Field(gt=0)
    max_output_tokens: int = Field(gt=0)
    size_rank: int = Field(ge=0)
    quality: float = Field(ge=0, le=1)
    task: Literal["generate", "embed"] = "generate"
    image_tokens: int | None = Field(None, ge=1, le=IMAGE_TOKENS_MAX)

    @model_validator(mode="after")
    def _images_are_seen_outside(self) -> Self:
        if self.image_tokens is not None and self.path is not None:
            raise ValueError("image_tokens is for models of external servers alone")
        return self


class PoolSettings(Section):
    """[[pools]]: interchangeable replicas of one model on one capacity class."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    model: str
    variant: str = "fp16"
    capacity_class: Literal["reserved", "on_demand", "spot", "external"] = "reserved"
    engine: str | None = None
    base_url: str | None = Field(None, pattern=HTTP_URL)
    api_key_env: str | None = None
    min_replicas: int = Field(0, ge=0)
    max_replicas: int = Field(1, ge=1)
    initial_replicas: int = Field(0, ge=0)
    idle_s: float = Field(300.0, gt=0)
    num_cpus: float = Field(0.25, gt=0)
    num_gpus: float = Field(0.0, ge=0)
    max_ongoing: int = Field(8, ge=1)
    cost_nanousd_per_s: int = Field(0, ge=0)
    cost_input_nanousd_per_mtok: int = Field(0, ge=0)
    cost_output_nanousd_per_mtok: int = Field(0, ge=0)
    cold_start_s: float = Field(10.0, ge=0)


class Settings(BaseSettings):
    """Everything. Secrets come from variables that `sluice up` sets, never from the file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    data: Path = Path(".sluice")
    redis_url: str | None = None
    sql_url: str | None = None
    engine: str = "continuous"
    admin_key: str | None = Field(None, repr=False)
    api_key: str | None = Field(None, repr=False)
    worker_secret: str | None = Field(None, repr=False)

    gateway: GatewaySettings = GatewaySettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    ledger: LedgerSettings = LedgerSettings()
    ray: RaySettings = RaySettings()
    vllm: VllmSettings = VllmSettings()
    controller: ControllerSettings = ControllerSettings()
    bootstrap: BootstrapSettings = BootstrapSettings()
    models: tuple[ModelSettings, ...] = ()
    pools: tuple[PoolSettings, ...] = ()
    prices: tuple[PriceSettings, ...] = ()

    @property
    def sql(self) -> str:
        """The database: the one named, else SQLite in the data folder."""
        return self.sql_url or f"sqlite:///{self.data.absolute() / 'sluice.db'}"

    @property
    def weights(self) -> Path:
        """The cache of applied checkpoints, by checksum."""
        return self.data.absolute() / "weights"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def load_settings(config: Path | None = None) -> Settings:
    """Read the file (see `find_config`) and the environment; raises SettingsError."""
    path = find_config(config)
    table = _read(path)
    try:
        settings = Settings(**table)
    except ValidationError as mistakes:
        raise SettingsError(_first_mistake(path, mistakes, os.environ)) from mistakes
    settings = settings.model_copy(update={"models": _absolute(settings.models, path.parent)})
    _check_names(path, settings)
    return settings


def find_config(given: Path | None) -> Path:
    """The file named, else SLUICE_CONFIG, else ./sluice.toml, else the one of the project."""
    if given is not None:
        return given.absolute()
    if named := os.environ.get(f"{PREFIX}CONFIG"):
        return Path(named).absolute()
    here = Path(FILE_NAME).absolute()
    return here if here.exists() else Path(__file__).parent.parent / FILE_NAME


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise SettingsError(f"{path}: {unreadable.strerror}") from unreadable
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise SettingsError(f"{path}: not valid TOML: {broken}") from broken


def _first_mistake(path: Path, mistakes: ValidationError, env: Mapping[str, str]) -> str:
    first = mistakes.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    variable = PREFIX + "__".join(str(part) for part in first["loc"]).upper()
    source = f"variable {variable}" if variable in env else str(path)
    if first["type"] == "extra_forbidden":
        return f"{source}: unknown key {key}"
    return f"{source}: {key}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _absolute(models: tuple[ModelSettings, ...], folder: Path) -> tuple[ModelSettings, ...]:
    return tuple(
        model.model_copy(update={"path": checkpoint_folder(model.path, folder)})
        if model.path
        else model
        for model in models
    )


def checkpoint_folder(declared: str, relative_to: Path) -> str:
    """Where a declared checkpoint lies. A package is looked up and never imported, so that
    nothing of it runs; one that is not installed is left as declared, for others to refuse."""
    if not declared.startswith(PACKAGE):
        return str(relative_to / declared)
    name, _, folder = declared.removeprefix(PACKAGE).partition("/")
    found = find_spec(name) if name.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        return declared
    return str(Path(found.submodule_search_locations[0]) / folder)


def _check_names(path: Path, settings: Settings) -> None:
    """What one table says of another: names that must exist, and may exist only once."""
    models = [model.name for model in settings.models]
    if AUTO_MODEL in models:
        raise SettingsError(f"{path}: models: '{AUTO_MODEL}' asks the router to choose")
    pools = [pool.name for pool in settings.pools]
    for kind, names in (("models", models), ("pools", pools)):
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"{path}: {kind}: the name {name} stands twice")
    for index, pool in enumerate(settings.pools):
        if pool.model not in models:
            raise SettingsError(f"{path}: pools.{index}.model: no model is named {pool.model}")
        if pool.capacity_class == "external" and pool.base_url is None:
            raise SettingsError(f"{path}: pools.{index}.base_url: an external pool needs one")
        if not pool.min_replicas <= pool.max_replicas >= pool.initial_replicas:
            raise SettingsError(f"{path}: pools.{index}.max_replicas: less than it starts with")
    for index, price in enumerate(settings.prices):
        if price.model not in models:
            raise SettingsError(f"{path}: prices.{index}.model: no model is named {price.model}")
