import pytest

from tests.exchange.legacy.trees import LegacyTree


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    return LegacyTree(root)
