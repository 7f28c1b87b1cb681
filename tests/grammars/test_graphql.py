"""The shelf's GraphQL is that of October 2021, with Unicode as later editions have it."""

from __future__ import annotations

import pytest

from tests.grammars.reading import assert_accepted, assert_rejected

EXECUTABLE = [
    "{a}", "query{a}", "query a{b}", "{a b,c\n#d\n e}", "{a:b}", "{a{b{c}}}", "{type query:on true:null}",
    "query query($a: [Int!]! = [1] @b, $c: D) @e(f: $a) {g}", "mutation {a} subscription b {c}",
    "{a(b: 1, c: -0 d: 1.5e+3 e: 1E5) @f @g(h: true)}", '{a(b: {c: [null, RED, on, "d"], e: {}}, f: [])}',
    "{...a ...b @c ...on D{e} ... @f{g} ...{h}}", "fragment a on on @b {c}",
    "fragment type on fragment {fragment}",
    '{a(b: "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\\u{1F600}\\u{0}" c: "")}',
    '{a(b: "é\U0001f600\t" c: """""")}', '{a(b: """ "" \\""" \\ " \\" \\\\ "x"" \n\\n""")}', "\ufeff{a}",
    "{a}#", "{a(b:[1,2 3]c:$d)}", "{a}{b}", '{a(b:"""\\"""""")}',
]  # fmt: skip

SCHEMAS = [
    "schema {query: A mutation: B}", '"a" schema @b {query: C}', "extend schema @a",
    "extend schema {subscription: A}", "scalar A", 'scalar A @b(c: "d")', "extend scalar A @b", "type A",
    '"""b"""type A', "type A {b: C}", "type A implements B",
    "type A implements & B & C @d {e(f: G = 1 @h, i: [J!]!): [K] @l}", "extend type A implements B",
    "extend type A {b: C}", "type type {type: type implements: Int}",
    "type A {\"b\" c: D \"e\" f(\"g\" h: I): J}", "interface A implements B {c: D}", "union A",
    "union A = B", "union A @b = | C | D", "extend union A = B", "extend union A @b", "enum A",
    "enum A {B C @d}", 'enum on {"b" on}', "extend enum A {B}", "input A {b: C = {d: 1} @e}",
    "extend input A @b", "directive @a on QUERY", "directive @a(b: C) repeatable on | FIELD | ENUM_VALUE",
    "type A type B {c: D}", "enum A {b} {c}", "scalar A {b}", "union A = B {c}",
    "directive @a on FIELD {b}", "type A scalar B {c}", "extend schema @a {query: B}",
    "interface A enum B {C}",
]  # fmt: skip

REJECTED = [
    "‸", "#a‸", "{‸", "{‸}", "{a‸", "{a}‸}", "{a:‸}", "{a(‸)}", "{a(b‸)}", "{a(b:‸)}", "{a(b:c d‸)}",
    "query‸", "query a ‸b {c}", "{‸1}", "query($a‸){b}", "query(‸a:B){c}", "query($a:B=‸$c){d}",
    "query($a:B!‸!){c}", "query($a:B @c(d:‸$e)){f}", "query(‸){a}", "{...‸}", "{...on‸}", "{...on B‸}",
    "{... @a‸}", "fragment on‸ on A{b}", "fragment a‸{b}", "fragment a on B‸", "{a @‸}", "{a(b:{c‸})}",
    "{a(b:0‸1)}", "{a(b:-‸)}", "{a(b:1.‸)}", "{a(b:‸.5)}", "{a(b:1e‸)}", "{a(b:‸+1)}", "{a(b:1‸a)}",
    "{a(b:[1‸_])}", "{a(b:[0‸0])}", "{a(b:[1.5‸.5])}", "{a(b:[0‸xF])}", '{a(b:")}‸', '{a(b:"‸\n")}',
    '{a(b:"\\‸x")}', '{a(b:"\\u00‸g0")}', '{a(b:"\\uD83D‸")}', '{a(b:"\\u{11000‸0}")}', '{a(b:"\\u{‸}")}',
    '{a(b:[""""])}‸', '{a(b:["""c"])}‸', '{a(b:"""c\\""")}‸', '{a(b:""""""‸")}', "{a(b:‸'c')}", "{a.‸b}",
    "{a‸;b}", "{a..‸b}", "schema {‸}", "schema {‸a: B}", "extend schema‸", "type‸", "type A {‸}",
    "type A {b‸}", "type A {b(‸): C}", "type A {b(c‸): D}", "type A {b‸}", "type A @b {c‸}",
    "extend type A‸", "extend interface A {b‸}", "type A implements‸", "type A implements B ‸C",
    "enum A {true‸}", "enum A {‸}", "union A =‸", "union A = |‸", "union A = B |‸", "input A {b‸(c: D): E}",
    "directive @a‸", "directive @a on‸", "directive @a on A‸", "directive ‸a on QUERY", '"a" ‸{b}',
    '"a" e‸xtend type B {c: D}', '"a" ‸query {b}', "interface A {b‸}", "enum A type B {c‸}",
    "type A {b: [C‸}", "extend ‸directive @a on FIELD",
]  # fmt: skip


@pytest.mark.parametrize("text", EXECUTABLE + SCHEMAS)
def test_accepted(text: str) -> None:
    assert_accepted("graphql", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("graphql", text)
