"""Write SQL for a live SQLite file: only tables and columns that exist, and a query that SQLite accepts.

Run: python examples/query_database.py
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import structgen as sg
from structgen import monitors

model = sg.load()
prompt = """-- Queries of a shop's database.
-- How many users are there?
SELECT count(*) FROM users;
-- The names of the users who live in Rome.
"""  # there is no table `users`: the prompt is wrong, the database is right

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "shop.sqlite"
    with closing(sqlite3.connect(file, check_same_thread=False)) as shop:
        shop.executescript(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, full_name TEXT, city TEXT);"
            "INSERT INTO customers (full_name, city) VALUES ('Ann Miller', 'Rome'), ('Bob Jones', 'Oslo');"
        )
        query = sg.monitored(sg.regex(r"SELECT [^\n;]{1,80};"), monitors.sqlite_schema(shop), language="sql")
        result = sg.run(model, prompt, query, max_tokens=40, temperature=0)
        print(prompt + result.text)
        print("rows:  ", shop.execute(result.text).fetchall())
        print("report:", result.monitors)
