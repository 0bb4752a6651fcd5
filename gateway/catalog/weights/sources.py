"""From a declared model or variant to weights that can be served, with what they say of themselves.

A folder is read where it lies; a hub name is downloaded beside the cache, unless the very commit
is in the cache already. Nothing is kept before `keep` is called.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.catalog.catalog import unreadable_because
from gateway.catalog.declaration import BadDeclaration, Mistake, ModelDeclaration
from gateway.catalog.plan import ServedModel, ServedVariant
from gateway.catalog.variant import ShapeFields, VariantSettings
from gateway.catalog.weights import hub
from gateway.catalog.weights.cache import WeightCache
from gateway.catalog.weights.elsewhere import pinned, small_files
from gateway.catalog.weights.facts import (
    Facts,
    check_embedding,
    output_tokens,
    read_facts,
    read_shape,
)
from gateway.catalog.weights.files import UnfitWeights, check_weights, is_weights
from gateway.settings import PACKAGE, checkpoint_folder
from routing.types import Task
from workers.weights.manifest import Manifest
from workers.weights.sources import HubName

HUB = "hub:"


@dataclass(frozen=True, slots=True)
class DeclaredWeights:
    """Where the files are now; None where there are none of its own, and where they are in the
    cache already."""

    source: Path | None = None
    manifest: Manifest | None = None
    is_elsewhere: bool = False
    """Nodes fetch the weights; here are all other files."""

    def keep(self, cache: WeightCache, *, verify: bool) -> bool:
        """Have the files in the cache; whether anything had to be written."""
        if self.source is None or self.manifest is None:
            return False
        if self.is_elsewhere:
            return cache.take_elsewhere(self.source, self.manifest)
        return cache.take(self.source, self.manifest, verify=verify)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights(DeclaredWeights):
    """A model as it would be served. An external one has no weights."""

    model: ServedModel

    @property
    def name(self) -> str:
        return self.model.declared.name

    @property
    def folder(self) -> str | None:
        return str(self.source) if self.source else self.model.path


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantWeights(DeclaredWeights):
    """A variant as it would be served. One without a path has those of its model."""

    variant: ServedVariant

    @property
    def name(self) -> str:
        return "/".join(self.variant.key)

    @property
    def folder(self) -> str | None:
        return str(self.source) if self.source else None


@dataclass(frozen=True, slots=True)
class WeightSources:
    """`origins`: the checksums that hub commits are known to have. `simulated`: models of which
    only tokenizers are read, whose folders need no weights."""

    cache: WeightCache
    downloads: ExitStack
    origins: Mapping[str, str]
    relative_to: Path | None
    verify: bool
    tell: Callable[[str], None]
    simulated: Collection[str] = ()

    def read(self, model: ModelDeclaration, place: str) -> ModelWeights:
        """Raises BadDeclaration; HubError and CacheError where it is nobody's mistake."""
        weights = self._read(model, place)
        checksum = weights.model.checksum
        if model.sha256 is not None and model.sha256 != checksum:
            raise BadDeclaration([Mistake(f"{place}.sha256", f"the checkpoint is {checksum}")])
        return weights

    def _read(self, model: ModelDeclaration, place: str) -> ModelWeights:
        if model.is_external:
            return ModelWeights(model=_external(model))
        if model.weights is not None:
            return self._from_elsewhere(model, model.weights, f"{place}.weights")
        if model.hub is not None:
            return self._from_hub(model, model.hub, f"{place}.hub")
        assert model.path is not None
        source = self._folder(model.path, f"{place}.path")
        return self._from_folder(model, source, _origin(model.path, source), f"{place}.path")

    def read_variant(self, variant: VariantSettings, place: str) -> VariantWeights:
        """Raises BadDeclaration; CacheError where it is nobody's mistake."""
        if variant.path is None:
            return VariantWeights(variant=ServedVariant(variant, variant.shape))
        source = self._folder(variant.path, f"{place}.path")
        has_weights = variant.model not in self.simulated
        shape = _shape(variant, source, f"{place}.path", has_weights=has_weights)
        manifest = self._manifest(source, f"{place}.path")
        variant_served = ServedVariant(
            variant,
            shape,
            path=str(self.cache.folder(manifest.checksum)),
            origin=_origin(variant.path, source),
            checksum=manifest.checksum,
        )
        return VariantWeights(source, manifest, variant=variant_served)

    def _folder(self, declared: str, place: str) -> Path:
        if self.relative_to is None and not declared.startswith((PACKAGE, "/")):
            raise BadDeclaration(
                [Mistake(place, "is not absolute, and there is no file beside it")]
            )
        folder = Path(checkpoint_folder(declared, self.relative_to or Path("/")))
        if str(folder).startswith(PACKAGE):
            raise BadDeclaration([Mistake(place, f"{declared}: no such package is installed")])
        if not folder.is_dir():
            raise BadDeclaration([Mistake(place, f"there is no folder {folder}")])
        return folder.resolve()

    def _from_hub(self, model: ModelDeclaration, name: str, place: str) -> ModelWeights:
        commit = hub.resolve(name, model.revision)
        origin = f"{HUB}{name}@{commit}"
        checksum = self.origins.get(origin)
        if checksum is not None and self.cache.holds(checksum, verify=self.verify):
            facts = self._served(model, self.cache.folder(checksum), place)
            return ModelWeights(model=self._placed(facts, origin, checksum))
        self.tell(f"{name}: downloading {commit}")
        folder = self.downloads.enter_context(self.cache.incoming())
        hub.fetch(name, commit, folder)
        return self._from_folder(model, folder, origin, place)

    def _from_elsewhere(self, model: ModelDeclaration, text: str, place: str) -> ModelWeights:
        source = pinned(text)
        known = self.origins.get(str(source)) if isinstance(source, HubName) else None
        if known is not None and self.cache.holds_elsewhere(known):
            served = _served(model, self.cache.elsewhere(known), place, has_weights=False)
            return ModelWeights(model=self._fetched(served, str(source), known))
        self.tell(f"{source}: reading what it has")
        folder = self.downloads.enter_context(self.cache.incoming())
        manifest = small_files(source, folder)
        if not any(is_weights(file.name) for file in manifest.files):
            raise BadDeclaration([Mistake(place, f"{source} has no *.safetensors")])
        served = _served(model, folder, place, has_weights=False)
        placed = self._fetched(served, str(source), manifest.checksum)
        return ModelWeights(folder, manifest, is_elsewhere=True, model=placed)

    def _fetched(self, model: ServedModel, origin: str, checksum: str) -> ServedModel:
        folder = str(self.cache.elsewhere(checksum))
        return replace(model, path=folder, origin=origin, checksum=checksum)

    def _from_folder(
        self, model: ModelDeclaration, source: Path, origin: str, place: str
    ) -> ModelWeights:
        facts = self._served(model, source, place)
        manifest = self._manifest(source, place)
        placed = self._placed(facts, origin, manifest.checksum)
        return ModelWeights(source, manifest, model=placed)

    def _manifest(self, source: Path, place: str) -> Manifest:
        try:
            return self.cache.read(source)
        except UnfitWeights as unfit:
            raise BadDeclaration([Mistake(place, f"{source}: {unfit}")]) from unfit

    def _served(self, model: ModelDeclaration, folder: Path, place: str) -> ServedModel:
        return _served(model, folder, place, has_weights=model.name not in self.simulated)

    def _placed(self, model: ServedModel, origin: str, checksum: str) -> ServedModel:
        folder = str(self.cache.folder(checksum))
        return replace(model, path=folder, origin=origin, checksum=checksum)


