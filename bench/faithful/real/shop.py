"""An in-memory database for questions about a shop."""

from __future__ import annotations

import sqlite3

__all__ = ["SCHEMA", "open_shop", "runs"]

SCHEMA = "staff(name, city, salary), orders(seller, city, amount, year)"


def open_shop() -> sqlite3.Connection:
    """A connection of its own."""
    shop = sqlite3.connect(":memory:")
    shop.executescript("""
        CREATE TABLE staff (name TEXT, city TEXT, salary INTEGER);
        CREATE TABLE orders (seller TEXT, city TEXT, amount INTEGER, year INTEGER);
        INSERT INTO staff VALUES ('Ada', 'Paris', 5200), ('Ben', 'Rome', 4100), ('Cleo', 'Paris', 6100),
            ('Dan', 'Oslo', 3900), ('Eve', 'Rome', 4700);
        INSERT INTO orders VALUES ('Ada', 'Paris', 120, 2023), ('Ada', 'Oslo', 75, 2024), ('Ben', 'Rome', 310, 2024),
            ('Cleo', 'Paris', 42, 2022), ('Eve', 'Rome', 96, 2024);
    """)
    return shop


def runs(shop: sqlite3.Connection, query: str) -> bool:
    """Return whether the database can run the query."""
    try:
        shop.execute(query).fetchall()
    except sqlite3.Error:
        return False
    return True
