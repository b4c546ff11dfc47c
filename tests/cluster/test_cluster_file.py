"""Cluster files as Ray itself reads them, offline, for all providers and unusual answers too."""

import copy
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import ValidationError  # type: ignore[import-untyped]
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from hsearch.cluster.answers import checked_answers
from hsearch.cluster.cluster_file import PROJECT, cluster_file

FILE = Path(__file__).parents[2] / "cluster.yaml"
HOSTS = {"head-host": "10.0.0.1", "worker-hosts": "10.0.0.2,gpu3", "ssh-user": "me"}
COMMANDS = ("setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")

CASES: dict[str, tuple[str, dict[str, str]]] = {
    "aws": ("aws", {}),
    "aws, otherwise": (
        "aws",
        {"market": "on-demand", "bucket": "ours", "workers": "8"}
        | {"worker-type": "g5.12xlarge", "worker-cpus": "48", "worker-gpus": "4"},
    ),
    "gcp": ("gcp", {}),
    "gcp, otherwise": ("gcp", {"market": "on-demand", "zone": "europe-west4-a", "workers": "2"}),
    "local": ("local", HOSTS),
    "local, otherwise": (
        "local",
        {
            **HOSTS,
            "worker-gpus": "0",
            "installed": "/opt/env",
            "shared": "s3://ours/a?region=x&b=c",
        },
    ),
}


def made(name: str) -> dict[str, Any]:
    provider, given = CASES[name]
    content = yaml.safe_load(cluster_file(provider, checked_answers(provider, given)))
    assert isinstance(content, dict)
    return content


@pytest.fixture(params=CASES)
def config(request) -> dict[str, Any]:
    return made(request.param)


def start_command(config: dict[str, Any], kind: str) -> str:
    (command,) = (c for c in config[f"{kind}_start_ray_commands"] if "ray start" in c)
    assert isinstance(command, str)
    return command


