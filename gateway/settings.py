"""All settings of all parts, from one TOML file and `SLUICE_...` variables, which win.

Composes the tables that `billing` and `workers` own with those of the edge, the supervisor and
the catalog that a new data folder starts with. An unknown key anywhere is an error that names
the file (or the variable) and the key. `sluice.toml` at the root of the project lists every
setting with its default; it is also what is used when no file is given.
"""

import os
import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from sqlmodel._compat import SQLModelConfig

from billing.settings import (
    DocumentSettings,
    DunningEntries,
    LedgerSettings,
    MailSettings,
    PriceSettings,
    TaxSettings,
)
from billing.written_usd import Usd, WrittenUsd, notices
from gateway.catalog.external import ExternalRules, address_of
from gateway.catalog.fit import mixed_misfits, pool_misfits, priced, variant_misfits, variant_of
from gateway.catalog.hardware import HardwareSettings, parts_with
from gateway.catalog.mix import mix_mistakes
from gateway.catalog.model import ModelFields
from gateway.catalog.pool import PoolFields, PoolName
from gateway.catalog.variant import ShapeFields, VariantSettings
from gateway.catalog.weights.facts import read_shape, tokenizer_mistake
from gateway.catalog.weights.files import UnfitWeights
from gateway.config_file import PREFIX, SettingsError, find_config, read_file
from gateway.errors import QuotaStatus
from gateway.instants import LAST_US
from gateway.limits.limit import OwnerLimitFields
from gateway.upstream.http1.tunnel import proxy_of
from routing.types import AUTO_MODEL
from workers.mix import MixSettings
from workers.nodes.node_type import NodeTypes, with_folder
from workers.settings import PROJECT_ROOT, ControllerSettings, RaySettings, VllmSettings

PACKAGE = "package:"
CATALOG_POLL_S_MAX = 4.0
"""A key is to stop within 5 s: this much to notice its revocation, and the rest to read it."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _proxy_address(address: str) -> str:
    ip_network(address, strict=False)
    return address


ProxyAddress = Annotated[str, AfterValidator(_proxy_address)]


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


class LimiterSettings(WrittenUsd, Section):
    """[gateway.limiter]: what is asked of Redis, and what happens while it is away."""

    connect_timeout_ms: float = Field(500.0, gt=0)
    timeout_ms: float = Field(100.0, gt=0)
    failures_max: int = Field(5, gt=0)
    open_s: float = Field(2.0, gt=0)
    local_share: float = Field(0.8, gt=0, le=1)
    local_buckets_max: int = Field(10_000, gt=0)
    local_spend_cap_nanousd: Usd = 1_000_000_000


class GatewaySettings(Section):
    """[gateway]: the edge."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=1, le=65535)
    body_bytes_max: int = Field(4 << 20, gt=0)
    body_timeout_s: float = Field(30.0, gt=0)
    upload_timeout_s: float = Field(120.0, gt=0)
    uploads_bytes_max: int = Field(1 << 30, gt=0)
    head_bytes_max: int = Field(65536, gt=0)
    head_timeout_s: float = Field(30.0, gt=0)
    connections_max: int = Field(4096, gt=0)
    trusted_proxies: tuple[ProxyAddress, ...] = ()
    calls_max: int = Field(2000, gt=0)
    free_requests_per_minute: int = Field(6000, gt=0)
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
    external_first_token_timeout_s: float = Field(10.0, gt=0)
    external_idle_timeout_s: float = Field(10.0, gt=0)
    external_ca_file: str = ""
    external_certificate_file: str = ""
    external_proxy: str = Field("", repr=False)
    provider_key_variables: tuple[str, ...] = ()
    provider_http_hosts: tuple[str, ...] = ()
    provider_keys_folder: str = ""
    slow_reader_timeout_s: float = Field(30.0, gt=0)
    write_buffer_bytes: int = Field(65536, gt=0)
    catalog_poll_s: float = Field(1.0, gt=0, le=CATALOG_POLL_S_MAX)
    fleet_poll_s: float = Field(0.15, gt=0)
    fleet_stale_s: float = Field(2.0, gt=0)
    work_shared_s: float = Field(0.1, gt=0, le=1.0)
    spool_segment_bytes: int = Field(16 << 20, gt=0)
    spool_fsync_ms: float = Field(20.0, gt=0)
    drain_s: float = Field(8.0, ge=0)
    metrics_open: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    limiter: LimiterSettings = LimiterSettings()
    idempotency: IdempotencySettings = IdempotencySettings()

    @property
    def external_rules(self) -> ExternalRules:
        return ExternalRules(self.provider_key_variables, self.provider_http_hosts)

    @field_validator("external_certificate_file")
    @classmethod
    def holds_a_certificate(cls, path: str) -> str:
        if path:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path)
            except OSError as wrong:
                reason = wrong.strerror or wrong
                raise ValueError(f"no certificate with its key in '{path}': {reason}") from wrong
        return path

    @field_validator("external_proxy")
    @classmethod
    def is_a_proxy(cls, url: str) -> str:
        proxy_of(url)
        return url

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


