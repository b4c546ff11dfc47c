"""The manifest for KubeRay, as far as it can be checked without a Kubernetes."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ray.scripts.scripts import start

from hsearch.cluster.answers import checked_answers
from hsearch.cluster.cluster_file import PROJECT, cluster_file

ANSWERS: tuple[dict[str, str], ...] = (
    {},
    {"name": "ours", "namespace": "lab", "workers": "3", "worker-gpus": "2", "image": "a.b/c:1"}
    | {"shared": "gs://store/folder?project_id=x", "worker-memory": "64Gi"},
)


@pytest.fixture(params=ANSWERS, ids=["usual", "otherwise"])
def items(request) -> list[dict[str, Any]]:
    text = cluster_file("kuberay", checked_answers("kuberay", request.param))
    manifest = yaml.safe_load(text)
    assert manifest["kind"] == "List"
    items: list[dict[str, Any]] = manifest["items"]
    return items


def test_of_the_checkout_only_what_an_install_needs_is_in_the_image():
    text = cluster_file("kuberay", checked_answers("kuberay", {}))
    copied = [line.split()[2] for line in text.splitlines() if line.startswith("#   COPY ")]
    assert copied == list(PROJECT)


def one(items: list[dict[str, Any]], kind: str, end: str = "") -> dict[str, Any]:
    (found,) = (i for i in items if i["kind"] == kind and i["metadata"]["name"].endswith(end))
    return found


def templates(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of all pods."""
    spec = one(items, "RayCluster")["spec"]
    yield spec["headGroupSpec"]["template"]
    yield from (group["template"] for group in spec["workerGroupSpecs"])
    yield from (i["spec"]["template"] for i in items if i["kind"] in ("StatefulSet", "Deployment"))


def named(value: object, key: str) -> Iterator[str]:
    """The names in all mappings at that key, anywhere in a value."""
    if isinstance(value, dict):
        if key in value and isinstance(value[key], dict) and "name" in value[key]:
            yield value[key]["name"]
        for each in value.values():
            yield from named(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from named(each, key)


def test_a_ray_cluster_has_what_the_operator_requires(items):
    cluster = one(items, "RayCluster")
    assert cluster["apiVersion"] == "ray.io/v1"
    spec = cluster["spec"]
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["headGroupSpec"].keys() == {"rayStartParams", "template"}
    (group,) = spec["workerGroupSpecs"]
    required = {"groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"}
    assert required <= group.keys()
    assert group["minReplicas"] == 0
    (container,) = group["template"]["spec"]["containers"]
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    groups = one(items, "ConfigMap", items[0]["metadata"]["name"])["data"]["HSEARCH_GROUPS"]
    assert int(groups) == group["maxReplicas"] * gpus


def test_ray_knows_every_start_parameter(items):
    spec = one(items, "RayCluster")["spec"]
    for part in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        given = [f"--{key}={value}" for key, value in part["rayStartParams"].items()]
        assert start.make_context("ray start", given).params["dashboard_host"] in (
            "localhost",
            "127.0.0.1",
        )


def test_a_pod_that_is_ended_has_time_to_drain(items):
    (group,) = one(items, "RayCluster")["spec"]["workerGroupSpecs"]
    pod = group["template"]["spec"]
    (drain,) = (
        each["value"]
        for each in pod["containers"][0]["env"]
        if each["name"] == "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
    )
    assert 30 < float(drain) < pod["terminationGracePeriodSeconds"]


def test_what_is_referred_to_is_there_and_secrets_are_told_of(items):
    name = items[0]["metadata"]["name"]
    made = {kind: {i["metadata"]["name"] for i in items if i["kind"] == kind} for kind in KINDS}
    for key in ("configMapRef", "configMap"):
        assert set(named(items, key)) <= made["ConfigMap"]
    assert set(named(items, "secretKeyRef")) == {f"{name}-token", f"{name}-postgres"}
    for pod in templates(items):
        assert pod["spec"]["serviceAccountName"] in made["ServiceAccount"]
        mounts = {m["name"] for c in pod["spec"]["containers"] for m in c.get("volumeMounts", [])}
        assert mounts - {"data"} <= {v["name"] for v in pod["spec"].get("volumes", [])}
    head = one(items, "RayCluster")["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    values = {each["name"]: each.get("value", "") for each in head["env"]}
    for key, service in (("HSEARCH_STORAGE", "postgres"), ("MLFLOW_TRACKING_URI", "mlflow")):
        assert f"{name}-{service}:" in values[key]
        assert f"{name}-{service}" in made["Service"]
    assert "password" not in str(values).lower().replace("pgpassword", "")


KINDS = ("ConfigMap", "Service", "ServiceAccount")


def test_only_the_pods_of_the_cluster_reach_each_other(items):
    policy = one(items, "NetworkPolicy")["spec"]
    everyone = policy["podSelector"]["matchLabels"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": everyone}}]}]
    for pod in templates(items):
        assert everyone.items() <= pod["metadata"]["labels"].items()
    for service in (i for i in items if i["kind"] == "Service"):
        assert service["spec"]["type"] == "ClusterIP"


def test_services_choose_their_pods_and_are_probed(items):
    for kind, end in (("StatefulSet", "postgres"), ("Deployment", "mlflow")):
        spec, service = one(items, kind, end)["spec"], one(items, "Service", end)["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        assert service["selector"] == spec["template"]["metadata"]["labels"]
        (container,) = spec["template"]["spec"]["containers"]
        assert {"readinessProbe", "livenessProbe"} <= container.keys()
        ports = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["ports"]} <= ports
    assert len({item["metadata"]["namespace"] for item in items}) == 1


def test_every_pod_of_ray_has_the_token(items):
    spec = one(items, "RayCluster")["spec"]
    pods = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    containers = [pod["template"]["spec"]["containers"][0] for pod in pods]
    for each in (*containers, spec["autoscalerOptions"]):
        assert {"name": "RAY_AUTH_MODE", "value": "token"} in each["env"]
        assert "RAY_AUTH_TOKEN" in [variable["name"] for variable in each["env"]]
