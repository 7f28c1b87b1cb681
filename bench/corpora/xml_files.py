"""XML: interface descriptions, icons, lists and documents out of Debian packages; judged by expat, without namespaces.

Texts are given as Unicode: what an XML declaration says of the encoding is overruled. Of its version expat takes
anything; here it must be a number of XML 1 (production 26).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from bench.corpora import debian, pypi, sample, texts

NAME = "xml"

_DEBIAN = """
    shared-mime-info tango-icon-theme gnome-calculator gnome-sudoku gedit-common dbus docbook-xsl
    fontconfig-config libgtksourceview-4-common xkb-data isoquery libgtk-3-doc
"""
_WHEELS = ("docutils==0.21.2", "matplotlib==3.9.2", "lxml==5.3.0", "nltk==3.9.1", "bokeh==3.6.1")
_VERSION = -1
_ABOUT_NAMES = {
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_TAG_MISMATCH,
        expat.errors.XML_ERROR_DUPLICATE_ATTRIBUTE,
        expat.errors.XML_ERROR_UNDEFINED_ENTITY,
        expat.errors.XML_ERROR_RECURSIVE_ENTITY_REF,
    )
}


def files(limit: int | None = None) -> Iterator[tuple[str, str]]:
    """XML files of these packages, of many vocabularies."""
    folders = [*map(debian, _DEBIAN.split()), *map(pypi, _WHEELS)]
    endings = (
        ".xml",
        ".svg",
        ".ui",
        ".rng",
        ".lang",
        ".xsl",
        ".xslt",
        ".conf",
        ".xhtml",
        ".docbook",
        ".page",
    )
    files = texts(folders, *endings, encoding="utf-8-sig")
    yield from sample(((name, text) for name, text in files if is_valid(text)), limit)


def is_valid(text: str) -> bool:
    """Return whether the text is a well-formed document."""
    return _complaint(text) is None


def beyond_form(text: str) -> bool:
    """Return whether expat rejects the text for names that must be equal, different or declared."""
    return _complaint(text) in _ABOUT_NAMES


def _complaint(text: str) -> int | None:
    versions = ["1.0"]
    parser = expat.ParserCreate("utf-8")
    parser.XmlDeclHandler = lambda version, encoding, standalone: versions.append(version)
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        return error.code
    return None if re.fullmatch(r"1\.[0-9]+", versions[-1]) else _VERSION
