"""Processes that run hostile or unreliable work, and that their parent can stop at any time.

Why: a request's schema may take any amount of time or memory, and an engine under test may crash. Python code cannot
be stopped from another thread, but a process can be killed.

| module | holds |
|---|---|
| `spawn` | The command, the environment and the end of a Python child process. |
| `child` | What a child calls on itself: die with its parent, bound its memory, freeze its heap. |
| `priority` | Lower a process's priority, or run it only on idle processors. |
| `usage` | CPU time, memory and state of another process. |
| `handle` | A handle that kills a process which someone else forked. |
| `polling` | Wait until a pipe or a socket is readable or writable. |
| `error_output` | Pass a child's standard error on, and keep its end for error messages. |
| `frames` | Messages of raw bytes, each after its length. |
| `line_process` | A child that exchanges JSON lines with its parent. |

Invariant: nothing here knows about constraints or models. On a system that lacks a feature, such as ``/proc`` or
process descriptors, nothing fails: wall time replaces CPU time, and limits of memory are not enforced.
"""
