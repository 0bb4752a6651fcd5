"""The files in `deploy/` are what Ray and KubeRay read, and have what `sluice workers` asks for.

Nothing of them runs on a cloud here: they meet the schemas that Ray and KubeRay publish, and Ray's
own code that reads them. `raycluster_v1.json.gz` is the schema `v1` of
helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml of github.com/ray-project/kuberay at
feeaf72facab4881ba2b179248bb67315634e229 (Apache License 2.0), without descriptions.
"""

import gzip
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import yaml
from ray.autoscaler._private.kuberay import autoscaling_config
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.documents.snippets import snippets
from workers.existing.fitness import MODULES
from workers.nodes.node_type import MARKET_LABELS, NodeType

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CLOUDS = ("aws.yaml", "gcp.yaml")
LAUNCHER_SCHEMA = Path(ray.autoscaler.__file__).parent / "ray-schema.json"
MARKET, ZONE = "ray.io/market-type", "ray.io/availability-zone"
PIN = re.compile(r"^([a-z]+)==([0-9.]+)", re.MULTILINE)


def document(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def raycluster_schema() -> Any:
    raw = (Path(__file__).parent / "raycluster_v1.json.gz").read_bytes()
    return closed(json.loads(gzip.decompress(raw)))


def closed(schema: Any) -> Any:
    """The schema with no field but its own: the API server drops others without a word."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


def check_raycluster(cluster: Any) -> None:
    schema = raycluster_schema()
    schema["properties"]["metadata"] = {"type": "object"}
    check(cluster, schema)


def check(document: Any, schema: Any) -> None:
    """Raises jsonschema.ValidationError."""
    jsonschema.Draft7Validator(schema).validate(document)


def launcher_groups(name: str) -> dict[str, Any]:
    config = document(name)
    types: dict[str, Any] = config["available_node_types"]
    return {key: type for key, type in types.items() if key != config["head_node_type"]}


def kuberay_groups() -> dict[str, Any]:
    groups = document("kuberay.yaml")["spec"]["workerGroupSpecs"]
    return {group["groupName"]: group for group in groups}


@pytest.mark.parametrize("name", CLOUDS)
def test_the_cluster_launcher_reads_it(name: str) -> None:
    jsonschema.validate(document(name), json.loads(LAUNCHER_SCHEMA.read_text()))
    validate_config(prepare_config(document(name)))


@pytest.mark.parametrize("name", CLOUDS)
def test_every_node_starts_with_what_a_join_asks_for(name: str) -> None:
    config = document(name)
    for start in ("head_start_ray_commands", "worker_start_ray_commands"):
        command = config[start][-1]
        for variable in ("RAY_AUTH_MODE=token", "RAY_SERVE_ENABLE_DIRECT_INGRESS=1"):
            assert variable in command.split("ray start")[0]
    assert "RAY_enable_autoscaler_v2=1" in config["head_start_ray_commands"][-1]
    assert f"ray:{version('ray')}-py311" in config["docker"]["image"]
    assert any(path.endswith(".ray/auth_token") for path in config["file_mounts"])


@pytest.mark.parametrize("name", CLOUDS)
def test_packages_are_those_that_sluice_is_tested_with(name: str) -> None:
    (command,) = document(name)["setup_commands"]
    pins = dict(re.findall(r"([a-z]+)(?:\[[^]]*\])?==([0-9.]+)", command))
    assert set(pins) == {*MODULES, "ray"}
    locks = [ROOT / "requirements" / f"{each}.lock" for each in ("runtime", "torch-cuda")]
    known = {k: v for lock in locks for k, v in PIN.findall(lock.read_text())}
    assert pins == {package: known[package] for package in pins}


def test_kubernetes_takes_the_manifest() -> None:
    check_raycluster(document("kuberay.yaml"))


def test_kubernetes_takes_the_pod_of_sluice() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "sluice.yaml").read_text()))
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    pod = raycluster_schema()["properties"]["spec"]["properties"]["headGroupSpec"]["properties"][
        "template"
    ]
    check(deployment["spec"]["template"], pod)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in container["env"]} >= {"SLUICE_RAY__ADDRESS", "RAY_AUTH_TOKEN"}


def test_a_field_that_nobody_knows_is_noticed() -> None:
    cluster = document("kuberay.yaml")
    cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelectors"] = {}
    with pytest.raises(jsonschema.ValidationError, match="nodeSelectors"):
        check_raycluster(cluster)


def test_rays_autoscaler_reads_the_manifest() -> None:
    cluster = document("kuberay.yaml") | {"metadata": {"name": "sluice", "namespace": "default"}}
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(cluster)
    validate_config(config)
    types = config["available_node_types"]
    for name, group in kuberay_groups().items():
        assert types[name]["labels"] == group["labels"]
        assert types[name]["max_workers"] == group["maxReplicas"]
        assert types[name]["resources"]["CPU"] == 8


def test_every_pod_has_what_a_join_asks_for() -> None:
    spec = document("kuberay.yaml")["spec"]
    assert spec["authOptions"] == {"mode": "token", "secretName": "sluice-ray-token"}
    assert spec["autoscalerOptions"]["version"] == "v2"
    assert spec["rayVersion"] == version("ray")
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        variables = {each["name"]: each["value"] for each in container["env"]}
        assert variables["RAY_SERVE_ENABLE_DIRECT_INGRESS"] == "1"


@pytest.mark.parametrize("name", [*CLOUDS, "kuberay.yaml"])
def test_groups_say_their_market_and_zone_in_rays_words(name: str) -> None:
    groups = kuberay_groups() if name == "kuberay.yaml" else launcher_groups(name)
    markets = {group["labels"][MARKET] for group in groups.values()}
    assert markets <= set(MARKET_LABELS.values())
    assert {"reserved", "spot"} <= markets
    assert all(group["labels"][ZONE] for group in groups.values())


def test_pods_of_spot_groups_run_on_spot_machines_alone() -> None:
    for group in kuberay_groups().values():
        pod = group["template"]["spec"]
        market = group["labels"][MARKET]
        assert pod["nodeSelector"]["sluice.example/market"] == market
        assert pod["nodeSelector"]["topology.kubernetes.io/zone"] == group["labels"][ZONE]
        assert bool(pod.get("tolerations")) == (market == "spot")


def test_types_of_the_page_are_groups_of_the_manifest() -> None:
    (page,) = [each for each in snippets("docs/kubernetes.md") if "[[nodes]]" in each.text]
    types = [NodeType.model_validate(each) for each in tomllib.loads(page.text)["nodes"]]
    groups = kuberay_groups()
    assert {type.name for type in types} == set(groups)
    for type in types:
        labels = {k: v for k, v in type.labels.items() if k != "ray.io/node-group"}
        assert labels.items() <= groups[type.name]["labels"].items()
        assert type.max == groups[type.name]["maxReplicas"]
