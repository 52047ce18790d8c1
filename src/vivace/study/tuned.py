"""`tuned.yaml`: what serves the winner, in vivace's words and in the engine's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from vivace.core import Message, ServingConfig
from vivace.errors import ConfigError


class TunedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Where the model is found again, and the hash of the file that was measured."""

    source: str
    sha256: str


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content; unknown keys are refused so that a typing error does not go unseen."""

    engine: str
    model: TunedModel
    config: ServingConfig
    engine_args: dict[str, object]
    warm_prefixes: list[list[Message]]
    made_by: dict[str, str]


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the file whole or not at all."""
    data = msgspec.to_builtins(tuned)
    data["config"] = {k: v for k, v in data["config"].items() if v is not None}
    temporary = path.with_suffix(".part")
    temporary.write_text(
        yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    temporary.replace(path)


def read_tuned(path: Path) -> Tuned:
    """Read it again; raises `ConfigError` that names the wrong key."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return msgspec.convert(data, Tuned)
    except (OSError, yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"`{path}` is no tuned configuration: {error}",
            hint="`vivace tune` writes one into its study folder",
        ) from error


def tuned_of(
    *,
    config: ServingConfig,
    model_source: str,
    sha256: str,
    engine_args: Mapping[str, object],
    prefixes: Sequence[Sequence[Message]],
    made_by: Mapping[str, str],
) -> Tuned:
    """Put it together; the prefixes are there only when the configuration warms them."""
    return Tuned(
        engine=config.engine,
        model=TunedModel(source=model_source, sha256=sha256),
        config=config,
        engine_args=dict(engine_args),
        warm_prefixes=[list(p) for p in prefixes] if config.warm_prefix else [],
        made_by=dict(made_by),
    )
