"""`python -m hsearch` is the same as `hsearch`."""

from hsearch.cli.main import main

if __name__ == "__main__":
    main(prog_name="hsearch")
