"""A page of every kind of result, open in a headless Chromium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

CHROMIUM = (
    os.environ.get("RRAMALLOC_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
WIDTHS = (1280, 400)
DRAWN = "html[data-drawn]"


class Visit:
    """A page that is open, with all it complained of and asked the network for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            accept_downloads=True,
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda told: self.complaints.append(told.text) if told.type == "error" else None
        )
        self.page.on("request", lambda asked: self.requests.append(asked.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(DRAWN, state="attached", timeout=60_000)

    def close(self) -> None:
        """Leave a page that was quiet and asked nobody for anything."""
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        self.context.close()
