"""The intermediate representation (IR): what front ends build and the core's bindings read.

A constraint lowers itself to a plan (`ir.plan`), which holds regular expressions (`ir.regex`), grammars (`ir.grammar`)
and JSON Schemas (`ir.schema`). All of it is frozen data: tuples, and dicts that do not change after they are built. The
types exist for readers and type checkers; a node costs one tuple at run time.

`docs/ir.md` describes every node with an example. The C++ readers in `structgen/_core/bind/` check each shape and
name the node that is malformed.
"""
