"""One folder with two studies, one browser and one MLflow UI for all tests of a file."""

import re
import signal
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from hsearch.data.store import Store
from tests.browser.chromium import chromium
from tests.browser.made_folder import MadeFolder, make_folder
from tests.cluster.searches import Command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, toy_store: Store) -> MadeFolder:
    return make_folder(tmp_path_factory.mktemp("browser"), toy_store.path)


@pytest.fixture(scope="module")
def page() -> Iterator[Chrome]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def links(made: MadeFolder) -> Iterator[dict[str, str]]:
    """The links that `hsearch ui` prints for both studies, by what they show."""
    command = Command(made.path, "ui", *made.studies)
    with command.started() as process:
        try:
            command.wait_for(f"{made.studies[-1]}, its trials: ", process)
            yield dict(re.findall(r"^  (.+): (http\S+)$", command.printed(), re.MULTILINE))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.fixture
def laptop(page: Chrome) -> Iterator[Chrome]:
    """The browser with a page of 1400 x 900."""
    size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield page
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
