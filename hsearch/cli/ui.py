"""`hsearch ui`: MLflow's UI on the store of the studies."""

import click

from hsearch.cli.options import NO_TRACKING, tracking_option


@click.command()
@tracking_option
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="By default 5000 or, if that is taken, any free one.",
)
def ui(tracking_uri: str, port: int | None) -> None:
    """Open MLflow's UI on this machine; Ctrl-C ends it.

    It listens on loopback alone. For a store on another machine, run it there and forward the port:
    `ssh -L 5000:127.0.0.1:5000 HOST`.
    """
    from hsearch.tracking.address import checked_uri, without_credentials
    from hsearch.tracking.ui import runs_pages, served_ui

    if tracking_uri == NO_TRACKING:
        raise click.UsageError("There is nothing to show: --tracking-uri is none.")
    uri = checked_uri(tracking_uri)
    if uri.startswith(("http://", "https://")):
        click.echo(f"MLflow is served already: {without_credentials(uri)}")
        return
    click.echo(f"Starting MLflow's UI on {without_credentials(uri)} ...")
    with served_ui(uri, port) as (address, process):
        click.echo(f"MLflow's UI: {address}   (Ctrl-C ends it)")
        for name, page in runs_pages(address).items():
            click.echo(f"  {name}: {page}")
        process.wait()
        raise click.ClickException("MLflow's UI has ended by itself.")