class ProvidersSettings(Section):
    """[providers]: the process of adapters to providers with an API of their own."""

    host: str = "127.0.0.1"
    port: int = Field(8079, ge=1, le=65535)
    python: Path = Path(".venv-providers/bin/python")
    calls_max: int = Field(256, gt=0)
    timeout_s: float = Field(600.0, gt=0)
    memory_mb: int = Field(2048, ge=256)

    @property
    def interpreter(self) -> Path:
        return PROJECT_ROOT / self.python

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @field_validator("host")
    @classmethod
    def is_of_this_machine(cls, host: str) -> str:
        if not (address := address_of(host)) or not address.is_loopback or address.version != 4:
            raise ValueError("it listens on this machine alone: write 127.0.0.1")
        return host


class SupervisorSettings(Section):
    """[supervisor]: how `sluice up` starts, watches and stops the parts."""

    memory_min_mb: int = Field(3000, ge=0)
    ready_timeout_s: float = Field(120.0, gt=0)
    pools_timeout_s: float = Field(120.0, gt=0)
    start_attempts: int = Field(3, ge=1)
    stop_timeout_s: float = Field(15.0, gt=0)
    restart_backoff_s: float = Field(0.5, gt=0)
    restart_backoff_max_s: float = Field(15.0, gt=0)
    steady_after_s: float = Field(2.0, gt=0)
    log_bytes_max: int = Field(32 << 20, gt=0)


class BootstrapSettings(OwnerLimitFields):
    """[bootstrap]: the organization, project and limits of the key that `up` prints."""

    model_config = SQLModelConfig(extra="forbid", frozen=True)
    organization: str = "Default"
    project: str = "default"
    insufficient_quota_status: QuotaStatus = QuotaStatus.TOO_MANY_REQUESTS


class ModelSettings(ModelFields):
    """[[models]]: a public model name and its checkpoint folder: relative to the file, or
    `package:NAME/FOLDER` for one inside an installed Python package."""

    name: str


class PoolSettings(PoolFields):
    """[[pools]]: a pool with its name."""

    name: PoolName


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
    providers: ProvidersSettings = ProvidersSettings()
    ledger: LedgerSettings = LedgerSettings()
    documents: DocumentSettings = DocumentSettings()
    mail: MailSettings = MailSettings()
    tax: TaxSettings = TaxSettings()
    ray: RaySettings = RaySettings()
    vllm: VllmSettings = VllmSettings()
    controller: ControllerSettings = ControllerSettings()
    bootstrap: BootstrapSettings = BootstrapSettings()
    models: tuple[ModelSettings, ...] = ()
    hardware: tuple[HardwareSettings, ...] = ()
    variants: tuple[VariantSettings, ...] = ()
    pools: tuple[PoolSettings, ...] = ()
    nodes: NodeTypes = ()
    mixes: MixSettings = ()
    prices: tuple[PriceSettings, ...] = ()
    dunning: DunningEntries = ()

    @property
    def sql(self) -> str:
        """The database: the one named, else SQLite in the data folder."""
        return self.sql_url or f"sqlite:///{self.data.absolute() / 'sluice.db'}"

    @property
    def provider_keys(self) -> Path:
        """The folder of keys of providers, a file each."""
        named = self.gateway.provider_keys_folder
        return Path(named) if named else self.data / "provider-keys"

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


def load_settings(config: Path | None = None, *, now_us: int = LAST_US) -> Settings:
    """Read the file (see `find_config`) and the environment; raises SettingsError. Who has a clock
    says what time it is: nothing was validated after that."""
    path = find_config(config)
    table = with_folder(read_file(path), path.parent)
    try:
        settings = Settings(**table)
    except ValidationError as mistakes:
        raise SettingsError(_first_mistake(path, mistakes, os.environ)) from mistakes
    models = _absolute(settings.models, path.parent)
    variants = tuple(_shaped(variant, path.parent) for variant in settings.variants)
    pools = tuple(priced(pool, settings.nodes) for pool in settings.pools)
    parts = {"models": models, "variants": variants, "pools": pools}
    settings = settings.model_copy(update=parts)
    _check_names(path, settings, now_us)
    return settings


def settings_notices(config: Path | None = None) -> list[str]:
    """What the file says under names of before, and how it is said now. Raises SettingsError."""
    path = find_config(config)
    return [f"{path}: {words}" for words in notices(read_file(path))]


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


