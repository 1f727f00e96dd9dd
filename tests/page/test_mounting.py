"""The page in an application of others, and what it leaves behind."""

from __future__ import annotations

import json
import re
import socketserver
import warnings
from pathlib import Path

import fastapi
import httpx
import pytest
from PIL import Image

from tests.page.serving import SESSION, serving, visiting
from tests.pictures import picture, png

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of gradio's own imports
    import gradio  # noqa: F401

    from qwen_image_page import mount
    from qwen_image_page.gate import without_urls
    from qwen_image_page.mounting import private_folder


@pytest.fixture(scope="module")
def address():
    app = fastapi.FastAPI()

    @app.post("/v1/images/generations")
    def generations() -> dict[str, str]:
        return {"from": "the gateway"}

    with serving(mount(app, "127.0.0.1:1")) as address:
        yield address


@pytest.fixture
def stranger(address):
    """Somebody without the page's cookie."""
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture
def visitor(address):
    with visiting(address) as client:
        yield client


def test_the_root_leads_to_the_page(stranger):
    answer = stranger.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "page/")
    assert "Qwen-Image" in stranger.get("/page/").text


def test_the_manifest_that_the_page_names_is_there(stranger):
    (named,) = re.findall(r'<link rel="manifest" href="([^"]*)"', stranger.get("/page/").text)
    assert stranger.get(named, follow_redirects=True).json()["name"] == "Qwen-Image"


def test_the_other_paths_stay_the_applications(stranger):
    assert stranger.post("/v1/images/generations").json() == {"from": "the gateway"}
    assert stranger.get("/v1/images/generations").status_code == 405
    assert stranger.get("/v1/nothing").json() == {"detail": "Not Found"}
    assert "swagger" in stranger.get("/docs").text
    assert stranger.get("/openapi.json").json()["paths"].keys() == {"/v1/images/generations"}


def test_every_response_of_the_page_forbids_fetching_from_elsewhere(stranger):
    assert stranger.get("/page/").headers["content-security-policy"].startswith("default-src 'self'")


def test_the_page_offers_no_api(stranger):
    assert stranger.get("/page/gradio_api/info").json()["named_endpoints"] == {}


@pytest.mark.parametrize("path", ["/etc/passwd", "pyproject.toml"])
def test_no_file_but_its_own_is_given_out(stranger, path):
    assert stranger.get(f"/page/gradio_api/file={path}").status_code in (403, 404)


def test_what_the_page_does_not_use_of_gradio_is_not_there(stranger):
    for method, route in [
        ("POST", "component_server"),
        ("POST", "queue/join/"),
        ("POST", "run/predict"),
        ("POST", "call/predict"),
        ("POST", "stream/some/close"),
        ("POST", "process_recording"),
        ("POST", "vibe-edit"),
        ("GET", "proxy=http://127.0.0.1/"),
        ("GET", "file=http://127.0.0.1/"),
        ("GET", "custom_component/1/client/component/x.js"),
        ("GET", "upload_progress?upload_id=1"),
        ("GET", "queue/status"),
    ]:
        answer = stranger.request(method, f"/page/gradio_api/{route}", json={})
        assert answer.status_code in (403, 404), route
        assert "detail" in answer.json()
    for path in ("monitoring", "gradio_api/deep_link", "pwa_icon", "login"):
        assert stranger.get(f"/page/{path}").status_code == 404


