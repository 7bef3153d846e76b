"""The report page in a real browser: `make test-browser` installs what that needs, and runs this."""

import io
import json
import shutil
import subprocess
import sys
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dcs.report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make test-browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no chromium is installed: make test-browser", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # playwright's own pipes
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
QUICK = ("--set", 'network_options={"hidden": [64]}', "--threads", "1", "--batch-size", "64")
HOSTILE = ["<script>alert(1)</script>", "\"'`--><b>", "😀 <!-- x", "</script><img src=x onerror=alert(1)>"]
HOSTILE += ["a" * 5000 + "<b>" + "ü" * 4997]
WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 780}


def fit(*arguments):
    command = [sys.executable, "-W", "ignore", "-m", "dcs", "fit", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for objective in ("dcs", "mse"):
        arguments = ("--noise", "gaussian:0.3", "--epochs", 40, "--objective", objective, *QUICK)
        fit("digits", "--out", folder / objective, *arguments)
    return folder


@pytest.fixture(scope="module")
def report(runs):
    return dcs.report.write(runs / "dcs", map="pca").path


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium):
    """Open a page, and see to it that it neither complains nor asks for anything but itself."""
    contexts, wrong = [], []

    def open_page(path, viewport=WIDE, **options):
        context = chromium.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        own = path.absolute().as_uri()
        page.on("request", lambda request: request.url.startswith("data:") or asked.append(request.url))
        asked = []
        page.goto(own)
        page.evaluate("Promise.all(maps.map((map) => map.pictures.ready))")
        assert asked == [own]
        page.asked = asked
        return page

    yield open_page
    assert [url for context in contexts for page in context.pages for url in page.asked[1:]] == []
    for context in contexts:
        context.close()
    assert wrong == []


def keep(page, name, *, full_page=True):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full_page)


def pixels(page, selector):
    return page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")


