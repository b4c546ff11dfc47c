import pytest

from hsearch.errors import ConfigError
from hsearch.tracking.address import (
    DEFAULT_URI,
    artifact_location,
    checked_uri,
    ui_command,
    without_credentials,
)


def test_a_relative_file_is_made_absolute_so_that_later_changes_of_folder_do_not_matter(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    uri = checked_uri(DEFAULT_URI)
    assert uri == f"sqlite:///{tmp_path}/mlflow.db"
    assert artifact_location(uri, "hsearch/cars") == f"file://{tmp_path}/mlruns/hsearch/cars"


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:5000", "https://u:p@host/mlflow", "postgresql+psycopg://u:p@host/db"]
)
def test_servers_and_databases_stay_as_given(uri):
    assert checked_uri(uri) == uri
    assert artifact_location(uri, "x") is None


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("mlflow.db", "cannot be 'mlflow.db'"),
        ("htp://user:secret@host", r"cannot be 'htp://host'.*Did you mean 'http'\?"),
        ("file:///tmp/x", "sqlite"),
        ("http://", "http://HOST:PORT"),
        ("http://host:port", "http://HOST:PORT"),
        ("sqlite://", "sqlite:///FILE"),
        ("sqlite:///:memory:", "sqlite:///FILE"),
        ("sqlite:////no/such/folder/x.db", "/no/such/folder/x.db"),
    ],
)
def test_what_cannot_be_used_is_told_at_once_without_credentials(uri, message):
    with pytest.raises(ConfigError, match=message) as raised:
        checked_uri(uri)
    assert "secret" not in str(raised.value)


def test_a_folder_is_no_sqlite_file(tmp_path):
    with pytest.raises(ConfigError, match="writable file"):
        checked_uri(f"sqlite:///{tmp_path}")


def test_the_ui_binds_to_loopback_and_the_command_can_be_pasted(tmp_path):
    folder = tmp_path / "my runs"
    folder.mkdir()
    assert ui_command(f"sqlite:///{folder}/mlflow.db") == (
        f"hsearch ui --tracking-uri 'sqlite:///{folder}/mlflow.db'"
    )


def test_the_default_store_needs_no_address():
    assert ui_command("sqlite:///mlflow.db") == "hsearch ui"


def test_a_server_is_its_own_ui_and_shows_no_password():
    assert ui_command("https://user:secret@host:5000") == "https://host:5000"


@pytest.mark.parametrize(
    "uri", ["postgresql://me:secret@host/db", "postgresql://host/db?user=me&sslPassword=secret"]
)
def test_a_database_with_a_password_is_named_by_the_variable_that_holds_it(uri):
    assert ui_command(uri) == ('hsearch ui --tracking-uri "$MLFLOW_TRACKING_URI"')


def test_credentials_leave_every_address_of_a_text():
    text = "no answer of https://u:p@a/x or postgresql://v:q@b"
    assert without_credentials(text) == "no answer of https://a/x or postgresql://b"
    text = "postgresql://b/x?password=p&sslmode=on or postgresql://b/x?user=v&sslpassword=q here"
    cleaned = "postgresql://b/x?sslmode=on or postgresql://b/x?user=v& here"
    assert without_credentials(text) == cleaned
