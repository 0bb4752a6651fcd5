"""The shipped parts: every one that is named is there, and no figure lacks its source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from routing.hardware.catalogue import Figure, Precision, PriceKind, read_parts, shipped

NAMED = (
    *("h100", "h200", "b200", "gb200-nvl72", "l40s", "mi300x", "inferentia2", "tpu-v5e"),
    *("tpu-v5p", "rtx4090", "a100", "l4", "cpu"),
)


def test_every_part_that_is_named_ships() -> None:
    assert set(NAMED) <= shipped().keys()


@pytest.mark.parametrize("name", shipped())
def test_every_figure_has_a_source_and_is_above_zero(name: str) -> None:
    part = shipped()[name]
    figures = [part.memory_gb, part.bandwidth_gb_s, part.interconnect_gb_s, part.gpus_server]
    for figure in [*filter(None, figures), *part.tflops.values()]:
        assert isinstance(figure, Figure)
        assert figure.value > 0 and len(figure.source.split()) >= 4
    for price in part.prices:
        assert 0 < price.usd_h <= price.usd_h_max and price.source


def test_every_part_but_this_machines_cpus_has_its_bandwidth() -> None:
    assert [name for name, part in shipped().items() if part.bandwidth_gb_s is None] == ["cpu"]


def test_what_is_not_known_is_none() -> None:
    mi300x = shipped()["mi300x"]
    assert mi300x.price(PriceKind.SERVERLESS) is None
    assert shipped()["cpu"].compute(Precision.BF16) is None


def test_weights_are_unpacked_where_a_part_does_not_compute_in_their_precision() -> None:
    h100, tpu = shipped()["h100"], shipped()["tpu-v5p"]
    assert h100.compute(Precision.INT4) == h100.compute(Precision.INT8)
    assert tpu.compute(Precision.INT4) == tpu.compute(Precision.BF16)
    assert h100.compute(Precision.FP32) is None


@pytest.mark.parametrize("figure", ['[80, "nobody"]', '[0, "me"]', '[-1, "me"]'])
def test_figure_without_a_source_or_a_value_is_refused(figure: str) -> None:
    with pytest.raises(ValueError, match="neither a figure nor a source"):
        read_parts(
            '[sources]\nme = "a page"\n[x]\ntitle = "X"\nkind = "gpu"\nrole = "none"\n'
            f"memory_gb = {figure}\n"
        )


def test_parts_are_in_the_wheel() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert tomllib.loads(text)["tool"]["setuptools"]["package-data"]["routing"] == ["**/*.toml"]
