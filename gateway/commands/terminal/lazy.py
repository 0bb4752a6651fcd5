"""A click group whose commands are imported when somebody asks for them: `sluice up` waits for
none of the others."""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click


class LazyGroup(click.Group):
    """`lazily`: by name of a command the module that declares it, under the same name; one that
    Python keeps for itself has an underscore behind it."""

    def __init__(self, *args: Any, lazily: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazily = dict(lazily or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazily})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazily:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(
            import_module(self._lazily[cmd_name]), cmd_name + "_" * iskeyword(cmd_name)
        )
        return command
