"""Partial objects: the part of a typed value that exists so far, in the classes that validation will give it.

Why: a stream should give `person.name` while the rest is being written, not a dict of raw JSON.

What: pydantic validates each complete part (a field's value, an item, a closed object) at its position in
pydantic's own core schema, from the text that was written. Only open parts are built without validation
(`open_containers`): a missing field has its default, or None. If a union leaves several classes possible, the one
that the complete members fit best is shown.

Invariant: never raises for text of the type's constraint. The view of a complete text is the validated value,
unless Python validators reject it. The class of a complete part does not change.

Cost: a complete part is validated once for each container that it is in; a view copies the open containers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter

from structgen.errors import OptionError, did_you_mean
from structgen.partial import JsonReader

from .core_schemas import SchemaIndex, Slot
from .open_containers import MISSING, Builder, builder_for, wrap_in_roots

__all__ = ["GrowingText", "GrowingValue", "GrowingView", "OnItem"]

OnItem = Callable[[int, Any, Exception | None], None]
"""Called after each complete item of an array, with its index, the item, and the error of its validation."""


class GrowingValue(Protocol):
    """Reads one growing text."""

    def __call__(self, text: str, whole: bool = False) -> Any:
        """Return the value so far, where `text` is the whole text so far; None if there is no value yet."""
        ...

    def is_complete(self, path: str | Sequence[str | int] = ()) -> bool:
        """Return whether the part at `path` is complete, so that no more text changes it."""
        ...

    def holds_array(self, path: Sequence[str]) -> bool:
        """Return whether the type may have an array at `path`."""
        ...

    def arrays(self) -> list[str]:
        """Return the fields of the type that may be arrays."""
        ...


class _Frame:
    """An open container, with a builder for each class that it may become."""

    def __init__(self, is_object: bool, builders: dict[Any, Builder]) -> None:
        self.is_object = is_object
        self.builders = builders
        """By the identity of their containers."""
        self.key: Any = None if is_object else 0
        """Key of the member that is being written, or comes next; None before an object's next key."""
        self.finished: set[Any] = set()

    def best(self, index: SchemaIndex, slot: Slot) -> Builder:
        """Return the builder that its members fit best, among those that `slot` allows."""
        here = ((id(container.node), container.roots) for container in index.containers(slot, self.is_object))
        builders = [self.builders[key] for key in here if key in self.builders]
        return min(builders or self.builders.values(), key=lambda builder: (builder.misfits, -builder.known))


