"""The cold tail: first masks and slow masks of structgen, llguidance and XGrammar on schemas that are new to them.

Why: a mean over data on which an engine was tuned hides what a user's first request costs. The schemas are those of
`bench.schemas`, tuned and untuned apart, and the examples of `bench.cold.section_b`.
What: `worker` is one engine in a process of its own, which reads records and writes times. `measuring` feeds it, limits
its time and memory, and starts it again where it dies. `report` makes the tables. `__main__` is the command.
Invariant: all engines read the same tokens of the same texts. A figure covers the schemas that every engine takes with
all their instances. Times are CPU time of one thread.
"""
