"""`sluice policy`: checks routing policies without a running stack, and puts them into force."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.commands.data_folder import settings_of
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, data_folder, example
from gateway.commands.terminal.output import NOTHING, counted, print_json
from gateway.commands.versions import add_version_commands, print_mistakes

if TYPE_CHECKING:
    from gateway.policies.difference import PolicyChange
    from gateway.policies.document import Examined

PASSED = {True: "passed", False: "failed"}
document_file = click.argument("file", type=click.File(encoding="utf-8"))


@click.group()
def policy() -> None:
    """Routing policies: documents of rules that say where calls go."""


add_version_commands(policy, "/policies")


@policy.command(epilog=example("sluice policy validate policy.yaml --config sluice.toml"))
@document_file
@click.option("--json", "as_json", is_flag=True, help="Print what is wrong as JSON.")
@data_folder
def validate(file: Any, as_json: bool, data: Path | None, config: Path | None) -> None:
    """Check a document and run the tests in it; exit 1 where something is wrong.

    It needs no running Sluice: names of pools, providers and models are those of the settings.
    `sluice policy activate` asks the catalogue as it is.
    """
    examined = _examined(file, data, config)
    errors = [mistake._asdict() for mistake in examined.mistakes]
    rules = () if examined.policy is None else examined.policy.rules
    warnings = [warning._asdict() for warning in examined.warnings]
    if as_json:
        print_json(
            {"valid": not errors, "rules": len(rules), "errors": errors, "warnings": warnings}
        )
    elif errors:
        print_mistakes(file.name, errors)
    else:
        print_mistakes(file.name, warnings)
        click.echo(f"{file.name}: valid, {counted(len(rules), 'rule')} and a default")
    sys.exit(1 if errors else 0)


@policy.command(epilog=example("sluice policy test policy.yaml --config sluice.toml"))
@document_file
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@data_folder
def test(file: Any, as_json: bool, data: Path | None, config: Path | None) -> None:
    """Run the tests of a document and print each result; exit 1 where one fails.

    A test names attributes of a call, and the rule that the call must fall under.
    """
    examined = _examined(file, data, config)
    errors = [mistake._asdict() for mistake in examined.mistakes]
    tests = [each._asdict() | {"passed": each.passed} for each in examined.tests]
    if as_json:
        print_json({"passed": not errors, "tests": tests, "errors": errors})
    elif examined.policy is None:
        print_mistakes(file.name, errors)
    else:
        for each in tests:
            wrong = "" if each["passed"] else f", and {each['expected']} is expected"
            click.echo(f"{PASSED[each['passed']]}  {each['name']}: {each['rule']} matches{wrong}")
        click.echo(f"{file.name}: {counted(len(tests), 'test')}, {len(errors)} failed")
    sys.exit(1 if errors else 0)


@policy.command(epilog=example("sluice policy diff policy.yaml", "sluice policy diff p.yaml 3"))
@document_file
@click.argument("version", type=click.IntRange(1), required=False)
@as_json
@admin_api
def diff(api: AdminApi, file: Any, version: int | None, as_json: bool) -> None:
    """Say which rule of a document is new, gone, moved or changed.

    It is compared with the active version, unless another one is named. A document that makes no
    policy is compared with none: its mistakes are printed, and the status is 1.
    """
    from gateway.policies.difference import difference
    from gateway.policies.document import examine

    number = version or api.get("/policies/active")["version"]
    stored = api.get(f"/policies/{number}")["document"]
    text = _text(file)
    examined = examine(text)
    if examined.policy is None:
        print_mistakes(file.name, [each._asdict() for each in examined.mistakes])
        sys.exit(1)
    changes = difference(stored, text)
    if as_json:
        print_json({"version": number, "changes": [_named(change) for change in changes]})
        return
    for change in changes:
        _print_change(change)
    click.echo(f"{counted(len(changes), 'difference')} from version {number}")


def _named(change: PolicyChange) -> dict[str, Any]:
    return change._asdict() | {"words": [word._asdict() for word in change.words]}


def _print_change(change: PolicyChange) -> None:
    places = "" if change.kind != "moved" else f" from place {change.before} to {change.after}"
    name = change.name if change.part == "default" else f"{change.part} {change.name}"
    click.echo(f"{name}: {change.kind}{places}")
    for word, before, after in change.words:
        click.echo(f"  {word}: {before or NOTHING} -> {after or NOTHING}")


def _text(file: Any) -> str:
    """Raises ClickException."""
    try:
        return str(file.read())
    except UnicodeDecodeError as wrong:
        raise click.ClickException(f"{file.name} is not UTF-8") from wrong


def _examined(file: Any, data: Path | None, config: Path | None) -> Examined:
    from gateway.policies.document import Examined, examine
    from gateway.policies.names import names_in
    from routing.policy.conditions import Mistake

    names = names_in(settings_of(data, config))
    try:
        return examine(file.read(), known=names)
    except UnicodeDecodeError:
        return Examined((Mistake(1, 1, "the document is not UTF-8"),))
