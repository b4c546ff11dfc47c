"""`hsearch ui`: MLflow's UI on the store of the studies."""

from typing import TYPE_CHECKING

import click

from hsearch.cli.options import NO_TRACKING, tracking_option

if TYPE_CHECKING:
    from hsearch.tracking.pages import Page


@click.command()
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@tracking_option
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="By default 5000 or, if that is taken, any free one.",
)
def ui(studies: tuple[str, ...], tracking_uri: str, port: int | None) -> None:
    """Open MLflow's UI on this machine; Ctrl-C ends it.

    It prints a link to the list of studies with their scores; for every STUDY also one to its
    trials, and for several STUDIES one that shows them side by side.

    It listens on loopback alone. For a store on another machine, run it there and forward the port:
    `ssh -L 5000:127.0.0.1:5000 HOST`.
    """
    from hsearch.tracking.address import checked_uri, is_server, without_credentials
    from hsearch.tracking.ui import existing_store, served_ui

    if tracking_uri == NO_TRACKING:
        raise click.UsageError("There is nothing to show: --tracking-uri is none.")
    if is_server(tracking_uri):
        uri = checked_uri(tracking_uri)
        address = without_credentials(uri)
        pages = _pages(uri, studies)
        click.echo(f"MLflow is served already: {address}")
        _print_links(pages, address)
        return
    uri = existing_store(tracking_uri)
    click.echo(f"Starting MLflow's UI on {without_credentials(uri)} ...")
    pages = _pages(uri, studies)
    with served_ui(uri, port) as (address, process):
        click.echo(f"MLflow's UI: {address}   (Ctrl-C ends it)")
        _print_links(pages, address)
        process.wait()
        raise click.ClickException("MLflow's UI has ended by itself.")


def _pages(uri: str, studies: tuple[str, ...]) -> "list[Page]":
    """Finds the pages of studies; none where MLflow fails, of which its UI tells more."""
    from hsearch.errors import HsearchError
    from hsearch.tracking.failure import reason_of
    from hsearch.tracking.pages import study_pages

    try:
        return study_pages(uri, studies)
    except HsearchError:
        raise
    except Exception as error:  # noqa: BLE001 (stores raise errors of their own kinds)
        click.echo(f"hsearch: warning: No links to studies: {reason_of(error)}.", err=True)
        return []


def _print_links(pages: "list[Page]", address: str) -> None:
    for page in pages:
        click.echo(f"  {page.title}: {page.link(address)}")
