"""A declaration of hardware, models, variants, pools and prices: `models.toml`, or the same as
JSON.

Owns the shape of the document and what can be said of it alone; every mistake is found and told
with its place, not just the first. What is known already is no concern of this file.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from billing.settings import PriceSettings
from billing.written_usd import notices
from gateway.catalog.hardware import HardwareSettings
from gateway.catalog.model import ModelFields, ModelName, Quality
from gateway.catalog.variant import VariantSettings
from gateway.fields import Count, Several
from gateway.settings import PoolSettings
from routing.types import AUTO_MODEL, Task, Tier
from workers.weights.sources import BadSource, read_source

HUB_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$"
SHA256 = r"^[0-9a-f]{64}$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
TABLES = ("hardware", "models", "variants", "pools", "prices")
Row = TypeVar("Row", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong, and where: `models.0.context_tokens`."""

    place: str
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}" if self.place else self.words


class BadDeclaration(ValueError):
    """Everything that is wrong with a document."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(map(str, self.mistakes)))


class ModelDeclaration(ModelFields):
    """[[models]]: a public name and where its checkpoint is: `path`, a folder or
    `package:NAME/FOLDER`, or `hub`, or `weights`, a place where nodes fetch it; none of them for a
    model that only external pools serve. What is left out is read from the checkpoint."""

    name: ModelName
    path: str | None = Field(None, min_length=1)
    hub: str | None = Field(None, pattern=HUB_NAME)
    revision: str | None = Field(None, pattern=REVISION)
    weights: str | None = Field(None, min_length=1)
    sha256: str | None = Field(None, pattern=SHA256)
    task: Task | None = None  # type: ignore[assignment]
    context_tokens: Several | None = None  # type: ignore[assignment]
    max_output_tokens: Several | None = None  # type: ignore[assignment]
    size_rank: Count = 1
    quality: Quality = 0.0

    @property
    def is_external(self) -> bool:
        return self.path is None and self.hub is None and self.weights is None


@dataclass(frozen=True, slots=True)
class Declaration:
    """What can be read of a document, each row with its number there, and `mistakes`: all that is
    wrong with it by itself. Of rows that cannot be read the models they name are `half_read`, by
    table, so that nobody is told that those are not there; None is a name nobody knows."""

    hardware: Mapping[int, HardwareSettings] = field(default_factory=dict)
    models: Mapping[int, ModelDeclaration] = field(default_factory=dict)
    variants: Mapping[int, VariantSettings] = field(default_factory=dict)
    pools: Mapping[int, PoolSettings] = field(default_factory=dict)
    prices: Mapping[int, PriceSettings] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    half_read: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """What it says under names of before, and how that is said now."""

    def may_name(self, table: str, model: str) -> bool:
        """Whether a row that cannot be read may be the one of a model."""
        names = self.half_read.get(table, frozenset())
        return model in names or None in names


def read_file(path: Path) -> Declaration:
    """A TOML file. Raises BadDeclaration for what is none."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise BadDeclaration([Mistake("", str(unreadable.strerror))]) from unreadable
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise BadDeclaration([Mistake("", f"not valid TOML: {broken}")]) from broken
    return read_document(document)


def read_document(document: Mapping[str, Any]) -> Declaration:
    """The document as values, with everything that is wrong."""
    mistakes = [Mistake(key, "unknown table") for key in document if key not in TABLES]
    hardware = _rows(document, "hardware", HardwareSettings, mistakes)
    models = _rows(document, "models", ModelDeclaration, mistakes)
    variants = _rows(document, "variants", VariantSettings, mistakes)
    pools = _rows(document, "pools", PoolSettings, mistakes)
    prices = _rows(document, "prices", PriceSettings, mistakes)
    mistakes += _twice("hardware", [(part.name, index) for index, part in hardware.items()])
    mistakes += _model_mistakes(models)
    named = [(f"{each.model} {each.name}", index) for index, each in variants.items()]
    mistakes += _twice("variants", named)
    mistakes += _twice("pools", [(pool.name, index) for index, pool in pools.items()])
    mistakes += _price_mistakes(prices)
    if not mistakes and not document:
        mistakes.append(Mistake("", f"there are no {_list_of_tables()} in it"))
    half_read = {
        "models": _names_beyond(document, "models", "name", models),
        "prices": _names_beyond(document, "prices", "model", prices),
    }
    notes = tuple(notices(document))
    return Declaration(hardware, models, variants, pools, prices, tuple(mistakes), half_read, notes)


