import re
from itertools import pairwise

import pytest

from vivace.report.charts import distributions, qualities, waterfalls
from vivace.report.scale import scale_of
from vivace.report.svg import MOST_DOTS, thinned
from vivace.report.tags import el, esc
from vivace.report.view import read_study

from .sample import study


def test_a_span_of_more_than_ten_is_logarithmic() -> None:
    assert scale_of([1.0, 10.0]).log is False
    assert scale_of([1.0, 10.1]).log is True
    assert scale_of([0.0, 1000.0]).log is False


def test_equal_ratios_are_equally_wide_on_a_logarithmic_scale() -> None:
    scale = scale_of([1.0, 100.0])
    assert scale.at(10) - scale.at(1) == pytest.approx(scale.at(100) - scale.at(10), abs=0.02)


def test_a_linear_scale_starts_at_zero_and_shows_what_is_below_it() -> None:
    scale = scale_of([40.0, 67.0])
    assert scale.lo == 0
    assert scale.at(0) == 1.5
    assert scale_of([-0.3, 2.0]).lo < -0.3


def test_values_outside_stay_inside_the_chart() -> None:
    scale = scale_of([1.0, 2.0])
    assert (scale.at(-5), scale.at(50)) == (1.5, 98.5)


@pytest.mark.parametrize(
    "values", [[], [0.0], [5.0], [0.001, 0.002], [3.0, 900_000.0], [-2.0, -1.0]]
)
def test_ticks_are_inside_the_scale_and_apart(values: list[float]) -> None:
    scale = scale_of(values)
    places = [scale.at(t) for t in scale.ticks()]
    assert places
    assert all(b - a >= 16 for a, b in pairwise(places))
    assert all(scale.lo <= t <= scale.hi * 1.001 for t in scale.ticks())


def test_a_step_starts_where_the_last_kept_one_ended() -> None:
    chart = waterfalls(read_study(study()))[0]
    bars = re.findall(
        r'<rect x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"[^>]*class="bar (\w+) (\w+)"', chart
    )
    kept = [(float(x), float(x) + float(w)) for x, w, look, _ in bars if look == "kept"]
    rejected = [(float(x), float(x) + float(w)) for x, w, look, _ in bars if look == "rejected"]
    assert kept[0][0] == pytest.approx(kept[1][1], abs=0.02)
    # Flash attention off was worse than the prefix cache it was tried on.
    assert rejected[0][0] == pytest.approx(kept[0][0], abs=0.02)
    assert [b[2:] for b in bars[:2]] == [("kept", "good"), ("rejected", "bad")]


def test_whiskers_are_drawn_where_there_are_intervals() -> None:
    view = read_study(study())
    charts = waterfalls(view)
    assert len(charts) == 5
    assert charts[0].count('class="whisker"') == 3 * (2 + 9 + 1)
    assert 'class="whisker"' not in charts[4]


def test_a_loss_far_beyond_the_limit_is_cut_and_marked() -> None:
    chart = qualities(read_study(study()))
    assert "33.7 % →, fail" in chart
    assert chart.count('class="limit"') == 5


def test_the_samples_of_both_baselines_and_the_winner_are_drawn() -> None:
    chart = distributions(read_study(study()))[0]
    assert chart.count("<circle") == 12 + 12 + 24


def test_many_samples_are_thinned_evenly_and_keep_their_ends() -> None:
    drawn = thinned([float(i) for i in range(10_000)])
    assert len(drawn) == MOST_DOTS
    assert (drawn[0], drawn[-1]) == (0.0, 9_999.0)


def test_elements_escape_attributes_and_text() -> None:
    assert el("a", esc("<&>"), class_='"', aria_label=None) == '<a class="&quot;">&lt;&amp;&gt;</a>'
