"""Makes breakpoints work in every Python that is started with this folder in PYTHONPATH."""

from tests.breakpoints import install

install()
