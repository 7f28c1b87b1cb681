"""The shelf's Solidity is what solc's parser takes."""

from __future__ import annotations

import pytest

from bench.corpora import cache_folder
from bench.corpora.solidity import is_valid
from tests.grammars.reading import MARK, assert_accepted, assert_rejected

_FETCHED = (cache_folder() / "npm" / "solc@0.8.37").exists()
needs_solc = pytest.mark.skipif(not _FETCHED, reason="`python -m bench.shelf solidity` fetches the compiler")

PLACES = {
    "file": "{}",
    "member": "contract C {{ {} }}",
    "statement": "contract C {{ function f() public {{ {} }} }}",
    "yul": "contract C {{ function f() public {{ assembly {{ {} }} }} }}",
}


ACCEPTED_FILE = [
    "", "// a", "/* a\n * b **/", "pragma solidity ^0.8.0;", "pragma solidity >=0.8.0 <0.9.0;",
    "pragma solidity 0.7.0 || ^0.8.0;", "pragma solidity 0.8.0 - 0.9.0;", "pragma solidity = 0.8.x;",
    "pragma abicoder v2;", "pragma experimental ABIEncoderV2;", 'import "a";', 'import "a" as b;',
    "import * as a from 'b';", 'import {a, b as c} from "d";', "uint constant a = 1;",
    "function f() pure returns (uint) {}", "struct S { uint a; mapping(uint => uint) m; }",
    "enum E { A, B }", "type T is uint;", "error E(uint a, address);",
    "event E(uint indexed a, uint) anonymous;", "using A for B global;", "using {a, b.c as +} for C;",
    "contract C is A, B(1) layout at 0x12 {}", "contract C layout at 1 + 2 is A {}",
    "abstract contract C {}", "interface I is A { function f(); }", "library L { fallback() external; }",
    "contract from { uint error; error revert(uint at); }",
]  # fmt: skip

ACCEPTED_MEMBER = [
    "uint public constant a = 1;", "uint private override(A, B.C) a;", "uint transient public a;",
    "string constant x = 'a' \"b\";",
    (
        "function f(uint[] memory a, string calldata) external view virtual override(A) returns "
        "(bytes memory b);"
    ),
    "function f() a.b(1) public c virtual d {}", "constructor(uint a) A(1) B payable {}",
    "modifier m() virtual override { _; }", "modifier m virtual;", "receive() external payable {}",
    "fallback(bytes calldata a) external returns (bytes memory) {}",
    "function(uint) external returns (uint)[] f;", "mapping(address a => mapping(uint => T) b) public m;",
    "address payable[] a;", "uint[2 ** 3][] a;", "using L for *;", "bytes32[2] internal a;",
]  # fmt: skip

ACCEPTED_STATEMENT = [
    "a.b[3] memory c;", "(uint a, , uint b) = f();", "(a, , b) = c;", "x = a ? b : c ? d : e;",
    "x = -a ** b << 2 >>> 1;", "x = new uint[](3);", "x = new A.B{salt: 1}(2);", "f({a: 1, b: 2});",
    "f{value: 1, gas: 2}(3)[4].g();", "x = type(uint256).max;", "x = payable(b).balance;",
    "x = a[1:]; y = a[:2]; z = a[:];", "x = f.address;", "delete a[1];", "x = 1_0.5_1e1_0 * .5 ether;",
    "x = 0xAb_cd;", "x = hex'ab_cd' hex\"\" ;", "x = unicode\"é\" unicode'ü';", 'x = "\\x41\\u0041\\n";',
    "x = [1, [2, 3]];", "if (a) b; else if (c) { d; } else {}", "for (uint i = 0; i < 2; ++i) x--;",
    "for (;;) {}", "do x; while (a);", "unchecked { x += 1; unchecked {} }", "emit A.B(1);",
    "revert E({a: 1});", 'revert("a");',
    "try a.f() returns (uint x) {} catch Error(string memory e) {} catch (bytes memory b) {} catch {}",
    'assembly ("memory-safe") {}', 'assembly "evmasm" {}', "return (1, 2);", "x = 1 /* a */ days;",
    "int.wrap(x); uint8(y); bytes.concat(a, b);",
]  # fmt: skip

