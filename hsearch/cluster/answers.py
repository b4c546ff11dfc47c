"""The answers to the questions of a cluster file: whole, and right together."""

from collections.abc import Mapping

from hsearch.cluster.questions import TOGETHER, questions_of
from hsearch.errors import ConfigError


def check_flags(provider: str, given: Mapping[str, str]) -> None:
    """Refuses flags that are not the provider's, or that leave out what belongs to them.

    Args:
        provider: One of `PROVIDERS`.
        given: Answers by key.
    """
    keys = [question.key for question in questions_of(provider)]
    for key in given:
        if key not in keys:
            flags = ", ".join(f"--{each}" for each in keys)
            raise ConfigError(f"`--{key}` does not belong to {provider}, which takes: {flags}.")
    for machine in TOGETHER:
        missing = [f"`--{key}`" for key in machine if key not in given]
        there = [f"`--{key}`" for key in machine if key in given]
        if machine[0] in keys and missing and there:
            raise ConfigError(
                "The type of a machine comes with what Ray may use of it; beside "
                f"{' and '.join(there)} give {' and '.join(missing)} too."
            )


def checked_answers(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the answers to all questions of a provider, defaults where nothing was given.

    Args:
        provider: One of `PROVIDERS`.
        given: Answers by key.

    Raises:
        ConfigError: One is missing or wrong, alone or beside the others.
    """
    answers = {}
    for question in questions_of(provider):
        answer = given.get(question.key, question.defaults[provider])
        if not answer:
            raise ConfigError(f"`{question.flag}` is missing; give {question.rule}.")
        answers[question.key] = question.check(answer)
    _check_together(provider, answers)
    return answers


def _check_together(provider: str, answers: Mapping[str, str]) -> None:
    """Refuses answers that are right alone."""
    if provider != "local" and answers["worker-gpus"] == "0":
        raise ConfigError(
            f"Workers of {provider} train on GPUs, but `--worker-gpus` is 0; give at least 1."
        )
    if provider == "kuberay" and "://" not in answers["shared"]:
        raise ConfigError(
            "Pods share no folder: `--shared` must be an address such as s3://my-bucket/hsearch, "
            f"but is '{answers['shared']}'."
        )
    hosts = answers.get("worker-hosts", "").split(",")
    twice = [host for host in hosts if [*hosts, answers.get("head-host")].count(host) > 1]
    if twice:
        raise ConfigError(
            f"Every host has one place, the head is no worker, but '{twice[0]}' stands twice in "
            "`--head-host` and `--worker-hosts`."
        )
