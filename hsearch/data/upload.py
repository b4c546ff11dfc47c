"""Writing a file to a remote file system so that it appears whole or not at all.

It is done by a process of its own. pyarrow completes a stream that is given up, by an error or by
Ctrl-C, and so would publish the half that was sent; only the end of the process prevents that.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hsearch.addresses import Address
from hsearch.data.progress import Count

_CHUNK = 8 * 1024**2
_MEGABYTE = 10**6

Connect = Callable[[Address], Any]
"""Returns the pyarrow file system of an address."""


def upload(
    source: Path, connect: Connect, address: Address, target: str, progress: Count | None = None
) -> None:
    """Copies a file.

    Args:
        source: What is copied.
        connect: A function of a module, which the other process can import.
        address: Names the file system.
        target: The path there.
        progress: Called with the megabytes done, and all.

    Raises:
        OSError: It could not be written; nothing has changed then.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(
        target=_upload, args=(source, connect, address, target, there), daemon=True
    )
    process.start()
    there.close()
    total = -(-source.stat().st_size // _MEGABYTE)
    try:
        while (told := _receive(here)) is not None:
            if isinstance(told, str):
                raise OSError(told)
            if progress:
                progress(told // _MEGABYTE, total)
            here.send(None)
        process.join()
    finally:
        process.kill()
        process.join()
        here.close()


def _receive(pipe: Connection) -> int | str | None:
    """The bytes done, the text of an error, or None at the end."""
    try:
        told: int | str | None = pipe.recv()
    except EOFError:
        return "the process that wrote it was ended"
    return told


def _upload(
    source: Path, connect: Connect, address: Address, target: str, pipe: Connection
) -> None:
    """Waits for an answer after every part, so that it cannot outlive the one who asked for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    whole = False
    try:
        with source.open("rb") as file:
            stream = connect(address).open_output_stream(target)
            while chunk := file.read(_CHUNK):
                stream.write(chunk)
                pipe.send(file.tell())
                pipe.recv()
            stream.close()
        whole = True
        pipe.send(None)
    except (OSError, ValueError) as error:  # of pyarrow
        pipe.send(str(error))
    finally:
        if not whole:
            os._exit(1)  # an ordinary end would complete the stream
