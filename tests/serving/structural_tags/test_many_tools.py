"""Hundreds of tools whose arguments are elements: parts that they share count once."""

import pytest

from structgen.constraints.composition import composed
from structgen.errors import LimitExceeded
from structgen.serving.requests import constraint_of


def _tools(count):
    tags = [
        {
            "type": "tag",
            "begin": f"<function=tool_{index}>\n",
            "content": {
                "type": "qwen_xml_parameter",
                "json_schema": {
                    "type": "object",
                    "properties": {
                        "when": {"type": "string", "format": "date-time"},
                        "n": {"type": "integer"},
                    },
                    "required": ["when"],
                },
            },
            "end": "</function>",
        }
        for index in range(count)
    ]
    return {
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": ["<function="], "tags": tags},
    }


def test_tools_with_the_same_format_are_small():
    few, many = (constraint_of("structural_tag", _tools(count)).tree_size() for count in (10, 60))
    assert many - few < 50 * 200
    assert few < 20_000


@pytest.mark.parametrize("is_xml", [False, True])
def test_expressions_are_bounded_as_trees(monkeypatch, is_xml):
    monkeypatch.setattr(composed, "_TREE_PER_PART", 1)
    tags = _tools(60)
    branches = "|".join(f"[a-c]{n}x*y" for n in range(500))
    for index, tag in enumerate(tags["format"]["tags"]):
        if is_xml:
            when = {"type": "string", "pattern": f"^({branches})z{index}$"}
            tag["content"]["json_schema"]["properties"]["when"] = when
        else:
            tag["content"] = {"type": "regex", "pattern": f"({branches})z"}
    with pytest.raises(LimitExceeded) as caught:
        constraint_of("structural_tag", tags)
    assert caught.value.limit == "constraint_parts"