def _origin(declared: str, source: Path) -> str:
    return declared if declared.startswith(PACKAGE) else str(source)


def _shape(variant: VariantSettings, folder: Path, place: str, *, has_weights: bool) -> ShapeFields:
    """As it was declared, else as the checkpoint says. Raises BadDeclaration for a checkpoint that
    cannot be served."""
    try:
        if has_weights:
            check_weights(folder)
        task = read_facts(folder).task or Task.EMBED
        if reason := unreadable_because(str(folder), task):
            raise BadDeclaration([Mistake(place, reason)])
        return variant.shape or ShapeFields.of(read_shape(folder))
    except UnfitWeights as unfit:
        raise BadDeclaration([Mistake(place, f"{folder}: {unfit}")]) from unfit


def _external(model: ModelDeclaration) -> ServedModel:
    assert model.context_tokens is not None and model.max_output_tokens is not None
    task = model.task or Task.GENERATE
    return ServedModel(model, task, model.context_tokens, model.max_output_tokens)


def _served(model: ModelDeclaration, folder: Path, place: str, *, has_weights: bool) -> ServedModel:
    """What the declaration leaves out, from the checkpoint. Raises BadDeclaration."""
    try:
        facts = read_facts(folder)
        if has_weights:
            check_weights(folder)
        task = model.task or facts.task
        if task is Task.EMBED:
            check_embedding(folder)
    except UnfitWeights as unfit:
        raise BadDeclaration([Mistake(place, f"{folder}: {unfit}")]) from unfit
    table = place.rsplit(".", 1)[0]
    if task is None:
        words = 'the checkpoint does not say: write "generate" or "embed"'
        raise BadDeclaration([Mistake(f"{table}.task", words)])
    if reason := unreadable_because(str(folder), task):
        raise BadDeclaration([Mistake(place, reason)])
    context_tokens = _context_tokens(model, facts, table)
    declared = model.max_output_tokens
    return ServedModel(model, task, context_tokens, declared or output_tokens(task, context_tokens))


def _context_tokens(model: ModelDeclaration, facts: Facts, table: str) -> int:
    place = f"{table}.context_tokens"
    if model.context_tokens is None and facts.context_tokens is None:
        raise BadDeclaration([Mistake(place, "the checkpoint does not say: write it")])
    most = facts.context_tokens or model.context_tokens
    context_tokens = model.context_tokens or facts.context_tokens
    assert most is not None and context_tokens is not None
    if context_tokens > most:
        words = f"{context_tokens} is more than the {most} the checkpoint was made for"
        raise BadDeclaration([Mistake(place, words)])
    return context_tokens
