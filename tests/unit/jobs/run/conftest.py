"""The fake children that the tests of `pid-quota run` share."""

import pytest

from tests.kits.child_kit import Children


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Children:
    return Children(monkeypatch)