def test_nothing_is_done_for_a_caller_whose_page_is_not_open(stranger):
    before = sorted(private_folder().rglob("*"))
    answers = [
        stranger.post("/page/gradio_api/upload", files=PICTURE),
        stranger.post("/page/gradio_api/queue/join", json={"session_hash": SESSION, "data": [], "fn_index": 0}),
        stranger.get("/page/gradio_api/queue/data", params={"session_hash": SESSION}),
        stranger.get(f"/page/gradio_api/heartbeat/{SESSION}"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert sorted(private_folder().rglob("*")) == before


@pytest.mark.parametrize("with_meta", [True, False])
def test_no_file_but_an_uploaded_one_is_read(visitor, tmp_path, with_meta):
    """What a browser could send in place of an upload's path."""
    private = tmp_path / "private.png"
    Image.new("RGB", (64, 64), "red").save(private)
    assert join(visitor, picture=file_data(private, with_meta)).status_code == 403
    assert not list(private_folder().rglob("private.png"))


@pytest.mark.parametrize("with_meta", [True, False])
def test_no_url_is_fetched_for_a_caller(visitor, with_meta):
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as elsewhere:
        elsewhere.timeout = 0
        asked = []
        elsewhere.process_request = lambda request, _: asked.append(request)
        url = f"http://127.0.0.1:{elsewhere.server_address[1]}/picture.png"
        assert join(visitor, picture=file_data(url, with_meta)).status_code == 403
        elsewhere.handle_request()
        assert asked == []
    (own,) = visitor.post("/page/gradio_api/upload", files=PICTURE).json()
    sent = {"data": [{**file_data(own, with_meta), "url": url}]}
    assert without_urls(sent, private_folder().resolve()) == {"data": [file_data(own, with_meta)]}


def file_data(path, with_meta):
    return {"path": str(path)} | ({"meta": {"_type": "gradio.FileData"}} if with_meta else {})


PICTURE = {"files": ("small.png", png(picture(64, 64)), "image/png")}
WORDS = {"prompt": "a star", "negative": "", "seed": ""}


def join(visitor, **values):
    """Sends what the button Generate sends, without a browser."""
    config = visitor.get("/page/config").json()
    components = {each["id"]: each for each in config["components"]}
    ids = {each["props"].get("elem_id"): each["id"] for each in config["components"]}
    (event,) = (each for each in config["dependencies"] if [ids["generate"], "click"] in each["targets"])
    filled = {ids[name]: value for name, value in {**WORDS, **values}.items()}
    data = [filled.get(each, components[each]["props"].get("value")) for each in event["inputs"]]
    sent = {"data": data, "fn_index": event["id"], "session_hash": SESSION}
    return visitor.post("/page/gradio_api/queue/join", json=sent)


def generate(visitor, **values):
    """The end of that event."""
    join(visitor, **values).raise_for_status()
    with visitor.stream("GET", "/page/gradio_api/queue/data", params={"session_hash": SESSION}) as lines:
        for line in lines.iter_lines():
            if "process_completed" in line:
                return json.loads(line.removeprefix("data:"))
    raise AssertionError("the event has no end")


@pytest.mark.parametrize("name", ["..", "../../out.png", "/etc/out.png", "ü" * 300 + ".png", "a\\b.png"])
def test_an_upload_stays_in_the_pages_folder_whatever_its_name(visitor, name):
    (path,) = visitor.post("/page/gradio_api/upload", files={"files": (name, b"picture", "image/png")}).json()
    assert Path(path).resolve().is_relative_to(private_folder().resolve())
    assert Path(path).read_bytes() == b"picture"


def test_parts_that_are_not_the_pages_leave_nothing(visitor):
    junk = [("other", ("junk.png", b"picture", "image/png")), ("files", (None, b"no file"))]
    assert visitor.post("/page/gradio_api/upload", files=junk).json() == []
    assert not list(private_folder().rglob("junk.png"))


def test_an_upload_beyond_the_limit_is_refused(visitor):
    files = {"files": ("large.png", bytes(17 * 1024 * 1024), "image/png")}
    assert visitor.post("/page/gradio_api/upload", files=files).status_code == 413


def test_its_folder_goes_with_it():
    with serving(mount(fastapi.FastAPI(), "127.0.0.1:1")) as address:
        with visiting(address) as visitor:
            visitor.post("/page/gradio_api/upload", files=PICTURE).raise_for_status()
        assert any(private_folder().iterdir())
    assert not private_folder().exists()
