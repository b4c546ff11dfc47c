"""The answers to the questions of a cluster file: whole, and right together."""

from collections.abc import Mapping

from hsearch.cluster.questions import questions_of
from hsearch.errors import ConfigError

# A type of machine and what Ray may use of it must be in step.
_TOGETHER = {"head-type": ("head-cpus",), "worker-type": ("worker-cpus", "worker-gpus")}


def checked_answers(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the answers to all questions of a provider, defaults where nothing was given.

    Args:
        provider: One of `PROVIDERS`.
        given: Answers by key.

    Raises:
        ConfigError: One does not belong to the provider, is missing or is wrong.
    """
    questions = questions_of(provider)
    keys = [question.key for question in questions]
    for key in given:
        if key not in keys:
            flags = ", ".join(f"--{each}" for each in keys)
            raise ConfigError(f"`--{key}` does not belong to {provider}, which takes: {flags}.")
    for key, others in _TOGETHER.items():
        missing = [f"`--{other}`" for other in others if key in given and other not in given]
        if missing:
            raise ConfigError(
                f"`--{key}` comes with what Ray may use of it; give {' and '.join(missing)} too."
            )
    answers = {}
    for question in questions:
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
