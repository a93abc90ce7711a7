"""Paints sample.png, the picture that the page upscales at first: a lighthouse at dusk.

Run `python web/make_sample.py` after a change; it needs NumPy. Everything is drawn from formulas
at eight times the size and averaged, so that the picture is as soft as a small photograph.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, SUPER = 144, 96, 8

Field = NDArray[np.floating[Any]]


class Canvas:
    """Colours in 0..1, in units of the small picture's pixels."""

    def __init__(self) -> None:
        steps = (np.arange(SUPER * max(WIDTH, HEIGHT)) + 0.5) / SUPER
        self.x = steps[None, : SUPER * WIDTH]
        self.y = steps[: SUPER * HEIGHT, None]
        self.rgb = np.zeros((SUPER * HEIGHT, SUPER * WIDTH, 3))

    def paint(self, mask: Field | NDArray[np.bool_], colour: str | Field) -> None:
        """Blend a colour in, by a mask of 0..1."""
        paint = hexadecimal(colour) if isinstance(colour, str) else colour
        alpha = np.broadcast_to(np.asarray(mask, dtype=float), self.rgb.shape[:2])[..., None]
        self.rgb += alpha * (paint - self.rgb)

    def polygon(self, points: list[tuple[float, float]], colour: str | Field) -> None:
        """A convex polygon, its corners clockwise on the screen."""
        inside = np.ones(self.rgb.shape[:2], dtype=bool)
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            inside &= (x1 - x0) * (self.y - y0) - (y1 - y0) * (self.x - x0) >= 0
        self.paint(inside, colour)

    def line(
        self, start: tuple[float, float], end: tuple[float, float], width: float, colour: str
    ) -> None:
        self.paint(self.distance(start, end) < width / 2, colour)

    def distance(self, start: tuple[float, float], end: tuple[float, float]) -> Field:
        """How far each point is from a line segment."""
        (x0, y0), (x1, y1) = start, end
        dx, dy = x1 - x0, y1 - y0
        t = ((self.x - x0) * dx + (self.y - y0) * dy) / (dx * dx + dy * dy)
        t = np.clip(t, 0, 1)
        return np.hypot(self.x - x0 - t * dx, self.y - y0 - t * dy)

    def picture(self) -> NDArray[np.uint8]:
        blocks = self.rgb.reshape(HEIGHT, SUPER, WIDTH, SUPER, 3)
        pixels: NDArray[np.uint8] = np.rint(np.clip(blocks.mean((1, 3)), 0, 1) * 255).astype(
            np.uint8
        )
        return pixels


def hexadecimal(colour: str) -> Field:
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)])


def gradient(position: Field, *stops: tuple[float, str]) -> Field:
    """Colours along a line of (position, colour) stops."""
    places = [place for place, _ in stops]
    colours = np.array([hexadecimal(colour) for _, colour in stops])
    return np.stack([np.interp(position, places, colours[:, c]) for c in range(3)], axis=-1)


def ridge(x: Field, base: float, height: float, seed: int) -> Field:
    """The outline of hills: octaves of waves with random phases."""
    rng = np.random.default_rng(seed)
    line = np.zeros_like(x)
    for octave in range(7):
        line += np.sin(x * 0.045 * 2**octave + rng.uniform(0, 6.28)) / 2**octave
    return base - height * (0.5 + line / 3)


HORIZON = 66.0
SUN = (40.0, 52.0)


def sky(c: Canvas) -> None:
    c.paint(
        np.ones((1, 1)),
        gradient(
            c.y + 0 * c.x,
            (0, "1b2a5c"), (22, "4a4a8c"), (40, "b5658c"), (54, "f2936a"), (66, "ffd18a"),
        ),
    )  # fmt: skip
    far = np.hypot(c.x - SUN[0], (c.y - SUN[1]) * 1.1)
    c.paint(np.exp(-far / 15) * 0.85, "ffe2a0")
    c.paint(far < 7.2, "fff3cf")
    rng = np.random.default_rng(5)
    for x, y, r in zip(
        rng.uniform(0, WIDTH, 46), rng.uniform(0, 30, 46), rng.uniform(0.18, 0.5, 46), strict=True
    ):
        c.paint((np.hypot(c.x - x, c.y - y) < r) * (1 - y / 36), "fdf6e3")
    for x, y, long, thick in (
        (18, 34, 26, 1.3),
        (70, 40, 34, 1.1),
        (128, 28, 24, 1.2),
        (102, 47, 30, 0.9),
    ):
        wave = y + 0.8 * np.sin(c.x * 0.17 + y)
        body = np.clip(1 - np.hypot((c.x - x) / long, (c.y - wave) / thick), 0, 1)
        c.paint(body**0.6 * 0.75, "ffc9a8")


