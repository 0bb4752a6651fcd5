"""What text is in tokens, by the model's own tokenizer and chat template.

Reads a Hugging Face checkpoint folder with the `tokenizers` library alone, so the gateway needs
no model code; what a message spells stays text by the file that engines use too. Where there is
no folder (an external model) the count is bounded by bytes: byte-level tokenizers never make more
tokens than there are bytes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from routing.types import Clock
from workers.prompts.control_tokens import ChatEncoder, token_ids
from workers.prompts.templates import Message, ToolsUnsupported, takes_tools
from workers.sampling import RENDERING, Rendering

OVERHEAD_TOKENS = 8
JSON_SPREAD = 2
"""How many times its own length JSON may take in a template that indents it or says it twice."""
TOKENIZER, CONFIG, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
MODEL_CONFIG = "config.json"
NAMED_TOKENS = tuple(f"{n}_token" for n in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


class UnrenderableConversation(ValueError):
    """The model's chat template refuses these messages (roles out of order, say)."""


class UnknownTokenId(ValueError):
    """An id that the model's vocabulary does not have."""


class TokenCounter(Protocol):
    @property
    def image_tokens(self) -> int | None:
        """The most that an image may cost; None where images are not taken."""
        ...

    @property
    def vector_size(self) -> int | None:
        """How many dimensions the model has; None where its configuration is not here."""
        ...

    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        """Of a conversation and the tools it offers; raises UnrenderableConversation, or
        ToolsUnsupported where the model cannot be told of tools."""
        ...

    def count_text(self, text: str) -> int:
        """Of plain text, with the special tokens that a tokenizer puts around it."""
        ...

    def count_ids(self, ids: Sequence[int]) -> int:
        """Of token ids as they are; raises UnknownTokenId."""
        ...


@dataclass(frozen=True)
class ByteBound:
    """An upper bound for models whose tokenizer is not here: bytes plus a few per text. Two that
    take images alike are equal, so that one bound does for all such models."""

    image_tokens: int | None = None
    vector_size = None

    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        """Of tools and their calls the bytes of their JSON, however a server writes them."""
        tokens, texts = 0, [*tools]
        for message in messages:
            tokens += self.count_text(message["content"])
            if message.get("tool_calls"):
                texts.append(message["tool_calls"])
        if rendering.chat_template_kwargs:
            texts.append(rendering.chat_template_kwargs)
        for each in texts:
            tokens += JSON_SPREAD * self.count_text(json.dumps(each))
        return tokens

    def count_text(self, text: str) -> int:
        return len(text.encode()) + OVERHEAD_TOKENS

    def count_ids(self, ids: Sequence[int]) -> int:
        return len(ids)


