"""Settings of the ledger process: one TOML file, overridden by `SLUICE_...` variables."""

from __future__ import annotations

import os
from datetime import date
from email.utils import parseaddr
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from billing.books.accounts import with_own
from billing.documents.font_files import check_fonts
from billing.dunning.steps import DAYS_MAX, DunningStep, StepName, checked_steps
from billing.invoices.guards import Guards
from billing.money import NANOUSD_PER_CENT, NANOUSD_PER_USD
from billing.outbox.mail.address import is_address
from billing.outbox.mail.server import MailSecurity
from billing.prices.tariff import amounts_of_units
from billing.written_usd import PriceUsd, Usd, WrittenUsd

CONFIG_VARIABLE = "SLUICE_CONFIG"
VIES_URL = "https://ec.europa.eu/taxation_customs/vies/rest-api/check-vat-number"
ImageKind = Annotated[str, Field(pattern="^[a-z0-9]{1,16}(/[a-z0-9]{1,16})?$")]


class PriceSettings(WrittenUsd):
    """One entry of [[prices]]: what a million tokens of a model cost at a tier, in USD.

    Cached input costs as input unless it has a price; what is written to a cache counts with input,
    and reasoning with output, unless they have one. So do tokens of sound and of images.
    `request_usd` is a fee per call that used anything, `minimum_usd` what such a call costs at
    least. A second entry with `prompt_from_tokens` has the prices of calls whose prompt is that
    long. `images` has prices by size, as `1024x1024`, or by size and quality, as `1024x1024/high`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    model: str
    tier: str = "default"
    batch: bool = False
    prompt_from_tokens: int = Field(0, ge=0)
    input_nanousd_per_mtok: PriceUsd
    cached_input_nanousd_per_mtok: PriceUsd | None = None
    cache_write_nanousd_per_mtok: PriceUsd | None = None
    output_nanousd_per_mtok: PriceUsd
    reasoning_nanousd_per_mtok: PriceUsd | None = None
    audio_input_nanousd_per_mtok: PriceUsd | None = None
    image_input_nanousd_per_mtok: PriceUsd | None = None
    audio_output_nanousd_per_mtok: PriceUsd | None = None
    image_output_nanousd_per_mtok: PriceUsd | None = None
    search_unit_nanousd: PriceUsd | None = None
    image_nanousd: PriceUsd | None = None
    images: dict[ImageKind, PriceUsd] = Field({})
    second_nanousd: PriceUsd | None = None
    character_nanousd: PriceUsd | None = None
    request_nanousd: PriceUsd = 0
    minimum_nanousd: PriceUsd = 0
    gpu_nanousd_per_s: PriceUsd = 0
    gpu_s_max: int = Field(600, ge=1, le=86_400)  # held with a call, and charged at most

    @property
    def of_units(self) -> dict[str, int]:
        """Nano-USD of one unit, by what it is."""
        return amounts_of_units(self, self.images)


class LedgerSettings(WrittenUsd):
    """The table [ledger]."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    consumer: str = "ledger"  # name inside the consumer group; one active writer may use it
    batch_max: int = Field(4000, ge=1, le=10_000)  # stream records in one transaction
    linger_ms: int = Field(100, ge=0)  # pause where little had come, so that commits group
    block_ms: int = Field(500, ge=1)  # how long one read waits for news
    retry_after_s: float = Field(1.0, gt=0)  # a record not booked is tried again after this
    deliveries_max: int = Field(5, ge=1)  # then it goes to dead_letter
    pending_max: int = Field(100, ge=1)  # unacknowledged records looked at, a shard and round
    mark_interval_s: float = Field(10.0, gt=0)  # how often SQL learns that nothing is left unread
    outage_pause_s: float = Field(0.5, gt=0)  # wait before asking a failed Redis or SQL again
    reap_interval_s: float = Field(2.0, gt=0)
    reap_batch_max: int = Field(200, ge=1)  # overdue holds settled a shard and round
    orphan_after_s: float = Field(60.0, gt=0)  # a call that only SQL knows is settled after this
    spool_interval_s: float = Field(10.0, gt=0)  # how often finished spool segments are confirmed
    spool_keep_days: float = Field(7.0, ge=0)  # confirmed segments are removed after this
    prime_interval_s: float = Field(0.2, gt=0)
    recovery_grace_s: float = Field(5.0, ge=0)  # how long gateways may take to announce holds
    gateway_silent_s: float = Field(5.0, gt=0)  # a gateway without heartbeat is not waited for
    life_interval_s: float = Field(1.0, gt=0)  # how often lives of replicas are looked for
    decision_interval_s: float = Field(0.25, gt=0)  # how often records of decisions are looked for
    decision_keep_s: float = Field(86_400.0, gt=0)  # all records; then one in a hundred
    decision_bytes_max: int = Field(1 << 30, ge=0)  # of records in SQL; the oldest go first
    decision_retire_s: float = Field(60.0, gt=0)  # how often records are thinned and removed
    refusal_keep_s: float = Field(604_800.0, gt=0)  # how long refused calls are listed
    refusal_rows_max: int = Field(100_000, ge=0)  # of them in SQL; the oldest go first
    publish_interval_s: float = Field(0.5, gt=0)  # prices and credits are compared and published
    hold_age_max_s: float = Field(3600.0, gt=0)  # an older open hold breaks the law of holds
    invoice_series: str = "SLU"
    invoice_grace_h: float = Field(0.0, ge=0, le=1440)  # after a month, before its invoices issue
    invoice_guard_times: int = Field(10, ge=0, le=10_000)  # a draft above so often the one before
    invoice_guard_from_nanousd: Usd = 100 * NANOUSD_PER_USD  # and above this is parked
    book_accounts: dict[str, str] = Field({})  # by account of the ledger, before the others
    dunning_interval_s: float = Field(60.0, gt=0)  # how often steps that are due are looked for
    webhook_interval_s: float = Field(0.5, gt=0)  # how often events that are due are looked for
    webhook_usage_interval_s: float = Field(30.0, ge=0, le=3600)  # calls gathered for a batch
    webhook_timeout_s: float = Field(10.0, gt=0, le=60.0)  # one sending, with its name's look-up
    webhook_keep_days: float = Field(90.0, gt=0)  # deliveries that arrived or failed
    webhook_networks: list[str] = Field(
        []
    )  # CIDR; may be reached though not public, and without TLS

    @property
    def invoice_grace_us(self) -> int:
        return int(self.invoice_grace_h * 3_600_000_000)

    @field_validator("book_accounts")
    @classmethod
    def _accounts(cls, accounts: dict[str, str]) -> dict[str, str]:
        with_own(accounts)
        return accounts

    @field_validator("webhook_networks")
    @classmethod
    def _networks(cls, networks: list[str]) -> list[str]:
        return [str(ip_network(network)) for network in networks]


