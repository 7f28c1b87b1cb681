"""A monitor of molecules: faults of a SMILES that its grammar cannot express, and their cells.

Why: a grammar does not count ring bonds or valences. What: ring bonds that are not closed, or that close on their own
atom or on an existing bond; then what RDKit finds about valences and about rings that cannot be aromatic. Each fault
names the cells to fill again.
Approximate: while cells are open, only ring bonds are counted, as far as adjacent tokens show them.
Source: OpenSMILES 1.0 for ring bonds; RDKit's `DetectChemistryProblems` for the rest.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from structgen.extras import needed
from structgen.vocabulary import Vocabulary

__all__ = ["Molecules"]

_ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")
_RING = re.compile(r"%\d\d|\d")
_BONDS = set("-=#$:/\\")


class Molecules:
    """A `CanvasMonitor` for canvases on which a token is one terminal of SMILES, or a few whole ones."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        with needed("judging molecules", extra="chemistry"):
            chemistry: Any = importlib.import_module("rdkit.Chem")
            log: Any = importlib.import_module("rdkit.RDLogger")
        log.DisableLog("rdApp.*")  # `faults` reports what it finds
        self._chemistry = chemistry
        self._texts = [
            "" if data is None else data.decode("utf-8", "replace")
            for data in map(vocabulary.token_bytes, range(vocabulary.size))
        ]

    def allows(self, tokens: Sequence[int | None], cell: int, token: int) -> bool:
        """Return whether the open ring bonds can still be closed, and no label occurs twice at one atom."""
        texts = [None if cell_token is None else self._texts[cell_token] for cell_token in tokens]
        texts[cell] = self._texts[token]
        labels: dict[str, int] = {}
        for text in texts:
            for label in _rings(text or ""):
                labels[label] = labels.get(label, 0) + 1
        left = sum(text is None for text in texts)
        if sum(count % 2 for count in labels.values()) > left:
            return False
        ring_labels = set()
        for index in _same_atom(texts, cell):
            for label in _rings(texts[index] or ""):
                if label in ring_labels:
                    return False
                ring_labels.add(label)
        return True

    def faults(self, tokens: Sequence[int]) -> list[int]:
        """Return the cells that must be filled again; empty if RDKit accepts the molecule."""
        text = "".join(self._texts[token] for token in tokens)
        if self._chemistry.MolFromSmiles(text) is not None:
            return []
        cell_of = [cell for cell, token in enumerate(tokens) for _ in self._texts[token]]
        rings = self._wrong_rings(text)
        if rings:
            return sorted({cell_of[offset] for offset in rings})
        molecule = self._chemistry.MolFromSmiles(text, sanitize=False)
        if molecule is None:
            return list(range(len(tokens)))
        atoms = [match.start() for match in _ATOM.finditer(text)]
        wrong: set[int] = set()
        for problem in self._chemistry.DetectChemistryProblems(molecule):
            faulty = (
                list(problem.GetAtomIndices())
                if problem.GetType() == "KekulizeException"
                else [problem.GetAtomIdx()]
                if hasattr(problem, "GetAtomIdx")
                else []
            )
            for atom in faulty:
                wrong |= self._around(text, atoms, atom)
        return sorted({cell_of[offset] for offset in wrong}) or list(range(len(tokens)))

    @staticmethod
    def _around(text: str, atoms: Sequence[int], atom: int) -> set[int]:
        """Return the positions of an atom, its ring bonds and the bond before it."""
        start = atoms[atom]
        end = atoms[atom + 1] if atom + 1 < len(atoms) else len(text)
        offsets = {start}
        offsets |= {
            offset for offset in range(start + 1, end) if text[offset].isdigit() or text[offset] in _BONDS
        }
        if start and text[start - 1] in _BONDS:
            offsets.add(start - 1)
        return offsets

    @staticmethod
    def _wrong_rings(text: str) -> list[int]:
        """Return the positions of ring bonds that are not closed, or that close on their own or a bonded atom."""
        opened: dict[str, tuple[int, int]] = {}
        wrong: list[int] = []
        stack: list[int] = []
        bonded: set[tuple[int, int]] = set()
        atom = last = -1
        offset = 0
        while offset < len(text):
            match = _ATOM.match(text, offset)
            if match:
                atom += 1
                if last >= 0:
                    bonded.add((last, atom))
                last = atom
                offset = match.end()
                continue
            ring = _RING.match(text, offset)
            if ring:
                before = opened.pop(ring[0], None)
                if before is None:
                    opened[ring[0]] = (last, offset)
                else:
                    pair = (min(before[0], last), max(before[0], last))
                    if before[0] == last or pair in bonded:
                        wrong += [before[1], offset]
                    bonded.add(pair)
                offset = ring.end()
                continue
            if text[offset] == "(":
                stack.append(last)
            elif text[offset] == ")" and stack:
                last = stack.pop()
            elif text[offset] == ".":
                last = -1
            offset += 1
        return wrong + [index for _, index in opened.values()]


def _rings(text: str) -> Iterable[str]:
    """Return the labels of ring bonds in a token, outside of brackets."""
    return [] if "[" in text else _RING.findall(text)


def _same_atom(texts: Sequence[str | None], cell: int) -> list[int]:
    """Return the cells next to this one that belong to the same atom."""
    first = cell
    while first > 0 and texts[first - 1] is not None and _is_about(texts[first]):
        first -= 1
    end = cell + 1
    while end < len(texts) and texts[end] is not None and _is_about(texts[end]):
        end += 1
    return [index for index in range(first, end) if _rings(texts[index] or "")]


def _is_about(text: str | None) -> bool:
    """Return whether a token is a ring bond, or the bond of one."""
    return text is not None and (bool(_RING.fullmatch(text)) or text in _BONDS)
