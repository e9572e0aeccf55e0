"""The command line: `tilewright` and its commands."""
