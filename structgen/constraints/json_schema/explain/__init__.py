"""Explanations of JSON Schemas: why a text breaks it, why nothing satisfies it, what `check` reports.

Nothing here is needed to compile a schema. The modules read the compiler's IR (`structgen.ir.schema`), and the core
decides whether variants of it accept a text, or any value at all.

`report`             what becomes of each keyword: `structgen.check`
`broken_rules`       the keywords without which a rejected text could go on
`contradictions`     the keywords of an empty sub-schema that contradict each other
`endless_cycles`     sub-schemas that require values of unlimited depth
`schema_values`      which value of the text each sub-schema applies to
`relevant_branches`  unions reduced to the branches that matter at a position
`embedded_values`    the JSON value inside a longer text
`document_order`     the order in which a report lists its findings
"""
