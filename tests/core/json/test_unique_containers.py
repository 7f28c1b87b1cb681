"""Arrays of objects and arrays with `uniqueItems`: the next bytes compared with all texts, written out."""

import itertools
import json
import random

import pytest

import structgen as sg

BYTES = sg.Vocabulary.of_bytes()


def texts_of(value):
    """All compact texts of a JSON value: the keys of its objects may come in any order."""
    if isinstance(value, list):
        return [f"[{','.join(parts)}]" for parts in itertools.product(*map(texts_of, value))]
    if isinstance(value, dict):
        members = [[f"{json.dumps(k)}:{t}" for t in texts_of(v)] for k, v in value.items()]
        orders = itertools.permutations(members)
        return [f"{{{','.join(parts)}}}" for order in orders for parts in itertools.product(*order)]
    return [json.dumps(value)]


def scalars(draw):
    """A schema of a few strings or literals, and its values."""
    among = ["", "a", "b", "ab", "ba", 'q"'] if draw.random() < 0.5 else [True, False, None]
    values = draw.sample(among, draw.randint(1, 3))
    return {"enum": values}, values


def containers(draw, depth):
    """A schema of a few arrays or objects, and its values."""
    inner = lambda: containers(draw, depth - 1) if depth and draw.random() < 0.3 else scalars(draw)  # noqa: E731
    if draw.random() < 0.4:
        schema, values = inner()
        most, unique = draw.randint(1, 2), draw.random() < 0.3
        rows = [list(row) for n in range(most + 1) for row in itertools.product(values, repeat=n)]
        rows = [
            row for row in rows if not unique or len({json.dumps(v, sort_keys=True) for v in row}) == len(row)
        ]
        return {"type": "array", "items": schema, "maxItems": most, "uniqueItems": unique}, rows
    properties, required, found = {}, [], [{}]
    for name in draw.sample(["a", "b", "ab"], draw.randint(1, 2)):
        properties[name], values = inner()
        with_it = [{**one, name: v} for one in found for v in values]
        if draw.random() < 0.5:
            required.append(name)
            found = with_it
        else:
            found = found + with_it
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }, found


def arrays(draw):
    """A schema of arrays of containers that must differ, and all its texts."""
    while True:
        item, values = containers(draw, 1)
        if draw.random() < 0.3:
            others, more = scalars(draw)
            item, values = {"anyOf": [item, others]}, values + more
        most = draw.randint(2, 3)
        texts = [texts_of(v) for v in values]
        if sum(map(len, texts)) ** most < 30_000:
            break
    rows = [row for n in range(most + 1) for row in itertools.permutations(texts, n)]
    schema = {"type": "array", "items": item, "uniqueItems": True, "maxItems": most}
    return schema, [f"[{','.join(parts)}]" for row in rows for parts in itertools.product(*row)]


def vocabulary(draw, texts):
    """Bytes, and some pieces of the texts."""
    pieces = set()
    for _ in range(40):
        text = draw.choice(texts)
        start = draw.randrange(len(text))
        pieces.add(text[start : start + draw.randint(2, 9)].encode())
    return [*(bytes([b]) for b in range(256)), *sorted(pieces)]