def hills(c: Canvas) -> None:
    for base, height, seed, colour in (
        (68, 17, 3, "8a5a8a"),
        (69, 11, 8, "5d4677"),
        (70, 6, 21, "3d355f"),
    ):
        c.paint((c.y > ridge(c.x, base, height, seed)) & (c.y < HORIZON + 1), colour)


def sea(c: Canvas) -> None:
    water = c.y > HORIZON
    depth = np.maximum(c.y - HORIZON, 0)
    c.paint(
        water,
        gradient(depth + 0 * c.x, (0, "f0a878"), (5, "a8688c"), (14, "4b4a86"), (30, "1d2852")),
    )
    waves = np.sin(
        depth**0.62 * 9 + 1.5 * np.sin(c.x * 0.16 + depth * 0.3) + 0.35 * np.sin(c.x * 0.7)
    )
    c.paint(water * (waves > 0.72) * np.clip(0.55 - depth / 60, 0, 1), "ffc894")
    c.paint(water * (waves < -0.85) * 0.35, "141c40")
    glitter = np.abs(c.x - SUN[0] + 1.2 * np.sin(depth * 2.1)) < 2.5 + depth * 0.34
    c.paint(water * glitter * (waves > 0.1) * np.clip(0.95 - depth / 34, 0, 1), "ffe9b0")


def boat(c: Canvas) -> None:
    c.polygon([(17, 73.2), (33.4, 73.2), (30.5, 76.6), (19.4, 76.6)], "5a1f2c")
    c.polygon([(17, 73.2), (33.4, 73.2), (33, 74), (17.5, 74)], "e8d9c0")
    c.line((25, 73), (25, 55.5), 0.5, "2a1a20")
    c.polygon([(25.5, 56.5), (33.2, 71.8), (25.5, 71.8)], "fff6e6")
    c.polygon([(24.5, 58), (24.5, 71.8), (18.4, 71.8)], "f3c9a0")
    c.line((25, 55.5), (33.4, 72), 0.22, "2a1a20")
    c.line((25, 55.5), (17.2, 73), 0.22, "2a1a20")
    c.polygon([(25, 55.4), (28.2, 56.3), (25, 57.2)], "c8323c")


def rock(c: Canvas) -> None:
    x = c.x - 108
    top = (
        73 - 9.5 * np.exp(-((x / 19) ** 4)) + 1.1 * np.sin(c.x * 0.9) + 0.7 * np.sin(c.x * 2.3 + 1)
    )
    body = (c.y > top) & (np.abs(x) < 35 + (c.y - 73) * 0.5)
    foam = 88 + 0.9 * np.sin(c.x * 0.33) + 0.4 * np.sin(c.x * 0.71 + 2)
    body &= c.y < foam
    shade = 0.8 * np.sin(0.9 * c.x + 0.5 * c.y + 2 * np.sin(c.y * 0.31 + c.x * 0.13))
    shade = shade + np.sin(c.x * 0.37 - c.y * 0.9 + 2.5 * np.sin(c.x * 0.23)) - x / 40
    c.paint(body, gradient(shade, (-1.8, "6d4a58"), (0, "44324a"), (1.8, "1f1a30")))
    c.paint(body & (c.y < top + 1.0), "8f9a5a")
    c.paint(body & (c.y < top + 0.5), "c3b870")
    near = np.clip(1 - np.abs(c.y - foam - 0.3) / 0.9, 0, 1) * (np.abs(x) < 44)
    c.paint(near * 0.9, "f6e3d6")