def _shaped(variant: VariantSettings, folder: Path) -> VariantSettings:
    """With its path absolute, and its shape from the checkpoint. One that cannot be read has none,
    as a model with such a folder is not served."""
    if variant.path is None:
        return variant
    path = checkpoint_folder(variant.path, folder)
    try:
        shape = variant.shape or ShapeFields.of(read_shape(Path(path)))
    except UnfitWeights:
        shape = None
    return variant.model_copy(update={"path": path, "shape": shape})


def checkpoint_folder(declared: str, relative_to: Path) -> str:
    """Where a declared checkpoint lies. A package is looked up and never imported, so that
    nothing of it runs; one that is not installed is left as declared, for others to refuse."""
    if not declared.startswith(PACKAGE):
        return str(relative_to / declared)
    name, _, folder = declared.removeprefix(PACKAGE).partition("/")
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        return declared
    return str(Path(spec.submodule_search_locations[0]) / folder)


def _check_names(path: Path, settings: Settings, now_us: int) -> None:
    """What one table says of another: names that must exist, and may exist only once."""
    models = [model.name for model in settings.models]
    if AUTO_MODEL in models:
        raise SettingsError(f"{path}: models: '{AUTO_MODEL}' asks the router to choose")
    pools = [pool.name for pool in settings.pools]
    parts = [part.name for part in settings.hardware]
    for kind, names in (("models", models), ("pools", pools), ("hardware", parts)):
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"{path}: {kind}: the name {name} stands twice")
    _check_ports(path, settings)
    _check_variants(path, settings, now_us)
    for index, pool in enumerate(settings.pools):
        if pool.model not in models:
            raise SettingsError(f"{path}: pools.{index}.model: no model is named {pool.model}")
        for key, words in settings.gateway.external_rules.mistakes(pool.base_url, pool.api_key_env):
            raise SettingsError(f"{path}: pools.{index}.{key}: {words}")
    _check_mixes(path, settings)
    for index, price in enumerate(settings.prices):
        if price.model not in models:
            raise SettingsError(f"{path}: prices.{index}.model: no model is named {price.model}")


def _check_ports(path: Path, settings: Settings) -> None:
    """The adapters start late: whoever else listens there then would keep them from it for ever."""
    port, ray = settings.providers.port, settings.ray
    if port == settings.gateway.port:
        raise SettingsError(f"{path}: providers.port: {port} is the gateway's, choose another")
    if ray.ports_first <= port <= ray.ports_last:
        words = f"{port} is one of Ray's, which are {ray.ports_first} to {ray.ports_last}"
        raise SettingsError(f"{path}: providers.port: {words}: choose another")


def _check_mixes(path: Path, settings: Settings) -> None:
    models = {model.name for model in settings.models}
    pools = {pool.name: pool for pool in settings.pools}
    for index, mix in enumerate(settings.mixes):
        if mix.model not in models:
            raise SettingsError(f"{path}: mixes.{index}.model: no model is named {mix.model}")
        for name in mix.pools:
            if name not in pools:
                words = f"no [[pools]] of this file are named {name}"
                raise SettingsError(f"{path}: mixes.{index}.pools: {words}")
        for mistake in mix_mistakes(mix, pools):
            raise SettingsError(f"{path}: mixes.{index}.{mistake.key}: {mistake.words}")


def _check_variants(path: Path, settings: Settings, now_us: int) -> None:
    """What variants say of models, and pools of both and of hardware."""
    contexts = {model.name: model.context_tokens for model in settings.models}
    folders = {model.name: model.path for model in settings.models}
    variants = {}
    for index, variant in enumerate(settings.variants):
        place = f"{path}: variants.{index}"
        if variant.model not in contexts:
            raise SettingsError(f"{place}.model: no model is named {variant.model}")
        for key, words in variant_misfits(variant, contexts[variant.model], now_us):
            raise SettingsError(f"{place}.{key}: {words}")
        if mistake := tokenizer_mistake(variant.path, folders[variant.model]):
            raise SettingsError(f"{place}.path: {mistake}")
        if (variant.model, variant.name) in variants:
            raise SettingsError(f"{place}: {variant.model} {variant.name} stands twice")
        declared = variant_of(variant, contexts[variant.model])
        variants[variant.model, variant.name] = declared
    for index, pool in enumerate(settings.pools):
        misfits = pool_misfits(pool, variants, parts_with(settings.hardware), settings.nodes)
        for key, words in (*misfits, *mixed_misfits(pool, settings.pools[:index])):
            raise SettingsError(f"{path}: pools.{index}.{key}: {words}")
