"""The page of commands: every command with its arguments, options and examples, from click."""

from collections.abc import Iterator

import click

from gateway.cli import main
from reference.markdown import code, table

HEAD = """# Commands

`sluice` is in `.venv/bin` after `make up`. Every command has `--help`. A command asks the Sluice whose data folder
is `--data` (or `SLUICE_DATA`, or `./.sluice`).

"""
SHARED = ("--data", "--config", "--url", "--insecure", "--help")
SHARED_WORDS = """## Options of most commands

"""


def commands() -> str:
    pairs = [*_walk(main, "sluice")]
    shared: dict[str, click.Option] = {}
    for _, command in pairs:
        for option in command.params:
            if isinstance(option, click.Option) and option.opts[0] in SHARED:
                shared.setdefault(option.opts[0], option)
    rows = [_row(option) for option in shared.values()]
    parts = [HEAD, SHARED_WORDS, table(("Option", "Is"), rows)]
    return "".join([*parts, *(_section(path, command) for path, command in pairs)])


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Commands in the order of their names. A group is listed where it does something by itself."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        if command.invoke_without_command:
            yield path, command
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _walk(child, f"{path} {name}")
    else:
        yield path, command


def _section(path: str, command: click.Command) -> str:
    words, _, examples = (command.help or "").partition("\b\nExample:")
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    rows = [
        _row(option)
        for option in command.params
        if isinstance(option, click.Option) and option.opts[0] not in SHARED
    ]
    parts = [f"## {path}\n\n{' '.join(words.split())}\n\n```text\n{usage}\n```\n\n"]
    parts.append(table(("Option", "Is"), rows))
    if examples.strip() or command.epilog:
        parts.append(f"```text\n{_lines(examples or command.epilog or '')}\n```\n\n")
    return "".join(parts)


def _lines(text: str) -> str:
    lines = (line.strip() for line in text.replace("\b", "").splitlines())
    return "\n".join(line for line in lines if line and line != "Example:")


def _row(option: click.Option) -> tuple[str, str]:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else f" {code(_type(option))}"
    required = " Required." if option.required else ""
    repeated = "repeat" in (option.help or "")
    more = " May be repeated." if option.multiple and not repeated else ""
    return names + kind, f"{option.help or ''}{required}{more}"


def _type(option: click.Option) -> str:
    return (
        option.metavar
        or option.type.get_metavar(option, click.Context(main))
        or (option.type.name.upper())
    )
