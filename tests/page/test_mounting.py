"""The page in an application of others, and what it leaves behind."""

from __future__ import annotations

import json
import re
import warnings

import fastapi
import pytest
from PIL import Image

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of gradio's own imports
    import gradio  # noqa: F401
    from fastapi.testclient import TestClient

    from qwen_image_page import mount
    from qwen_image_page.mounting import private_folder


@pytest.fixture
def client():
    app = fastapi.FastAPI()

    @app.post("/v1/images/generations")
    def generations() -> dict[str, str]:
        return {"from": "the gateway"}

    with TestClient(mount(app, "127.0.0.1:1"), follow_redirects=False) as client:
        yield client


def test_the_root_leads_to_the_page(client):
    answer = client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "page/")
    assert "Qwen-Image" in client.get("/page/").text


def test_the_manifest_that_the_page_names_is_there(client):
    (named,) = re.findall(r'<link rel="manifest" href="([^"]*)"', client.get("/page/").text)
    assert client.get(named, follow_redirects=True).json()["name"] == "Qwen-Image"


def test_the_other_paths_stay_the_applications(client):
    assert client.post("/v1/images/generations").json() == {"from": "the gateway"}
    assert client.get("/v1/images/generations").status_code == 405
    assert client.get("/v1/nothing").json() == {"detail": "Not Found"}
    assert "swagger" in client.get("/docs").text
    assert client.get("/openapi.json").json()["paths"].keys() == {"/v1/images/generations"}


def test_every_response_of_the_page_forbids_fetching_from_elsewhere(client):
    assert client.get("/page/").headers["content-security-policy"].startswith("default-src 'self'")


def test_the_page_offers_no_api(client):
    assert client.get("/page/gradio_api/info").json()["named_endpoints"] == {}


@pytest.mark.parametrize("path", ["/etc/passwd", "pyproject.toml"])
def test_no_file_but_its_own_is_given_out(client, path):
    assert client.get(f"/page/gradio_api/file={path}").status_code in (403, 404)


def test_no_file_but_an_uploaded_one_is_read(client, tmp_path):
    """What a browser could send in place of an upload's path."""
    private = tmp_path / "private.png"
    Image.new("RGB", (64, 64), "red").save(private)
    said = generate(client, picture={"path": str(private), "meta": {"_type": "gradio.FileData"}})
    assert said["success"] is False
    assert not list(private_folder().rglob("private.png"))


WORDS = {"prompt": "a star", "negative": "", "seed": ""}


def generate(client, **values):
    """The end of the event that the button Generate sends, without a browser."""
    config = client.get("/page/config").json()
    components = {each["id"]: each for each in config["components"]}
    ids = {each["props"].get("elem_id"): each["id"] for each in config["components"]}
    (event,) = (each for each in config["dependencies"] if [ids["generate"], "click"] in each["targets"])
    filled = {ids[name]: value for name, value in {**WORDS, **values}.items()}
    data = [filled.get(each, components[each]["props"].get("value")) for each in event["inputs"]]
    sent = {"data": data, "fn_index": event["id"], "session_hash": "somebody"}
    client.post("/page/gradio_api/queue/join", json=sent).raise_for_status()
    with client.stream("GET", "/page/gradio_api/queue/data", params={"session_hash": "somebody"}) as lines:
        for line in lines.iter_lines():
            if "process_completed" in line:
                return json.loads(line.removeprefix("data:"))
    raise AssertionError("the event has no end")


def test_an_upload_beyond_the_limit_is_refused(client):
    files = {"files": ("large.png", bytes(17 * 1024 * 1024), "image/png")}
    assert client.post("/page/gradio_api/upload", files=files).status_code == 413


def test_its_folder_goes_with_it():
    with TestClient(mount(fastapi.FastAPI(), "127.0.0.1:1")) as client:
        client.post(
            "/page/gradio_api/upload", files={"files": ("small.png", b"picture", "image/png")}
        ).raise_for_status()
        assert any(private_folder().iterdir())
    assert not private_folder().exists()
