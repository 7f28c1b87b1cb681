"""The argument parser of all commands: it suggests names for misspelt ones, and makes long help when it is needed."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeAlias

__all__ = ["Commands", "Parser"]

_CUTOFF = 0.6


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that suggests names; its sub-parsers are of this class, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._given: list[str] = []
        self._fill: Callable[[], None] | None = None

    def fill_later(self, fill: Callable[[], None]) -> None:
        """Call `fill`, which adds arguments, once they are needed.

        Why: defaults in the help come from modules that take long to import, and every command makes all parsers.
        """
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; raise an error here for unknown ones, since this parser knows similar names."""
        self._filled()
        self._given = [str(argument) for argument in args or ()]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return parsed, unknown

    def format_help(self) -> str:
        """Return the help, with the arguments that are added late."""
        self._filled()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with the status 2. A misspelt option is named, too: it may be why another one is missing."""
        if message == "the following arguments are required: COMMAND":
            listed = (
                next(
                    action for action in self._actions if isinstance(action, argparse._SubParsersAction)
                ).choices
                or ()
            )
            message = f"give a command: {', '.join(listed)}; {self.prog} --help says what each does"
        unknown = self._find_unknown_options(self._given)
        if unknown and message.startswith(("the following arguments are required", "one of the arguments")):
            message = f"{self._describe_unknown(unknown)}; {message}"
        super().error(message)

    def _filled(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill()

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        options = self._find_unknown_options(unknown)
        super().error(
            self._describe_unknown(options) if options else f"unexpected arguments: {' '.join(unknown)}"
        )

    def _find_unknown_options(self, given: Iterable[str]) -> list[str]:
        """Return the options among these arguments that do not exist."""
        known = self._option_string_actions
        unknown: list[str] = []
        for argument in given:
            if argument == "--":
                break
            name = argument.partition("=")[0]
            is_long = name.startswith("--") and not any(option.startswith(name) for option in known)
            is_short = name[:1] == "-" and name[1:2].isalpha() and name[:2] not in known
            if is_long or is_short:
                unknown.append(name)
        return unknown

    def _describe_unknown(self, options: Sequence[str]) -> str:
        messages = []
        for name in options:
            near = _near(name, [option for option in self._option_string_actions if option.startswith("--")])
            messages.append(f"there is no option {name}{near}")
        return "; ".join(messages)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Convert the values of an argument; the error for one that is not a number says so in words."""
        try:
            return super()._get_values(action, arg_strings)
        except argparse.ArgumentError as error:
            for kind, wanted in (("int", "a whole number"), ("float", "a number")):
                start = f"invalid {kind} value: "
                if error.message.startswith(start):
                    raise argparse.ArgumentError(
                        action, f"{error.message.removeprefix(start)} is not {wanted}"
                    ) from None
            raise

    def _check_value(self, action: argparse.Action, value: object) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        what = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
        listed = ", ".join(names)
        raise argparse.ArgumentError(
            None if what == "command" else action,
            f"there is no {what} {str(value)!r:.60}{_near(str(value), names)} (choose from {listed})",
        )


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""The object that commands add their parsers to."""


def _near(name: str, names: Iterable[str]) -> str:
    bare = {known.lstrip("-"): known for known in names}
    near = difflib.get_close_matches(name.lstrip("-"), list(bare), 1, _CUTOFF)
    return f"; did you mean {bare[near[0]]}?" if near else ""
