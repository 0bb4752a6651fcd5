"""One visit of the console by a person: a page of a real Chromium, and everything it complained of.

Owns what a page must never do (law of the visit, checked when it ends): report an error or a breach
of its content policy, open a dialog, or ask another origin for anything.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

from tests.browser.axe import serious
from tests.stack import Stack
from tests.stack_config import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")
SOON_MS = 15_000
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1440, 390)
BREACHES = """addEventListener("securitypolicyviolation", (breach) =>
    console.error(`policy: ${breach.violatedDirective} ${breach.blockedURI}`))"""


def chromium() -> str:
    """The browser of this machine; see requirements/install.sh for how it comes here."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium: apt-get install chromium, or name one: CHROMIUM=/path/to/chromium"
    return found


class Visit:
    def __init__(
        self,
        browser: Browser,
        stack: Stack,
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        scripts: bool = True,
    ) -> None:
        self.stack = stack
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=scripts,
            base_url=stack.base_url,
        )
        self.context.set_default_timeout(SOON_MS)
        self.context.add_init_script(BREACHES)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.on("request", lambda request: self.asked.add(request.url))

    def sign_in(self, to: str = "/console") -> Page:
        self.page.goto(to)
        self.page.get_by_label("Admin key").fill(self.stack.ready["admin_key"])
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"**{to}")
        return self.page

    def shoot(self, name: str) -> Path:
        """A picture of the whole page, to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"console-{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path

    def look_over(self, name: str) -> None:
        """In both themes and at two widths: axe finds nothing serious, nothing is wider than the
        window, and there is a picture."""
        before = self.page.viewport_size
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                self.page.set_viewport_size({"width": width, "height": 900})
                assert serious(self.page) == [], f"{name}, {scheme}, {width} px"
                assert self.overflow_px() == 0, f"{name}, {scheme}, {width} px"
                self.shoot(f"{name}-{scheme}-{width}")
        self.page.emulate_media(color_scheme="null")
        assert before is not None, "a visit has a window"
        self.page.set_viewport_size(before)

    def forgive(self, complaint: str) -> None:
        """Chromium reports every status of 4xx and every lost connection as an error."""
        self.complaints = [heard for heard in self.complaints if complaint not in heard]

    def overflow_px(self) -> int:
        """By how much the page itself is wider than the window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return max(0, wider)

    def end(self) -> None:
        self.context.close()
        assert not self.complaints
        origins = {urlsplit(url).netloc for url in self.asked}
        assert origins <= {urlsplit(self.stack.base_url).netloc}

    def _hear(self, message: object) -> None:
        if getattr(message, "type", "") in ("error", "warning"):
            self.complaints.append(getattr(message, "text", ""))

    def _refuse(self, dialog: object) -> None:
        self.complaints.append(f"a dialog opened: {getattr(dialog, 'message', '')}")
        dialog.dismiss()  # type: ignore[attr-defined]
