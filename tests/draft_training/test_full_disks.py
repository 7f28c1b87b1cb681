"""What a full disk leaves: each file that is written ends whole or not at all, with an error that says why."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.recipes import Recipe, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.texts import Text, collect_texts, read_texts  # noqa: E402
from structgen.draft_training.training import Training, TrainingOptions  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.speculative import Judge  # noqa: E402
from structgen.speculative.learned import save_judge, save_weights  # noqa: E402
from structgen.speculative.whole_files import replacing  # noqa: E402
from tests.draft_training.test_training import Tiny, requests, some_texts  # noqa: E402
from tests.full_disks import contents, largest_file, run_on_volume  # noqa: E402
from tests.speculative.learned.test_eagle import random_weights  # noqa: E402

FULL = r"cannot be written to .*File too large"
Write = Callable[[Path], None]


def states(folder: Path) -> None:
    compute_features(Tiny(), some_texts(), folder / "states", (1, 2), most_bytes=1 << 20)


def texts(folder: Path) -> None:
    collect_texts(
        Tiny(), lambda first: islice(requests(first), 8 - first), folder / "texts.jsonl", tokens=1000, batch=4
    )


def weights(folder: Path) -> None:
    save_weights(random_weights(), folder / "weights")


def judge(folder: Path) -> None:
    save_judge(Judge(np.arange(400) / 7, 0.5), folder / "judge", "vocabulary")


def training_in(folder: Path) -> Write:
    """Return what saves the state of a training that has ended."""
    features = compute_features(Tiny(), some_texts(), folder, layers_read(Tiny()), most_bytes=1 << 20)
    options = TrainingOptions(epochs=0.1, batch=3, loss="cross-entropy")
    _, training = train_drafter(Tiny(), features, Recipe("eagle", 64, options=options))

    def training_state(folder: Path) -> None:
        training.save = folder / "training.pt"
        Training._save(training)

    return training_state


@pytest.fixture
def writes(tmp_path_factory: pytest.TempPathFactory) -> list[Write]:
    return [states, weights, judge, training_in(tmp_path_factory.mktemp("features"))]


def limits(folder: Path, count: int) -> list[int]:
    """Return sizes up to the one with which the largest file of a folder is whole, the last ones next to it."""
    largest = max(map(len, contents(folder).values()))
    spread = np.linspace(0, largest, count).astype(int).tolist()
    return sorted({*spread, *(largest - less for less in (1, 2, 50, 500) if less < largest)})


def test_files_are_whole_or_absent_wherever_the_disk_ends(tmp_path: Path, writes: list[Write]) -> None:
    for write in writes:
        whole, folder = tmp_path / f"whole {write.__name__}", tmp_path / write.__name__
        whole.mkdir()
        folder.mkdir()
        write(whole)
        for limit in limits(whole, 12):
            wanted = contents(whole)
            if limit < max(map(len, wanted.values())):
                with pytest.raises(ModelError, match=FULL), largest_file(limit):
                    write(folder)
                assert list(folder.iterdir()) == [], (write, limit)
            else:
                with largest_file(limit):
                    write(folder)
                assert contents(folder).keys() == wanted.keys()
                assert {name: len(each) for name, each in contents(folder).items()} == {
                    name: len(each) for name, each in wanted.items()
                }


def test_a_file_that_was_there_stays(tmp_path: Path, writes: list[Write]) -> None:
    for write in writes[1:]:  # states are not written twice
        write(tmp_path)
        before = contents(tmp_path)
        for limit in (0, 100, 500):
            with pytest.raises(ModelError), largest_file(limit):
                write(tmp_path)
            assert contents(tmp_path) == before


def test_texts_stay_as_they_were_and_go_on(tmp_path: Path) -> None:
    texts(tmp_path)
    wanted = contents(tmp_path)
    lines = wanted["texts.jsonl"].splitlines(keepends=True)
    first_batch = sum(map(len, lines[:4]))
    path = tmp_path / "texts.jsonl"
    for count in (0, 1, 4):  # lines that were there
        for limit in (10, 300, len(wanted["texts.jsonl"]) - 1):
            for name in wanted:
                (tmp_path / name).unlink(missing_ok=True)
            if count:
                path.write_bytes(b"".join(lines[:count]))
                (tmp_path / "texts.origin.json").write_bytes(wanted["texts.origin.json"])
            with pytest.raises(ModelError, match=FULL), largest_file(limit):
                texts(tmp_path)
            left = contents(tmp_path)
            assert left.keys() in (set(), set(wanted))
            kept = left.get("texts.jsonl", b"")
            assert wanted["texts.jsonl"].startswith(kept)
            assert len(kept) >= sum(map(len, lines[:count]))  # nothing is lost
            assert kept == b"" or kept.endswith(b"\n")
            if limit < first_batch and not count:
                assert left == {}
            texts(tmp_path)
            assert contents(tmp_path) == wanted


def test_the_origin_of_texts_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(Text([1], [2] * 90, "x", 0.0).line())
    before = contents(tmp_path)
    wanted = "the origin of the texts cannot be written to .*origin.json"
    with pytest.raises(ModelError, match=wanted), largest_file(10):
        texts(tmp_path)
    assert contents(tmp_path) == before
    texts(tmp_path)
    assert len(read_texts(path)) == 8


def test_what_was_killed_takes_no_room(tmp_path: Path) -> None:
    states(tmp_path)
    wanted = contents(tmp_path)
    (tmp_path / "states" / "index.npz").unlink()
    for name in ("states", "layers.json", "index.npz"):
        (tmp_path / "states" / f"{name}.writing").write_bytes(b"half")
    states(tmp_path)
    assert contents(tmp_path).keys() == wanted.keys()


def test_an_interruption_leaves_no_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = Tiny(), []

    def interrupt(*given: object) -> None:
        seen.append(contents(tmp_path).keys())
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("structgen.draft_training.features._MOST_BATCH_TOKENS", 30)
    model.model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        compute_features(model, some_texts(), tmp_path / "states", (1, 2), most_bytes=1 << 20)
    assert seen == [{"states/states.writing"}] * 2 and not any(tmp_path.iterdir())


def _fail_after_another_error(folder: Path) -> None:
    try:
        (folder / "none" / "kernel").read_bytes()
    except OSError:
        raise RuntimeError("the model failed")  # noqa: B904 — the other error is its context


def test_other_errors_are_not_taken_for_those_of_the_file(tmp_path: Path) -> None:
    for error in (RuntimeError("a fault"), ModelError("the model's own"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as found, replacing(tmp_path / "file", "it"):
            raise error
        assert found.value is error
    failed = pytest.raises(RuntimeError, match="the model failed")
    with failed, replacing(tmp_path / "file", "it") as file:
        file.write(b"x")
        _fail_after_another_error(tmp_path)
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "file", "it"):
        (tmp_path / "none").read_bytes()
    assert not any(tmp_path.iterdir())
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("")
    for name in ("folder", "text/file", "none/file", "n" * 300, "a\0b", "/"):
        unwritten = pytest.raises(ModelError, match="^it cannot be written to ")
        with unwritten, replacing(tmp_path / name, "it") as file:
            file.write(b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "text"}


FILLED = """
import sys
from pathlib import Path
from structgen.errors import ModelError
from tests.draft_training import test_full_disks as given
from tests.full_disks import contents

folder, features = Path(sys.argv[1]), Path(sys.argv[2])
other = folder / "other"

def fill(*ignored):
    try:
        with other.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass

training_state = given.training_in(features)
plain = given.Tiny.__init__

def filling(self):  # the disk fills when the model reads texts: there was room when the pass started
    plain(self)
    self.model.register_forward_pre_hook(fill)

for write in (given.states, given.texts, given.weights, given.judge, training_state):
    before = contents(folder)
    if write in (given.states, given.texts):
        given.Tiny.__init__ = filling
    else:
        fill()
    try:
        write(folder)
        print(write.__name__, "is written")
    except ModelError as error:
        print(write.__name__, "No space left on device" in str(error))
    given.Tiny.__init__ = plain
    other.unlink()
    assert contents(folder) == before, write
    write(folder)
print("done")
"""


def test_a_disk_that_fills_meanwhile_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    ended = run_on_volume(FILLED, tmp_path / "volume", 1 << 20, tmp_path / "features")
    assert ended.returncode == 0, (ended.returncode, ended.stderr)
    names = ("states", "texts", "weights", "judge", "training_state")
    assert ended.stdout.splitlines() == [*(f"{name} True" for name in names), "done"]
