"""A model on ModelScope: `modelscope:org/name` or `modelscope:org/name:file.gguf`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from vivace.errors import ModelError
from vivace.models.files import Confirm, Say, ask
from vivace.models.local import local
from vivace.models.model import Model
from vivace.models.remote import RemoteFile, announcement, choose, total_bytes


def fetch(wanted: str, *, offline: bool, say: Say, confirm: Confirm) -> Model:
    """The model, through the `modelscope` package and its own cache. Raises `ModelError`."""
    try:
        from modelscope.hub import api, file_download  # pyright: ignore
    except ImportError as error:
        raise ModelError(
            f"`modelscope:{wanted}` needs the package `modelscope`",
            hint="install it: `pip install 'vivace[modelscope]'`",
        ) from error
    hub, downloader = cast(Any, api), cast(Any, file_download)
    repo, _, name = wanted.partition(":")
    source = f"modelscope:{repo}"
    if offline and not name:
        raise ModelError(
            f"`{source}` cannot be listed while fetching is off (`--offline`)",
            hint=f"name its file: `{source}:FILE.gguf`",
        )
    try:
        if offline:
            chosen = (RemoteFile(name=name),)
        else:
            listed = hub.HubApi().get_model_files(repo, recursive=True)
            files = [
                RemoteFile(name=f["Path"], bytes=f.get("Size"), sha256=f.get("Sha256"))
                for f in listed
            ]
            chosen = choose(files, name, where=source, say=say)
            size = total_bytes(chosen)
            line = announcement(chosen[0].name, size, source=source, licence="")
            ask(line, size, say=say, confirm=confirm)
        paths = [
            Path(downloader.model_file_download(repo, f.name, local_files_only=offline))
            for f in chosen
        ]
    except ModelError:
        raise
    except Exception as error:  # its errors have no common base
        raise ModelError(
            f"ModelScope could not give `{wanted}`: {error}",
            hint="check the name and the network, or name a local model file",
        ) from error
    return replace(local(paths[0]), source=f"{source}:{chosen[0].name}")
