"""What a cluster file says and a user may want otherwise, as questions with defaults and rules.

Answers go into YAML and into shell commands as they are, so every rule is strict.
"""

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hsearch.errors import ConfigError

PROVIDERS = ("aws", "gcp", "local", "kuberay")

NOTHING = "none"
"""An answer that leaves something out."""

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_BUCKET_RULE = "3 to 63 small letters, digits, dots and dashes"
_FOLDER = r"/[A-Za-z0-9./_+-]*"
_ADDRESS = rf"(s3|gs)://{_BUCKET}(/[A-Za-z0-9._/-]*)?(\?[A-Za-z0-9_=&:./%-]+)?"
_NUMBER = r"[1-9][0-9]{0,3}"
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_PLACEHOLDER = r"ami-0+|my-bucket|my-project|s3://my-bucket(/.*)?|registry\.example\.com/.*"


@dataclass(frozen=True)
class Question:
    """One of them.

    Attributes:
        key: Its flag without the dashes.
        text: What it asks for.
        defaults: By provider; one that is not there does not ask, and an empty one must be
            answered.
        pattern: A regular expression of all right answers.
        rule: What is right, in words.
        asked: Whether it is asked on a terminal; the others are left to flags.
    """

    key: str
    text: str
    defaults: Mapping[str, str]
    pattern: str
    rule: str
    asked: bool = False

    @property
    def flag(self) -> str:
        """As it is typed."""
        return f"--{self.key}"

    def check(self, answer: str) -> str:
        """Returns the answer if it is right."""
        if not re.fullmatch(self.pattern, answer, re.ASCII):
            raise ConfigError(f"`{self.flag}` must be {self.rule}, but is '{answer}'.")
        return answer


def _clouds(aws: str, gcp: str, **others: str) -> dict[str, str]:
    return {"aws": aws, "gcp": gcp, **others}


_NUMBER_RULE = "a whole number from 1 to 9999"
_INSTANCE_RULE = "the name of an instance type, such as {}"

QUESTIONS = (
    Question(
        "name",
        "Name of the cluster",
        dict.fromkeys(PROVIDERS, "hsearch"),
        _NAME,
        "up to 40 small letters, digits and dashes, the first a letter",
    ),
    Question(
        "region",
        "Region",
        {"aws": "us-west-2"},
        r"[a-z]{2}(-[a-z]+)+-[0-9]",
        "a region such as us-west-2",
        asked=True,
    ),
    Question(
        "project-id",
        "Google Cloud project",
        {"gcp": "my-project"},
        r"[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "the id of a project: 6 to 30 small letters, digits and dashes",
        asked=True,
    ),
    Question(
        "zone",
        "Zone",
        {"gcp": "us-west1-b"},
        r"[a-z]+-[a-z]+[0-9]+-[a-z]",
        "a zone such as us-west1-b",
        asked=True,
    ),
    Question(
        "bucket",
        "Bucket of data and checkpoints",
        _clouds("my-bucket", "my-bucket"),
        _BUCKET,
        f"the name of a bucket, without s3://: {_BUCKET_RULE}",
        asked=True,
    ),
    Question(
        "head-host",
        "Head, as the other machines reach it",
        {"local": ""},
        _HOST,
        "the name or address of a host",
        asked=True,
    ),
    Question(
        "worker-hosts",
        "Workers, with commas between",
        {"local": ""},
        rf"{_HOST}(,{_HOST})*",
        "names or addresses of at least one host, with commas between and no blanks",
        asked=True,
    ),
    Question(
        "shared",
        "Shared store of data and checkpoints",
        {"local": "/shared/hsearch", "kuberay": "s3://my-bucket/hsearch"},
        rf"{_FOLDER}|{_ADDRESS}",
        "an address such as s3://my-bucket/hsearch, whose bucket has a name of "
        f"{_BUCKET_RULE}, or, for a local cluster, the absolute path of a folder that all hosts "
        "share",
        asked=True,
    ),
    Question(
        "ssh-user",
        "Who logs in",
        _clouds("ubuntu", "ubuntu", local=getpass.getuser()),
        _WORD,
        "the name of a user",
    ),
    Question(
        "ssh-key",
        "Private key that all hosts accept",
        {"local": "~/.ssh/id_ed25519"},
        f"~?{_FOLDER}",
        "the path of a file, beginning with / or ~/, without blanks",
    ),
    Question(
        "workers",
        "Most workers at once",
        _clouds("4", "4", kuberay="4"),
        _NUMBER,
        _NUMBER_RULE,
        asked=True,
    ),
    Question(
        "market",
        "How workers are paid, spot or on-demand",
        _clouds("spot", "spot"),
        "spot|on-demand",
        "spot or on-demand",
        asked=True,
    ),
    Question(
        "head-type",
        "Instance type of the head",
        _clouds("m6i.2xlarge", "n2-standard-8"),
        _WORD,
        _INSTANCE_RULE.format("m6i.2xlarge"),
    ),
    Question(
        "head-cpus", "CPUs of the head", _clouds("8", "8", kuberay="4"), _NUMBER, _NUMBER_RULE
    ),
    Question(
        "worker-type",
        "Instance type of a worker",
        _clouds("g5.xlarge", "g2-standard-4"),
        _WORD,
        _INSTANCE_RULE.format("g5.xlarge"),
        asked=True,
    ),
    Question(
        "worker-cpus",
        "CPUs of a worker",
        _clouds("4", "4", kuberay="4"),
        _NUMBER,
        _NUMBER_RULE,
        asked=True,
    ),
    Question(
        "worker-gpus",
        "GPUs of a worker",
        _clouds("1", "1", local="1", kuberay="1"),
        "[0-9]|[1-9][0-9]",
        "a whole number from 0 to 99",
        asked=True,
    ),
    Question(
        "worker-memory",
        "Memory of a worker",
        {"kuberay": "16Gi"},
        "[1-9][0-9]{0,4}[GM]i",
        "a size such as 16Gi",
    ),
    Question(
        "image",
        "Image of the machines",
        _clouds(
            "ami-00000000000000000",
            "projects/ubuntu-os-accelerator-images/global/images/family/"
            "ubuntu-accelerator-2404-amd64-with-nvidia-580",
            kuberay="registry.example.com/hsearch:latest",
        ),
        r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
        "the id or name of an image",
        asked=True,
    ),
    Question(
        "head-profile",
        "IAM instance profile of the head",
        {"aws": "hsearch-head"},
        _WORD,
        "the name of an instance profile",
    ),
    Question(
        "worker-profile",
        "IAM instance profile of the workers",
        {"aws": "hsearch-worker"},
        _WORD,
        "the name of an instance profile",
    ),
    Question(
        "namespace",
        "Kubernetes namespace",
        {"kuberay": "hsearch"},
        _NAME,
        "up to 40 small letters, digits and dashes, the first a letter",
        asked=True,
    ),
    Question(
        "installed",
        "Folder of a Python environment with hsearch on every host; else one is made",
        {"local": NOTHING},
        f"{NOTHING}|{_FOLDER}",
        "the absolute path of a folder",
    ),
)


TOGETHER = (("head-type", "head-cpus"), ("worker-type", "worker-cpus", "worker-gpus"))
"""What describes one machine, where its type is a question: all are given, or none."""


def unset(answers: Mapping[str, str]) -> list[str]:
    """Returns the keys of answers that only show the form of a right one."""
    return [key for key, answer in answers.items() if re.fullmatch(_PLACEHOLDER, answer)]


def questions_of(provider: str) -> list[Question]:
    """Returns what the file of a provider wants to know."""
    return [question for question in QUESTIONS if provider in question.defaults]
