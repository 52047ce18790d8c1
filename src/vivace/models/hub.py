"""A model on a Hugging Face hub: `org/name` or `org/name:file.gguf`.

`HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` hold as `huggingface_hub` reads them; files go
to its own shared cache, so nothing is fetched twice. A broken connection is resumed within the run;
after an interrupted run the library (2.4 at least) starts the file again.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vivace.errors import ModelError
from vivace.models.files import Confirm, Say, ask, require_room, sha256_of
from vivace.models.gguf import part_names
from vivace.models.local import first_parts, local
from vivace.models.model import Model
from vivace.models.remote import RemoteFile, announcement, choose, total_bytes


def fetch(
    spec: str,
    *,
    offline: bool,
    say: Say,
    confirm: Confirm,
    endpoint: str | None = None,
    cache_dir: Path | None = None,
) -> Model:
    """The model that `spec` names; what the cache has is not fetched again.

    Without a hub in reach, the cache's copy is used and that is said. Raises `ModelError`.
    """
    from huggingface_hub import constants

    repo, _, wanted = spec.partition(":")
    if offline or constants.is_offline_mode():
        cached = _cached(repo, wanted, cache_dir)
        if cached is None:
            raise ModelError(
                f"`{spec}` is not in the hub's cache, and fetching is off "
                "(`--offline` or `HF_HUB_OFFLINE`)",
                hint="run once with a network, or name a local model file",
            )
        return _model(cached, spec=f"hub:{repo}", licence="")
    try:
        files, licence = _listing(repo, endpoint)
    except _UnreachableError as error:
        cached = _cached(repo, wanted, cache_dir)
        if cached is None:
            raise
        say(f"{error}; using the copy in the hub's cache")
        return _model(cached, spec=f"hub:{repo}", licence="")
    chosen = choose(files, wanted, where=repo, say=say)
    if _cached(repo, chosen[0].name, cache_dir) is None:
        size = total_bytes(chosen)
        line = announcement(chosen[0].name, size, source=f"hub:{repo}", licence=licence)
        ask(line, size, say=say, confirm=confirm)
        require_room(_cache_folder(cache_dir), size or 0, what=chosen[0].name)
    paths = [_download(repo, file.name, endpoint, cache_dir) for file in chosen]
    model = _model(paths[0], spec=f"hub:{repo}", licence=licence)
    _check_hashes(model, chosen, paths)
    return model


_REFUSALS = {
    401: (
        "does not show this account",
        "check the name; for a private model set `HF_TOKEN` to a valid token",
    ),
    403: (
        "restricts the access to",
        "accept the model's terms on its page, then set `HF_TOKEN` to a token of that account",
    ),
    404: ("has no", "check the name, letter by letter"),
}


class _UnreachableError(ModelError):
    """No hub answered, or not in a usable way."""


def _listing(repo: str, endpoint: str | None) -> tuple[list[RemoteFile], str]:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # pyright: ignore[reportPrivateImportUsage]

    try:
        info = HfApi(endpoint=endpoint).model_info(repo, files_metadata=True)
    except (HfHubHTTPError, HTTPError, OSError, ValueError) as error:
        raise _told(repo, error) from error
    files = [
        RemoteFile(name=s.rfilename, bytes=s.size, sha256=s.lfs.sha256 if s.lfs else None)
        for s in info.siblings or ()
    ]
    licences = [t.removeprefix("license:") for t in info.tags or () if t.startswith("license:")]
    return files, ", ".join(licences)


def _download(repo: str, name: str, endpoint: str | None, cache_dir: Path | None) -> Path:
    from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # pyright: ignore[reportPrivateImportUsage]

    try:
        path: str = hf_hub_download(repo, name, endpoint=endpoint, cache_dir=cache_dir)
    except (HfHubHTTPError, HTTPError, OSError, ValueError) as error:
        raise _told(f"{repo}:{name}", error) from error
    return Path(path)


def _told(what: str, error: Exception) -> ModelError:
    """The hub's error in one sentence, with the hint that fits."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError

    if isinstance(error, HFValidationError):
        return ModelError(f"`{what}` is no hub id: {error}", hint="write `org/name`")
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, GatedRepoError):
        status = 403
    if status in _REFUSALS:
        message, hint = _REFUSALS[status]
        return ModelError(f"the hub {message} `{what}` (HTTP {status})", hint=hint)
    return _UnreachableError(
        f"the hub did not answer for `{what}`: {str(error).strip() or type(error).__name__}",
        hint="check the network, `HF_ENDPOINT`, proxy settings and disk, or name a local model file",
    )


def _cached(repo: str, wanted: str, cache_dir: Path | None) -> Path | None:
    """The first part of a model that is whole in the cache: `wanted`, or the only one."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir(cache_dir).repos
    except CacheNotFound:
        return None
    revisions = [v for r in repos if r.repo_id == repo for v in r.revisions]
    for revision in sorted(revisions, key=lambda v: v.last_modified, reverse=True):
        root = revision.snapshot_path
        paths = {f.file_path.relative_to(root).as_posix(): f.file_path for f in revision.files}
        names = [wanted] if wanted else first_parts(sorted(paths))
        if len(names) == 1 and all(part in paths for part in part_names(names[0])):
            return paths[names[0]]
    return None


def _cache_folder(cache_dir: Path | None) -> Path:
    """The nearest folder of the cache that exists already."""
    from huggingface_hub import constants

    folder = cache_dir or Path(constants.HF_HUB_CACHE)
    return next(p for p in (folder, *folder.parents) if p.exists())


def _model(path: Path, *, spec: str, licence: str) -> Model:
    model = local(path)
    return replace(model, source=f"{spec}:{path.name}", licence=licence or model.licence)


def _check_hashes(model: Model, files: Sequence[RemoteFile], paths: Sequence[Path]) -> None:
    for file, path in zip(files, paths, strict=True):
        got = model.sha256 if len(files) == 1 else sha256_of([path])
        if file.sha256 is not None and got != file.sha256:
            raise ModelError(
                f"`{path}` is damaged: its hash is {got[:16]}..., the hub says {file.sha256[:16]}...",
                hint="delete the file and run again",
            )
