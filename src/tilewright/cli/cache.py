"""`tilewright cache`: what is kept of compiled kernels, and removing it."""

from __future__ import annotations

import click

from tilewright.runtime.cache import default_cache

MIB = 1 << 20


@click.command()
@click.option("--clear", is_flag=True, help="Remove everything.")
def cache(clear: bool) -> None:
    """Show where compiled kernels are kept, and how many."""
    folder = default_cache()
    if clear:
        click.echo(f"removed {folder.clear()} entries")
        return
    stats = folder.stats()
    if stats.folder is None:
        click.echo("nothing is kept (TILEWRIGHT_CACHE is off)")
        return
    click.echo(f"folder   {stats.folder}")
    click.echo(f"entries  {stats.entries}")
    click.echo(f"size     {stats.bytes / MIB:.1f} MiB of at most {stats.limit / MIB:.0f} MiB")
