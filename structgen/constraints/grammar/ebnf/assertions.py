"""Assertions about what follows a rule, in XGrammar's EBNF: ``name ::= ... (= ...)``.

Why: XGrammar prints them, and its grammars hold them. They are hints for its masks, not part of the language: the
matcher of XGrammar does not check them, and its documentation does not mention them. Masks are exact here without them.
Invariant: an assertion changes no text. It is read as strictly as the rest: its rules must exist, its strings and
classes be well-formed, and nothing may follow it in its rule.
"""

from __future__ import annotations

from ..bnf_reader import Reader

__all__ = ["read_assertion"]


def read_assertion(reader: Reader, position: int, end: int) -> int:
    """Check an assertion.

    Args:
        reader: The grammar.
        position: Of the opening sign ``(=``.
        end: Where that sign ends.

    Returns:
        Where the assertion ends.
    """
    depth, count, repeatable = 1, 0, False
    while depth:
        part = reader.next_part(end)
        if part.kind == "end":
            raise reader.fault("this assertion is not closed", position, 2, hint="Add the ) that closes it.")
        if part.kind in ("other", "rule") or part.text == "(=" or part.text in reader.macros:
            message = "an assertion is a sequence of texts, classes and names"
            hint = (
                "Make a rule of the rest, and name that rule."
                if part.text == "|"
                else "Leave the assertion out."
            )
            raise reader.fault(message, part.position, max(1, len(part.text)), hint=hint)
        if part.kind == "open":
            depth += 1
        elif part.kind == "close":
            depth -= 1
        elif part.kind == "leaf":
            reader.leaf(part.text, part.position)
            count += 1
        elif part.kind == "repeat" and not repeatable:
            hint = "Put it after a text, a class, a name or a group."
            raise reader.fault(
                f"there is nothing that {part.text:.60} could repeat", part.position, 1, hint=hint
            )
        repeatable = part.kind in ("leaf", "close")
        end = part.end
    if not count:
        raise reader.fault("this assertion is empty", position, 2, hint="Leave it out.")
    after = reader.next_part(end)
    if after.kind not in ("rule", "end"):
        message = "an assertion stands at the end of its rule"
        raise reader.fault(
            message, after.position, max(1, len(after.text)), hint="Move it to the end of the rule."
        )
    return end