@pytest.mark.parametrize("seed", range(60))
def test_the_next_bytes_are_those_of_some_text(seed):
    draw = random.Random(seed)
    schema, texts = arrays(draw)
    tokens = vocabulary(draw, texts)
    table = sg.Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    whole = {text.encode() for text in texts}
    started = {text[:i] for text in whole for i in range(len(text) + 1)}
    constraint = sg.json_schema(schema, whitespace="compact")
    starts = sorted(started)
    for start in [b"", *draw.sample(starts, min(len(starts), 60))]:
        matcher = sg.Matcher(constraint, table)
        assert all(matcher.advance(byte) for byte in start), (schema, start)
        mask = matcher.mask()
        allowed = {t for i, t in enumerate(tokens) if mask[i // 32] >> (i % 32) & 1}
        following = {t for t in tokens if start + t in started}
        # Without a proof, more is allowed than some text goes on with.
        proven = matcher.unproven == 0
        assert allowed == following if proven else allowed >= following, (schema, start)
        assert all(
            matcher.accepts([i]) == (t in allowed) for i, t in enumerate(tokens) if i > 255 or t in allowed
        )
        assert matcher.is_complete() == (start in whole)
        rest = matcher.witness()
        assert rest is not None or (matcher.unproven and matcher.search_failure), (
            schema,
            start,
            matcher.search_failure,
        )


@pytest.mark.parametrize(
    ("items", "started", "refused", "rest"),
    [
        ({"required": ["n"], "properties": {"n": {"type": "string"}}}, '[{"n":"x"},{"n":"x', '"', 'a"}]'),
        ({"required": ["n"], "properties": {"n": {"type": "integer"}}}, '[{"n":1},{"n":', None, "0}]"),
        ({"required": ["n"], "properties": {"n": {"type": "integer"}}}, '[{"n":0},{"n":', "0", "1}]"),
        ({"required": ["n"], "properties": {"n": {"maxLength": 0}}}, '[{"n":""},{"n":', '"', "0}]"),
        ({"required": ["n"], "properties": {"n": {"enum": [1, 2]}}}, '[{"n":1},{"n":', "1", "2}]"),
    ],
)
def test_the_value_of_a_closed_object_may_not_be_one_that_is_there(items, started, refused, rest):
    schema = {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "object", "additionalProperties": False, **items},
    }
    matcher = sg.Matcher(sg.json_schema(schema, whitespace="compact"), BYTES)
    assert all(matcher.advance(byte) for byte in started.encode())
    assert refused is None or not matcher.advance(ord(refused))
    assert matcher.unproven == 0
    assert matcher.witness_text() == rest.encode()


def test_items_of_a_long_array_of_closed_objects_are_distinguished():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "string"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    constraint = sg.json_schema({"type": "array", "uniqueItems": True, "items": schema})
    items = [{"n": f"item {i}"} for i in range(200)]
    matcher = sg.Matcher(constraint, BYTES)
    assert all(matcher.advance(byte) for byte in (json.dumps(items)[:-1] + ', {"n": "item 150').encode())
    assert not matcher.advance(ord('"'))
    assert matcher.advance(ord("0"))
    assert matcher.unproven == 0


def test_no_item_follows_where_all_are_there():
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object", "maxProperties": 1}}
    schema["items"] |= {"properties": {"n": {"const": 1}}, "additionalProperties": False}
    matcher = sg.Matcher(sg.json_schema(schema, whitespace="compact"), BYTES)
    assert all(matcher.advance(byte) for byte in b'[{},{"n":1}')
    assert not matcher.advance(ord(","))
    assert matcher.witness_text() == b"]"


@pytest.mark.parametrize(
    "beside",
    [
        {"contains": {"properties": {"n": {"const": 3}}}},
        {"contains": {"properties": {"n": {"const": 2}}}, "minContains": 0, "maxContains": 0},
        {
            "anyOf": [
                {"contains": {"properties": {"n": {"const": 3}}}},
                {"items": {"properties": {"n": {"const": 1}}}},
            ]
        },
    ],
)
def test_completions_know_what_else_the_items_decide(beside):
    items = {"properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"], "additionalProperties": False}
    schema = {"uniqueItems": True, "type": "array", "maxItems": 2, "minItems": 2, "items": items, **beside}
    schema["items"]["type"] = "object"
    matcher = sg.Matcher(sg.json_schema(schema, whitespace="compact"), BYTES)
    assert all(matcher.advance(byte) for byte in b'[{"n":1},{"n":')
    rest = matcher.witness()
    if rest is None:
        assert matcher.search_failure  # the search tries few values where verdicts matter
    else:
        assert all(matcher.advance(token) for token in rest)
        assert matcher.is_complete()


