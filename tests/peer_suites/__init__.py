"""The test suites of nine peers, read by structgen.

The cases are shared data: schemas, grammars and patterns, and texts that the peer takes or refuses, with their source.
`python -m tests.peer_suites` runs all of them and prints the table of docs/peer-suites.md.

    cases      the cases of a peer
    forms      a case as a constraint: the peer's defaults, said in options of structgen
    reading    texts and events through a matcher, token by token
    running    all verdicts of a suite; those that differ from the peer's
    reasons    why a verdict differs: one entry per reason
"""
