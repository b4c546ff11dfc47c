"""A real Chromium without a window, driven by Debian's chromedriver; nothing is downloaded."""

import base64
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.cluster.searches import is_alive, processes_of, wait_until

PICTURES = Path(__file__).parents[2] / "test-output" / "browser"
PATIENCE = 90  # seconds, for a slow machine with other work
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no way out of this machine
    "--window-size=1600,1200",
)


@contextmanager
def chromium() -> Iterator[Chrome]:
    """Yields a browser with an empty profile; ends it with all its processes."""
    browser, driver = _program("chromium", "chromium"), _program("chromedriver", "chromium-driver")
    with tempfile.TemporaryDirectory(
        prefix="hsearch-chromium-", ignore_cleanup_errors=True
    ) as profile:
        options = ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(driver)
        page = Chrome(options=options, service=service)
        started = [service.process.pid, *processes_of(service.process.pid)]
        try:
            yield page
        finally:
            started += processes_of(service.process.pid)
            page.quit()
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not any(map(is_alive, started)), "Chromium ends", seconds=30)


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"This test needs `{name}`; install the Debian package `{package}`.")
    return path


def wait_for(page: Chrome, condition: Callable[[Chrome], Any], what: str) -> Any:
    """Waits until a condition holds, and returns what it found; elements may be replaced meanwhile.

    The page as it is at the end of all patience goes to a picture.
    """
    ignored = (StaleElementReferenceException, ElementNotInteractableException)
    try:
        return WebDriverWait(page, PATIENCE, 0.1, ignored_exceptions=ignored).until(condition)
    except TimeoutException:
        keep_picture(page, "failed")
        pytest.fail(f"Waited {PATIENCE} s for {what}; {PICTURES / 'failed.png'} shows the page.")


def see(page: Chrome, xpath: str) -> WebElement:
    """Waits for a visible element."""
    found: WebElement = wait_for(
        page,
        lambda page: next(
            (e for e in page.find_elements(By.XPATH, xpath) if e.is_displayed()), None
        ),
        xpath,
    )
    return found


def press(page: Chrome, xpath: str) -> None:
    """Waits for a visible element that nothing covers, and clicks it."""

    def clicked(page: Chrome) -> bool:
        for element in page.find_elements(By.XPATH, xpath):
            if element.is_displayed() and element.is_enabled():
                with suppress(ElementClickInterceptedException):
                    element.click()
                    return True
        return False

    wait_for(page, clicked, f"{xpath} to be pressed")


def requested(page: Chrome) -> list[str]:
    """What pages asked for since the last call, but for their own data and the browser's pages."""
    found = []
    for entry in page.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            found.append(event["params"]["request"]["url"])
    return [url for url in found if not url.startswith(("data:", "blob:", "chrome"))]


def keep_picture(page: Chrome, name: str, *, whole: bool = False) -> None:
    """Keeps what the browser shows, or the whole page, as output of the tests."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    shot = page.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
    (PICTURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
