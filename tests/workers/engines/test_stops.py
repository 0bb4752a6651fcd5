from hypothesis import given
from hypothesis import strategies as st

from workers.engines.continuous.stops import StopMatcher

texts = st.lists(st.text(alphabet="ab", max_size=5), max_size=12)
stops = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=4).map(tuple)


def run(matcher: StopMatcher, pieces: list[str]) -> tuple[str, str | None]:
    out = ""
    for piece in pieces:
        passed = matcher.push(piece)
        out += passed.text
        if passed.stopped_by is not None:
            return out, passed.stopped_by
    return out + matcher.flush(), None


@given(texts, stops)
def test_no_stop_string_is_ever_let_out_and_nothing_else_is_lost(
    pieces: list[str], stops: tuple[str, ...]
) -> None:
    out, stop = run(StopMatcher(stops), pieces)
    assert not any(stop in out for stop in stops)
    assert (stop is not None) == any(stop in "".join(pieces) for stop in stops)
    assert "".join(pieces).startswith(out + (stop or ""))
    assert stop is not None or out == "".join(pieces)


def test_a_stop_string_is_found_across_pieces() -> None:
    assert run(StopMatcher(("END",)), ["one E", "N", "D two"]) == ("one ", "END")


def test_the_first_stop_string_in_the_text_is_the_one_that_is_told() -> None:
    assert run(StopMatcher(("two", "END")), ["one END", " two"]) == ("one ", "END")


def test_a_beginning_that_goes_another_way_comes_out_late_but_whole() -> None:
    matcher = StopMatcher(("END",))
    assert [matcher.push(piece).text for piece in ("E", "N", "O")] == ["", "", "ENO"]


def test_without_stop_strings_text_passes_at_once() -> None:
    assert StopMatcher(()).push("text").text == "text"
