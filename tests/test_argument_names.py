"""Misspelt arguments of public functions and classes: what is wrong, and what was probably meant."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import structgen as sg
from structgen.argument_names import checks_names
from structgen.errors import OptionError, StructgenError
from tests.oracles.scripted_model import ScriptedModel

MODEL = ScriptedModel("x")
TAKES_ANY_NAME = {"Action", "infill"}
"""Names of parameters and of holes are the user's own."""
NOT_CALLED_BY_USERS = {
    "Posterior",
    "PromptFunction",
    "RemoteModel",
    "Result",
    "BoundCall",
    "Classification",
    "Thinking",
}
"""Made by the library."""


PARTS = {"Account", "BoundTrie", "SessionCapabilities", "instructions"}
"""For authors of models, samplers and tool formats; Python's own error is enough."""
CORE = {"StopFlag", "Constraint", "Vocabulary", "Matcher"}
PACKAGES = [
    sg.captures,
    sg.classification,
    sg.inference,
    sg.ltl,
    sg.models,
    sg.prompts,
    sg.remote,
    sg.tools,
    sg.types,
]


def public_objects() -> dict[str, Any]:
    """Return what is public in structgen and in packages of everyday use; what has two names has the shorter one."""
    found = {name: getattr(sg, name) for name in sg.__all__}
    for package in PACKAGES:
        for name in package.__all__:
            made = getattr(package, name)
            if not any(made is other for other in found.values()):
                found[f"{package.__name__.removeprefix('structgen.')}.{name}"] = made
    return found


