"""The page as a visitor uses it: the sample, a file of one's own, the layers, the operator panel."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from .artifacts import artifact
from .conftest import Errors

READY = 120_000
DONE = 240_000


Colour = tuple[int, int, int, int]


def png(width: int, height: int, colour: Colour | Callable[[int], Colour]) -> bytes:
    """A picture of one colour, or of a colour for each column."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    columns = [colour(x) if callable(colour) else colour for x in range(width)]
    rows = (b"\0" + b"".join(map(bytes, columns))) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def kept(browser: Browser, site: str) -> Iterator[tuple[Page, Errors]]:
    """One page that has started, for the tests that only use it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors = Errors(page)
    opened(page, site)
    yield page, errors
    page.close()


@pytest.fixture
def visit(kept: tuple[Page, Errors], request: pytest.FixtureRequest) -> Iterator[Page]:
    page, errors = kept
    yield page
    errors.check(request)


def opened(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator("#status")).to_have_text("Ready.", timeout=READY)
    return page


def choose(page: Page, content: bytes, name: str = "mine.png", kind: str = "image/png") -> None:
    page.evaluate("caption.textContent = ''")
    page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": content})
    page.wait_for_function("caption.textContent || !error.hidden")


def upscaled(page: Page) -> None:
    page.get_by_role("button", name="Upscale").click()
    expect(page.locator("#compare")).to_have_class(re.compile(r"\bdone\b"), timeout=DONE)


def pixel(page: Page, canvas: str, x: int, y: int) -> list[int]:
    script = "([id, x, y]) => [...document.getElementById(id).getContext('2d').getImageData(x, y, 1, 1).data]"
    return list(page.evaluate(script, [canvas, x, y]))


def test_a_visitor_upscales_a_small_picture_of_their_own(visit: Page) -> None:
    choose(visit, png(40, 24, (200, 90, 30, 255)))
    expect(visit.locator("#caption")).to_have_text("40 × 24 becomes 80 × 48.")
    upscaled(visit)
    assert visit.evaluate("[after.width, after.height]") == [80, 48]
    middle = pixel(visit, "after", 40, 24)
    assert all(abs(got - given) <= 3 for got, given in zip(middle, (200, 90, 30, 255), strict=True))

    rows = visit.locator("#layers tbody tr")
    expect(rows).to_have_count(16)
    first = rows.first.locator("td").all_inner_texts()
    assert first[0] == "F_m1"
    assert first[2:4] == ["1×3×32×48", "1×64×32×48"]
    assert re.fullmatch(r"[\d.]+ m?s", first[5])
    visit.screenshot(path=artifact("visit.png"), full_page=True)


def test_a_variant_in_the_table_explains_itself(visit: Page) -> None:
    choose(visit, png(16, 16, (0, 0, 0, 255)))
    upscaled(visit)
    variant = visit.locator("#layers tbody button").first
    chosen = variant.inner_text()
    variant.click()
    dialog = visit.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Why {chosen}?")
    expect(dialog.locator("tr.chosen code")).to_have_text(chosen)
    assert dialog.locator("tr.refused").count() > 20
    visit.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_transparent_picture_stays_transparent(visit: Page) -> None:
    choose(visit, png(16, 16, (90, 90, 90, 128)))
    upscaled(visit)
    assert abs(pixel(visit, "after", 16, 16)[3] - 128) <= 1


def test_sixteen_bits_give_nearly_the_same_picture(visit: Page, facts: dict[str, Any]) -> None:
    if "shader-f16" not in facts["features"]:
        pytest.skip(f"no shader-f16 on {facts['adapter']}")
    choose(visit, png(24, 10, lambda x: (10 * x, 240 - 10 * x, 90, 255)))
    upscaled(visit)
    read = "[...after.getContext('2d').getImageData(0, 0, 48, 20).data]"
    exact = visit.evaluate(read)
    visit.locator("#half").check()
    visit.get_by_role("button", name="Upscale").click()
    visit.wait_for_function("!compare.classList.contains('done')")
    expect(visit.locator("#compare")).to_have_class(re.compile(r"\bdone\b"), timeout=DONE)
    visit.locator("#half").uncheck()
    assert max(abs(a - b) for a, b in zip(visit.evaluate(read), exact, strict=True)) <= 2


def test_a_file_that_is_no_picture_is_refused(visit: Page) -> None:
    choose(visit, b"hello", "notes.txt", "text/plain")
    expect(visit.get_by_role("alert")).to_contain_text("not a picture")
    expect(visit.get_by_role("button", name="Upscale")).to_be_enabled()


def test_a_picture_that_is_too_large_is_made_smaller_first(visit: Page) -> None:
    choose(visit, png(3000, 2000, (9, 9, 9, 255)))
    expect(visit.locator("#caption")).to_contain_text("so the picture was made smaller first")


def test_tiles_meet_without_a_seam(visit: Page) -> None:
    width = 330  # more than a tile of a graphics card, too
    choose(visit, png(width, 10, lambda x: (40 + x // 2, 240 - x // 2, 90, 255)))
    upscaled(visit)
    expect(visit.locator("#layers tfoot")).to_contain_text("tiles")
    line = visit.evaluate(
        "w => [...after.getContext('2d').getImageData(0, 10, 2 * w, 1).data]", width
    )
    pixels = [line[4 * x : 4 * x + 4] for x in range(2 * width)]
    for x in range(8, 2 * width - 8):
        exact = (40 + x / 4, 240 - x / 4, 90, 255)
        assert all(abs(a - b) < 8 for a, b in zip(pixels[x], exact, strict=True)), x
        assert all(abs(a - b) <= 3 for a, b in zip(pixels[x], pixels[x + 1], strict=True)), x


def test_the_page_needs_no_numpy(page: Page, site: str) -> None:
    opened(page, f"{site}/?numpy=0")
    expect(page.locator("#chips")).to_contain_text("no, and not needed")
    choose(page, png(12, 10, (20, 120, 220, 255)))
    upscaled(page)
    middle = pixel(page, "after", 12, 10)
    assert all(abs(got - given) <= 4 for got, given in zip(middle, (20, 120, 220), strict=False))
    page.locator("[name=x_shape]").fill("1,8,9,9")
    page.locator("[name=w_shape]").fill("8,8,3,3")
    page.get_by_role("button", name="Run it on the GPU").click()
    expect(page.locator("#measured")).to_contain_text("needs NumPy", timeout=READY)


def test_stop_ends_a_run(page: Page, site: str) -> None:
    opened(page, site)
    page.get_by_role("button", name="Upscale").click()
    page.locator("#layers tbody button").first.wait_for(timeout=DONE)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Stopped.", timeout=DONE)
    expect(page.get_by_role("button", name="Upscale")).to_be_enabled()


def test_the_view_is_operated_by_keyboard(visit: Page) -> None:
    choose(visit, png(12, 12, (1, 2, 3, 255)))
    upscaled(visit)
    visit.locator("#slider").focus()
    visit.keyboard.press("Home")
    assert visit.evaluate("compare.style.getPropertyValue('--at')") == "0%"
    visit.get_by_label("Side by side").focus()
    visit.keyboard.press("Space")
    expect(visit.locator("#compare")).to_have_class("compare done sides")


def test_the_operator_panel_explains_and_runs(visit: Page) -> None:
    visit.get_by_role("button", name="1-D").click()
    expect(visit.locator("#answer")).to_contain_text("1×384×1500")
    visit.locator("[name=x_shape]").fill("1,8,20,20")
    visit.locator("[name=w_shape]").fill("8,8,3,3")
    visit.locator("[name=pads]").fill("1,1,1,1")
    visit.locator("[name=activation]").select_option("HardSwish")
    visit.locator("[name=z]").check()
    expect(visit.locator("#answer")).to_contain_text("1×8×20×20")
    visit.get_by_role("button", name="Run it on the GPU").click()
    expect(visit.locator("#measured")).to_contain_text("warm runs", timeout=READY)
    expect(visit.locator("#measured")).to_contain_text("Against float64")


def test_the_operator_panel_takes_a_transposed_convolution(visit: Page) -> None:
    visit.get_by_role("button", name="Transposed 5×5").click()
    expect(visit.locator("#answer")).to_contain_text("1×3×128×128")
    visit.locator("[name=x_shape]").fill("1,32,8,8")
    expect(visit.locator("#answer")).to_contain_text("1×3×16×16")
    visit.get_by_role("button", name="Run it on the GPU").click()
    error = visit.locator("#measured dd").last
    expect(error).to_contain_text("differs by at most", timeout=READY)
    assert float(error.inner_text().split("at most ")[1].split(",")[0]) < 1e-4


def test_the_operator_panel_says_what_is_wrong(visit: Page) -> None:
    visit.locator("[name=w_shape]").fill("8,7,3,3")
    expect(visit.locator("#answer .error")).to_contain_text("w")
    visit.locator("[name=w_shape]").fill("eight")
    expect(visit.locator("#answer .error")).to_contain_text("write numbers")


def test_auto_runs_the_sample_and_reports(page: Page, site: str) -> None:
    page.goto(f"{site}/?auto=1")
    page.wait_for_function("window.fusedconvReport", timeout=DONE)
    report: dict[str, Any] = page.evaluate("window.fusedconvReport")
    assert report["ok"], report
    assert (report["width"], report["height"]) == (288, 192)
    assert len(report["layers"]) == 16
    assert 0 < report["peak_memory"] < 2**28
    page.screenshot(path=artifact("sample.png"), full_page=True)


def test_without_webgpu_the_page_says_how_to_get_it(page: Page, site: str) -> None:
    page.add_init_script("delete Navigator.prototype.gpu")
    page.route("**/worker.js", without_gpu)
    page.goto(site)
    notice = page.locator("#no-webgpu")
    expect(notice).to_be_visible()
    expect(notice).to_contain_text("Chrome and Edge")
    expect(page.locator("#upscale")).to_be_hidden()
    # The planner needs no GPU.
    expect(page.locator("#answer")).to_contain_text("1×64×56×56", timeout=READY)
    expect(page.get_by_role("button", name="Run it on the GPU")).to_be_disabled()


def without_gpu(route: Any) -> None:
    response = route.fetch()
    body = "delete WorkerNavigator.prototype.gpu;\n" + response.text()
    route.fulfill(response=response, body=body)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_it_is_switched(
    page: Page, site: str, scheme: Any
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(site)
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", scheme)
    page.locator("#theme").click()
    expect(theme).to_have_attribute("data-theme", "dark" if scheme == "light" else "light")
