"""`sluice economics`: what models cost on which hardware, computed by the cost model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gateway.commands.terminal.instants import SPAN
from gateway.commands.terminal.options import as_json, data_folder, example
from gateway.commands.terminal.output import print_json, print_rows
from routing.economics.claims import DerivedFigure, figures, flags

TRAFFIC = ("requests_per_day", "input_tokens", "output_tokens", "peak", "since_s")


@click.command(
    epilog=example(
        "sluice economics",
        "sluice economics --model sluice-small --since 7d",
        "sluice economics --model sluice-small --requests-per-day 100000 --input-tokens 500"
        " --output-tokens 200",
    )
)
@click.option("--model", help="Serverless, dedicated or bare metal for this model's traffic.")
@click.option("--since", "since_s", type=SPAN, help="Its calls of this time (default 7d).")
@click.option("--requests-per-day", type=float, help="A traffic in the place of what was measured.")
@click.option("--input-tokens", type=float, help="Tokens of a prompt, on average.")
@click.option("--output-tokens", type=float, help="Tokens of an answer, on average.")
@click.option("--peak", type=float, help="Times the mean that the busiest hour has.")
@as_json
@data_folder
@click.option("--url", help="A gateway elsewhere; its admin key is read from SLUICE_ADMIN_KEY.")
@click.option("--insecure", is_flag=True, help="Send the key to --url over plain http.")
def economics(model: str | None, as_json: bool, **options: Any) -> None:
    """Compute the figures that Sluice was founded on, and name the claims that do not follow from
    them; that asks no running Sluice. With a model, one is asked what a month of its traffic costs
    by the second, as workers that are kept, and as whole machines."""
    traffic = {name: options[name] for name in TRAFFIC if options[name] is not None}
    if model is not None:
        _show_offers(_offers(model, traffic, options), as_json)
    elif traffic:
        raise click.UsageError("a traffic is that of a --model")
    else:
        _show_figures(as_json)


def _offers(model: str, traffic: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    from gateway.commands.terminal.address import remote, running

    data: Path | None = options["data"]
    if options["url"] is not None:
        api = remote(options["url"], os.environ, insecure=options["insecure"])
    else:
        api = running(data, options["config"])
    return api.get("/offers", model=model, **traffic)


def _show_offers(answer: Any, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    traffic = answer["traffic"]
    click.echo(
        f"{answer['model']}: {traffic['requests_per_day']:,.0f} requests a day of"
        f" {traffic['input_tokens']:,.0f} tokens in and {traffic['output_tokens']:,.0f} out,"
        f" {traffic['peak']:.1f} times as many in the busiest hour\n"
    )
    rows = [each | {"usd_month": f"{each['usd_month']:,.2f}"} for each in answer["offers"]]
    rows = [each | {"replicas": f"{each['replicas']:,.3g}"} for each in rows]
    print_rows(rows, "there are no offers")
    click.echo(f"\ncheapest: {answer['cheapest']}")
    for each in answer["break_even"]:
        start = f"from {each['requests_per_day']:,.0f} requests a day on"
        click.echo(f"{start} {each['to']} costs no more than {each['from']}")


def _show_figures(as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "figures": [_row(each, each.value) for each in figures()],
                "flags": [each._asdict() for each in flags()],
            }
        )
        return
    print_rows((_row(each, f"{each.value:,.4g}") for each in figures()), "there are no figures")
    click.echo("\nclaims that do not follow from these figures")
    for flag in flags():
        click.echo(f"  {flag.id}: {flag.claim}")
        click.echo(f"    {flag.why}")


def _row(figure: DerivedFigure, value: object) -> dict[str, Any]:
    return {
        "id": figure.id,
        "value": value,
        "unit": figure.unit,
        "from": figure.derivation,
        "source": figure.source,
    }