def lighthouse(c: Canvas) -> None:
    lamp = (106.0, 20.5)
    angle = np.arctan2(c.y - lamp[1], lamp[0] - c.x)
    far = np.hypot(c.x - lamp[0], c.y - lamp[1])
    for centre, wide in ((-0.06, 0.10), (np.pi - 0.12, 0.10)):
        away = np.abs(np.angle(np.exp(1j * (angle - centre))))
        c.paint(np.clip(1 - away / wide, 0, 1) * 0.6 * np.exp(-far / 60), "fff2b8")
    t = (c.y - 26) / (65 - 26)
    half = 4.2 + 3.6 * np.clip(t, 0, 1)
    side = (c.x - lamp[0]) / half
    tower = (np.abs(side) <= 1) & (t >= 0) & (t <= 1)
    red = np.floor((c.y - 26 + 1.2 * np.sqrt(np.clip(1 - side**2, 0, 1))) / 6.6) % 2 == 1
    light = 0.55 + 0.45 * np.clip(0.55 - side * 0.85, 0, 1)
    c.paint(tower & ~red, np.clip(light[..., None], 0, 1) * hexadecimal("fff4e4"))
    c.paint(tower & red, np.clip(light[..., None], 0, 1) * hexadecimal("d8343a"))
    for y in (33, 43, 53):
        c.polygon([(105, y), (107, y), (107, y + 3), (105, y + 3)], "ffdf8a")
        c.line((106, y), (106, y + 3), 0.3, "4a2a30")
    c.polygon([(104, 60), (108, 60), (108, 65.4), (104, 65.4)], "3a2030")
    c.polygon([(100.2, 24.6), (111.8, 24.6), (111.2, 26.4), (100.8, 26.4)], "2a2238")
    for x in np.arange(100.6, 112, 1.8):
        c.line((x, 22.2), (x, 24.8), 0.28, "2a2238")
    c.line((100.4, 22.2), (111.6, 22.2), 0.35, "2a2238")
    c.polygon([(103, 17), (109, 17), (109, 24.4), (103, 24.4)], "ffe98f")
    c.paint(np.exp(-far / 4.5) * 0.9, "fffbe0")
    for x in (103.0, 105.0, 107.0, 109.0):
        c.line((x, 17), (x, 24.4), 0.3, "3a2c44")
    c.polygon([(106, 11.6), (110.6, 17), (101.4, 17)], "8e2430")
    c.line((106, 12), (106, 8.8), 0.35, "2a2238")


def cottage(c: Canvas) -> None:
    c.polygon([(116, 57.5), (129, 57.5), (129, 66), (116, 66)], "f0dcc4")
    c.polygon([(118.2, 51.6), (126.8, 51.6), (130.4, 57.8), (114.6, 57.8)], "7a3440")
    for y in (53.1, 54.7, 56.3):
        c.line((115.5, y), (129.5, y), 0.2, "5a222e")
    c.polygon([(124.5, 49), (126.3, 49), (126.3, 53.4), (124.5, 53.4)], "5a3a40")
    for x in (117.6, 125.2):
        c.polygon([(x, 59.6), (x + 2.4, 59.6), (x + 2.4, 62.4), (x, 62.4)], "ffd97a")
        c.line((x + 1.2, 59.6), (x + 1.2, 62.4), 0.25, "5a3a40")
        c.line((x, 61), (x + 2.4, 61), 0.25, "5a3a40")
    c.polygon([(121.4, 60), (123.8, 60), (123.8, 66), (121.4, 66)], "3f5a78")


def birds(c: Canvas) -> None:
    for x, y, s in ((60, 24, 2.6), (66.5, 21, 2.1), (71, 26.5, 1.7), (54, 29.5, 1.6)):
        for side in (-1, 1):
            c.line((x, y), (x + side * s * 0.6, y - s * 0.45), 0.4, "1d1a38")
            c.line(
                (x + side * s * 0.6, y - s * 0.45),
                (x + side * s * 1.3, y - s * 0.1),
                0.32,
                "1d1a38",
            )


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An RGB image as a PNG file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def main() -> None:
    canvas = Canvas()
    for part in (sky, hills, sea, boat, rock, lighthouse, cottage, birds):
        part(canvas)
    Path(__file__).with_name("sample.png").write_bytes(png(canvas.picture()))


if __name__ == "__main__":
    main()
