"""Read assertions about what follows a rule in XGrammar's EBNF: ``name ::= ... (= ...)``.

Why: XGrammar prints them, so its grammars contain them. They are hints for its masks, not token of the language:
XGrammar's matcher does not check them, and its documentation does not mention them. Masks are exact here without them.
Invariant: an assertion does not change the language. It is still checked: its rules must exist, its strings and classes
must be well-formed, and nothing may follow it in its rule.
"""

from __future__ import annotations

from ..bnf_reader import Reader

__all__ = ["read_assertion"]


def read_assertion(reader: Reader, position: int, end: int) -> int:
    """Check an assertion.

    Args:
        reader: The grammar.
        position: The offset of the opening sign ``(=``.
        end: The offset after that sign.

    Returns:
        The offset after the assertion.
    """
    depth, count, repeatable = 1, 0, False
    while depth:
        token = reader.next_token(end)
        if token.kind == "end":
            raise reader.fault("this assertion is not closed", position, 2, hint="Add the ) that closes it.")
        if token.kind in ("other", "rule") or token.text == "(=" or token.text in reader.macros:
            message = "an assertion may contain only texts, classes and names"
            hint = (
                "Define a rule for the alternatives, and write its name here."
                if token.text == "|"
                else "Remove the assertion."
            )
            raise reader.fault(message, token.position, max(1, len(token.text)), hint=hint)
        if token.kind == "open":
            depth += 1
        elif token.kind == "close":
            depth -= 1
        elif token.kind == "leaf":
            reader.leaf(token.text, token.position)
            count += 1
        elif token.kind == "repeat" and not repeatable:
            hint = "Put it after a text, a class, a name or a group."
            raise reader.fault(f"{token.text:.60} has nothing to repeat", token.position, 1, hint=hint)
        repeatable = token.kind in ("leaf", "close")
        end = token.end
    if not count:
        raise reader.fault("this assertion is empty", position, 2, hint="Remove it.")
    after = reader.next_token(end)
    if after.kind not in ("rule", "end"):
        message = "an assertion must be at the end of its rule"
        raise reader.fault(
            message, after.position, max(1, len(after.text)), hint="Move it to the end of the rule."
        )
    return end