def wrong_calls() -> list[Any]:
    found: list[Any] = []
    for full_name, made in public_objects().items():
        name = full_name.rpartition(".")[2]
        if name in TAKES_ANY_NAME | NOT_CALLED_BY_USERS | PARTS | CORE:
            continue
        if isinstance(made, type) and issubclass(made, (Exception, Warning)):
            continue
        if not (inspect.isclass(made) or inspect.isroutine(made)) or inspect.iscoroutinefunction(made):
            continue
        parameters = inspect.signature(made).parameters.values()
        by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        by_name = by_name or [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        needed = [
            one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty
        ]
        if by_name and not any(one.name == by_name[0] for one in needed):
            found.append(pytest.param(made, len(needed), by_name[0], id=full_name))
    return found


def typical(name: str) -> Any:
    return {
        "model": MODEL,
        "name": "sql",
        "output": list[int],
        "schema": {},
        "actions": ["a"],
        "vocabulary": ["a"],
        "definitions": [print],
        "labels": ["a", "b"],
    }.get(name, "a")


@pytest.mark.parametrize(("made", "needed", "right"), wrong_calls())
def test_a_misspelt_name_is_an_option_error_that_names_the_right_one(
    made: Callable[..., Any], needed: int, right: str
) -> None:
    wrong = right[:1] + right[1:].replace(right[-1], "") + "x" + right[-1]
    names = list(inspect.signature(made).parameters)[:needed]
    with pytest.raises(OptionError) as caught:
        made(*map(typical, names), **{wrong: None})
    assert wrong in caught.value.message
    assert right in str(caught.value.hint)


@pytest.mark.parametrize(
    ("make", "what", "hint"),
    [
        (lambda: sg.lark("start: /a/", strt="x"), "lark() has no argument 'strt'", "Did you mean start?"),  # type: ignore[call-arg]
        (lambda: sg.load(torch_dtype="float32"), "load() has no argument 'torch_dtype'", "Did you mean dtype?"),  # type: ignore[call-arg]
        (lambda: sg.connect("http://x", timeout=3), "connect() has no argument 'timeout'", "Did you mean seconds?"),  # type: ignore[call-arg]
        (lambda: sg.plan(["a"], max_step=3), "plan()", "max_steps"),  # type: ignore[call-arg]
        (lambda: sg.classify(MODEL, "?", lables=["a"]), "classify()", "Did you mean labels?"),  # type: ignore[call-overload]
        (lambda: sg.reasoning(int, max_token=3), "reasoning()", "max_tokens"),  # type: ignore[call-arg]
        (lambda: sg.run_tools(MODEL, "?", [print], max_round=3), "'max_round'", "Did you mean max_rounds?"),
        (lambda: sg.prompt(MODEL, sytem="x"), "'sytem'", "Did you mean system?"),
        (lambda: sg.inference.SMC(particels=3), "SMC() has no argument", "Did you mean particles?"),  # type: ignore[call-arg]
        (lambda: sg.SamplingOptions(temprature=1), "SamplingOptions()", "temperature"),  # type: ignore[call-arg]
        (lambda: sg.SamplingOptions(max_retries=1), "SamplingOptions()", "max_backtracks=n bounds steps back"),  # type: ignore[call-arg]
        (lambda: sg.generate(MODEL, "?", int, max_retries=1), "'max_retries'", "max_backtracks=n bounds steps back"),
        (lambda: sg.Vocabulary.of_bytes(special=["a"]), "Vocabulary.of_bytes()", "Did you mean specials?"),  # type: ignore[call-arg]
        (lambda: sg.lark("start: /a/", "start", "lark"), "takes 1 argument without a name, but was given 3", "start="),  # type: ignore[misc]
        (lambda: sg.choice(["a"], ["b"]), "takes 1 argument without a name, but was given 2", "texts"),  # type: ignore[call-arg]
        (lambda: sg.Vocabulary.of_bytes([], 3), "takes 1 argument without a name, but was given 2", "specials"),  # type: ignore[call-arg]
        (lambda: sg.generate(MODEL, "?", int, 0.5), "takes 3 arguments without a name", "describe="),  # type: ignore[call-overload]
    ],
)  # fmt: skip
def test_wrong_arguments(make: Callable[[], Any], what: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert what in caught.value.message
    assert hint in str(caught.value.hint)


def test_other_errors_pass_through() -> None:
    @checks_names
    def divide(by: int) -> float:
        """Divide."""
        return 1 / by + len(by)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len"):
        divide(1)
    with pytest.raises(TypeError, match="missing 1 required"):
        divide()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values"):
        divide(1, by=2)  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        divide(0)


def test_signatures_and_documentation_stay() -> None:
    assert "max_tokens: int | None" in str(inspect.signature(sg.reasoning)).replace("'", "")
    assert str(inspect.signature(sg.inference.SMC)).startswith("(particles")
    assert "Lark" in str(sg.lark.__doc__) and sg.lark.__name__ == "lark"
    assert pickle.loads(pickle.dumps(sg.lark)) is sg.lark
    assert pickle.loads(pickle.dumps(sg.inference.SMC(particles=3))) == sg.inference.SMC(particles=3)
    assert issubclass(OptionError, StructgenError)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: sg.ltl.automaton("F a", alphabets="one-hot"), "Did you mean alphabet?"),
        (lambda: sg.ltl.satisfiable("F a", alphbet="one-hot"), "Did you mean alphabet?"),
        (lambda: sg.ltl.parse("F a", dialekt="spot"), "Did you mean dialect?"),
        (lambda: sg.monitors.judge(print, nam="x"), "Did you mean name?"),
        (lambda: sg.diffusion.load("x", mask="y"), "mask_id"),
    ],
)
def test_packages_too(make: Callable[[], Any], hint: str) -> None:
    with pytest.raises(OptionError, match="has no argument") as caught:
        make()
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("use", [sg.run, sg.stream])
def test_a_cancel_argument_that_is_not_a_function(use: Any) -> None:
    with pytest.raises(OptionError, match="cancel is an int"):
        use(MODEL, "?", int, cancel=5)


def test_options_that_a_function_takes_are_not_called_unknown() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'schema'"):
        sg.json_schema(whitespace="compact")  # type: ignore[call-arg]


def test_a_class_that_inherits_its_arguments_is_named() -> None:
    class Mine(sg.inference.SMC):
        pass

    with pytest.raises(OptionError, match=r"^Mine\(\) has no argument 'bogus'"):
        Mine(bogus=1)  # type: ignore[call-arg]
