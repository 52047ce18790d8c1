import errno
import signal

import pytest

from vivace.cli import tune
from vivace.cli.main import main
from vivace.cli.units import duration_s, levels, share, size_bytes
from vivace.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("8m", 480), ("1h30m", 5400), ("2.5m", 150), (" 3M ", 180)]
)
def test_durations(text: str, seconds: float):
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "8", "m", "8 minutes", "-3m", "8mx", "1e3s"])
def test_a_duration_without_unit_or_with_more_is_refused_with_an_example(text: str):
    with pytest.raises(ConfigError) as caught:
        duration_s(text)
    assert text in str(caught.value)
    assert "`8m`" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("400MiB", 400 * 2**20), ("1.5GB", 1_500_000_000), ("7", 7), ("3 kib", 3072)],
)
def test_sizes(text: str, size: int):
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "2XB", "-1GiB", "2GiB3"])
def test_a_wrong_size_is_refused(text: str):
    with pytest.raises(ConfigError, match="no size"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.02", 0.02), ("0.5 %", 0.005), ("0", 0)]
)
def test_shares(text: str, value: float):
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "two", "2%%", "-2%"])
def test_a_wrong_share_is_refused(text: str):
    with pytest.raises(ConfigError, match="no share"):
        share(text)


def test_levels():
    assert levels("16") == (16,)
    assert levels("1,16,100") == (1, 16, 100)


@pytest.mark.parametrize("text", ["", "a", "1,,2", "0", "4,-1", "1.5"])
def test_wrong_levels_are_refused(text: str):
    with pytest.raises(ConfigError):
        levels(text)


def test_what_the_system_refuses_is_an_error_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "study/tuned.yaml")

    monkeypatch.setattr(tune, "run", full)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["tune"]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    told = capsys.readouterr().err
    assert told.startswith("error: the system refused `study/tuned.yaml`: No space left on device")
    assert "hint: " in told
