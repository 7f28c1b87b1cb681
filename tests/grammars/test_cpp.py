"""The shelf's C++ is C++17 as it is written."""

from __future__ import annotations

import pytest

from tests.grammars.reading import assert_accepted, assert_rejected

ACCEPTED_FILES = [
    "", "// a\n/* b */",
    "#include <vector>\n#define A(x, ...) \\\n  x\n#if A > 1 && defined(B)\n#endif\nint x;",
    "int a, *b = &a, &c = a, d[3] = {1, 2, 3};",
    "unsigned long long a = 0xFFull; long double b = 1.5e-3L;",
    "const char* const a = \"b\" \"c\\n\"; auto d = u8\"e\", f = L'g';",
    'auto a = R"(b "c" )d)"; auto e = R"json({"a": 1})json";',
    "auto a = 1'000'000; auto b = 0b1010; auto c = .5f;",
    "namespace a::b { inline namespace c { int d; } } namespace e = a::b;", "namespace { static int a; }",
    "using namespace std; using std::vector; using A = int (*)(int, ...);",
    "typedef struct A { int b; } C;", "template <typename T, class... U> using A = B<T, U...>;",
    'extern "C" { int a(void); } extern "C" int b();', 'static_assert(sizeof(int) == 4, "a");',
    "enum A { B, C = 1 << 2, }; enum class D : unsigned char { E }; enum F : int;",
    "struct A; class B final : public C, private virtual D<int> {};",
    (
        "class A { public: A() = default; explicit A(int a) : b(a), c{a} {} ~A(); A(const A&) = "
        "delete; A& operator=(A&&) noexcept; virtual void d() const = 0; void e() override; static "
        "int f; mutable int g = 1; int h : 3; friend class B; friend bool operator==(const A&, "
        "const A&); operator bool() const; template <typename T> void i(T&&) &&; using B::B; "
        "private: int b, c; };"
    ),
    "template <> struct A<int*> { static constexpr bool value = true; };",
    "template <typename T, typename = std::enable_if_t<(sizeof(T) > 1)>> void f(T);",
    "template <template <typename...> class A, int N = 3, typename T> T f(A<T>& a);",
    "template class std::vector<int>; extern template class A<int>;",
    "int f(int, char* = nullptr, const A& a = {}, ...);", "auto f() -> decltype(a + b) { return a; }",
    "int (*f(int))[3]; void (A::*g)(int) const = &A::h;", "int main(int argc, char** argv) { return 0; }",
    "A::A(int b) try : c(b) {} catch (...) {}",
    "A<T>::~A() {} template <class T> typename A<T>::B A<T>::f() const { return {}; }",
    (
        'A operator""_a(const char*); A operator+(A, A); bool operator()(int) const; void* '
        'operator new[](size_t);'
    ),
    "[[nodiscard]] int f(); [[gnu::format(printf, 1, 2)]] void g(const char*, ...);",
    "alignas(16) int a; thread_local int b; __attribute__((noinline)) void c();",
    (
        "template <typename T> concept A = requires(T a) { { a.b() } -> B<int>; typename T::C; }; "
        "template <A T> requires (sizeof(T) > 1) void f(T);"
    ),
    "class API A { void b() NOEXCEPT; Q_OBJECT };", 'TEST(A, B) { EXPECT_EQ(1, 2) << "c"; }',
    'TEST_CASE("a") { SECTION("b") { CHECK(c); } }', "BEGIN_NAMESPACE\nint a;\nEND_NAMESPACE\n",
    "auto [a, b] = c;", "A(int) -> A<int>;", "union A { int b; float c; };",
]  # fmt: skip

