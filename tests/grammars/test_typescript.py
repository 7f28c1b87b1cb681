"""The shelf's TypeScript is what the TypeScript compiler's parser takes."""

from __future__ import annotations

import pytest

from bench.corpora import cache_folder
from bench.corpora.typescript import is_valid
from tests.grammars.reading import MARK, assert_accepted, assert_rejected

_FETCHED = (cache_folder() / "npm" / "typescript@5.9.3").exists()
needs_typescript = pytest.mark.skipif(
    not _FETCHED, reason="`python -m bench.shelf typescript` fetches the compiler"
)


ACCEPTED = [
    "", "#!/usr/bin/env node\nf()", "// a", "/* a */", "a", "a;", "a\nb", "a\n  .b\n  .c()", "a\n(b)",
    "a = b\n/c/d", "a\n++b", "{ a }", "if (a) b\nelse c", "if (a) { b } else if (c) d; else {}",
    "for (;;) {}", "for (const x of y) z", "for await (const x of y) {}",
    "for (const k in o) if (k) break", "do x(); while (y)", "while (1) continue", "a: for (;;) break a",
    "switch (a) { case 1: case 2: b(); break; default: c }", "try { a } catch { b } finally { c }",
    "try { a } catch (e: unknown) { b }", "throw new Error(`a${b}c`)", "debugger", "return1()",
    "var a, b = 1", "let { a, b: [c = 1, , ...d], ...e } = f", "const a: number = 1, b = <T>c",
    "a = b ? c : d ? e : f", "a ??= b?.c?.[d]?.(e)!", "a = b as const satisfies C<D>", "x = y as A | B",
    "(a, b)", "a < b && c > d", "a < b | c", "f<A, B[]>(c)", "f<A<B<C>>>(d)", "new Map<string, Set<A>>()",
    "new A", "new a.b<C>(d).e", "a >> b >>> c", "a >>= b; c >>>= d", "a ** -b",
    "!a, ~b, -c, +d, typeof e, void 0, delete f.g", "a++ + ++b", "x = /[/\\]]+\\/(?<a>b)/giu.test(y)",
    "x = a / b / c", "x = a /* c */ / b", "`a ${b} c ${`d${e}`} f`", "tag`a${ {a: 1}.a }b`",
    "`${() => { return 1 }}`", "0x1F + 0b1_0 + 0o17 + 1_000n + .5e-3 + 1. + 1..toFixed()",
    "'a\\'\\\nb' + \"\\u{1F600}\"",
    (
        "x = { a, b: 1, 'c': 2, [d]: 3, 4: 5, ...e, if: 6, get f() { return 1 }, set f(v) {}, "
        "async *g() {}, async: 1, get: 2 }"
    ),
    "x = [1, , ...a, ]", "(a) => b", "a => ({})",
    "async (a: T, b?: U, ...c: V[]): Promise<W> => { await d }", "<T,>(a: T) => a", "async x => await x",
    "function f() {}",
    "function* g<T extends U = V>(this: A, { a }: B = {}, ...c): asserts a is T { yield* d; yield }",
    "async function f(): Promise<void>", "x = function () {}", "class A {}",
    (
        "abstract class A<T> extends B<C> implements D, E { a = 1; static b?: number; readonly c!: "
        "string\n #d\n private e: T; constructor(private x: A, y?: B) { super() } get f() { return "
        "1 } set f(v) {} static { a } async *g() {} [h]() {} abstract i(): void; declare j; "
        "override k() {} [key: string]: any; if() {} }"
    ),
    "@A() @b.c class D { @E() f; @g h(@I() j) {} }",
    "class A { static async = 1; get; set; get x() { return 1 } }", "x = class extends y(z) {}",
    (
        "interface A<T> extends B, C<D> { a: 1; b?: 2, readonly c: 3\n d(): e; <T>(x): y; new (x): "
        "y; [k: string]: any; get f(): T; new: 1; 'g-h': 1 }"
    ),
    "interface A {\n a: string\n <B>(c): d\n}", "type A = B | C & D",
    "type A<in out T extends B = C> = T extends (infer U extends D)[] ? U : never",
    "type A = { readonly [K in keyof T as `x${K}`]-?: T[K] }",
    "type A = [a: B, c?: D, ...E[]] | readonly F[] | unique symbol",
    "type A = (a: B, ...c) => d is E; type F = new () => G; type H = abstract new () => I",
    "type A = typeof a.b | import('c').D<E> | typeof import('f') | -1 | 'g' | `h${I}`",
    "type A =\n  | B\n  | C", "type A = B[C]['d'][]", "type type = string",
    "enum A { B, C = 1 << 2, 'D' }", "const enum A {}", "declare enum A {}",
    "namespace A.B { export const c = 1 }", "declare module 'a' { export = b }", "declare module 'a'",
    "declare global { interface A {} }", "declare const a: b, c: d",
    "declare function f(a: b): c\ndeclare class D { e(): f }",
    "function f(a: A): B\nfunction f(a) { return a }", "import 'a'", "import a from 'b'",
    "import * as a from 'b'", "import a, { b, c as d, default as e, type f } from 'g'",
    "import type { A } from 'b'", "import a = require('b')", "import A = B.C",
    "import a from 'b' with { type: 'json' }", "import('a').then(b); import.meta.url", "export {}",
    "export { a, b as c, d as default }", "export * from 'a'", "export * as a from 'b'",
    "export type { A } from 'b'", "export const a = 1", "export default a",
    "export default function () {}", "export default abstract class {}", "export default interface A {}",
    "export = a", "export as namespace a", "export declare function f(): a", "export abstract class A {}",
    "export import a = b.c", "async () => { for await (const x of y) {} await using a = b }",
    "using a = b", "let as = of, from = get", "a.if.class.new", "a!.b!()", "x = y!", "({ a = 1 } = b)",
    "[a, b] = [b, a]", "label: { break label }", "f(async function () {}, class {})", "new.target",
    "a satisfies B", "if (a)\n  b\n", "let x\nlet y", "return\n", "a = b // c\n  + d", "a /* \n */ b",
    "x = y\n\n\n/* c */ // d\nz", "function f(x: unknown): x is string {}", "let f: (a) => b",
    "let a: A.B.C<D>[]", "({}).a", "é = ü", "(x as any) = 1", "let x: { a: 1\n b: 2 }", "switch (x) {}",
]  # fmt: skip