def run(command: str, home: Path) -> str:
    """Runs a line as sshd does: a shell of that home, not interactive, with a bare environment."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_committed_file_is_what_aws_gets_without_answers():
    made_here = cluster_file("aws", checked_answers("aws", {}))
    assert FILE.read_text(encoding="utf-8") == made_here, (
        "write it anew: hsearch cluster init --provider aws --force"
    )


def test_ray_accepts_it(config):
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    if config["provider"]["type"] != "local":
        assert prepared["available_node_types"].keys() == config["available_node_types"].keys()


@pytest.mark.parametrize("place", [[], ["auth"], ["available_node_types", "gpu_spot"]])
def test_ray_rejects_a_misspelt_key(place):
    broken = made("aws")
    section = broken
    for key in place:
        section = section[key]
    section["max_wrokers"] = 1
    with pytest.raises(ValidationError, match="max_wrokers"):
        validate_config(prepare_config(broken))


@pytest.mark.parametrize("name", ["aws", "aws, otherwise", "gcp", "gcp, otherwise"])
def test_machines_of_a_cloud_come_and_go(name):
    config, (_, given) = made(name), CASES[name]
    types = config["available_node_types"]
    on_demand = given.get("market") == "on-demand"
    assert types["head"]["resources"]["GPU"] == types["head"]["max_workers"] == 0
    for kind, used in (("gpu_spot", not on_demand), ("gpu_on_demand", on_demand)):
        assert types[kind]["resources"]["GPU"] == int(given.get("worker-gpus", 1))
        assert types[kind]["min_workers"] == 0
        assert types[kind]["max_workers"] == (config["max_workers"] if used else 0)
    spot = str(types["gpu_spot"]["node_config"]).lower()
    assert "spot" in spot
    assert "spot" not in str(types["gpu_on_demand"]["node_config"]).lower()
    assert config["idle_timeout_minutes"] > 0
    images = {str(key) for node in types.values() for key in images_of(node["node_config"])}
    assert len(images) == 1


def images_of(node: dict[str, Any]) -> list[str]:
    disks = [disk["initializeParams"]["sourceImage"] for disk in node.get("disks", [])]
    return [node["ImageId"]] if "ImageId" in node else disks


@pytest.mark.parametrize("name", CASES)
def test_every_value_to_change_stands_above_the_line(name):
    provider, given = CASES[name]
    answers = checked_answers(provider, given)
    text = cluster_file(provider, answers)
    below = text.rpartition("From here on nothing needs to be changed")[2]
    keys = {
        *("region", "zone", "project-id", "bucket", "shared", "head-host", "worker-hosts"),
        *("image", "head-type", "worker-type", "head-profile", "worker-profile", "ssh-key"),
    }
    for key in answers.keys() & keys:
        assert answers[key].partition(",")[0] in text
        assert answers[key].partition(",")[0] not in below


@pytest.mark.parametrize("kind", ["head", "worker"])
def test_ray_knows_every_option_of_its_start(config, kind):
    arguments = shlex.split(start_command(config, kind).partition("ray start")[2])
    own = [word for word in arguments if word.startswith("--")]
    parsed = start.make_context("ray start", own).params
    assert parsed["head"] == (kind == "head")
    assert parsed["dashboard_host"] in (None, "localhost", "127.0.0.1")
    assert parsed["disable_usage_stats"]
    assert bool(parsed["node_ip_address"]) == (config["provider"]["type"] == "local")


def test_hosts_of_ones_own_are_all_there_at_the_addresses_they_are_reached_at(tmp_path):
    config = made("local")
    assert config["provider"] == {
        "type": "local",
        "head_ip": "10.0.0.1",
        "worker_ips": ["10.0.0.2", "gpu3"],
    }
    assert config["min_workers"] == config["max_workers"] == 2
    for kind in ("head", "worker"):
        shown = "echo" + start_command(config, kind).partition("ray start")[2]
        connection = "SSH_CONNECTION='10.0.0.9 40000 10.0.0.2 22'"
        assert "--node-ip-address=10.0.0.2 " in run(f"{connection}; {shown}", tmp_path)
    assert "RAY_enable_autoscaler_v2=0" in start_command(config, "head")


def test_nothing_is_open_to_the_outside_besides_the_ssh_that_ray_itself_opens():
    config = made("aws")
    assert config["provider"]["security_group"]["IpPermissions"] == []
    for node in config["available_node_types"].values():
        assert not {"SecurityGroupIds", "NetworkInterfaces"} & node["node_config"].keys()
    for name in CASES:
        assert "0.0.0.0" not in str(made(name)).replace("127.0.0.1", "")


def test_the_project_is_installed_from_the_mounted_folder_with_its_constraints(config):
    install = [c for c in config["setup_commands"] if "constraints" in c]
    if not mounts_project(config):
        assert install == []
        (check,) = (c for c in config["setup_commands"] if "--version" in c)
        assert "/opt/env/bin/hsearch --version" in check
        return
    words = shlex.split(install[0])
    assert words[0] == "~/hsearch-env/bin/pip"
    assert words[words.index("-c") + 1] == "~/hsearch/constraints.txt"
    assert words[-1] == "$HOME/hsearch[cluster]"


def mounts_project(config: dict[str, Any]) -> bool:
    return "~/hsearch/constraints.txt" in config["file_mounts"]


def test_of_the_checkout_only_what_an_install_needs_leaves_the_machine():
    """That it is enough, tests/test_wheel.py shows."""
    mounts = dict(made("aws")["file_mounts"])
    assert mounts.pop("~/.hsearch/ray_token") == "~/.hsearch/ray_token"
    assert mounts == {f"~/hsearch/{part}": f"./{part}" for part in PROJECT}
    assert not {".", "tests", "photos"} & set(PROJECT)
    assert all((FILE.parent / part).exists() for part in PROJECT)


def text_of(provider: str, given: dict[str, str], **rest: str) -> str:
    return cluster_file(provider, checked_answers(provider, given), **rest)


@pytest.mark.parametrize("word", ["no", "on", "null", "true", "y"])
def test_answers_that_mean_something_to_yaml_stay_words(word):
    for provider in ("aws", "gcp"):
        config = yaml.safe_load(text_of(provider, {"name": word, "ssh-user": word}))
        assert config["cluster_name"] == config["auth"]["ssh_user"] == word
    given = {"head-host": "1", "worker-hosts": f"2,{word}", "ssh-user": word}
    config = yaml.safe_load(text_of("local", given))
    assert config["provider"]["head_ip"] == "1"
    assert config["provider"]["worker_ips"] == ["2", word]
    assert config["auth"]["ssh_user"] == word
    manifest = yaml.safe_load(text_of("kuberay", {"name": word, "namespace": word}))
    for item in manifest["items"]:
        assert item["metadata"]["namespace"] == word
        assert item["metadata"]["name"].startswith(word)


def steps_of(text: str) -> list[str]:
    """The commands in the header of a file, one line each."""
    header = text.partition("\n\n")[0].partition("\napiVersion")[0]
    return [line.removeprefix("#   ") for line in header.splitlines() if line.startswith("#   ")]


@pytest.mark.parametrize("provider", ["aws", "gcp", "local"])
def test_the_steps_can_be_pasted_whatever_the_names_are(provider, tmp_path):
    given = {**HOSTS, "shared": "s3://ours/a?region=x&scheme=http"} if provider == "local" else {}
    steps = steps_of(text_of(provider, given, file="my & file.yaml"))
    assert len(steps) > 6
    show = 'show() { printf \'%s\\n\' "$@"; }; ray() { show "$@"; }; hsearch() { show "$@"; }'
    for step in steps[1:]:
        words = run(f"{show}; {step}", tmp_path).splitlines()
        if step.startswith("ray"):
            assert words[1] == "my & file.yaml"
        elif provider == "local":
            assert words[-1] == "s3://ours/a/data?region=x&scheme=http"


def test_commands_in_the_middle_of_a_file_are_whole(tmp_path):
    lines = text_of("aws", {}).splitlines()
    (first,) = (n for n, line in enumerate(lines) if "describe-images" in line)
    command = "\n".join(line.strip().removeprefix("#") for line in lines[first : first + 3])
    shown = run(f"aws() {{ printf '%s\\n' \"$@\"; }}; {command}", tmp_path).splitlines()
    assert shown[:2] == ["ec2", "describe-images"]
    assert shown[-2:] == ["--query", "sort_by(Images, &CreationDate)[-1].ImageId"]


def test_the_first_step_makes_a_token_for_its_user_alone_and_keeps_one(tmp_path):
    step = steps_of(FILE.read_text(encoding="utf-8"))[0]
    token = tmp_path / ".hsearch/ray_token"
    run(f"umask 022; {step}", tmp_path)
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text()) == 64
    token.write_text("mine")
    run(step, tmp_path)
    assert token.read_text() == "mine"


@pytest.mark.parametrize("provider", ["aws", "gcp"])
def test_the_record_is_brought_home_before_the_head_is_deleted(provider):
    steps = steps_of(text_of(provider, {}))
    down = steps.index("ray down cluster.yaml")
    for name in ("hsearch", "mlflow"):
        url = f"postgresql://hsearch@127.0.0.1:5433/{name}'"
        assert any("pg_dump" in step and url in step for step in steps[:down])
        assert any("rsync-down" in step and f"~/{name}.sql" in step for step in steps[:down])
        assert any("psql" in step and url in step for step in steps[down:])


@pytest.mark.parametrize("name", ["aws", "gcp", "local"])
def test_who_shares_a_gpu_is_told_how_many_groups_use_them_all(name):
    groups = 8 if name == "local" else 16
    assert f"`--groups {groups}`" in text_of(*CASES[name])


def test_every_command_is_a_line_of_shell(config):
    for key in COMMANDS:
        for command in config[f"{key}_commands"]:
            subprocess.run(["bash", "-n", "-c", command], check=True)
            assert "\n" not in command


def test_one_file_is_the_environment_of_all_shells(config, tmp_path):
    (tmp_path / ".hsearch").mkdir()
    (tmp_path / ".bashrc").write_text("case $- in *i*) ;; *) return;; esac\nLAST=seen\n")
    setup = config["setup_commands"]
    first = setup.index(config["metadata"]["environment"])
    for _ in range(2):
        for command in setup[first:]:
            run(command, tmp_path)
    assert (tmp_path / ".bashrc").read_text().count("hsearch/environment") == 1
    shown = dict(line.split("=", 1) for line in run("source ~/.bashrc; env", tmp_path).splitlines())
    binaries = None if mounts_project(config) else "/opt/env/bin"
    assert shown["PATH"].split(":")[0] == (binaries or f"{tmp_path}/hsearch-env/bin")
    assert shown["RAY_AUTH_MODE"] == "token"
    assert shown["RAY_AUTH_TOKEN_PATH"] == f"{tmp_path}/.hsearch/ray_token"
    assert "~/.hsearch/ray_token" in config["file_mounts"]
    assert shown["HSEARCH_STORAGE"] == "postgresql://hsearch@127.0.0.1:5433/hsearch"
    assert shown["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    for kind in ("head", "worker"):
        assert start_command(config, kind).startswith(". ~/.hsearch/environment;")


@pytest.mark.parametrize(
    ("name", "shared", "groups"),
    [
        ("aws", "s3://my-bucket/hsearch", "4"),
        ("aws, otherwise", "s3://ours/hsearch", "32"),
        ("gcp", "gs://my-bucket/hsearch", "4"),
        ("local", "/shared/hsearch", "2"),
        ("local, otherwise", "s3://ours/a?region=x&b=c", None),
    ],
)
def test_the_store_and_the_room_for_folds_are_those_of_the_answers(tmp_path, name, shared, groups):
    (tmp_path / ".hsearch").mkdir()
    run(made(name)["metadata"]["environment"], tmp_path)
    asked = (
        ". ~/.hsearch/environment; echo $HSEARCH_SHARED $HSEARCH_GROUPS $HSEARCH_GPUS_PER_WORKER"
    )
    gpus = [] if groups is None else [groups, "1"]
    assert run(asked, tmp_path).split() == [shared, *gpus]


def test_the_services_of_a_cloud_restart_by_systemd(tmp_path):
    for name in ("aws", "gcp"):
        (command,) = (c for c in made(name)["head_setup_commands"] if "[Service]" in c)
        unit = run(command.partition("|")[0], tmp_path)
        assert "Restart=always\n" in unit
        assert "User=" + run("id -un", tmp_path) in unit
        assert "exec hsearch cluster serve'\n" in unit
        worker = made(name)["worker_start_ray_commands"][-1]
        assert f"hsearch cluster notice --provider {name} --address $RAY_HEAD_IP:6379" in worker


def test_the_services_of_a_host_end_with_ray():
    (command,) = (c for c in made("local")["head_start_ray_commands"] if "cluster serve" in c)
    assert "setsid -f ~/hsearch-env/bin/hsearch cluster serve --with-ray " in command


def test_programs_are_named_by_their_whole_path(config):
    """Login shells reset PATH."""
    for key in COMMANDS:
        for command in config[f"{key}_commands"]:
            for word in ("ray stop", "ray start", "pip install", "hsearch cluster notice"):
                if word in command:
                    assert f"/bin/{word}" in command, command


def test_the_folder_of_the_machine_is_not_in_the_committed_file():
    assert os.path.expanduser("~") not in FILE.read_text(encoding="utf-8")
