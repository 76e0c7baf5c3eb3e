"""Passwords, tokens and accounts in a knowledge base are no answers: they are left out, and counted."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from indexes.knowledge.ledger import Ledger
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.understanding.settings import SECRETS, is_account, is_secret
from tests.fakes.values import dropped, facts, read

HASH = "pbkdf2_sha256$180000$c2FsdA$aGFzaA="
ROWS = [
    {"title": f"Lamp {n}", "text": "It is of brass.", "price": f"{n} crowns", "api_key": f"key-{n}", "checked": HASH}
    for n in range(3)
]
ACCOUNT = {"username": "ann", "email": "ann@a.example", "password": HASH, "name": "Ann Potter"}


@pytest.mark.parametrize("name", ["password", "user_password", "passwordHash", "API-Key", "session_data", "authToken"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["key", "token", "salt", "secret ingredient", "Secret identity", "keyword", "session", "passage", "code"]
)
def test_names_of_facts(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "value", [HASH, "$2b$12$abcdefghij", "$argon2id$v=19$m=65536", "$6$salt$hash", "scrypt:32768:8"]
)
def test_hashes_of_passwords(value: str) -> None:
    assert is_secret("value", value)
    assert not is_secret("value", f"about {value}") and not is_secret("price", "$25") and not is_secret("price", "$5")


def test_a_game_with_a_password_is_no_account() -> None:
    assert is_account(ACCOUNT) and not is_account(["title", "password"]) and not is_account(["email", "name"])


def test_secrets_within_objects_are_counted() -> None:
    (lamp,) = read([{"title": "Lamp", "text": "Brass.", "seller": {"town": "Ulm", "password": "open", "hash": HASH}}])
    assert facts(lamp) == ["Seller, town: Ulm"]
    assert dropped(lamp) == {SECRETS: ["open", HASH]}


def to_json(rows: list[dict[str, str]], folder: Path) -> None:
    (folder / "kb.json").write_text(json.dumps(rows))


def to_csv(rows: list[dict[str, str]], folder: Path) -> None:
    for account in (True, False):
        chosen = [row for row in rows if ("email" in row) == account]
        with (folder / f"kb{account}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(chosen[0]))
            table.writeheader()
            table.writerows(chosen)


def to_yaml(rows: list[dict[str, str]], folder: Path) -> None:
    (folder / "kb.yml").write_text(yaml.safe_dump(rows))


def to_xml(rows: list[dict[str, str]], folder: Path) -> None:
    root = ElementTree.Element("things")
    for row in rows:
        element = ElementTree.SubElement(root, "thing")
        for name, value in row.items():
            ElementTree.SubElement(element, name).text = value
    ElementTree.ElementTree(root).write(folder / "kb.xml")


def to_database(rows: list[dict[str, str]], folder: Path) -> None:
    with closing(sqlite3.connect(folder / "kb.db")) as database, database:
        database.execute("create table auth_user (id integer primary key, username, email, password, name)")
        database.execute(
            "create table lamps (id integer primary key, title, text, price, api_key, checked, "
            "seller_id integer references auth_user(id))"
        )
        for row in rows:
            if "email" in row:
                database.execute("insert into auth_user values (1, ?, ?, ?, ?)", tuple(row.values()))
            else:
                database.execute("insert into lamps values (null, ?, ?, ?, ?, ?, 1)", tuple(row.values()))


@pytest.mark.parametrize("write", [to_json, to_csv, to_yaml, to_xml, to_database])
def test_no_format_leaks_a_secret(write: Callable[[list[dict[str, str]], Path], None], tmp_path: Path) -> None:
    write([*ROWS, ACCOUNT], tmp_path)
    ledger = Ledger(tmp_path.name)
    entities = list(read_knowledge_base(tmp_path, ledger=ledger))
    assert sorted(entity.title for entity in entities) == ["Lamp 0", "Lamp 1", "Lamp 2"]
    said = repr((entities, ledger.left_out))
    assert "crowns" in said
    assert not any(secret in said for secret in ("pbkdf2", "key-", "ann@", "Ann Potter"))
    assert ledger.left_out[SECRETS].count >= 4
