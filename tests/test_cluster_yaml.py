"""cluster.yaml as Ray itself reads it, offline."""

import copy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import ValidationError  # type: ignore[import-untyped]
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

FILE = Path(__file__).parents[1] / "cluster.yaml"


@pytest.fixture
def config() -> dict[str, Any]:
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def start_command(config: dict[str, Any], kind: str) -> str:
    (command,) = (c for c in config[f"{kind}_start_ray_commands"] if "ray start" in c)
    assert isinstance(command, str)
    return command


def test_ray_accepts_it(config):
    prepared = prepare_config(config)
    validate_config(prepared)
    assert prepared["available_node_types"].keys() == config["available_node_types"].keys()


@pytest.mark.parametrize("place", [[], ["auth"], ["available_node_types", "gpu_worker"]])
def test_ray_rejects_a_misspelt_key(config, place):
    broken = copy.deepcopy(config)
    section = broken
    for key in place:
        section = section[key]
    section["max_wrokers"] = 1
    with pytest.raises(ValidationError, match="max_wrokers"):
        validate_config(prepare_config(broken))


def test_resources_of_every_machine_are_named(config):
    types = config["available_node_types"]
    assert config["head_node_type"] in types
    for name, node in types.items():
        assert node["resources"]["CPU"] >= 1, name
        assert (node["resources"]["GPU"] >= 1) == (name != config["head_node_type"])
    assert types["gpu_worker"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert types["gpu_worker"]["max_workers"] == config["max_workers"]


def test_every_machine_runs_the_same_image_and_names_it(config):
    images = {node["node_config"]["ImageId"] for node in config["available_node_types"].values()}
    assert len(images) == 1


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_ray_starts_with_a_token_whose_file_is_brought_along(config, kind):
    settings = start_command(config, kind).split(";")[0]
    assert settings == ("export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.hsearch/ray_token")
    assert "~/.hsearch/ray_token" in config["file_mounts"]
    shell = next(c for c in config["setup_commands"] if ".bashrc" in c)
    assert "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.hsearch/ray_token" in shell


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_ray_knows_every_option_of_its_start(config, kind):
    arguments = shlex.split(start_command(config, kind).partition("ray start")[2])
    parsed = start.make_context("ray start", arguments).params
    assert parsed["head"] == (kind == "head")
    assert parsed["dashboard_host"] in (None, "localhost", "127.0.0.1")
    assert parsed["disable_usage_stats"]


def test_nothing_is_open_to_the_outside_besides_the_ssh_that_ray_itself_opens(config):
    assert config["provider"]["security_group"]["IpPermissions"] == []
    for node in config["available_node_types"].values():
        assert not {"SecurityGroupIds", "NetworkInterfaces"} & node["node_config"].keys()
    assert "0.0.0.0" not in FILE.read_text(encoding="utf-8")


def test_the_project_is_installed_from_the_mounted_folder_with_its_constraints(config):
    assert config["file_mounts"]["~/hsearch"] == "."
    assert (FILE.parent / "constraints.txt").exists()
    (install,) = (c for c in config["setup_commands"] if "constraints" in c)
    words = shlex.split(install)
    assert words[0].endswith("pip")
    assert words[words.index("-c") + 1] == "~/hsearch/constraints.txt"
    assert "~/hsearch" in words


def test_every_command_is_a_line_of_shell(config):
    for key in ("setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray"):
        for command in config[f"{key}_commands"]:
            subprocess.run(["bash", "-n", "-c", command], check=True)
            assert "\n" not in command


def test_the_line_for_the_shell_is_added_once_and_works(config, tmp_path):
    (command,) = (c for c in config["setup_commands"] if ".bashrc" in c)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    (tmp_path / ".bashrc").touch()
    for _ in range(2):
        subprocess.run(["bash", "-c", command], env=environment, check=True)
    assert len((tmp_path / ".bashrc").read_text().splitlines()) == 1
    shown = 'source ~/.bashrc; echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH ${PATH%%:*}"'
    done = subprocess.run(
        ["bash", "-c", shown], env=environment, check=True, capture_output=True, text=True
    )
    token, binaries = tmp_path / ".hsearch/ray_token", tmp_path / "hsearch-env/bin"
    assert done.stdout.strip() == f"token {token} {binaries}"
