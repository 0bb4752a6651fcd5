"""What is learned from judged answers is what was put into them, the same every time."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.quality.fit import fold_of
from gateway.quality.judgements import BadJudgedAnswers, read_judged
from routing.quality.document import read
from routing.quality.features import features_of
from routing.quality.model import expected_quality

HARD, EASY = "Prove theorem {} of algebra.", "Name city {} of the map."


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A cheap model that cannot prove and a strong one that can do all."""
    file = tmp_path / "judged.csv"
    rows = [f"{HARD.format(n)},0,1\n{EASY.format(n)},1,1\n" for n in range(200)]
    file.write_text("prompt,cheap_is_right,strong_score\n" + "".join(rows))
    return file


def run(*args: object) -> dict[str, object]:
    done = CliRunner().invoke(main, ["quality", *map(str, args), "--json"])
    assert done.exit_code == 0, done.output
    said: dict[str, object] = json.loads(done.stdout)
    return said


def test_hard_prompts_alone_go_to_the_strong_model(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "quality.json"
    said = run("fit", judged, "--out", out)
    assert said["prompts"] == 400
    assert said["share_needed"] == pytest.approx(0.45)
    assert said["share_by_chance"] == pytest.approx(0.9)
    model = read(out.read_text()).model
    hard, easy = (
        expected_quality(0.5, model.models["cheap"], model.vector(features_of(text.format(999))))
        for text in (HARD, EASY)
    )
    assert hard < 0.2 < 0.8 < easy


def test_one_file_gives_one_document_to_the_byte(judged: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("a.json", "b.json"):
        run("fit", judged, "--out", tmp_path / name)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["training"]["answers"] == {"cheap": 400, "strong": 400}


def test_a_document_is_scored_on_other_answers(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "quality.json"
    run("fit", judged, "--out", out)
    assert run("score", judged, "--document", out)["share_needed"] == pytest.approx(0.45)


def test_long_and_wide_files_say_the_same(judged: Path, tmp_path: Path) -> None:
    rows = read_judged(judged).prompts
    lines = [
        json.dumps({"prompt": row.prompt, "model": model, "score": score})
        for row in rows
        for model, score in row.scores.items()
    ]
    long = tmp_path / "long.jsonl"
    long.write_text("\n".join(lines))
    assert read_judged(long).prompts == rows


def test_answers_that_name_a_variant_teach_of_it_and_others_of_the_model(tmp_path: Path) -> None:
    rows = [
        f"{HARD.format(n)},m,int8,0\n{HARD.format(n)},m,fp16,1\n"
        f"{EASY.format(n)},m,int8,1\n{EASY.format(n)},m,,1\n"
        for n in range(100)
    ]
    file, out = tmp_path / "judged.csv", tmp_path / "quality.json"
    file.write_text("prompt,model,variant,score\n" + "".join(rows))
    assert read_judged(file).models == ("m", "m/fp16", "m/int8")
    run("fit", file, "--out", out)
    model = read(out.read_text()).model
    assert model.names(["m"]) == ["m", "m/fp16", "m/int8"]
    hard, easy = (
        expected_quality(0.5, model.models["m/int8"], model.vector(features_of(text.format(999))))
        for text in (HARD, EASY)
    )
    assert hard < 0.2 < 0.8 < easy


def test_a_prompt_is_in_the_same_part_in_every_process() -> None:
    assert [fold_of(text) for text in ("a", "b", "Why?")] == [0, 1, 4]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("prompt,model,score\nx,m,2\n", "row 1: 'score' must be a number from 0 to 1"),
        ("prompt,model,score\nx,m,nan\n", "row 1: 'score' must be"),
        ("prompt,model,score\n,m,1\n", "row 1: 'prompt' must be text"),
        ('{"prompt": "x", "model": "m", "variant": 8, "score": 1}', "'variant' must be text"),
        ("prompt,words\nx,m\n", "neither 'model' and 'score'"),
        ("", "no judged answer"),
        ("{oops", "Expecting"),
    ],
)
def test_a_wrong_file_is_refused_at_its_row(tmp_path: Path, text: str, mistake: str) -> None:
    file = tmp_path / "judged.csv"
    file.write_text(text)
    with pytest.raises(BadJudgedAnswers) as refused:
        read_judged(file)
    assert mistake in str(refused.value)
