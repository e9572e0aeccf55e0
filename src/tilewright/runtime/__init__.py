"""From a call `kernel[grid](...)` to a launch: arguments, compilation, caches and timing."""
