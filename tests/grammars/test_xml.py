"""The shelf's XML is XML 1.0 without external subsets and without what names have to do with one another."""

from __future__ import annotations

import pytest

from bench.corpora.xml_files import beyond_form, is_valid
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements

ACCEPTED = [
    "<a/>", "<a />", "<a></a >", "<a>b</a>", "<a.b-c:d_1 é='日'/>", '<a b="c" d=\'e"\'>f</a>',
    '<a b="&lt;&#10;&#x1F600;>"/>', "\n<!-- b -->\n<a/>\n<?c d?>\n", '<?xml version="1.0"?><a/>',
    "<?xml version='1.1' encoding='utf-8' standalone='no' ?>\n<a/>", "<a>]] ]> ]]]&gt;]<b/>]]</a>",
    "<a>&amp;&lt;&gt;&apos;&quot;&#38;&#xD7FF;&#x10ffff;&#0065;</a>", "<a><!----><!-- - -b- --></a>",
    "<a><![CDATA[]]><![CDATA[]]]]><![CDATA[<b>&c;]]] ]> ]]></a>",
    "<a><?b?><?xmlb?><?xm c??><?XM?><?c ? ?></a>", "<a\n b\t=\r\n'c'\n/>",
    "<a>\t\r\n\u0085\ud7ff\ue000\ufffd\U0010ffff</a>", "<a><b><c/></b><b>d</b></a>", "<!DOCTYPE a><a/>",
    '<!DOCTYPE a SYSTEM "b"><a/>', "<!DOCTYPE a PUBLIC '-//b' \"c\" [ ]><a/>",
    '<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d SYSTEM "e">]><a f="&b;">&b;</a>',
    "<!DOCTYPE a [<!ENTITY % b '&#60;'> %b; ]><a/>",
    "<!DOCTYPE a [<!NOTATION b PUBLIC 'c'><!NOTATION d SYSTEM 'e'><!ENTITY f SYSTEM 'g' NDATA b>]><a/>",
    "<!DOCTYPE a [<!ELEMENT a (b,(c|d)*,e?)+><!ELEMENT b EMPTY><!ELEMENT c ANY><!ELEMENT d (#PCDATA|a|b)*>]><a/>",
    "<!DOCTYPE a [\n<!ELEMENT a ( #PCDATA ) ><!-- c --><?d e?><!ELEMENT b (#PCDATA)*><!ELEMENT c (a)>]><a/>",
    "<!DOCTYPE a [<!ATTLIST a b CDATA #REQUIRED c (d|1) '1' e NOTATION (f | g) #IMPLIED>]><a/>",
    "<!DOCTYPE a [<!ATTLIST a h NMTOKENS #FIXED 'i&lt;'>]><a/>",
    "<!DOCTYPE a [<!ATTLIST a><!ATTLIST a b ID #IMPLIED c IDREF #IMPLIED d IDREFS #IMPLIED e ENTITY #IMPLIED>]><a/>",
]  # fmt: skip

REJECTED = [
    "‸", " ‸", "‸a", "<‸", "<a‸", "<a>‸", "<a></b‸", "<a/><‸b/>", "<a/>‸b", "<‸/a>", "<a b‸/>", "<a b=‸c/>",
    '<a b="c"‸d="e"/>', '<a b="‸<"/>', '<a b="&‸"/>', '<a b="&‸c;"/>', "<a>&lt‸</a>", "<a>&‸nbsp;</a>",
    "<a>&‸ </a>", "<a>&#0‸;</a>", "<a>&#xD800‸;</a>", "<a>&#x11000‸0;</a>", "<a>&#111411‸2;</a>",
    "<a>&#65534‸;</a>", "<a>]]‸></a>", "<a>]]]‸></a>", "<a><![CDATA[]]></a>‸]]>", "<a><![CDATA[ ]] >‸",
    "<a><!-- --‸ --></a>", "<a><!-- --‸-></a>", '<?xml version="1.0"?>‸', ' <?xml‸ version="1.0"?><a/>',
    '<?xml version="‸2.0"?><a/>', '<?xml ‸encoding="a" version="1.0"?><a/>',
    '<?xml version="1.0" standalone="‸maybe"?><a/>', "<a><?xml‸?></a>", "<a><?XmL‸ b?></a>", "<a><?b‸",
    "<‸1/>", '<a ‸-b="c"/>', "<a‸\x00/>", "<a>‸\x01</a>", "<a>‸\ufffe</a>", "<a>\xa0</a><‸",
    "<a" + " " * 100 + "‸ />", "<!DOCTYPE‸>", "<!DOCTYPE a>‸", '<!DOCTYPE a PUBLIC "b"‸><a/>',
    "<!DOCTYPE a SYSTEM‸><a/>", "<!DOCTYPE a []‸", "<!DOCTYPE a [<!ELEMENT a‸>]><a/>",
    "<!DOCTYPE a [<!ELEMENT a (b,c‸|d)>]><a/>", "<!DOCTYPE a [<!ELEMENT a (‸)>]><a/>",
    "<!DOCTYPE a [<!ELEMENT a (#PCDATA|b)‸>]><a/>", "<!DOCTYPE a [<!ATTLIST a b‸>]><a/>",
    "<!DOCTYPE a [<!ATTLIST a b CDATA‸>]><a/>", '<!DOCTYPE a [<!ATTLIST a b ‸WORD "c">]><a/>',
    "<!DOCTYPE a [<!ENTITY b‸>]><a/>", '<!DOCTYPE a [<!ENTITY b "‸%c;">]><a/>',
    '<!DOCTYPE a [<!ENTITY % b "c" ‸NDATA d>]><a/>', '<!DOCTYPE a [<!NOTATION b ‸"c">]><a/>',
    "<a/><!‸DOCTYPE a>", "<!DOCTYPE a><!‸DOCTYPE a><a/>", "<!DOCTYPE a [<!‸[INCLUDE[]]>]><a/>",
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert is_valid(text)
    assert_accepted("xml", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("xml", text)


@pytest.mark.parametrize(
    "text",
    ["<a></b>", "<a b='' b=''/>", "<!DOCTYPE a><a>&b;</a>", "<!DOCTYPE a [<!ENTITY b '&b;'>]><a>&b;</a>"],
)
def test_names_are_not_compared(text: str) -> None:
    """No context-free grammar can do it."""
    assert beyond_form(text)
    assert_accepted("xml", text)


@pytest.mark.parametrize("seed", range(20))
def test_edited_texts_have_the_verdict_of_expat(seed: int) -> None:
    assert disagreements("xml", ACCEPTED, is_valid, seed=seed, beyond_form=beyond_form) == []