def _list_of_tables() -> str:
    *first, last = [f"[[{table}]]" for table in TABLES]
    return f"{', '.join(first)} or {last}"


def _names_beyond(
    document: Mapping[str, Any], table: str, key: str, read: Mapping[int, object]
) -> frozenset[str | None]:
    """The models that rows are about which could not be read."""
    table_rows = document.get(table, [])
    if not isinstance(table_rows, list):
        return frozenset({None})
    rows = [row for index, row in enumerate(table_rows) if index not in read]
    names = [row.get(key) if isinstance(row, dict) else None for row in rows]
    return frozenset(name if isinstance(name, str) else None for name in names)


def _rows(
    document: Mapping[str, Any], table: str, kind: type[Row], mistakes: list[Mistake]
) -> dict[int, Row]:
    """What reads, by its index, so that mistakes found later can name it."""
    table_rows = document.get(table, [])
    if not isinstance(table_rows, list):
        mistakes.append(Mistake(table, f"is not a list: write [[{table}]]"))
        return {}
    rows = {}
    for index, row in enumerate(table_rows):
        try:
            rows[index] = kind.model_validate(row)
        except ValidationError as wrong:
            mistakes += _mistakes_of(f"{table}.{index}", wrong)
    return rows


def _mistakes_of(place: str, wrong: ValidationError) -> list[Mistake]:
    mistakes = []
    for error in wrong.errors(include_url=False):
        where = ".".join([place, *map(str, error["loc"])])
        words = error["msg"][:1].lower() + error["msg"][1:]
        mistakes.append(
            Mistake(where, "unknown key" if error["type"] == "extra_forbidden" else words)
        )
    return mistakes


def _model_mistakes(models: Mapping[int, ModelDeclaration]) -> list[Mistake]:
    mistakes = _twice("models", [(model.name, index) for index, model in models.items()])
    for index, model in models.items():
        place = f"models.{index}"
        if model.name == AUTO_MODEL:
            mistakes.append(Mistake(f"{place}.name", f"'{AUTO_MODEL}' asks the router to choose"))
        if model.path is not None and model.hub is not None:
            mistakes.append(Mistake(f"{place}.hub", "there is a path too: only one of them"))
        if model.weights is not None:
            mistakes += _source_mistakes(place, model)
        if model.sha256 is not None and model.is_external:
            mistakes.append(Mistake(f"{place}.sha256", "belongs to a checkpoint"))
        if model.revision is not None and model.hub is None:
            mistakes.append(Mistake(f"{place}.revision", "belongs to a hub name"))
        if model.is_external:
            needed = ("context_tokens", "max_output_tokens")
            mistakes += [
                Mistake(f"{place}.{key}", "an external model (no path, hub or weights) needs it")
                for key in needed
                if getattr(model, key) is None
            ]
    return mistakes


def _source_mistakes(place: str, model: ModelDeclaration) -> list[Mistake]:
    assert model.weights is not None
    if model.path is not None or model.hub is not None:
        other = "a path" if model.path is not None else "a hub"
        return [Mistake(f"{place}.weights", f"there is {other} too: only one of them")]
    try:
        read_source(model.weights)
    except BadSource as bad:
        return [Mistake(f"{place}.weights", str(bad))]
    return []


def _price_mistakes(prices: Mapping[int, PriceSettings]) -> list[Mistake]:
    groups = [
        (f"{p.model} {p.tier}{' batch' * p.batch}{_from(p.prompt_from_tokens)}", index)
        for index, p in prices.items()
    ]
    return _twice("prices", groups) + [
        Mistake(f"prices.{index}.tier", f"no tier is named {price.tier}")
        for index, price in prices.items()
        if price.tier not in [*Tier]
    ]


def _from(prompt_tokens: int) -> str:
    return f" from {prompt_tokens} prompt tokens" if prompt_tokens else ""


def _twice(table: str, names: list[tuple[str, int]]) -> list[Mistake]:
    count = Counter(name for name, _ in names)
    seen: set[str] = set()
    mistakes = []
    for name, index in names:
        if count[name] > 1 and name in seen:
            mistakes.append(Mistake(f"{table}.{index}", f"{name} stands twice"))
        seen.add(name)
    return mistakes
