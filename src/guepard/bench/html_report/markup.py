"""HTML and SVG that can only be built escaped: text is text unless this module made it."""

from collections.abc import Iterable, Sequence

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_VOID = frozenset(("br", "circle", "col", "hr", "line", "path", "polygon", "polyline", "rect"))
# HTML has no control characters. Others change the direction of what follows, so that a name could pose as another.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
_BIDI = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
_UNSAFE = _CONTROLS | _BIDI | _SURROGATES


class Markup(str):
    """Text that is markup already. Only `tag`, `text` and `joined` make it."""

    __slots__ = ()


Content = str | Markup | None
Attribute = str | int | float | None


def text(value: str) -> Markup:
    """Any text, escaped for content and for quoted attributes. What cannot be shown is written as an escape."""
    return Markup(str(value).translate(_UNSAFE).translate(_ESCAPES))


def tag(name: str, *content: Content, **attributes: Attribute) -> Markup:
    """An element. Content that is no markup is escaped, attributes always are; those that are None are left out.

    `class_` stands for class; other underscores become hyphens: `stroke_width`, `aria_label`.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not content:
        return Markup(f"<{name}{words}/>" if name not in ("br", "col", "hr") else f"<{name}{words}>")
    return Markup(f"<{name}{words}>{joined(content)}</{name}>")


def joined(parts: Iterable[Content], between: str = "") -> Markup:
    """The parts one after the other, each escaped unless it is markup."""
    shown = (part if isinstance(part, Markup) else text(part) for part in parts if part is not None)
    return Markup(text(between).join(shown))


def table(
    head: Sequence[Content],
    rows: Iterable[Sequence[Content]],
    *,
    caption: str,
    is_caption_shown: bool = False,
    classes: Sequence[str | None] = (),
    class_: str | None = None,
) -> Markup:
    """A table that may scroll sideways in its own box. The first cell of a row is its header.

    `classes` gives one class a column; "n" is for figures.
    """
    kinds = [*classes, *[None] * (len(head) - len(classes))]
    cells = [tag("th", each, scope="col", class_=kind) for each, kind in zip(head, kinds, strict=True)]
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=kind) if place else tag("th", cell, scope="row", class_=kind)
                for place, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            ),
        )
        for row in rows
    ]
    content = tag(
        "table",
        tag("caption", caption, class_=None if is_caption_shown else "unseen"),
        tag("thead", tag("tr", *cells)),
        tag("tbody", *body),
        class_=class_,
    )
    # A box that scrolls must be reachable by keyboard, and so must have a name.
    return tag("div", content, class_="wide", tabindex="0", role="region", aria_label=caption)


def _attribute(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return text(str(value))