ACCEPTED_STATEMENTS = [
    "a = b ? c : d, e += 1;", "a<b>(c); a < b; a<b<c>>::d(e);", "a >> b; a >>= b; x<y<z>> w;",
    "int a(1), b{2}; std::vector<int> c{1, 2}; A d = {.e = 1};", "for (int i = 0; i < 10; ++i) a[i]++;",
    "for (auto& [a, b] : c) {} for (auto x : {1, 2}) ; for (;;) break;",
    "if (int a = b(); a > 0) c(); else if constexpr (d) {} else e();",
    "switch (a) { case 1: case B::C: d(); break; default: ; }",
    "while (a) continue; do { b; } while (c);",
    "try { throw A(1); } catch (const std::exception& e) { throw; } catch (...) {}",
    "auto a = [&, b, c = std::move(d), this](auto&&... e) mutable -> int { return f(e...); };",
    "auto a = [] {}; [=](int) {}(1);", "a = (int)b + static_cast<float>(c) + int(d) + A{e}.f;",
    "delete[] a; ::new (p) A(1); auto b = new int[3]{1, 2, 3};",
    "(a->*b)(c); (d.*e)(); f.template g<int>(h);", "return (... + args) + (args && ...);",
    "goto end; end: return;",
    "sizeof(int); sizeof a; sizeof...(b); alignof(C); noexcept(d()); typeid(e);",
    "a = !b && ~c || not d and -*e;", "static const int a[] = {1, [](int b) { return b; }(2)};",
    "co_await a; co_yield b; co_return c;", "a.~A(); p->~B<int>(); x = y <=> z;",
    'printf("%" PRIu64 "\\n", a);', 'asm volatile("nop" : : "r"(a) : "memory");',
    "if (a) if (b) c; else d;", "unsigned a; const auto* b = &a; int const& c = a; A::B<C>::D e;",
]  # fmt: skip

REJECTED_FILES = [
    "int a‸", "int a ‸b;", "int‸;;int a = ;", "int if‸;", "void void‸ f();", "int a[‸;", "int a(‸;",
    "f( ‸{}", "int f() { return 1 ‸}", "int f() {‸", "‸}", "class A { int b ‸}; ", "class A {}‸",
    "class { public ‸int a; };", "struct A : ‸{ };", "enum A { B C‸ };", "enum A { B = ‸};",
    "namespace a { ‸", "namespace a‸.b {}", "template <typename T int‸ a;", "using A = ‸;",
    "using namespace‸;", "#includ‸ <a>\n", "int a; ‸#define b\n", "# ‸1 2 3 a b\nint", "#define‸\n",
    "#include foo ‸bar\n", '‸"a', "‸'a", "int a = 1‸a;", "int a = 0x‸;", "int a = 1.‸.2;",
    'auto a = R"(b;‸', "/* a‸", "int a = ‸`b`;", "int ‸@a;", "public‸: int a;", "case‸ 1: a;",
    'extern "C" {‸', "typedef int‸;;a b", "struct A { A() : ‸{ } };", "operator+(A);;‸+", "int a{1;‸",
    "void f() { do a; while (b) ‸}", "void f() { try { } ‸}",
]  # fmt: skip

REJECTED_STATEMENTS = [
    "a b ‸c;", "a +‸;", "a = ‸;", "(a‸;", "a‸);", "a[1‸;", "f(a,‸, b);", "f(a b‸);", "if ‸a { }",
    "if (a) else‸ b;", "else‸ a;", "for (a‸) b;", "for (;‸) {}", "for (int a : ‸) {}", "while (‸) a;",
    "switch (a) { case :‸ b; }", "catch‸ (a) {}", "return return‸;", "a ? b‸;", "a ? b : ‸;",
    "[a (b) ‸{}", "[&](int a ‸{ }", "int a = {1, 2‸;", "new‸;", "a..‸b;", "a->‸;", "a.‸1;",
    "static_cast<int> ‸a;", "throw a b‸;", "goto‸;", "sizeof‸;", "template ‸<int> a;", "a &&& ‸= b;",
    "x = y ‸z;", "int ‸1a;", "break ‸a;", "int a = 1, ‸;", "int a ‸1;",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED_FILES)
def test_accepted_files(text: str) -> None:
    assert_accepted("cpp", text)


@pytest.mark.parametrize("text", ACCEPTED_STATEMENTS)
def test_accepted_statements(text: str) -> None:
    assert_accepted("cpp", f"void f() {{ {text} }}")


@pytest.mark.parametrize("text", REJECTED_FILES)
def test_rejected_files(text: str) -> None:
    assert_rejected("cpp", text)


@pytest.mark.parametrize("text", REJECTED_STATEMENTS)
def test_rejected_statements(text: str) -> None:
    assert_rejected("cpp", f"void f() {{ {text} }}")