class CheckpointTokens:
    """Exact for one checkpoint folder. Raises OSError or ValueError if it is not one.

    `clock` is for templates that say what day it is; without it they cannot be rendered.
    """

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        config = json.loads((folder / CONFIG).read_text())
        self._tokenizer = _tokenizer(folder / TOKENIZER)
        self._named = {k: _token_text(config[k]) for k in NAMED_TOKENS if config.get(k)}
        source = _template_source(folder, config)
        self._template = _compiled(source, clock)
        self._encoder = ChatEncoder(self._tokenizer, source)
        self.has_chat_template = bool(source)
        self.takes_tools = takes_tools(source)
        self.image_tokens = None  # our engines see text alone
        self.vector_size = _hidden_size(folder / MODEL_CONFIG)

    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        """Prompt tokens of the rendered conversation, generation prompt included."""
        return len(self.conversation_ids(messages, tools, rendering))

    def count_text(self, text: str) -> int:
        return len(self.text_ids(text))

    def count_ids(self, ids: Sequence[int]) -> int:
        self.token_strings(sorted(set(ids)))
        return len(ids)

    def conversation_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> list[int]:
        """What an engine is given for these messages and tools. Raises UnrenderableConversation, or
        ToolsUnsupported."""
        if not self.has_chat_template:
            raise UnrenderableConversation("The model has no chat template.")
        try:
            return self._encoder.prompt_ids(messages, self._rendered, tools, rendering)
        except ToolsUnsupported:
            raise
        except Exception as refused:  # a template raises whatever it likes
            raise UnrenderableConversation(str(refused)) from refused

    def conversation_text(self, messages: Sequence[Message], rendering: Rendering) -> str:
        """The same as a text, without the token of a beginning that a tokenizer puts before it.
        Raises the same, also where a message spells a control token."""
        if not self.has_chat_template:
            raise UnrenderableConversation("The model has no chat template.")
        try:
            text = self._encoder.prompt_text(messages, self._rendered, rendering)
        except ToolsUnsupported:
            raise
        except Exception as refused:  # a template raises whatever it likes
            raise UnrenderableConversation(str(refused)) from refused
        begin = self._named.get("bos_token", "")
        begin_ids = self.text_ids(begin, add_special_tokens=False) if begin else []
        is_put_before = bool(begin) and self.text_ids("")[:1] == begin_ids
        return text.removeprefix(begin) if is_put_before else text

    def text_ids(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Plain text, which may spell special tokens; `add_special_tokens` puts the tokenizer's
        own around it."""
        return token_ids(self._tokenizer, text, add_special_tokens=add_special_tokens)

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        """Each token as the vocabulary writes it. Raises UnknownTokenId."""
        return [self._token_string(token_id) for token_id in ids]

    def text(self, ids: Sequence[int]) -> str:
        """The text these tokens stand for, special ones included. Raises UnknownTokenId."""
        self.token_strings(ids)
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def _token_string(self, token_id: int) -> str:
        string: str | None = self._tokenizer.id_to_token(token_id)
        if string is None:
            raise UnknownTokenId(f"Token id {token_id} is not in the vocabulary of the model.")
        return string

    def _rendered(
        self, messages: Sequence[Message], tools: Sequence[Message], rendering: Rendering
    ) -> str:
        variables = {
            "messages": messages,
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": rendering.add_generation_prompt,
        }
        return self._template.render(self._named | rendering.chat_template_kwargs | variables)


class Checkpoints:
    """Loaded checkpoints, read again only when a file of theirs has changed.

    Keeps those of the last call of `counters` and no others.
    """

    def __init__(self, load: Callable[[Path], CheckpointTokens]) -> None:
        self._load = load
        self._loaded: dict[tuple[object, ...], CheckpointTokens] = {}

    def counters(
        self, paths: Mapping[str, str | None]
    ) -> tuple[dict[str, TokenCounter], dict[str, str]]:
        """One counter per model name, or why its folder cannot be read: one model's trouble is
        its own."""
        before, self._loaded = self._loaded, {}
        readable: dict[str, TokenCounter] = {}
        unreadable: dict[str, str] = {}
        for name, path in paths.items():
            try:
                readable[name] = self._checkpoint(Path(path), before) if path else ByteBound()
            except (OSError, ValueError) as wrong:
                unreadable[name] = f"{path}: {wrong}"
        return readable, unreadable

    def _checkpoint(
        self, folder: Path, before: Mapping[tuple[object, ...], CheckpointTokens]
    ) -> CheckpointTokens:
        version = _version(folder)
        checkpoint = self._loaded.get(version) or before.get(version) or self._load(folder)
        self._loaded[version] = checkpoint
        return checkpoint


def _version(folder: Path) -> tuple[object, ...]:
    """Changes with every file that a CheckpointTokens is made of."""
    files = [folder / name for name in (TOKENIZER, CONFIG, TEMPLATE)]
    stats = [file.stat() if file.exists() else None for file in files]
    return (folder, *((s.st_mtime_ns, s.st_size, s.st_ino) if s else None for s in stats))


def _tokenizer(file: Path) -> Tokenizer:
    source = file.read_bytes()
    try:
        return Tokenizer.from_buffer(source)
    except Exception as broken:  # the library has one kind for everything
        raise ValueError(f"{file.name} cannot be read: {broken}") from broken


def _token_text(declared: object) -> str:
    return str(declared.get("content", "") if isinstance(declared, dict) else declared)


def _hidden_size(file: Path) -> int | None:
    """A folder with nothing but a tokenizer says nothing of it."""
    config = json.loads(file.read_text()) if file.is_file() else {}
    size = config.get("hidden_size") if isinstance(config, dict) else None
    return size if isinstance(size, int) else None


def _template_source(folder: Path, config: Mapping[str, Any]) -> str:
    """The file of its own, or the one in the configuration: a string, or named ones in a list.
    Empty where there is none, as in models that embed."""
    own_file = folder / TEMPLATE
    source = own_file.read_text() if own_file.exists() else config.get("chat_template")
    if isinstance(source, list):
        source = {entry.get("name"): entry.get("template") for entry in source}.get("default")
    return str(source or "")


class _GenerationBlock(Extension):
    """`{% generation %}` marks what a trainer learns from; for a prompt it is what it holds."""

    tags = {"generation"}  # noqa: RUF012 declared so by jinja

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _compiled(source: str, clock: Clock | None) -> Template:
    """The same dialect of Jinja that transformers renders, in the same sandbox."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **kwargs: json.dumps(
        value, **{"ensure_ascii": False} | kwargs
    )
    environment.globals["raise_exception"] = _raise_template_error
    if clock is not None:
        environment.globals["strftime_now"] = partial(_strftime_now, clock)
    try:
        return environment.from_string(source)
    except TemplateError as broken:
        raise ValueError(f"the chat template cannot be read: {broken}") from broken


def _raise_template_error(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(clock: Clock, form: str) -> str:
    """In local time, as transformers says it."""
    return datetime.fromtimestamp(clock()).strftime(form)