class VatLookups(StrEnum):
    """Who is asked whether a VAT id is in use."""

    OFF = "off"
    VIES = "vies"


class TaxSettings(BaseModel):
    """The table [tax]."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    vat_lookup: VatLookups = VatLookups.OFF  # vies: VAT ids are looked up before reverse charge
    vat_lookup_url: str = Field(VIES_URL, pattern="^https?://[^/]+")
    vat_lookup_timeout_s: float = Field(10.0, gt=0, le=60.0)  # one question
    vat_lookup_keep_days: int = Field(30, ge=1, le=365)  # how long an answer holds
    vat_lookup_interval_s: float = Field(60.0, gt=0)  # how often ids that are due are looked for
    vat_lookup_retry_s: float = Field(600.0, gt=0)  # pause of an id that nobody answered about
    exchange_rate_days_max: int = Field(10, ge=0, le=365)  # an older rate is none


def guards_of(ledger: LedgerSettings, tax: TaxSettings) -> Guards:
    """What parks drafts."""
    from_cents = ledger.invoice_guard_from_nanousd // NANOUSD_PER_CENT
    days = None if tax.vat_lookup is VatLookups.OFF else tax.vat_lookup_keep_days
    return Guards(ledger.invoice_guard_times, from_cents, days, tax.exchange_rate_days_max)


class DocumentSettings(BaseModel):
    """The table [documents]."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fonts: tuple[str, ...] = ()  # files and folders, for letters that typst's own fonts lack

    @field_validator("fonts")
    @classmethod
    def _fonts(cls, fonts: tuple[str, ...]) -> tuple[str, ...]:
        for path in fonts:
            check_fonts(Path(path))
        return fonts


class MailSettings(BaseModel):
    """The table [mail]: the server that takes our mail."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    host: str = ""  # none: no mail is sent
    port: int = Field(587, ge=1, le=65_535)
    security: MailSecurity = MailSecurity.STARTTLS  # or tls from the first byte, or none
    user: str = ""  # none: no login
    password_env: str = "SLUICE_MAIL_PASSWORD"  # the variable that has the password
    sender: str = "Billing <billing@localhost>"  # NAME <ADDRESS>
    timeout_s: float = Field(30.0, gt=0, le=120.0)  # one mail, with the look-up of the server

    @field_validator("sender")
    @classmethod
    def _sender(cls, sender: str) -> str:
        if not is_address(parseaddr(sender)[1]) or not sender.isprintable():
            raise ValueError("it is NAME <ADDRESS>, with an address in ASCII")
        return sender

    @model_validator(mode="after")
    def _no_login_in_the_clear(self) -> Self:
        if self.user and self.security is MailSecurity.NONE:
            raise ValueError("a login needs security = starttls or tls")
        return self


class DunningSettings(BaseModel):
    """One entry of [[dunning]]: a step so many days after an invoice was due."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    step: StepName
    days: int = Field(ge=0, le=DAYS_MAX)
    since: date = date.min  # of invoices that are due then or later; none: of all

    @property
    def as_step(self) -> DunningStep:
        return DunningStep(self.step, self.days, self.since)


def _in_order(entries: tuple[DunningSettings, ...]) -> tuple[DunningSettings, ...]:
    checked_steps(entry.as_step for entry in entries)
    return entries


DunningEntries = Annotated[tuple[DunningSettings, ...], AfterValidator(_in_order)]


class BillingSettings(BaseSettings):
    """What the ledger needs of the shared file; other parts' tables are not its business."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", env_nested_delimiter="__", extra="ignore", frozen=True
    )
    data: Path = Path(".sluice")
    redis_url: str = ""
    sql_url: str = ""
    ledger: LedgerSettings = LedgerSettings()
    mail: MailSettings = MailSettings()
    tax: TaxSettings = TaxSettings()
    dunning: DunningEntries = ()
    prices: list[PriceSettings] = []

    @property
    def redis(self) -> str:
        return self.redis_url or f"unix://{(self.data / 'redis.sock').resolve()}"

    @property
    def sql(self) -> str:
        return self.sql_url or f"sqlite:///{(self.data / 'sluice.db').resolve()}"

    @property
    def spool(self) -> Path:
        return self.data / "spool"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = os.environ.get(CONFIG_VARIABLE)
        toml = TomlConfigSettingsSource(settings_cls, toml_file=Path(path) if path else None)
        return init_settings, env_settings, toml
