"""`hsearch cluster init`: files for one's own case, from flags or answers."""

import os
import pty
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from shutil import copyfile

import pytest
import yaml
from click.testing import CliRunner, Result

import hsearch
from hsearch.cli.main import main
from hsearch.cluster.cluster_file import PROJECT

CHECKOUT = Path(hsearch.__file__).parents[1]
HOSTS = ("--head-host=10.0.0.1", "--worker-hosts=10.0.0.2,10.0.0.3")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """Every file goes there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Path(tmp_path)


def init(*args: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "init", *args], prog_name="hsearch")


@pytest.mark.parametrize("provider", ["aws", "gcp", "kuberay", "local"])
def test_a_file_and_a_token_are_made(home, provider):
    result = init("--provider", provider, *(HOSTS if provider == "local" else ()))
    assert result.exit_code == 0, result.output
    content = yaml.safe_load((home / "cluster.yaml").read_text())
    if provider != "kuberay":
        assert content["file_mounts"]["~/hsearch/hsearch"] == str(CHECKOUT / "hsearch")
    token = home / ".hsearch/ray_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    secret = token.read_text()
    assert len(secret) == 64
    assert secret not in result.output + (home / "cluster.yaml").read_text()
    init("--provider", provider, "--force", *(HOSTS if provider == "local" else ()))
    assert token.read_text() == secret, "other clusters use it"


def test_a_file_is_replaced_only_by_force(home):
    (home / "cluster.yaml").write_text("mine")
    result = init("--provider", "aws")
    assert result.exit_code == 2
    assert "exists already" in result.output
    assert (home / "cluster.yaml").read_text() == "mine"
    assert not (home / ".hsearch").exists()
    assert init("--provider", "aws", "--write", "other.yaml").exit_code == 0
    assert init("--provider", "aws", "--force").exit_code == 0
    assert (home / "cluster.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["aws", "--zone=us-west1-b"], "`--zone` does not belong to aws, which takes: --name, "),
        (["kuberay", "--bucket=abc"], "`--bucket` does not belong to kuberay"),
        (["aws", "--bucket=s3://mine"], "`--bucket` must be the name of a bucket"),
        (["aws", "--bucket=mine\n"], "`--bucket` must be the name of a bucket"),
        (["aws", "--workers=0"], "`--workers` must be a whole number from 1"),
        (["kuberay", "--worker-gpus=0"], "train on GPUs"),
        (["aws", "--worker-type=p5.48xlarge"], "give `--worker-cpus` and `--worker-gpus` too"),
        (["aws", "--worker-gpus=8"], "give `--worker-type` and `--worker-cpus` too"),
        (["gcp", "--head-cpus=8"], "beside `--head-cpus` give `--head-type` too"),
        (["aws", "--market=free"], "`--market` must be spot or on-demand, but is 'free'"),
        (["local", "--head-host=10.0.0.1"], "`--worker-hosts` is missing"),
        (["local", "--worker-hosts=a"], "`--head-host` is missing"),
        (["local", "--head-host=a", "--worker-hosts=a,b"], "'a' stands twice"),
        (["local", "--head-host=a", "--worker-hosts=b c"], "`--worker-hosts` must be"),
        (["local", *HOSTS, "--ssh-user=me;rm"], "`--ssh-user` must be the name of a user"),
        (["local", *HOSTS, "--shared=~/x"], "`--shared` must be an address"),
        (["local", *HOSTS, "--shared=s3://b/h"], "whose bucket has a name of 3 to 63"),
        (["kuberay", "--shared=/folder"], "Pods share no folder"),
        (["kuberay", "--project=."], "`--project` is only for"),
        (["aws", "--project=."], "Machines install hsearch from a checkout"),
        (["aws", "--write=no/where.yaml"], "The folder of no/where.yaml does not exist"),
        (["aws", "--write="], "`--write` must name a new file or a regular one, but . is"),
        (["aws", "--write=a\nb.yaml"], "must be printable, but is 'a\\nb.yaml'"),
        (["aws", "--write=\udcff.yaml"], "must be printable"),
        (["aws", "--project=~nobody-here/x"], "Machines install hsearch from a checkout"),
        (["aws", "--write=/dev/full", "--force"], "but /dev/full is something else"),
        (["azure"], "'azure' is not one of"),
    ],
)
def test_wrong_answers_are_one_sentence_and_nothing_is_written(home, args, sentence):
    result = init("--provider", *args)
    assert result.exit_code == 2
    assert sentence in result.output
    assert len(result.output.splitlines()) == 1 + args.count("--bucket=mine\n")
    assert list(home.iterdir()) == []


def test_hsearch_that_is_no_checkout_asks_for_one(home, monkeypatch):
    (home / "site/hsearch").mkdir(parents=True)
    monkeypatch.setattr(hsearch, "__file__", str(home / "site/hsearch/__init__.py"))
    result = init("--provider", "aws")
    assert result.exit_code == 2
    assert "neither hsearch nor this folder is in one; name one with `--project`" in result.output
    assert init("--provider", "aws", "--project", str(CHECKOUT)).exit_code == 0
    assert init("--provider", "local", *HOSTS, "--installed=/opt/env", "--force").exit_code == 0


def test_a_checkout_that_is_the_current_folder_is_the_project(home, monkeypatch):
    """As README prints it, with an install that is not editable and the committed file."""
    (home / "site/hsearch").mkdir(parents=True)
    monkeypatch.setattr(hsearch, "__file__", str(home / "site/hsearch/__init__.py"))
    for part in PROJECT:
        (home / part).touch()
    copyfile(CHECKOUT / "cluster.yaml", home / "cluster.yaml")
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in readme.splitlines() if line.startswith("hsearch cluster init "))
    args = shlex.split(line, comments=True)[3:]
    (home / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert init(*args).exit_code == 2
    (home / "pyproject.toml").write_text('[project]\nname = "hsearch"\n')
    assert init(*args).exit_code == 0
    assert (home / "cluster.yaml").read_bytes() == (CHECKOUT / "cluster.yaml").read_bytes()
    content = yaml.safe_load((home / "cluster.yaml").read_text())
    assert content["file_mounts"]["~/hsearch/pyproject.toml"] == "./pyproject.toml"


def test_what_is_no_regular_file_is_never_replaced(home):
    link = home / "cluster.yaml"
    link.symlink_to(home / "nowhere")
    for args in ((), ("--force",)):
        result = init("--provider", "aws", *args)
        assert result.exit_code == 2
        assert "but cluster.yaml is something else" in result.output
        assert link.is_symlink()


def test_a_file_that_cannot_be_written_is_told_in_a_sentence():
    result = init("--provider", "aws", "--write", "/proc/x.yaml")
    assert result.exit_code == 2
    assert "`--write` must name a file that can be written, but /proc/x.yaml" in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("trouble", ["is empty", "is open to others", "is none"])
def test_a_token_that_keeps_nobody_out_is_refused(home, trouble):
    token = home / ".hsearch/ray_token"
    token.parent.mkdir()
    if trouble == "is none":
        token.mkdir()
    else:
        token.write_text("" if trouble == "is empty" else "secret")
        token.chmod(0o644 if trouble == "is open to others" else 0o600)
    result = init("--provider", "aws")
    assert result.exit_code == 2
    assert f"{token} {trouble}; remove it" in result.output
    assert not (home / "cluster.yaml").exists()


@pytest.mark.parametrize(
    ("args", "left"),
    [
        (["aws"], "bucket, image"),
        (["aws", "--bucket=ours", "--image=ami-0123"], None),
        (["gcp", "--bucket=ours"], "project-id"),
        (["kuberay"], "shared, image"),
        (["local", *HOSTS], None),
    ],
)
def test_the_last_words_name_what_is_still_to_be_set(args, left):
    last = init("--provider", *args).output.splitlines()[-1]
    if left is None:
        assert "Still" not in last
    else:
        assert last == f"Still to be set in cluster.yaml: {left}."


def test_the_next_command_can_be_pasted():
    assert "`ray up 'my & file.yaml'`" in init("--provider=aws", "--write=my & file.yaml").output


def on_a_terminal(*args: str, typed: bytes) -> tuple[int, str]:
    """The exit code of `init` and what it printed, when that is typed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hsearch", "cluster", "init", *args],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(slave)
    os.write(master, typed)
    output, _ = process.communicate(timeout=60)
    os.close(master)
    return process.returncode, output


