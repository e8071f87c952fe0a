"""Runs two builds' benchmark programs in turns and lets `mylos diff` judge their rounds."""
