"""How an image is to be turned before it is looked at.

Source: Exif 2.3, 4.6.4 A (tag 0x0112) and 4.7.2 (its place in a JPEG).
"""

from struct import error, unpack_from

_ORIENTATION = 0x0112
_MARKERS_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


def orientation(exif: object) -> int:
    """1 to 8; what is no orientation is 1: the picture lies as it is stored."""
    return exif if isinstance(exif, int) and 1 <= exif <= 8 else 1


def jpeg_orientation(data: bytes) -> int:
    """As `orientation`, for a whole JPEG; a block that cannot be read says nothing. Cost: some microseconds."""
    try:
        block = _exif_block(data)
        return orientation(_entry(data, block)) if block else 1
    except (error, IndexError):
        return 1


def _exif_block(data: bytes) -> int:
    """Where the TIFF header of the Exif block begins; 0 for none."""
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:  # a fill byte
            place += 1
        elif marker in _MARKERS_ALONE:
            place += 2
        elif marker == 0xDA or marker == 0xD9:  # the picture itself, or its end
            return 0
        elif marker == 0xE1 and data[place + 4 : place + 10] == b"Exif\0\0":
            return place + 10
        else:
            place += 2 + unpack_from(">H", data, place + 2)[0]
    return 0


def _entry(data: bytes, start: int) -> int:
    order = {b"II": "<", b"MM": ">"}.get(data[start : start + 2])
    if order is None:
        return 1
    directory = start + unpack_from(f"{order}I", data, start + 4)[0]
    (count,) = unpack_from(f"{order}H", data, directory)
    for number in range(count):
        tag, kind, values, value = unpack_from(f"{order}HHIH", data, directory + 2 + 12 * number)
        if tag == _ORIENTATION:
            return int(value) if kind == 3 and values == 1 else 1
    return 1
