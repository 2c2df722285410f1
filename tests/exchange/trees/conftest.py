import pytest

from tests.exchange.trees.trees import LegacyTree


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    return LegacyTree(root)
