"""The shelf's SMILES is the form that OpenSMILES prescribes; how rings close is left to chemistry."""

from __future__ import annotations

import pytest

from tests.grammars.reading import assert_accepted, assert_rejected, reader

MOLECULES = {
    "ethanol": "CCO", "benzene": "c1ccccc1", "acetic acid": "CC(=O)O", "hydrogen cyanide": "C#N",
    "salt": "[Na+].[Cl-]", "caffeine": "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "aspirin": "O=C(C)Oc1ccccc1C(=O)O",
    "alanine": "N[C@@H](C)C(=O)O", "glucose": "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O",
    "difluoroethene": "F/C=C\\F", "water": "[OH2]", "proton": "[H+]", "nicotine": "CN1CCC[C@H]1c2cccnc2",
    "ferrocene": "[Fe+2].c1ccc[cH-]1.c1ccc[cH-]1", "cubane": "C12C3C4C1C5C2C3C45",
    "radiomethane": "[14CH4]", "heavy water": "[2H]O[2H]", "selenophene": "c1cc[se]c1",
    "sulfate": "[O-]S(=O)(=O)[O-]",
}  # fmt: skip

ACCEPTED = [
    *MOLECULES.values(), "*", "[*]", "[HH]", "[2H-:1]", "C-C=C#C$C:C", "C(C)(C)(C)C", "C(C(C(C)))C",
    "C.C.C", "CCl", "CBr", "Sc1ccccc1", "[Sc]", "C%12CC%12", "C=1CC=1", "C1C2CC21", "[C--]", "[Fe++]",
    "[Ti+4]", "[Co@OH30]", "[As@TB20](F)(Cl)(Br)(N)S", "[CH3:1]", "[13CH3-:12]",
    "[Pt@SP1](F)(Cl)(Br)[N@TH2]", "[as]", "c1cc([nH]c1)C", "bcnops", "BCNOPSFI", "C-1=CC1",
]  # fmt: skip

REJECTED = [
    "‸", "C(‸", "C‸)", "‸()", "‸(C)", "C(‸)C", "C(‸(C))", "C(=‸)C", "C=‸=C", "C=‸", "‸=C", "‸-", "C.‸",
    "‸.C", "C.‸.C", "C=‸.C", "[C‸", "[‸", "[‸]", "C‸]", "[c‸", "[X‸x]", "[CH1‸0]", "[C++‸+]", "[C+‸-]",
    "[C++‸2]", "[H‸2C]", "[C@@‸@]", "[C@TH‸3]", "[C@TB2‸1]", "[C@OH3‸1]", "[C:‸]", "[13‸]", "[C‸13]", "‸X",
    "C‸x", "‸a", "‸A", "‸D", "‸H", "C‸Zn", "‸Mg", "‸1C", "C%1‸", "C%‸", "C%1‸C", "C(C‸", "C(C)‸)", "C(‸1)",
    "C‸ C", "c1ccccc1‸ ", "[se‸", "C#‸", "[U‸ue]", "[U‸238]", "C[C‸", "C-‸>N", "[‸#6]", "C1CC(O)‸1",
    "C(‸.C)C", "C%‸00", "[0‸1C]", "[123‸4C]", "[C:0‸1]", "[C+0‸1]", "[H‸@]",
]  # fmt: skip

ELEMENTS = """
    H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb
    Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au
    Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv
    Ts Og
"""


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert_accepted("smiles", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("smiles", text)


def test_the_elements() -> None:
    """All symbols of the periodic table stand in brackets, and no other capital letters do."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    symbols = [first.upper() + second for first in letters for second in ("", *letters)]
    elements = ELEMENTS.split()
    assert len(elements) == 118
    assert [symbol for symbol in symbols if reader("smiles").accepts(f"[{symbol}]")] == sorted(elements)


@pytest.mark.parametrize("text", ["C1CC", "C11", "C1CC=1", "C12CC12", "C(C)(C)(C)(C)(C)C", "c1cccc1"])
def test_rings_and_valence_are_not_checked(text: str) -> None:
    """They are not matters of form."""
    assert_accepted("smiles", text)
