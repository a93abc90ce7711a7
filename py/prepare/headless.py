"""`python -m prepare.headless`: the page's example in a headless Chromium, its report as text."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from playwright.sync_api import Page, sync_playwright

from .browser import SETUPS, executable
from .config import playwright_config
from .server import Server, serving
from .steps import BUILD

LIMIT_S = 900
"""For the whole example on a software adapter of a slow machine."""


def main(adapter: str) -> int:
    """Upscale the page's sample; prints size, time, adapter and variants. 1 when it fails."""
    settings = playwright_config().launch_settings(adapter, executable(adapter))
    with serving(Server()) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(**settings)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: print(f"page: {error}", flush=True))
        page.goto(f"{url}/?auto=1")
        report = watch(page)
        picture = BUILD / "artifacts" / "page.png"
        page.screenshot(path=picture, full_page=True)
        browser.close()
    if report is None or not report.get("ok"):
        error = (report or {}).get("error", f"the page made no report within {LIMIT_S} s")
        print(f"failed on {adapter}: {error}")
        return 1
    print("\n".join(described(report, adapter)))
    print(f"{'picture':10} {picture.relative_to(BUILD.parent)}")
    return 0


def watch(page: Page) -> dict[str, Any] | None:
    """The page's report when it is there; says meanwhile what the page says."""
    end = time.monotonic() + LIMIT_S
    said = ""
    while time.monotonic() < end:
        status = page.evaluate("document.getElementById('status')?.textContent ?? ''")
        if status != said:
            said = status
            print(f"page: {said}", flush=True)
        report: dict[str, Any] | None = page.evaluate("window.fusedconvReport ?? null")
        if report:
            return report
        page.wait_for_timeout(500)
    return None


def described(report: Mapping[str, Any], adapter: str) -> list[str]:
    """The report in lines of a name and a value."""
    info = report["adapter"]
    names = [str(info[key]) for key in ("vendor", "architecture", "description") if info.get(key)]
    if adapter in SETUPS:
        # These go by SwiftShader's name, or Chromium would not take them for a software adapter.
        names = [f"Mesa's software adapter, named {' '.join(names)}"]
    variants = Counter(layer["variant"] for layer in report["layers"])
    rows = {
        "result": f"{report['width']} x {report['height']} pixels",
        "time": f"{report['seconds']:.2f} s",
        "memory": f"at most {report['peak_memory'] / 2**20:.1f} MiB on the GPU",
        "adapter": f"{adapter} ({', '.join(names)})",
        "python": f"{report['python']}, {'with' if report['numpy'] else 'without'} NumPy",
        "variants": ", ".join(f"{name} x {count}" for name, count in variants.most_common()),
    }
    return [f"{name:10} {value}" for name, value in rows.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