REJECTED = [
    "a b‸", "a +‸", "(a‸", "a‸)", "f(a,‸, b)", "let if‸ = 1", "let x ‸y", "x = if‸", "a inb‸", "1a‸",
    "x = 1 ‸2", "'a‸", "'a‸\nb'", "`a${b‸", "`a${b c‸}`", "x = /a‸", "x = [1 ‸2]", "x = {a: 1 b‸: 2}",
    "x = {a: ‸}", "{ a‸", "‸}", "if ‸a b", "if (a) b else‸", "for (a‸) b", "for (;‸) {}", "while (‸) a",
    "do a‸", "switch (a) { ‸b }", "try { a }‸", "catch‸ (a) {}", "throw‸", "var a‸.b",
    "const { a: ‸} = b", "a ? b‸", "a => ‸", "(a b‸) => c", "() =‸ > a", "function ‸() {}",
    "function f( {}‸", "function f(a,‸, b) {}", "class A { a ‸b }", "class A { constructor( ‸}",
    "class A { a: ‸}", "interface A { a: 1 b‸: 2 }", "interface ‸{ }", "type A‸", "type A =‸",
    "type A = B |‸", "type A = { [K in ‸] }", "type A = [a b‸]", "type A = B extends C‸",
    "type A = (a: B) => ‸", "enum A { B ‸C }", "enum ‸{ }", "namespace ‸{ }", "import a ‸'b'",
    "import { a ‸b } from 'c'", "import from ‸'a'", "import { if ‸} from 'a'", "export‸", "export { a‸",
    "export default‸", "a.‸1", "a.‸.b", "a?.‸", "new‸", "a = ‸", "‸= a", "a ===‸= b", "x as‸", "f<A,‸>(b",
    "@‸", "#a b‸", "async a ‸b", "a `b‸", "let a: ‸", "let a: A.‸", "let a: [‸", "/* a‸", '"\\‸',
    "x = { get a ‸}", "else‸ a", "x = y z‸", "import x fromy‸",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert_accepted("typescript", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("typescript", text)


@needs_typescript
def test_the_compiler_has_the_same_verdicts() -> None:
    assert [text for text in ACCEPTED if not is_valid(text)] == []
    assert [text for text in REJECTED if is_valid(text.replace(MARK, ""))] == []
