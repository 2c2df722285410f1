"""Archives that tests unpack, on each Python that the project runs on."""

import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, folder: Path | str) -> None:
    """Unpack everything, and nothing outside of the folder where Python (from 3.11.4 on) can see to that."""
    options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **options)