class GrowingView:
    """The view of one growing JSON text. Each call passes the whole text so far, and only the new part is parsed."""

    def __init__(
        self,
        index: SchemaIndex,
        *,
        show: Callable[[Any], Any] | None = None,
        items: tuple[Sequence[str], OnItem] | None = None,
    ) -> None:
        """Create the view of a new text.

        Args:
            index: The core schema of the type.
            show: Changes how values appear.
            items: The path of an array, and the function that is called with its items.
        """
        self._index = index
        self._show = show
        self._items = items
        self._paths: set[tuple[str, ...]] = set()
        self._restart()

    def _restart(self) -> None:
        self._reader = JsonReader(self)
        self._text = ""
        self._frames: list[_Frame] = []
        self._value: Any = MISSING
        self._is_broken = False

    def __call__(self, text: str, whole: bool = False) -> Any:
        """Return the value so far; None if there is no value yet.

        Args:
            text: The whole text so far.
            whole: Whether the text has ended, so that a number at its end is complete.
        """
        if not text.startswith(self._text):  # generation was rolled back
            self._restart()
        new = text[len(self._text) :]
        self._text = text
        if not self._is_broken:
            try:
                self._reader.feed(new)
                if whole:
                    self._reader.finish()
            except ValueError:  # not JSON, from a server that does not enforce it: keep the value up to here
                self._is_broken = True
        value = self._view()
        if value is MISSING:
            return None
        return value if self._show is None else self._show(value)

    def is_complete(self, path: str | Sequence[str | int] = ()) -> bool:
        """Return whether the part at `path` is complete, so that no more text changes it.

        Args:
            path: Field names, keys and indices, as ``"items.0.name"`` or ``("items", 0, "name")``; empty for the
                whole value.

        Raises:
            OptionError: The type has no such part.
        """
        steps: list[Any] = path.split(".") if isinstance(path, str) and path else list(path)
        self._check_path(tuple(map(str, steps)))
        if self._value is not MISSING:
            return True
        for (frame, builder), step in zip(self._chain(), steps, strict=False):
            name = str(step)
            if any(name in (str(key), str(builder.name(key))) for key in frame.finished):
                return True
            if frame.key is None or name not in (str(frame.key), str(builder.name(frame.key))):
                return False
        return False

    def holds_array(self, path: Sequence[str]) -> bool:
        """Return whether the type may have an array at `path`."""
        slots = [self._index.root]
        for step in path:
            slots = self._member_slots(slots, step)
        return any(self._index.containers(slot, False) for slot in slots)

    def _member_slots(self, slots: list[Slot], step: str) -> list[Slot]:
        """Return the positions of the member `step` of a value at one of `slots`."""
        members = []
        for slot in slots:
            for container in self._index.containers(slot, True):
                members += builder_for(self._index, container, True).slots_named(step)
            for container in self._index.containers(slot, False) if step.isdigit() else ():
                members.append(builder_for(self._index, container, False).slot(int(step)))
        return members

    def _check_path(self, path: tuple[str, ...]) -> None:
        """Raise `OptionError` for a path that does not exist in the type."""
        if path in self._paths:
            return
        slots = [self._index.root]
        for depth, step in enumerate(path):
            inner = self._member_slots(slots, step)
            if not inner:
                names = [
                    name
                    for slot in slots
                    for container in self._index.containers(slot, True)
                    for name in getattr(builder_for(self._index, container, True), "fields", ())
                ]
                where = f" in {'.'.join(path[:depth])!r}" if depth else ""
                raise OptionError(
                    f"the output type has no part {step!r}{where}",
                    hint=did_you_mean(step, names) or (f"It has {', '.join(names)}." if names else None),
                )
            slots = inner
        self._paths.add(path)

    def arrays(self) -> list[str]:
        """Return the fields of the type that may be arrays."""
        names = []
        for container in self._index.containers(self._index.root, True):
            builder = builder_for(self._index, container, True)
            for name in getattr(builder, "fields", ()):
                slots = builder.slots_named(name)
                names += [name] if any(self._index.containers(slot, False) for slot in slots) else []
        return list(dict.fromkeys(names))

    # -- events of the reader

    def on_open(self, is_object: bool, start: int) -> None:
        """Called after an opening bracket."""
        builders: dict[Any, Builder] = {}
        for slot in self._slots().values():
            for container in self._index.containers(slot, is_object):
                key = id(container.node), container.roots
                if key not in builders:
                    builders[key] = builder_for(self._index, container, is_object)
        if not builders:  # text that does not fit the type is shown as it is
            (container,) = self._index.containers(_ANY, is_object)
            builders[None] = builder_for(self._index, container, is_object)
        self._frames.append(_Frame(is_object, builders))

    def on_key(self, key: str) -> None:
        """Called after an object's key."""
        self._frames[-1].key = key

    def on_value(self, start: int, end: int) -> None:
        """Called after a string, number or literal."""
        self._finish(self._text[start:end], None)

    def on_close(self, start: int, end: int) -> None:
        """Called after a closing bracket."""
        closed = self._frames.pop()
        self._finish(self._text[start:end], closed)

    # -- complete parts

    def _slots(self) -> dict[Any, Slot]:
        """Return the positions of the next value, for each class that the innermost container may have."""
        if not self._frames:
            return {self._index.root.key: self._index.root}
        frame = self._frames[-1]
        slots = [builder.slot(frame.key) for builder in frame.builders.values()]
        return {slot.key: slot for slot in slots}

    def _finish(self, text: str, closed: _Frame | None) -> None:
        """Add a complete value to the container around it."""
        results = {key: self._validated(slot, text, closed) for key, slot in self._slots().items()}
        if not self._frames:
            ((self._value, _),) = results.values()
            return
        frame = self._frames[-1]
        for builder in frame.builders.values():
            value, error = results[builder.slot(frame.key).key]
            builder.add(frame.key, value, error is None)
        if self._items is not None and not frame.is_object:
            path, on_item = self._items
            *outer, (_, best) = self._chain()
            names = [(str(frame.key), str(builder.name(frame.key))) for frame, builder in outer]
            if len(names) == len(path) and all(
                step in either for step, either in zip(path, names, strict=True)
            ):
                on_item(frame.key, *results[best.slot(frame.key).key])
        frame.finished.add(frame.key)
        frame.key = None if frame.is_object else frame.key + 1

    def _validated(self, slot: Slot, text: str, closed: _Frame | None) -> tuple[Any, Exception | None]:
        """Return the value of a complete text at `slot`, and the error of its validation.

        Validators may be user code and raise anything: the value is then computed without them.
        """
        try:
            return self._index.validate(slot, text), None
        except Exception as error:  # noqa: BLE001 — validators are user code
            rejection = error
        if closed is not None:
            return closed.best(self._index, slot).view(), rejection
        for weaker in (self._index.plain(slot), _ANY):
            try:
                return self._index.validate(weaker, text), rejection
            except Exception:  # noqa: BLE001 — validators are user code
                continue
        return None, rejection

    # -- open parts

    def _chain(self) -> list[tuple[_Frame, Builder]]:
        """Return the open containers from the outermost to the innermost, each with its best builder."""
        chain = []
        slot = self._index.root
        for frame in self._frames:
            builder = frame.best(self._index, slot)
            chain.append((frame, builder))
            if frame.key is not None:
                slot = builder.slot(frame.key)
        return chain

    def _view(self) -> Any:
        if self._value is not MISSING:
            return self._value
        string = self._reader.open_string
        chain = self._chain()
        if not chain:
            return self._shown(self._index.root, string)
        frame, builder = chain[-1]
        value = MISSING if frame.key is None else self._shown(builder.slot(frame.key), string)
        for frame, builder in reversed(chain):
            value = builder.view(frame.key, value)
        return value

    def _shown(self, slot: Slot, string: str | None) -> Any:
        """Return an incomplete string at `slot`."""
        roots = None if string is None else self._index.text_roots(slot)
        return MISSING if roots is None else wrap_in_roots(string, roots)


class GrowingText:
    """The view of a text that is not JSON, computed by `show`; without it, there is no value before the end."""

    def __init__(self, show: Callable[[str], Any] | None, parse: Callable[[str], Any]) -> None:
        self._show = show
        self._parse = parse
        self._is_whole = False

    def __call__(self, text: str, whole: bool = False) -> Any:
        """Return the value so far; None if there is no value yet."""
        self._is_whole = whole
        if whole:
            return self._parse(text)
        return self._show(text) if text and self._show is not None else None

    def is_complete(self, path: str | Sequence[str | int] = ()) -> bool:
        """Return whether the text has ended."""
        return self._is_whole

    def holds_array(self, path: Sequence[str]) -> bool:
        """Return False: such a text has no arrays."""
        return False

    def arrays(self) -> list[str]:
        """Return nothing: a text has no fields."""
        return []


_ANY = SchemaIndex(TypeAdapter(Any)).root