ACCEPTED_YUL = [
    "let x", "let x, y := f(1, g())", "x.slot := sload(y.offset)", "let x.slot := 1",
    "if lt(a, b) { leave_() }", 'switch x case 0 {} case "a" {} default { revert(0, 0) }',
    "for { let i := 0 } 1 { i := add(i, 1) } { if i { break } continue }",
    "function f(a, b) -> c, d { leave } pop(f(1, 2))",
    "let contract := 0x1F let mapping := hex'ab' let after := byte(1, 2) y := true", "{ { } }",
    "return(0, 32)",
]  # fmt: skip

REJECTED_FILE = [
    "pragma solidity‸;", "pragma solidity 0‸8.1;", "pragma solidity ^0.8.0‸", 'import {a,‸} from "b";',
    "import ‸a from 'b';", 'import "‸";', "uint a‸", "contract C {‸", "contract C is ‸{}",
    "contract C layout at 1 ‸layout at 2 {}", "contract C {}‸;", "enum E {‸}", "event E‸;",
    "‸\ufeffcontract C {}", "/* a‸", "using {a as &‸&} for C;", "function f() {} modifier‸ m {}",
    "contract ‸é {}", 'contract C { function f() public { x = "a } }‸',
    "contract C { function f() public { try a.f() {} ‸} }",
    "contract C { function f() public { do {} while (a) ‸} }",
    "contract C { function f() public { assembly { switch x ‸} } }",
    "contract C { function f() public { assembly { x := ‸} } }",
    "contract C { function f() public { assembly { x := add ‸} } }",
    "contract C { function f() public { assembly { f ‸} } }",
]  # fmt: skip

REJECTED_MEMBER = [
    "uint public public‸ a;", "uint constant immutable‸ a;", "uint external‸ a;",
    "function f() virtual virtual‸;", "function f() pure view‸;", "function f() override a override‸(B);",
    "function f() returns (‸) {}", "function f() returns (uint) ‸public {}",
    "function f(uint indexed‸ a);", "function f(uint a ‸b);", "struct S { uint a ‸}",
    "modifier m() ‸public {}", "mapping(uint‸[] => uint) m;", "uint a = 1;‸;", "uint byte‸;", "uint if‸;",
    "enum E { A, ‸}", "contract‸ D {}",
]  # fmt: skip

REJECTED_STATEMENT = [
    "x = 0‸1;", "x = 0x‸g;", "x = 1e‸ther;", "x = 1.‸;", 'x = "‸é";', 'x = "\\‸q";', 'x = hex"abc‸";',
    "x = 'a' ‸unicode'b';", "f({a: 1,‸});", "f(1,‸);", "f{‸}();", "x = [1,‸];", "a++ +‸+;", "x = +‸a;",
    "a =‸> b;", "x = payable‸;", "x = a.emit‸;", "if (a) unchecked‸ {}", "if ‸a {}", "emit A‸;",
    "uint storage memory‸ x;", "var‸ x = 1;", "for (uint i = 0; i < 2; ++i)‸;", "x = a ‸b;", "let‸ x;",
    "return ‸}",
]  # fmt: skip

REJECTED_YUL = [
    "let function‸ := 1", "let x := 0‸1", "let x := 1‸_0", "let x := 1‸e5", "x ‸= 1", "x‸;", "if x ‸f()",
    "switch x default {} case‸ 1 {}", "function f() -> ‸{}", "let x := 1‸let y := 2", "let add ‸:= 1",
    "let hex‸ := 1", "let x := f(1,‸)", "let x := ‸-1",
]  # fmt: skip

ACCEPTED = [
    PLACES[place].format(text)
    for place, texts in {
        "file": ACCEPTED_FILE,
        "member": ACCEPTED_MEMBER,
        "statement": ACCEPTED_STATEMENT,
        "yul": ACCEPTED_YUL,
    }.items()
    for text in texts
]
REJECTED = [
    PLACES[place].format(text)
    for place, texts in {
        "file": REJECTED_FILE,
        "member": REJECTED_MEMBER,
        "statement": REJECTED_STATEMENT,
        "yul": REJECTED_YUL,
    }.items()
    for text in texts
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert_accepted("solidity", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("solidity", text)


@needs_solc
def test_solc_has_the_same_verdicts() -> None:
    assert [text for text in ACCEPTED if not is_valid(text)] == []
    assert [text for text in REJECTED if is_valid(text.replace(MARK, ""))] == []
