from pathlib import Path

import pytest

from broker.errors import OwnersFileError
from broker.tap.poll_placing import OwnerPatterns

YAML = """
- topic: orders*
  principal: User:shop
- transactional_id: billing-?
  principal: User:billing
- topic: "*"
  principal: User:rest
"""
CSV = "topic,transactional_id,principal\norders*,,User:shop\n,billing-?,User:billing\n*,,User:rest\n"


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("name", "text"), [("o.yaml", YAML), ("o.csv", CSV)])
def test_the_first_entry_that_fits_counts_transactional_ids_first(name: str, text: str, tmp_path: Path) -> None:
    owners = OwnerPatterns.load(write(tmp_path, name, text))

    assert owners.by_transactional_id
    assert owners.of("orders-eu", None) == "User:shop"
    assert owners.of("orders-eu", "billing-1") == "User:billing"
    assert owners.of("orders-eu", "billing-12") == "User:shop"
    assert owners.of("payments", None) == "User:rest"


def test_an_id_without_a_matching_entry_has_no_owner(tmp_path: Path) -> None:
    owners = OwnerPatterns.load(write(tmp_path, "o.yaml", "- topic: orders\n  principal: User:shop\n"))

    assert owners.of("orders-eu", "billing-1") is None
    assert not owners.by_transactional_id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- topic: orders\n", "entry 1 holds topic: write principal"),
        ("- topic: a\n  transactional_id: b\n  principal: User:x\n", "one of topic and transactional_id"),
        ("- topik: a\n  principal: User:x\n", "holds topik"),
        ("- topic: a\n  principal: shop\n", "write it with its type, 'User:shop'"),
        ("- 7\n", "holds nothing"),
        ("topic: a\n", "not a list"),
        ("- [", "can't read owners file"),
    ],
)
def test_a_bad_entry_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OwnersFileError, match=said):
        OwnerPatterns.load(write(tmp_path, "o.yaml", text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OwnersFileError, match="nowhere"):
        OwnerPatterns.load(tmp_path / "nowhere.yaml")
