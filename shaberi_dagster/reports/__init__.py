"""What can be asked of the lake: each report is frozen dataclasses and frames; how it is shown is in `rendering/`."""
