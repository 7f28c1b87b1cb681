"""The cold tail: first masks and slow masks of structgen, llguidance and XGrammar on schemas that are new to them.

A mean over data on which an engine was tuned hides the cost of a user's first request. The schemas are those of
`bench.schemas`, tuned and untuned ones apart, and the fixed constraints of `bench.cold.section_b`.

`worker` is one engine in its own process, which reads records and writes times. `measuring` sends it the records,
limits its time and memory, and starts it again if it dies. `report` makes the tables. `__main__` is the command.

Invariant: all engines read the same tokens of the same texts. A figure covers the schemas that every engine accepts
with all their instances. Times are CPU time of one thread.
"""
