"""`sluice quality`: learns from judged answers how good each model will be on a prompt.

Learning runs without a stack: it prints the curve that an operator decides by, and writes a
document. The rest puts documents into force over the admin API.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from gateway.commands.terminal.options import example
from gateway.commands.versions import add_version_commands

if TYPE_CHECKING:
    from gateway.quality.fit import Answers
    from gateway.quality.judgements import JudgedFile


@click.group()
def quality() -> None:
    """What each model's answers are worth, learned from judged ones."""


add_version_commands(quality, "/quality")


@quality.command(epilog=example("sluice quality fit judged.csv --out quality.json"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it.")
@click.option("--cheap", help="The cheap model of the curve (default: the lowest mean score).")
@click.option("--strong", help="The strong one (default: the highest mean score).")
@click.option("--json", "as_json", is_flag=True, help="Print the held-out figures as JSON.")
def fit(file: Path, out: Path | None, cheap: str | None, strong: str | None, as_json: bool) -> None:
    """Learn from judged answers and say how good it is on prompts that it did not learn from.

    FILE is CSV or JSON lines: prompt, model, score; or prompt and NAME_score for each model.
    """
    from gateway.quality.fit import answers_of
    from gateway.quality.held_out import figures, held_out
    from gateway.quality.train import document_of

    judged = _judged(file)
    click.echo(f"{len(judged.prompts)} prompts, {', '.join(judged.models)}", err=True)
    answers = answers_of(judged)
    pair = _pair(answers, cheap, strong)
    expected = held_out(answers, lambda fold: click.echo(f"held out: part {fold}", err=True))
    report = figures(answers, expected, *pair) if pair else {}
    document = document_of(judged, answers, report)
    if out is not None:
        _write(out, document)
    _say(report, as_json)


@quality.command(epilog=example("sluice quality score judged.csv --document quality.json"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--document", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--cheap", help="The cheap model of the curve (default: the lowest mean score).")
@click.option("--strong", help="The strong one (default: the highest mean score).")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def score(file: Path, document: Path, cheap: str | None, strong: str | None, as_json: bool) -> None:
    """Say how good a document is on judged answers, which should be others than it learned from."""
    from gateway.quality.fit import answers_of
    from gateway.quality.held_out import expected_by, figures
    from routing.quality.document import BadQualityDocument, read

    try:
        model = read(document.read_text()).model
    except (OSError, UnicodeError) as wrong:
        raise click.ClickException(f"{document}: {wrong}") from wrong
    except BadQualityDocument as bad:
        _refuse(document, bad.mistakes)
    answers = answers_of(_judged(file))
    pair = _pair(answers, cheap, strong)
    if pair is None:
        raise click.ClickException(f"{file}: answers of two models are needed")
    if unknown := [name for name in pair if name not in model.models]:
        raise click.ClickException(f"{document}: nothing was learned of {', '.join(unknown)}")
    expected = [expected_by(model, features) for features in answers.features]
    _say(figures(answers, expected, *pair), as_json)


def _judged(file: Path) -> JudgedFile:
    from gateway.quality.judgements import BadJudgedAnswers, read_judged

    try:
        return read_judged(file)
    except OSError as wrong:
        raise click.ClickException(f"{file}: {wrong.strerror}") from wrong
    except BadJudgedAnswers as bad:
        _refuse(file, bad.mistakes)


def _pair(answers: Answers, cheap: str | None, strong: str | None) -> tuple[str, str] | None:
    from gateway.quality.held_out import cheap_and_strong

    likely = cheap_and_strong(answers)
    if likely is None:
        return None
    pair = (cheap or likely[0], strong or likely[1])
    if unknown := [name for name in pair if name not in answers.models]:
        raise click.ClickException(f"no answer of {', '.join(unknown)} was judged")
    return pair


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text)
    except OSError as wrong:
        raise click.ClickException(f"{out}: {wrong.strerror}") from wrong
    click.echo(f"wrote {out}, {len(text.encode()):,} bytes", err=True)


def _refuse(file: Path, mistakes: list[str]) -> NoReturn:
    for mistake in mistakes:
        click.echo(f"{file}: {mistake}", err=True)
    sys.exit(1)


def _say(report: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report))
        return
    if not report:
        click.echo("one model alone: no curve")
        return
    click.echo(f"share of {report['strong']}   score")
    for share, mean in report["curve"]:
        click.echo(f"{share:>8.0%}   {mean:.4f}")
    click.echo(
        f"{report['of_strong']:.0%} of {report['strong']}'s score: {report['share_needed']:.1%} of"
        f" its calls (by chance {report['share_by_chance']:.1%}), on {report['prompts']} prompts"
    )
    errors = ", ".join(f"{name} {off:.3f}" for name, off in report["calibration_error"].items())
    click.echo(f"expected quality is off by: {errors}")
