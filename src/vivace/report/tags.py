"""HTML that cannot forget to escape: only `esc` turns text into `Html`."""

from html import escape
from typing import NewType

Html = NewType("Html", str)
NOTHING = Html("")


def esc(raw: str) -> Html:
    """Text as it is, for content and for attributes."""
    return Html(escape(raw, quote=True))


def el(name: str, *children: Html, **attributes: str | int | float | None) -> Html:
    """An element. A trailing `_` in an attribute's name is dropped, other `_` become `-`.

    Attributes that are `None` are left out; their values are escaped, children are not.
    """
    return Html(f"<{name}{_attributes(attributes)}>{''.join(children)}</{name}>")


def _attributes(attributes: dict[str, str | int | float | None]) -> str:
    return "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )


def join(*parts: Html) -> Html:
    """Parts one after another."""
    return Html("".join(parts))
