"""Reports from bundles: bundle.py reads and verifies, figures.py draws, markdown.py writes, main.py is the command."""
