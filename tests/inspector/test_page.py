"""The page in a real browser: what a user does on each of its main paths, by mouse and by keyboard.

Needs a Chromium (``apt-get install chromium``) and the package ``playwright``; without them the tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.engine import EngineInfo, TokenLogprob
from dragoman.engines.scripted import Scripted
from dragoman.inspector.routes import inspector_routes
from dragoman.server.app import create_app
from tests.server.live import live
from tests.server.service import CALL, CLOCK, TEMPLATE, chat_format

sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium")

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
OUTPUT = "<muse>\nhm\n</muse>\n\nSo." + CALL
WAIT_MS = 20_000.0


def answers() -> Iterator[list[str]]:
    """Every run writes the same, in pieces of three characters."""
    while True:
        yield [OUTPUT[at : at + 3] for at in range(0, len(OUTPUT), 3)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    vocab = chat_format().vocab
    assert vocab is not None

    def logprob(piece: str) -> TokenLogprob:
        first = vocab.encode(piece)[0]
        return TokenLogprob(-0.1, first, top=(TokenLogprob(-0.1, first), TokenLogprob(-4.0, vocab.controls["<|pad|>"])))

    engine = Scripted(
        answers(),
        encode=lambda text: vocab.encode(text)[:1],
        logprob=logprob,
        info=EngineInfo(model="scripted", grammar_forms=("gbnf",), gives_logprobs=True),
    )
    app = create_app(chat_format(), engine, model="a scripted model", clock=lambda: CLOCK)
    app.router.routes.extend(inspector_routes(chat_format(), engine, model="a scripted model", clock=lambda: CLOCK))
    with live(app) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    os.environ.setdefault("DBUS_SESSION_BUS_ADDRESS", "disabled:")  # it would look for one, and complain
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page as it opens. Afterwards: nothing was logged, nothing failed, nobody else was asked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    made = context.new_page()
    made.set_default_timeout(WAIT_MS)
    logged: list[str] = []
    asked: list[str] = []
    made.on("console", lambda message: logged.append(message.text))
    made.on("pageerror", lambda error: logged.append(str(error)))
    made.on("request", lambda request: asked.append(request.url))
    made.goto(address)
    made.wait_for_selector("#prompt-text mark")
    yield made
    context.close()
    # The browser logs each answer that is no success; that is shown to the user and checked where it is wanted.
    assert [line for line in logged if "Failed to load resource" not in line] == []
    assert all(url.startswith(address) for url in asked), asked


def message(page: Any, at: int) -> Any:
    return page.locator("#messages li").nth(at)


def test_the_prompt_follows_what_is_typed(page: Any) -> None:
    assert "a scripted model" in page.inner_text("#served")
    message(page, 1).locator("textarea").fill("Hello <|fin|> there")
    page.wait_for_selector("#prompt-text mark:has-text('Hello <|fin|> there')")
    assert page.inner_text("#prompt-text").rstrip().endswith("<|from|>assistant")
    page.check("#as-tokens")
    page.wait_for_selector("#prompt-text .token.control")
    controls = page.locator("#prompt-text .token.control").all_inner_texts()
    assert set(controls) == {"<|from|>", "<|fin|>"}
    assert len(controls) == 5, "the control token that the message spells is none"
    page.click("#add")
    page.keyboard.type("Indeed.")
    page.wait_for_selector("#prompt-text:has-text('Indeed')")
    message(page, 0).locator(".remove").click()
    page.wait_for_selector("#prompt-text:not(:has-text('system'))")


def test_a_template_is_pasted_or_uploaded_and_told(page: Any, tmp_path: Path) -> None:
    page.click("#tab-template")
    page.wait_for_selector("#template td .proven")
    assert "<do>" in page.inner_text("#template")
    page.select_option("#source", "pasted")
    page.fill("#jinja", TEMPLATE.replace("do>", "zq7>"))
    page.wait_for_selector("#template:has-text('<zq7>')")
    page.fill("#jinja", "{% if %}")
    page.wait_for_selector("#status.fault:has-text('line 1')")
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": TEMPLATE.replace("do>", "quux>"), "eos_token": "<|fin|>"}))
    page.set_input_files("#upload", file)
    page.wait_for_selector("#template:has-text('<quux>')")
    assert page.is_hidden("#status")
    page.select_option("#source", "chatml")
    page.wait_for_selector("#template:has-text('<|im_start|>')")


def test_the_grammar_is_shown_in_every_notation(page: Any) -> None:
    page.click("#example-tools")
    page.click("#tab-grammar")
    page.wait_for_selector("#write-write\\.call:has-text('get_weather')")
    page.click("#read-turn a >> nth=0")
    assert "#read-" in page.url
    for notation, begin in (("gbnf", "root ::="), ("lark", "start:"), ("ebnf", "root ::="), ("structural-tag", "{")):
        page.select_option("#notation", notation)
        page.wait_for_selector(f"#grammar-text pre:has-text('{begin}')")
    page.select_option("#choice", "get_weather")
    page.select_option("#notation", "gbnf")
    page.wait_for_selector("#grammar-text pre:has-text('root ::=')")
    assert page.inner_text("#grammar-note") == ""


def test_a_run_is_watched_step_by_step(page: Any) -> None:
    page.click("#example-tools")
    page.click("#tab-turn")
    page.click("#run")
    page.wait_for_selector("#message:has-text('finish_reason tool_calls')")
    assert "the grammar is enforced as gbnf" in page.inner_text("#run-note")
    assert page.inner_text("#written") == OUTPUT.rstrip("\n")
    assert "call get_weather" in page.inner_text("#message")
    assert "hm" in page.inner_text("#message .reasoning")
    page.click("#first")
    assert page.inner_text("#step-number").startswith("step 1 of")
    facts = page.inner_text("#step-facts")
    assert "live threads" in facts
    assert "settled" in facts
    assert "the mask allows" in page.inner_text("#step-tokens")
    assert "masked" in page.inner_text("#step-tokens"), "the likely token that no grammar allows"
    assert page.inner_text("#written .withheld") == "<mu"
    page.click("#next")
    assert page.inner_text("#step-number").startswith("step 2 of")


def test_an_output_is_replayed_by_keyboard(page: Any) -> None:
    page.click("#example-tools")
    page.focus("#tab-prompt")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-turn", "aria-selected") == "true"
    assert page.evaluate("document.activeElement.id") == "tab-turn"
    page.focus("#replay-box summary")
    page.keyboard.press("Enter")
    page.fill("#output", "So\n<do>x")
    page.fill("#chunk", "1")
    page.focus("#replay")
    page.keyboard.press("Enter")
    page.wait_for_selector("#step-number:has-text('step 1 of 9')")
    page.focus("#turn")
    seen = [page.inner_text("#message")]
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        seen.append(page.inner_text("#message"))
    assert seen[0] == "content\nS"
    assert seen[1] == "content\nSo"
    assert seen[2:6] == [seen[1]] * 4, "a half opener is withheld"
    assert "<do>x" in seen[-1], "and is text in the end"
    page.keyboard.press("Home")
    assert page.inner_text("#step-number") == "step 1 of 9"
    page.keyboard.press("Space")
    page.wait_for_selector("#step-number:has-text('step 9 of 9')")


def test_what_is_wrong_is_said_and_goes_away(page: Any) -> None:
    page.fill("#tools", "[{")
    page.wait_for_selector("#status.fault:has-text('Tools must be JSON')")
    assert page.get_attribute("#tools", "aria-invalid") == "true"
    page.fill("#tools", "")
    page.wait_for_selector("#status", state="hidden")
    page.click("#as-json")
    page.fill("#request", '{"messages": 5}')
    page.wait_for_selector("#status.fault:has-text('messages must be a list')")
    page.fill("#request", '{"messages": [{"role": "user", "content": "From JSON"}]}')
    page.wait_for_selector("#prompt-text mark:has-text('From JSON')")
    page.click("#as-json")
    assert message(page, 0).locator("textarea").input_value() == "From JSON"


@pytest.mark.parametrize("tools", ["5", '"x"', "null", '{"a": 1}', '{"type": "function", "function": {"name": "one"}}'])
def test_tools_that_are_no_list_are_said_to_be_none(page: Any, tools: str) -> None:
    page.fill("#tools", tools)
    page.wait_for_selector("#status.fault:has-text('Tools must be a list')")
    assert page.get_attribute("#tools", "aria-invalid") == "true"
    page.fill("#tools", "")
    page.wait_for_selector("#status", state="hidden")
    assert page.get_attribute("#tools", "aria-invalid") is None


def test_what_an_error_leaves_behind_is_dimmed(page: Any) -> None:
    assert page.locator("#prompt.stale").count() == 0
    page.fill("#tools", "[{")
    page.wait_for_selector("#prompt.stale")
    page.fill("#tools", "")
    page.wait_for_selector("#prompt:not(.stale)")


def test_a_run_by_the_keyboard_keeps_the_keyboards_place(page: Any) -> None:
    page.click("#tab-turn")
    page.focus("#run")
    page.keyboard.press("Enter")
    page.wait_for_selector("#stop", state="hidden")
    page.wait_for_selector("#run:not([disabled])")
    assert page.evaluate("document.activeElement.id") == "step"
    page.keyboard.press("Home")
    page.wait_for_selector("#step-number:has-text('step 1 of')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_and_both_schemes(browser: Any, address: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(address)
    page.wait_for_selector("#prompt-text mark")
    page.click("#example-tools")
    for tab in ("prompt", "template", "grammar", "turn"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f"#{tab}:not([aria-busy]):visible")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{tab} is {wide} pixels too wide"
        if tab == "template":
            page.wait_for_selector("#template td")
            cells = "[...document.querySelectorAll('#template td')].filter((cell) => cell.offsetParent)"
            widths = f"{cells}.map((cell) => cell.clientWidth)"
            assert min(page.evaluate(widths)) > 150, "each cell of a row has room for its text"
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    light = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert (light[0] > light[1]) == (scheme == "light")
    context.close()
