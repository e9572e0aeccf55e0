"""Native launchers: the part of a launch that is the same on every target."""
