"""One folder with two studies, one browser and one MLflow UI for all tests of a file."""

import re
import signal
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from hsearch.data.store import Store
from tests.browser.chromium import chromium
from tests.browser.made_folder import EXPERIMENT, MadeFolder, make_folder
from tests.cluster.searches import Command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, toy_store: Store) -> MadeFolder:
    return make_folder(tmp_path_factory.mktemp("browser"), toy_store.path)


@pytest.fixture(scope="module")
def page() -> Iterator[Chrome]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def runs_page(made: MadeFolder) -> Iterator[str]:
    """The address that `hsearch ui` prints for the data of both studies."""
    command = Command(made.path, "ui")
    with command.started() as process:
        try:
            command.wait_for(f"{EXPERIMENT}: ", process)
            yield re.findall(rf"{EXPERIMENT}: (http\S+)", command.printed())[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