def closed(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "text", "pieces"),
    [
        (
            {"uniqueItems": True, "items": {"anyOf": [closed(n={"const": 1}), {"type": "string"}]}},
            '[{"n":1},',
            [],
        ),
        ({"uniqueItems": True, "items": {"type": ["array", "string"], "maxItems": 0}}, "[[],", ["[]"]),
        (
            {"uniqueItems": True, "items": closed(n={"anyOf": [{"type": "string"}, {"const": 0}]})},
            '[{"n":0},{"n":',
            [],
        ),
        (
            {"uniqueItems": True, "items": {"type": "array", "items": {"minimum": 1}, "maxItems": 1}},
            "[[1],",
            ["[1 ", "[1\n"],
        ),
        (
            {
                "uniqueItems": True,
                "items": {"type": "object", "additionalProperties": {"const": 1}, "maxProperties": 1},
            },
            '[{"x":1},{"x',
            ['":1', "y"],
        ),
        ({"uniqueItems": True, "items": closed(n={"enum": [True, "a"]})}, '[{"n":true},{"n":', ["tr", 'e"']),
        (
            {"uniqueItems": True, "items": closed(n={"type": ["string", "array"], "maxItems": 0})},
            '[{"n":[]},{',
            ['"n":['],
        ),
        (
            {"items": {"type": "array", "items": {"type": "boolean"}}, "not": {"uniqueItems": True}},
            "[[],[",
            ["]]"],
        ),
    ],
)
def test_masks_are_single_steps_where_an_item_may_repeat(schema, text, pieces):
    tokens = [*(bytes([b]) for b in range(256)), *(piece.encode() for piece in pieces)]
    table = sg.Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    matcher = sg.Matcher(sg.json_schema({"type": "array", **schema}), table)
    assert all(matcher.advance(byte) for byte in text.encode())
    mask = matcher.mask()
    for token in range(len(tokens)):
        assert mask[token // 32] >> (token % 32) & 1 == matcher.accepts([token]), tokens[token]


def test_a_value_that_cannot_be_read_leaves_nothing_in_a_completion():
    items = closed(a={"enum": [0, 1]}, b={"enum": [1, None]})
    schema = {"type": "array", "items": items, "maxItems": 3, "not": {"uniqueItems": True}}
    matcher = sg.Matcher(sg.json_schema(schema, whitespace="compact"), BYTES)
    assert all(matcher.advance(byte) for byte in b'[{"a":1,"b":1},{"a":0,"b":1')
    rest = matcher.witness_text()
    if rest is None:
        assert matcher.search_failure
    else:
        assert all(matcher.advance(byte) for byte in rest), rest
        assert matcher.is_complete()


def test_the_last_key_in_order_may_not_come_while_keys_are_owed():
    properties = {"a": {"const": None}, "b": {"type": "integer"}, "c": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["c"], "minProperties": 2}
    matcher = sg.Matcher(
        sg.json_schema(schema | {"additionalProperties": False}, whitespace="compact", ordered=True), BYTES
    )
    assert all(matcher.advance(byte) for byte in b'{"')
    assert not matcher.advance(ord("c"))
    assert matcher.advance(ord("b"))


@pytest.mark.parametrize("values", [[1, 2], [1, 10], [0, 1.5], [100, 1000], ["a", "ab"], [False, True]])
def test_values_that_count_are_compared_with_those_that_are_there(values):
    few, many = values
    items = {"type": "array", "items": {"enum": values}, "contains": {"const": many}}
    constraint = sg.json_schema({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")
    text = json.dumps([[few, many], [few, few, many], [many], [few, few, few, many]], separators=(",", ":"))
    matcher = sg.Matcher(constraint, BYTES)
    assert all(matcher.advance(byte) for byte in text.encode())
    assert matcher.is_complete()