def wait_until(page, expression):
    """Playwright's own way needs eval, which the page forbids."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {expression}")


def place(page, point):
    """Where a point of the first map is on the screen."""
    box = page.locator(".plot > canvas").first.bounding_box()
    x, y = page.evaluate("i => maps[0].place(i)", point)
    return box["x"] + 1 + x, box["y"] + 1 + y


def test_the_page_loads_without_errors_or_requests(show, report):
    page = show(report)
    assert page.title() == "dcs: training report"
    assert page.locator(".chart").count() >= 6
    assert page.locator(".tiles figure").count() == 12
    assert page.locator(".plot > canvas").count() == 1
    keep(page, "light")


def test_pointing_at_a_curve_reads_its_values(show, report):
    page = show(report)
    chart = page.locator(".chart").first
    losses = page.evaluate("page.runs[0].lines.loss")
    chart.scroll_into_view_if_needed()
    box = chart.locator("svg").first.bounding_box()
    page.mouse.move(box["x"] + 53, box["y"] + 60)
    assert f"Epoch 1: training {losses[0]:.4g}" in chart.locator(".reading").inner_text()
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 60)
    assert "Epoch 40: " in chart.locator(".reading").inner_text()
    handle = chart.get_by_role("slider")
    handle.focus()
    for key, epoch in (("ArrowLeft", 39), ("PageDown", 35), ("Home", 1), ("ArrowRight", 2), ("End", 40)):
        page.keyboard.press(key)
        assert handle.get_attribute("aria-valuenow") == str(epoch)
    assert handle.get_attribute("aria-valuetext").startswith("Epoch 40: training")


def test_the_axis_of_a_share_that_is_always_zero_begins_there(runs, show, tmp_path):
    flat = tmp_path / "flat"
    shutil.copytree(runs / "dcs", flat)
    lines = "".join(json.dumps({"epoch": epoch, "floored": 0.0}) + "\n" for epoch in range(3))
    (flat / "metrics.jsonl").write_text(lines)
    page = show(dcs.report.write(flat, map="pca", points=20).path)
    chart = page.locator(".chart", has_text="Share of very noisy samples")
    levels = chart.locator("svg text[text-anchor=end]").all_text_contents()
    assert float(levels[0]) == 0
    assert all(float(level) >= 0 for level in levels)


def test_levels_of_a_chart_are_whole_and_differ(runs, show, tmp_path):
    odd = tmp_path / "odd"
    shutil.copytree(runs / "dcs", odd)
    losses = {"loss": (-1.23456e-11, 1.2e-12), "k": (0.9000123, 0.9000129)}
    lines = [{"epoch": e, **{name: ends[e] for name, ends in losses.items()}} for e in (0, 1)]
    (odd / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = show(dcs.report.write(odd, map="pca", points=20).path)
    for number in (0, 1):
        chart = page.locator(".chart").nth(number)
        levels = chart.locator("svg text[text-anchor=end]")
        texts = levels.all_text_contents()
        assert len(set(texts)) == len(texts) >= 3
        left = chart.locator("svg").first.bounding_box()["x"]
        assert all(level.bounding_box()["x"] >= left for level in levels.all())


def drawn(page, row):
    """What the first tile shows if it is wholly one of the rows of the strips: 0 noisy, 1 denoised."""
    return page.evaluate(
        """row => { const { strips } = page.runs[0], pictures = new Pictures(strips.sheets);
        const wipe = document.querySelector(".tiles .wipe");
        const canvas = element("canvas", { width: wipe.width, height: wipe.height });
        return pictures.ready.then(() => { pictures.draw(canvas.getContext("2d"), row * strips.names.length);
        return canvas.toDataURL(); }); }""",
        row,
    )


def test_the_slider_goes_from_noisy_to_denoised(show, report):
    page = show(report)
    slider, tile = page.get_by_role("slider", name="Position of the line"), page.locator(".tiles .wipe").first
    before = pixels(page, ".tiles .wipe")
    slider.focus()
    page.keyboard.press("Home")
    assert slider.input_value() == "0"
    noisy = pixels(page, ".tiles .wipe")
    page.keyboard.press("End")
    denoised = pixels(page, ".tiles .wipe")
    assert len({before, denoised, noisy}) == 3
    assert noisy == drawn(page, 0)
    assert denoised == drawn(page, 1)  # at the end of that name
    ends = page.locator(".slider span").all_inner_texts()
    assert ends == ["noisy", "denoised"]
    page.keyboard.press("ArrowLeft")
    assert slider.input_value() == "99"
    tile.scroll_into_view_if_needed()
    box = tile.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20, steps=4)
    page.mouse.up()
    assert abs(int(slider.input_value()) - 25) <= 2


def test_the_line_is_seen_in_every_picture(show, tmp_path):
    """Also where a canvas is shown smaller than it is, and its columns are left out."""
    x = np.random.default_rng(0).uniform(size=(24, 64, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    fit(tmp_path / "x.npy", "--objective", "mse", "--out", tmp_path / "run", "--epochs", 1, *QUICK)
    page = show(dcs.report.write(tmp_path / "run", map="pca").path, {"width": 1200, "height": 900})
    tiles = page.locator(".tiles .wipe")
    tiles.first.scroll_into_view_if_needed()
    for number in range(12):
        picture = Image.open(io.BytesIO(tiles.nth(number).screenshot())).convert("RGB")
        colours = np.asarray(picture).astype(int)
        orange = (np.abs(colours - [255, 140, 26]).max(-1) < 60).mean(0)  # of each column
        assert orange.max() > 0.8


def test_pointing_at_the_map_shows_the_sample(show, report):
    page = show(report)
    page.locator(".plot > canvas").scroll_into_view_if_needed()
    # The point that is farthest to the left, which none hides.
    point = page.evaluate("maps[0].data.x.indexOf(0)")
    page.mouse.move(*place(page, point))
    tip = page.locator(".tip")
    assert tip.is_visible()
    label = page.evaluate("i => page.runs[0].map.labels[i]", point)
    assert f"row {point}\n" in tip.inner_text() + "\n"
    assert f"label {label}" in tip.inner_text()
    expected = page.evaluate(
        """i => { const { pictures } = maps[0], canvas = pictures.canvas(0);
        pictures.draw(canvas.getContext("2d"), i); return canvas.toDataURL(); }""",
        point,
    )
    assert pixels(page, ".tip canvas") == expected
    keep(page, "hover", full_page=False)
    assert f"row {point}, label" in page.locator("#map .reading").inner_text()
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert page.locator("#map .reading").inner_text().startswith("Point at a sample")


def test_the_first_tap_shows_the_sample(show, report):
    page = show(report, PHONE, has_touch=True, is_mobile=True)
    page.locator(".plot > canvas").scroll_into_view_if_needed()
    point = page.evaluate("maps[0].data.x.indexOf(0)")
    page.touchscreen.tap(*place(page, point))
    assert page.locator(".tip").is_visible()
    assert f"row {point}\n" in page.locator(".tip").inner_text() + "\n"


def test_a_colour_is_pressed_and_released(show, runs, tmp_path):
    both = dcs.report.write([runs / "dcs", runs / "mse"], tmp_path / "both.html", map="pca").path
    page = show(both)
    here, there = (page.locator(".legend").nth(number).get_by_role("button").nth(3) for number in (0, 1))
    others = page.locator(".legend button[aria-pressed=true]")
    here.click()
    assert here.get_attribute("aria-pressed") == there.get_attribute("aria-pressed") == "true"
    assert others.count() == 2
    here.click()
    assert page.evaluate("maps.map((map) => map.chosen)") == [None, None]
    assert others.count() == 0
    assert page.locator(".found").count() == 0
    here.click()
    there.click()  # on the other map, what is chosen is the same
    assert page.evaluate("maps[0].chosen") is None
    assert page.locator(".found").count() == 0
    here.click()
    page.keyboard.press("Escape")
    assert page.evaluate("maps[0].chosen") is None
    assert others.count() == 0


def test_a_lasso_lists_what_is_in_it(show, report):
    page = show(report)
    page.get_by_role("button", name="Lasso").click()
    page.locator(".plot > canvas").scroll_into_view_if_needed()
    places = np.array(page.evaluate("[...page.runs[0].map.x.keys()].map((i) => maps[0].place(i))"))
    left, top = np.quantile(places, 0.3, axis=0).round() + 0.5
    right, bottom = np.quantile(places, 0.7, axis=0).round() + 0.5
    inside = ((places > [left, top]) & (places < [right, bottom])).all(1)
    box = page.locator(".plot > canvas").bounding_box()
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    draw(page, [(box["x"] + 1 + x, box["y"] + 1 + y) for x, y in corners])
    assert page.get_by_role("heading", name=f"{inside.sum()} samples in the lasso").is_visible()
    assert page.evaluate("[...maps[0].chosen].sort((a, b) => a - b)") == np.flatnonzero(inside).tolist()
    assert page.locator(".found li").count() == min(48, inside.sum())
    keep(page, "lasso", full_page=False)
    page.locator(".found button").first.click()
    assert page.evaluate("maps[0].focus") == np.flatnonzero(inside)[0]
    page.get_by_text("As text, to copy").click()
    wait_until(page, "document.querySelector('textarea').value")
    lines = page.get_by_label("The samples as text").input_value().splitlines()
    assert [line.split("\t")[0] for line in lines] == [f"row {row}" for row in np.flatnonzero(inside)]
    page.get_by_role("button", name="Show all again").click()
    assert page.evaluate("maps[0].chosen") is None


def draw(page, corners):
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()


def test_a_finger_draws_a_lasso_too(show, report):
    page = show(report, PHONE, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Lasso").tap()
    page.locator(".plot > canvas").scroll_into_view_if_needed()
    box = page.locator(".plot > canvas").bounding_box()
    session = page.context.new_cdp_session(page)
    x, y, width, height = (box[name] for name in ("x", "y", "width", "height"))
    corners = [
        (x + 2, y + 2),
        (x + width - 3, y + 2),
        (x + width - 3, y + height - 3),
        (x + 2, y + height - 3),
    ]
    for kind, points in [
        ("touchStart", corners[:1]),
        *(("touchMove", [corner]) for corner in corners[1:]),
        ("touchEnd", []),
    ]:
        described = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": described})
    assert page.get_by_role("heading", name="597 samples in the lasso").is_visible()


def test_colours_can_be_chosen(show, report):
    page = show(report)
    choice, seen = page.get_by_label("Colour by"), []
    for by, words in (("label", "0"), ("cluster", "cluster 1"), ("snr", "List samples with the lowest SNR")):
        choice.select_option(by)
        seen.append(pixels(page, ".plot > canvas"))
        assert page.get_by_role("button", name=words).first.is_visible()
    assert len(set(seen)) == 3
    page.get_by_role("button", name="List samples with the lowest SNR").click()
    snr = np.array(page.evaluate("page.runs[0].map.snr"))
    chosen = page.evaluate("[...maps[0].chosen]")
    assert len(chosen) == 48
    assert snr[chosen].max() <= np.sort(snr)[47]
    keep(page, "snr", full_page=False)


def test_the_map_is_enlarged_and_moved(show, report):
    page = show(report)
    canvas = page.locator(".plot > canvas")
    before = pixels(page, ".plot > canvas")
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate("maps[0].view.zoom") == 1.5
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    draw(page, [middle, (middle[0] + 60, middle[1] + 30)])
    moved = page.evaluate("maps[0].view")
    page.mouse.wheel(0, -200)  # it has the focus now
    wait_until(page, "maps[0].view.zoom > 1.6")
    page.get_by_role("button", name="Show the whole map").click()
    assert page.evaluate("maps[0].view") == {"zoom": 1, "x": 0, "y": 0}
    assert moved["x"] != 0
    page.evaluate("maps[0].look(-1)")
    assert pixels(page, ".plot > canvas") == before


def test_all_of_the_map_works_by_keyboard(show, report):
    page = show(report)
    canvas = page.locator(".plot > canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    first = page.evaluate("maps[0].focus")
    page.keyboard.press("ArrowRight")
    second = page.evaluate("maps[0].focus")
    x = page.evaluate("maps[0].data.x")
    assert x[second] > x[first]
    assert page.locator(".tip").is_visible()
    assert f"row {second}, label " in page.get_by_role("status").inner_text()
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name=f"24 samples nearest to row {second}").is_visible()
    page.keyboard.press("+")
    assert page.evaluate("maps[0].view.zoom") == 1.5
    page.keyboard.press("0")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()
    assert page.evaluate("maps[0].chosen") is None
    legend = page.locator(".legend button").nth(3)
    legend.focus()
    page.keyboard.press("Enter")
    count = page.evaluate("page.runs[0].map.labels.filter((label) => label === 3).length")
    assert page.get_by_role("heading", name=f"{count} samples of label 3").is_visible()


def test_everything_that_can_be_used_has_a_name_and_shows_its_focus(show, report):
    page = show(report)
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, select, input, audio, [tabindex], [role=img]")]
        .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim()
        || node.closest("label"))).map((node) => node.outerHTML)"""
    )
    assert nameless == []
    outlines = []
    for _ in range(12):
        page.keyboard.press("Tab")
        outlines.append(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
    assert set(outlines) == {"solid"}
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((node) => +node.tagName[1])")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_theme_follows_the_system_or_the_button(show, report):
    dark = show(report, color_scheme="dark")
    back = "getComputedStyle(document.body).backgroundColor"
    assert dark.evaluate(back) == "rgb(18, 21, 26)"
    keep(dark, "dark")
    page = show(report, color_scheme="light")
    seen, drawn = [page.evaluate(back)], [pixels(page, ".plot > canvas")]
    assert seen == ["rgb(246, 247, 249)"]
    page.evaluate("maps[0].choose([0])")  # the others are then drawn in the colour of quiet text
    for name in ("light", "dark", "system"):
        page.locator("#theme").click()
        assert page.locator("#theme").inner_text() == f"Theme: {name}"
        seen.append(page.evaluate(back))
        drawn.append(pixels(page, ".plot > canvas"))
    assert seen[1:] == [seen[0], "rgb(18, 21, 26)", seen[0]]
    assert drawn[2] != drawn[1] == drawn[3]


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_sideways_scrolling(show, report, width):
    page = show(
        report, {"width": width, "height": 780}, has_touch=True, is_mobile=True, device_scale_factor=2
    )
    for details in page.locator("details > summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    keep(page, f"phone-{width}")


def test_several_runs_are_side_by_side_and_choose_together(show, runs, tmp_path):
    both = dcs.report.write([runs / "dcs", runs / "mse"], tmp_path / "both.html", map="pca").path
    page = show(both)
    cards = page.locator("#map .card")
    left, right = (cards.nth(number).bounding_box() for number in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.locator(".legend").first.get_by_role("button").nth(5).click()
    chosen = page.evaluate("maps.map((map) => map.chosen.size)")
    assert chosen[0] == chosen[1] > 0
    assert page.locator(".chart").first.locator(".key li").count() == 4
    keep(page, "two-runs")
    narrow = show(both, PHONE)
    upper, lower = (narrow.locator("#map .card").nth(number).bounding_box() for number in (0, 1))
    assert lower["y"] >= upper["y"] + upper["height"]
    assert narrow.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_hostile_names_are_text(show, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,c,kind"]
    for number in range(60):
        quoted = HOSTILE[number % len(HOSTILE)].replace('"', '""')
        lines.append(",".join(f"{value:.3f}" for value in rng.normal(size=3)) + f',"{quoted}"')
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "<img src=x onerror=alert(1)>"
    fit(tmp_path / "table.csv", "--label", "kind", "--objective", "mse", "--out", out, "--epochs", 2, *QUICK)
    page = show(dcs.report.write(out, map="pca").path, PHONE)
    assert page.locator("h1").inner_text() == f"Training report: {out.name}"
    texts = page.locator(".legend .text").all_text_contents()
    assert sorted(texts) == sorted(HOSTILE)
    for number in range(len(HOSTILE)):
        page.locator(".legend button").nth(number).click()
        page.locator(".found button").first.click()
        assert f"label {texts[number]}" in page.locator(".tip").text_content()
    page.locator(".legend button").nth(texts.index(HOSTILE[-1])).click()
    page.locator(".found button").first.click()
    heights = [count.bounding_box()["height"] for count in page.locator(".legend .count").all()]
    assert max(heights) < 1.5 * min(heights)  # in one line
    for selector in (".tip p", ".found span", ".tiles figcaption div"):
        cut = page.locator(selector).evaluate_all(
            """all => all.filter((node) => node.scrollHeight > node.clientHeight + 2)
            .map((node) => getComputedStyle(node).webkitLineClamp)"""
        )
        assert cut
        assert "none" not in cut  # what is cut ends in …
    assert page.locator("img, b").count() == 0
    assert page.locator("script").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    keep(page, "hostile")


def test_recordings_play(show, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "sounds").mkdir()
    for number in range(12):
        signal = np.sin(np.arange(4096) * (0.1 + 0.05 * number)) / 3 + 0.1 * rng.normal(size=4096)
        with wave.open(str(tmp_path / "sounds" / f"{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((signal * 20000).astype("<i2").tobytes())
    options = (
        "--network",
        "waveunet",
        "--set",
        'network_options={"width": 8, "depth": 2}',
        "--components",
        8,
    )
    fit(tmp_path / "sounds", "--out", tmp_path / "run", "--epochs", 2, "--threads", 1, *options)
    page = show(dcs.report.write(tmp_path / "run", map="pca").path)
    players = page.locator("audio")
    assert players.count() == 6
    players.first.evaluate("player => { player.preload = 'auto'; player.load(); }")
    wait_until(page, "document.querySelector('audio').readyState >= 1")
    assert players.first.evaluate("player => player.duration") == pytest.approx(4096 / 8000, abs=0.01)
    keep(page, "recordings")


def test_ten_thousand_points_are_drawn_quickly(show, tmp_path):
    """Drawing and finding points stays fluent, and the page stays small."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.uniform(size=(10_000, 12, 12)).astype(np.float32))
    fit(tmp_path / "x.npy", "--objective", "mse", "--out", tmp_path / "run", "--epochs", 1, *QUICK)
    written = dcs.report.write(tmp_path / "run", map="pca")
    assert written.size < 10_000_000
    page = show(written.path)
    seconds = page.evaluate(
        """() => [() => maps[0].look(maps[0].nearest(300, 200, 99)), () => maps[0].draw()].map((call) =>
        Math.min(...[1, 2, 3, 4, 5].map(() => {
        const start = performance.now(); call(); return (performance.now() - start) / 1000; })))"""
    )
    pointing, drawing = seconds  # about 0.002 and 0.07 where nothing else runs
    assert pointing < 0.1
    assert drawing < 1
