"""Make the families of schemas that are not cached yet, and count their schemas.

python -m bench.schemas [FAMILY ...]
python -m bench.schemas --draw-held-out     # writes held_out.txt; only after families were added or changed
"""

from __future__ import annotations

from bench import schemas
from bench.command import argument_parser


def main() -> None:
    parser = argument_parser("bench.schemas", __doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all")
    parser.add_argument("--draw-held-out", action="store_true", help="draw the held-out half again")
    options = parser.parse_args()
    names: list[str] = []
    for name in options.families or schemas.families():
        records = schemas.load(name)
        drawn = schemas.draw_held_out(record["_file"] for record in records)
        names += drawn
        held = sum(map(schemas.is_held_out, records))
        print(f"{name:20} {len(records):5} schemas, {held} held out")
    if options.draw_held_out:
        schemas.write_held_out(names)


if __name__ == "__main__":
    main()
