"""`tilewright index`: which program handles which elements."""

from __future__ import annotations

import click

from tilewright.cli.index_table import IndexTableError, index_table


@click.command()
@click.option("--n", type=int, help="Number of elements.")
@click.option("--block", type=int, help="Elements of one program instance.")
def index(n: int | None, block: int | None) -> None:
    """Print program ids, offsets and masks of one-dimensional blocking."""
    if n is None or block is None:
        raise click.UsageError("give --n and --block, e.g. tilewright index --n 10 --block 4")
    try:
        click.echo(index_table(n, block), nl=False)
    except IndexTableError as error:
        raise click.UsageError(str(error)) from error