def test_questions_that_are_broken_off_end_as_every_interrupted_command():
    code, output = on_a_terminal("--provider=local", typed=b"\x04")
    assert code == 130, output
    assert "hsearch: interrupted" in output


def test_what_is_wrong_before_any_question_is_told_before_all_of_them():
    code, output = on_a_terminal("--provider=local", "--project=/", typed=b"")
    assert code == 2
    assert "Machines install hsearch from a checkout, but / is none" in output
    assert len(output.splitlines()) == 1


def test_another_type_of_machine_has_no_usual_cpus_and_gpus(home):
    typed = b"\n\n\n\np5.48xlarge\n\n192\n\n8\n\n"
    code, output = on_a_terminal("--provider=aws", typed=typed)
    assert code == 0, output
    kinds = yaml.safe_load((home / "cluster.yaml").read_text())["available_node_types"]
    assert kinds["gpu_spot"]["node_config"]["InstanceType"] == "p5.48xlarge"
    assert kinds["gpu_spot"]["resources"] == {"CPU": 192, "GPU": 8}


def test_a_terminal_is_asked_and_asked_again(home):
    typed = b"10.0.0.1\nno host;\n10.0.0.1\n10.0.0.2\n\n"
    code, output = on_a_terminal("--provider=local", "--worker-gpus=0", typed=typed)
    assert code == 0, output
    assert "must be names or addresses" in output
    assert "'10.0.0.1' stands twice" in output
    content = yaml.safe_load((home / "cluster.yaml").read_text())
    assert content["provider"]["worker_ips"] == ["10.0.0.2"]
    assert "HSEARCH_SHARED='/shared/hsearch'" in content["metadata"]["environment"]
