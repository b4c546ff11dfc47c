"""Sending a prepared store to an address."""

import shlex

import click

from hsearch.addresses import Address, address_in
from hsearch.cli.counting import counting
from hsearch.data.library import shared_data, store_path
from hsearch.data.remote import send
from hsearch.errors import DatasetError


def send_store(name: str, address: Address) -> None:
    """Writes the prepared store of that name to an address, and says how to use it."""
    try:
        with counting(f"sending {name}, MB") as progress:
            send(store_path(name), address, progress)
    except DatasetError as error:
        again = f"hsearch data prepare {name} --to {shlex.quote(str(address))}"
        raise DatasetError(f"{error} The data are prepared here; try again: `{again}`.") from None
    shared = shared_data()
    by_name = shared is not None and str(address) == str(address_in(str(shared), name))
    given = name if by_name else "ADDRESS"
    click.echo(f"{name}: written to {address}; other machines read it with --data {given}")
